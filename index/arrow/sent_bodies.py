"""Bodies as they were sent: decompresses those that producers compressed, for the columns of a table.

A batch of records is split if its decompressed bodies get large, since a few kilobytes may decompress to
gigabytes. A batch without a compressed body, the usual case, passes unchanged.

How one body is decompressed: store/message/compressed_body.py. Threads: any.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Records, SentBodies
from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.message.compressed_body import decompress
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION
from mqstore.store.record.sys_flag import COMPRESSED

__all__ = ["as_sent"]

_logger = logging.getLogger(__name__)

# Decompressed bytes in one batch; a longer body makes a batch of its own.
_BATCH_BYTES = 64 * 1024 * 1024


def as_sent(records: Records, schema: pa.Schema, *, keep_broken: bool = False) -> Iterator[Records]:
    """The records, in one batch or several, with `sent` for those whose bodies were compressed.

    Without a column `body` in `schema`, none is decompressed. keep_broken: a body that cannot be decompressed
    stays as it is stored, and so does its sys flag. Raises CorruptBody, BodyTooLarge otherwise.
    """
    sys_flags = records.layout[column_kernels.SYS_FLAG]
    if not np.bitwise_or.reduce(sys_flags) & COMPRESSED:
        yield records
        return
    # RocketMQ does not decompress empty bodies.
    rows = np.flatnonzero((sys_flags & COMPRESSED != 0) & (records.layout[column_kernels.BODY_LENGTH] > 0))
    if "body" not in schema.names:
        yield replace(records, sent=SentBodies(rows, []))
        return
    first, held_bytes = 0, 0
    found: dict[int, bytes] = {}
    for row in rows.tolist():
        body = _body(records, row, keep_broken=keep_broken)
        if body is None:
            continue
        if found and held_bytes + len(body) > _BATCH_BYTES:
            yield _batch(records, first, row, found)
            first, held_bytes, found = row, 0, {}
        found[row] = body
        held_bytes += len(body)
    yield _batch(records, first, len(records), found)


def _body(records: Records, row: int, *, keep_broken: bool) -> bytes | None:
    """The body of a row as it was sent; None for one that stays as it is."""
    layout, buffer = records.layout, records.buffer
    start = int(layout[column_kernels.BODY_START, row])
    offset_at = int(layout[column_kernels.POSITION, row]) + PHYSICAL_OFFSET_POSITION
    physical_offset = int.from_bytes(buffer[offset_at : offset_at + 8].tobytes(), "big")
    stored_body = buffer[start : start + int(layout[column_kernels.BODY_LENGTH, row])].data
    try:
        return decompress(stored_body, int(layout[column_kernels.SYS_FLAG, row]), physical_offset)
    except (CorruptBody, BodyTooLarge) as error:
        if not keep_broken:
            raise
        _logger.warning("%s", error)
        return None


def _batch(records: Records, first: int, stop: int, found: dict[int, bytes]) -> Records:
    rows = np.fromiter(found, np.int64, len(found)) - first
    return Records(records.buffer, records.layout[:, first:stop], SentBodies(rows, list(found.values())))
