"""Where each queue ends: one row of numbers a queue, shared by Python and compiled loops.

A chunk of the log may hold entries for thousands of queues. The loop that appends them (`append_runs` in
entry_kernels.py) finds a queue by its name in `slots`, reads from its row where it ends and where its file
lies in memory, and writes the entries in place. It changes no row: `raise_ends` does that, in one step under
the interpreter's lock. Readers of the same process see all of it or nothing, and no interrupt divides it.

A row is the only truth about the end of its queue: ConsumeQueue.max_offset reads it. Rows never move. Queues
beyond the capacity keep a row of their own; Python alone appends to them.
Threads: one at a time changes anything, under the lock of consume_queue_store.py; any number read rows.
Durability: none. Rebuilt from the files by ConsumeQueue.load when the store is opened.
"""

import functools
import mmap
from types import ModuleType

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.queue_end_row import COLUMNS, FLUSHED_OFFSET, MAX_OFFSET, QUEUE_ID

__all__ = ["CAPACITY", "QueueEnds"]

CAPACITY = 1 << 17
"""Rows of a table; only those in use take memory."""


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loops. Cached, for an import statement costs a microsecond each time that it is run."""
    from mqstore.index.queue import entry_kernels

    return entry_kernels


def _untouched_zeros(length: int) -> npt.NDArray[np.int64]:
    """int64[length] of zeros, in pages of their own, which take no memory until they are written.

    np.zeros promises this only at first. Once memory was freed, malloc may reuse it, and has to clear it.
    """
    memory = mmap.mmap(-1, length * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, np.int64)


class QueueEnds:
    """The rows of the queues of one store."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        # int64[capacity, COLUMNS].
        self.rows: npt.NDArray[np.int64] = _untouched_zeros(capacity * COLUMNS).reshape(-1, COLUMNS)
        # A hash table of rows by name, -1 where a slot is free. A power of two, half empty at least.
        self.slots: npt.NDArray[np.int32] = np.full(64, -1, np.int32)
        # The topics of all rows, UTF-8.
        self.names: npt.NDArray[np.uint8] = np.zeros(1_024, np.uint8)
        self._view = self.rows.reshape(-1).data
        self._names_length = 0
        # The queue of each row; None where it was deleted.
        self._queues: list[ConsumeQueue | None] = []
        self._row_of: dict[ConsumeQueue, int] = {}
        # Queues for which no row was left.
        self._without: set[ConsumeQueue] = set()

    def adopt(self, queue: "ConsumeQueue") -> None:
        """Give a row to a queue that is about to grow; nothing happens if it has one."""
        if queue in self._row_of or queue in self._without:
            return
        row = self._row_for(queue.topic.encode(), queue.queue_id, queue)
        if row is None:
            self._without.add(queue)
            return
        self._queues[row] = queue
        queue.end.move_into(self._view[row * COLUMNS : (row + 1) * COLUMNS])
        self._row_of[queue] = row

    def _row_for(self, topic: bytes, queue_id: int, queue: "ConsumeQueue") -> int | None:
        """The row that has or had this name, else a new one; None when all are taken."""
        name = np.frombuffer(topic, np.uint8)
        known = _kernels().find_row(name, queue_id, self.names, self.slots, self.rows)
        if known >= 0:
            return int(known)
        row = len(self._queues)
        if row == len(self.rows):
            return None
        at, end = self._names_length, self._names_length + len(name)
        if end > len(self.names):
            self.names = np.concatenate((self.names, np.zeros(end, np.uint8)))
        self.names[at:end] = name
        self.rows[row, : QUEUE_ID + 1] = at, len(name), queue_id
        self._names_length = end
        self._queues.append(queue)
        if 2 * len(self._queues) > len(self.slots):
            self.slots = _kernels().slots_of(self.names, self.rows, len(self._queues), 2 * len(self.slots))
        else:
            _kernels().enter_row(row, self.names, self.slots, self.rows)
        return row

    def retire(self, queue: "ConsumeQueue") -> None:
        """Take the row from a queue that was deleted; the next queue of that name gets it."""
        self._without.discard(queue)
        row = self._row_of.get(queue)
        if row is not None:
            queue.end.leave_table()
            self._queues[row] = None
            del self._row_of[queue]

    def raise_ends(self, rows: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        """Publish what was appended. ends: int64[len(rows), 2], max offset and max physical offset."""
        _kernels().raise_ends(rows, ends, self.rows)

    def unflushed(self) -> "list[ConsumeQueue]":
        """Queues with entries that no flush has covered."""
        used = self.rows[: len(self._queues)]
        changed = np.flatnonzero(used[:, MAX_OFFSET] != used[:, FLUSHED_OFFSET]).tolist()
        found = [queue for row in changed if (queue := self._queues[row]) is not None]
        return found + [queue for queue in self._without if queue.max_offset != queue.end.flushed_offset]

    def __repr__(self) -> str:
        return f"QueueEnds({len(self._row_of)} queues)"
