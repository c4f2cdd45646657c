"""Compiled loop over whole records for verify: what the scan of the log does not check.

Arrays: `data` is uint8, C-contiguous, whole records one after another. Nothing is written. Callers hold no
lock: the kernel releases the GIL. Import this module inside the function that first needs it. The plain twin
is in tests/unit/mqstore/verify/test_verify_kernels.py.
"""

import numpy as np

from mqstore.store.byte_kernels import read_int, read_long
from mqstore.store.checksum.crc32_kernels import crc32
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BYTES
from mqstore.store.record.record_format import BODY_CRC_POSITION
from mqstore.store.record.record_kernels import NO_LAYOUT, record_layout, store_timestamp_at

__all__ = ["survey"]


@compiled(BYTES)
def survey(data):  # type: ignore[no-untyped-def]
    """(records, greatest store timestamp or -1, position of the first wrong body CRC or -1, that CRC).

    A record with a CRC of its own is whole by that alone; a broker checks the CRC of the body.
    """
    at = np.int64(0)
    records = np.int64(0)
    greatest = np.int64(-1)
    wrong_at = np.int64(-1)
    wrong_crc = np.int64(0)
    while at < len(data):
        total_size, body_at, body_length, _, _, _, _ = record_layout(data, at, len(data))
        if total_size <= NO_LAYOUT:
            break
        greatest = max(greatest, read_long(data, store_timestamp_at(data, at)))
        if body_length > 0 and wrong_at < 0:
            crc = crc32(data, body_at, body_at + body_length)
            if crc != read_int(data, at + BODY_CRC_POSITION):
                wrong_at = at
                wrong_crc = crc
        records += 1
        at += total_size
    return records, greatest, wrong_at, wrong_crc
