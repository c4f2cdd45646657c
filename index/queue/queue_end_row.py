"""The end of one queue: a row of numbers that Python and compiled loops both go by.

All rows together, and who changes them: queue_ends.py. A row that is in no table belongs to its queue alone.
Threads: numbers that belong together are written in one step, so a reader or an interrupt sees all or none.
"""

import struct

import numpy as np

__all__ = [
    "ADDRESS",
    "COLUMNS",
    "FIRST_OFFSET",
    "FLUSHED_OFFSET",
    "MAX_OFFSET",
    "MAX_PHYSICAL_OFFSET",
    "QUEUE_ID",
    "ROOM_END",
    "TOPIC_AT",
    "TOPIC_LENGTH",
    "end_of_no_queue",
    "set_end",
    "set_room",
]

# The columns of a row. The first three are its name: bytes of `names`, and a number.
TOPIC_AT, TOPIC_LENGTH, QUEUE_ID = 0, 1, 2
# Where the file that is being written lies in memory, 0 when only Python may write; queue offset of its first
# entry; queue offset up to which the disk has promised room in it.
ADDRESS, FIRST_OFFSET, ROOM_END = 3, 4, 5
# Queue offset that the next message will get; end in the commit log of the last message with an entry, -1
# without. Neighbours, for they change together.
MAX_OFFSET, MAX_PHYSICAL_OFFSET = 6, 7
# Entries before this queue offset are durable.
FLUSHED_OFFSET = 8
COLUMNS = 9

_TWO, _THREE = struct.Struct("2q"), struct.Struct("3q")
_LONG_BYTES = 8


def end_of_no_queue() -> memoryview:
    """A row that belongs to no table: an empty queue without a file."""
    row = np.zeros(COLUMNS, np.int64)
    row[MAX_PHYSICAL_OFFSET] = -1
    return row.data


def set_end(row: memoryview, max_offset: int, max_physical_offset: int) -> None:
    """Set both fields in one step.

    An interrupt between two writes would leave a message counted whose entry is missing.
    """
    _TWO.pack_into(row, MAX_OFFSET * _LONG_BYTES, max_offset, max_physical_offset)


def set_room(row: memoryview, address: int, first_offset: int, room_end: int) -> None:
    """Set all three fields in one step: half of them would point outside the file."""
    _THREE.pack_into(row, ADDRESS * _LONG_BYTES, address, first_offset, room_end)
