"""A compiled loop that numbers the rows of a write: it fills in the UNIQ_KEY of records.

Callers need not hold the GIL: the kernel releases it. Import this module inside the function that first needs
it; compiled code is cached on disk. The plain twin is in tests/unit/tools/spark/sink/test_row_keys.py.
"""

import numpy as np
import numpy.typing as npt

from mqstore.store.byte_kernels import borrowed, copy_bytes
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BYTES, BYTES_OUT, INT64, LONGS
from mqstore.store.record.properties_format import UNIQ_KEY
from mqstore.store.record.property_kernels import find_property
from mqstore.store.record.record_kernels import record_layout

__all__ = ["write_row_keys"]

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

_NAME = np.frombuffer(UNIQ_KEY.encode(), np.uint8)
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@compiled(BYTES_OUT, LONGS, BYTES, INT64, INT64)
def write_row_keys(
    records: Bytes, starts: Int64s, prefix: Bytes, number_digits: int, first_number: int
) -> int:
    """Write the key of each record: `prefix`, and its number in so many hexadecimal digits.

    records: filled. starts: where each begins, and behind the last; within `records`. first_number: of the
    first record.
    Returns the first row that is no whole record with room for such a key, or -1.
    """
    records, starts, prefix = borrowed((records, starts, prefix))
    prefix_bytes = np.int64(len(prefix))
    for row in range(len(starts) - 1):
        at, stop = starts[row], starts[row + 1]
        layout = record_layout(records, at, stop)
        total_size, _, _, _, _, properties_at, properties_bytes = layout
        if total_size != stop - at:
            return row
        key_at, key_bytes = find_property(records, properties_at, properties_bytes, _NAME)
        if key_bytes != prefix_bytes + number_digits:
            return row
        copy_bytes(records, key_at, prefix, 0, prefix_bytes)
        number = first_number + row
        for digit in range(number_digits):
            shift = 4 * (number_digits - 1 - digit)
            records[key_at + prefix_bytes + digit] = _DIGITS[(number >> shift) & 15]
    return -1
