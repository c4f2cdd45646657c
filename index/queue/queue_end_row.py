"""The end of one queue: a row of numbers that Python and compiled loops share.

It also says where compiled loops may write the next entries in memory: the room of the last file.
All rows together, and who changes them: queue_ends.py. A row that is in no table belongs to its queue alone.
Threads: numbers that belong together are written in one step, so a reader or an interrupt sees all or none.
"""

import struct

import numpy as np

from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.store.files.mapped_file import MappedFile

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
    "QueueEndRow",
]

# The columns of a row. The first three are its name: bytes of `names`, and a number.
TOPIC_AT, TOPIC_LENGTH, QUEUE_ID = 0, 1, 2
# Where the file that is being written lies in memory, 0 when only Python may write; queue offset of its first
# entry; queue offset up to which the disk has promised room in it.
ADDRESS, FIRST_OFFSET, ROOM_END = 3, 4, 5
# Queue offset that the next message will get; end in the commit log of the last message with an entry, -1
# without. Neighbours, for they change together.
MAX_OFFSET, MAX_PHYSICAL_OFFSET = 6, 7
# Entries before this queue offset are durable. The neighbour of those two.
FLUSHED_OFFSET = 8
COLUMNS = 9

_TWO, _THREE = struct.Struct("2q"), struct.Struct("3q")
_LONG_BYTES = 8


class QueueEndRow:
    """The row of one queue, its own or one of a table, and the file whose room it gives."""

    __slots__ = ("_file", "numbers")

    def __init__(self) -> None:
        # int64[COLUMNS]. Replaced when the queue is given a row of the table, or loses it.
        self.numbers = _empty_row()
        # Held so that its mapping outlives the address.
        self._file: MappedFile | None = None

    @property
    def max_offset(self) -> int:
        """Queue offset that the next message will get."""
        return self.numbers[MAX_OFFSET]

    @property
    def max_physical_offset(self) -> int:
        """End in the commit log of the last message that has an entry; -1 without."""
        return self.numbers[MAX_PHYSICAL_OFFSET]

    @property
    def flushed_offset(self) -> int:
        """Entries before this queue offset are durable."""
        return self.numbers[FLUSHED_OFFSET]

    @flushed_offset.setter
    def flushed_offset(self, queue_offset: int) -> None:
        self.numbers[FLUSHED_OFFSET] = queue_offset

    def raise_to(self, max_offset: int, max_physical_offset: int) -> None:
        """Publish entries that were appended: both numbers in one step.

        An interrupt between two writes would leave a message counted whose entry is missing.
        """
        _TWO.pack_into(self.numbers, MAX_OFFSET * _LONG_BYTES, max_offset, max_physical_offset)

    def reset_to(self, max_offset: int, max_physical_offset: int) -> None:
        """Set the end, with all entries before it durable, and no room."""
        self.close_room()
        _THREE.pack_into(self.numbers, MAX_OFFSET * _LONG_BYTES, max_offset, max_physical_offset, max_offset)

    def open_room(self, mapped_file: MappedFile) -> None:
        """Let compiled loops append, as far as `mapped_file`, which holds the last entry, has room."""
        address = mapped_file.region.address
        if not address:
            return
        if self._file is not mapped_file:
            self.close_room()
            self._file = mapped_file
        first_offset = mapped_file.start_offset // ENTRY_BYTES
        self._set_room(address, first_offset, first_offset + mapped_file.reserved_position // ENTRY_BYTES)

    def close_room(self) -> None:
        """Let only Python append. Needed before a file is deleted: no address may outlive its mapping."""
        self._set_room(0, 0, 0)
        self._file = None

    def _set_room(self, address: int, first_offset: int, room_end: int) -> None:
        # In one step: half of them would point outside the file.
        _THREE.pack_into(self.numbers, ADDRESS * _LONG_BYTES, address, first_offset, room_end)

    def move_into(self, numbers: memoryview) -> None:
        """Continue in a row of a table, without room: the next entry opens it."""
        numbers[ADDRESS] = numbers[FIRST_OFFSET] = numbers[ROOM_END] = 0
        numbers[MAX_OFFSET:COLUMNS] = self.numbers[MAX_OFFSET:COLUMNS]
        self.numbers = numbers

    def leave_table(self) -> None:
        """Continue as an empty queue, in a row of its own."""
        assert self.numbers[ADDRESS] == 0, self
        self.numbers = _empty_row()

    def __repr__(self) -> str:
        return f"QueueEndRow({', '.join(map(str, self.numbers[MAX_OFFSET:COLUMNS]))})"


def _empty_row() -> memoryview:
    """The row of a queue without entries."""
    row = np.zeros(COLUMNS, np.int64)
    row[MAX_PHYSICAL_OFFSET] = -1
    return row.data
