"""The recovery point: up to which physical offset log and consume queues were durable.

     0        4        8                16               24       28
    +--------+--------+----------------+----------------+--------+
    | MAGIC  | VERSION| LOG OFFSET     | QUEUES OFFSET  | CRC-32C|
    +--------+--------+----------------+----------------+--------+

Big-endian. MAGIC is "MQSP"; the CRC-32C covers the 24 bytes before it. A file of ours, in
`<root>/mqstore/recovery-point`, which a broker ignores. (Kafka calls the same thing
recovery-point-offset-checkpoint.) Page: docs/format/recovery_point.md. No I/O here.
"""

import struct
from typing import NamedTuple

from mqstore.store.checksum.crc32c import CRC32C_BYTES, content_of, with_crc32c

__all__ = ["FIELDS", "VERSION", "RecoveryPoint", "decode_recovery_point", "encode_recovery_point"]

MAGIC = b"MQSP"
VERSION = 1
FIELDS = (
    (0, 4, "bytes", "MAGIC"),
    (4, 4, "int", "VERSION"),
    (8, 8, "long", "LOGOFFSET"),
    (16, 8, "long", "QUEUESOFFSET"),
    (24, 4, "int", "CRC32C"),
)

_CONTENT = struct.Struct(">4siqq")
assert _CONTENT.size + CRC32C_BYTES == sum(size for _, size, _, _ in FIELDS) == 28


class RecoveryPoint(NamedTuple):
    """Both are physical offsets on a record boundary; queues_offset <= log_offset.

    log_offset: the log was durable up to here. queues_offset: so were the queue entries of all records
    before it.
    """

    log_offset: int
    queues_offset: int


def encode_recovery_point(point: RecoveryPoint) -> bytes:
    """The 28 bytes of the file."""
    return with_crc32c(_CONTENT.pack(MAGIC, VERSION, *point))


def decode_recovery_point(data: bytes) -> RecoveryPoint | int | None:
    """The point; the version, as a number, if it is one we do not know; None for anything else.

    None also for offsets that contradict each other, whatever the CRC says.
    """
    size_bytes = _CONTENT.size + CRC32C_BYTES
    if len(data) < size_bytes or not data.startswith(MAGIC):
        return None
    content = content_of(data[:size_bytes])
    if content is None:
        return None
    _, version, log_offset, queues_offset = _CONTENT.unpack(content)
    if version != VERSION:
        return int(version)
    return RecoveryPoint(log_offset, queues_offset) if 0 <= queues_offset <= log_offset else None
