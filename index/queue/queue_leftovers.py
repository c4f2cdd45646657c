"""The leftovers of a deletion that was cut short: queues of a deleted topic whose files are still there.

A topic is deleted in this order: first it is recorded as deleted, durably; then the files of its queues are
deleted. The first new entry is appended when all old files are gone. So a queue whose first entry is of a
record before the offset of the deletion is an old one, and has no others. Its directory is deleted, whatever
its state.
Runs at an opening, before the queues are listed. Durability: when it returns.
"""

from pathlib import Path

import numpy as np

from mqstore.index.queue.consume_queue_format import BLANK_SIZE
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.file_tree import delete_tree

__all__ = ["delete_leftovers"]

_STEP_ENTRIES = 1 << 16


def delete_leftovers(
    file_system: FileSystem, directory: Path, file_bytes: int, deleted: DeletedTopics
) -> int:
    """Finish the deletions of the queues under `directory`; returns how many queues were left over."""
    count = 0
    for topic, end_offset in deleted.offsets.items():
        for entry in file_system.list(directory / topic):
            queue = directory / topic / entry.name
            if entry.is_directory and _is_old(QueueEntries(file_system, queue, file_bytes), end_offset):
                delete_tree(file_system, queue)
                count += 1
        if file_system.exists(directory / topic) and not file_system.list(directory / topic):
            file_system.delete_directory(directory / topic)
            file_system.sync_directory(directory)
    return count


def _is_old(entries: QueueEntries, end_offset: int) -> bool:
    """Whether the first entry that points to a record points before `end_offset`, or there is none."""
    stop = entries.end_offset(entries.min_offset)
    for at in range(entries.min_offset, stop, _STEP_ENTRIES):
        rows = entries.read(at, min(_STEP_ENTRIES, stop - at))
        offsets = rows[:, :8].copy().view(">i8").reshape(-1)
        sizes = rows[:, 8:12].copy().view(">i4").reshape(-1)
        points = np.flatnonzero((sizes > 0) & (sizes != BLANK_SIZE))
        if len(points):
            return bool(offsets[points[0]] < end_offset)
    # A queue without an entry has nothing durable: entries that it lacks are dispatched again.
    return True
