"""The consume queue entry: 20 bytes that say where one message of a queue lies in the commit log.

     0                8        12               20
    +----------------+--------+----------------+
    | PHYSICAL       | SIZE   | TAGS CODE      |
    | OFFSET         |        |                |
    +----------------+--------+----------------+

Big-endian, two's complement. Entry n of a queue is at byte 20 * n of its row of files
`consumequeue/<topic>/<queueId>/<20-digit start byte>`, each 6,000,000 bytes long from the beginning.

SIZE is that of the whole record; 0 means that nothing has been written here or after. TAGS CODE is Java's
hashCode of the property TAGS, sign-extended, 0 without tags; in SCHEDULE_TOPIC_XXXX it is the epoch ms
at which the message is due.

A queue whose first message has queue offset q > 0 begins with pre-blank entries: offset 0, size 2^31 - 1,
tags code 0, from the start of its first file up to entry q. They stand for nothing.

An entry carries no checksum: it is rebuilt from the commit log by index/queue/queue_recovery.py.
Page: docs/format/consume_queue.md. Source: ConsumeQueue of Apache RocketMQ. No I/O, no clock here.
"""

import struct

import numpy as np

__all__ = [
    "BLANK_SIZE",
    "END_OF_QUEUE",
    "ENTRY",
    "ENTRY_BYTES",
    "ENTRY_DTYPE",
    "FIELDS",
    "MISSING_LEVEL_DELAY_MS",
    "PRE_BLANK_ENTRY",
    "SIZE_POSITION",
    "TAGS_CODE_POSITION",
    "blank_entries",
]

# (position, size in bytes, type, name), as the page's table.
FIELDS = (
    (0, 8, "long", "PHYSICALOFFSET"),
    (8, 4, "int", "SIZE"),
    (12, 8, "long", "TAGSCODE"),
)

ENTRY = struct.Struct(">qiq")
ENTRY_BYTES = 20
SIZE_POSITION = 8
TAGS_CODE_POSITION = 12
ENTRY_DTYPE = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])

BLANK_SIZE = 0x7FFF_FFFF
"""The size in an entry that stands for nothing; no record is that long."""
END_OF_QUEUE = 2**63 - 1
"""A queue offset that no entry has: no upper bound."""
MISSING_LEVEL_DELAY_MS = 1000
"""What RocketMQ takes as the delay of a level that its table lacks."""
PRE_BLANK_ENTRY = ENTRY.pack(0, BLANK_SIZE, 0)

assert ENTRY.size == ENTRY_DTYPE.itemsize == ENTRY_BYTES == sum(size for _, size, _, _ in FIELDS)
assert all(at == sum(size for _, size, _, _ in FIELDS[:row]) for row, (at, *_) in enumerate(FIELDS))
assert (FIELDS[1][0], FIELDS[2][0]) == (SIZE_POSITION, TAGS_CODE_POSITION)
assert PRE_BLANK_ENTRY.hex() == "00000000000000007fffffff0000000000000000"


def blank_entries(count: int, physical_offset: int = 0) -> bytes:
    """`count` entries that stand for nothing.

    Before the first message of a queue their offset is 0, as RocketMQ writes them. Between two messages
    it is that of the second, so that offsets never descend along a queue.
    """
    return ENTRY.pack(physical_offset, BLANK_SIZE, 0) * count
