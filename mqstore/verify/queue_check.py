"""The check of the consume queues against the log: each entry against its record.

Each piece of whole records gives the entries that belong to it (entry_kernels.py), which are compared with
those on disk byte by byte; that is `digest`, on any thread. `take` follows the numbering of each queue in the
order of the log. `finish` judges what no record claims (unclaimed_entries.py).

A queue that starts again at 0 was deleted and created again. Two kinds of record belong to no queue, though
they are whole, and are reported as damage: with a topic or queue that no directory can be named after, and
with a queue offset for which the log has no room (consume_queue.py). A rebuild skips both.
Nothing is changed. Threads: `digest` any; the rest one.
"""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue import greatest_queue_offset
from mqstore.index.queue.consume_queue_format import END_OF_QUEUE, ENTRY, ENTRY_BYTES
from mqstore.index.queue.consume_queue_store import is_queue_name
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.store.files.file_names import is_text
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import Piece
from mqstore.verify.unclaimed_entries import (
    Gap,
    LoggedQueue,
    LostMessage,
    UnclaimedEntries,
    entry_text,
    runs_above_0,
)

__all__ = ["QueueCheck", "Run"]


class Run(NamedTuple):
    """Consecutive messages of one queue in one piece, and what is wrong with their entries."""

    topic: str
    queue_id: int
    queue_offset: int
    messages: int
    start_offset: int
    end_offset: int
    wrong: tuple[Finding, ...]


class QueueCheck:
    """Compares all queues of a store with its log."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        file_bytes: int,
        delay_tables: npt.NDArray[np.int64],
        *,
        deleted: DeletedTopics,
        dispatched_offset: int,
        after_crash: bool,
        without_queues: Container[str] = frozenset(),
    ) -> None:
        """delay_tables, without_queues: as ConsumeQueueStore has them. deleted: topics that need no entries.

        dispatched_offset: all records before it are known to have their entries. after_crash: entries of
        records behind it may be torn as well as missing.
        """
        self._file_system = file_system
        self._directory = directory
        self._file_bytes = file_bytes
        self._delay_tables = delay_tables
        self._deleted = deleted
        self._without_queues = without_queues
        self._dispatched_offset = dispatched_offset
        self._after_crash = after_crash
        self._on_disk: dict[tuple[str, int], QueueEntries] = {}
        self._queues: dict[tuple[str, int], LoggedQueue] = {}

    def entries_of(self, topic: str, queue_id: int) -> QueueEntries:
        """The entries of a queue on disk."""
        entries = self._on_disk.get((topic, queue_id))
        if entries is None:
            directory = self._directory / topic / str(queue_id)
            entries = QueueEntries(self._file_system, directory, self._file_bytes)
            self._on_disk[topic, queue_id] = entries
        return entries

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset behind the last message, by the log; 0 for a name that no queue can have.

        Unbounded for a queue that a broker keeps.
        """
        if topic in self._without_queues:
            return END_OF_QUEUE
        if not is_queue_name(topic, queue_id):
            return 0
        queue = self._queues.get((topic, queue_id))
        return queue.next_offset if queue is not None else self.entries_of(topic, queue_id).end_offset()

    # -- piece by piece -------------------------------------------------------------------------------

    def digest(self, piece: Piece) -> list[Run]:
        """The runs of messages in a piece, compared with the queues on disk."""
        from mqstore.index.queue import entry_kernels

        entries, runs, *_ = entry_kernels.consume_queue_entries(
            piece.data, piece.base_offset, self._delay_tables
        )
        if self._deleted.concern(piece.base_offset):
            runs = self._deleted.remaining(piece.data, entries, runs)
        rows = entries.reshape(-1, ENTRY_BYTES)
        return [
            self._compare(
                piece.data[topic_at : topic_at + topic_length].tobytes().decode("utf-8", "replace"),
                queue_id,
                queue_offset,
                rows[index : index + count],
            )
            for index, count, queue_offset, topic_at, topic_length, queue_id in runs.tolist()
        ]

    def _compare(self, topic: str, queue_id: int, queue_offset: int, rows: npt.NDArray[np.uint8]) -> Run:
        first, last = ENTRY.unpack(rows[0].tobytes()), ENTRY.unpack(rows[-1].tobytes())
        wrong: tuple[Finding, ...] = ()
        if topic in self._without_queues or not is_queue_name(topic, queue_id):
            return Run(topic, queue_id, queue_offset, len(rows), first[0], last[0] + last[1], wrong)
        entries = self.entries_of(topic, queue_id)
        on_disk = entries.read(queue_offset, len(rows))
        if on_disk.tobytes() != rows.tobytes():
            wrong = tuple(self._differences(entries, queue_offset, rows, on_disk))
        return Run(topic, queue_id, queue_offset, len(rows), first[0], last[0] + last[1], wrong)

    def _differences(
        self,
        entries: QueueEntries,
        queue_offset: int,
        rows: npt.NDArray[np.uint8],
        on_disk: npt.NDArray[np.uint8],
    ) -> Iterator[Finding]:
        """One finding for each run of wrong entries."""
        is_missing: npt.NDArray[np.bool_] = on_disk.max(axis=1) == 0
        is_wrong = (rows != on_disk).max(axis=1)
        offsets = rows[:, :8].copy().view(">i8").reshape(-1)
        is_normal: npt.NDArray[np.bool_] = offsets >= self._dispatched_offset
        is_normal &= is_missing | self._after_crash
        kinds = np.where(is_wrong, 1 + is_missing + 2 * is_normal, 0)
        for start, stop in runs_above_0(kinds):
            path, position = entries.place_of(queue_offset + start)
            yield Finding(
                "queue-entry-missing" if is_missing[start] else "queue-entry",
                path,
                position,
                entry_text(rows[start]),
                "none" if is_missing[start] else entry_text(on_disk[start]),
                stop - start,
                not is_normal[start],
            )

    # -- in the order of the log ----------------------------------------------------------------------

    def take(self, runs: Iterable[Run]) -> Iterator[Finding]:
        """Follow the numbering of the queues; yields what is wrong in the log itself."""
        for run in runs:
            if run.topic in self._without_queues:
                continue
            queue = self._queues.get((run.topic, run.queue_id))
            stranger = self._stranger(run, queue)
            if stranger is not None:
                yield stranger
                continue
            if queue is None or (run.queue_offset == 0 and queue.next_offset > 0):
                queue = self._queues[run.topic, run.queue_id] = LoggedQueue(
                    run.queue_offset, run.start_offset
                )
            elif run.queue_offset > queue.next_offset:
                queue.gaps.append(
                    Gap(queue.next_offset, run.queue_offset, queue.end_offset, run.start_offset)
                )
            elif run.queue_offset < queue.next_offset:
                yield Finding(
                    "queue-offset",
                    self._directory / run.topic / str(run.queue_id),
                    run.start_offset,
                    f"queue offset {queue.next_offset} in the record at physical offset {run.start_offset}",
                    f"{run.queue_offset}",
                    run.messages,
                )
            queue.next_offset = max(queue.next_offset, run.queue_offset + run.messages)
            queue.end_offset = run.end_offset
            queue.wrong += run.wrong

    def _stranger(self, run: Run, queue: LoggedQueue | None) -> Finding | None:
        """The finding for records that can belong to no queue; None for all others."""
        record = f"in the record at physical offset {run.start_offset}"
        if not is_queue_name(run.topic, run.queue_id):
            expected = f"a topic and a queue that a directory can be named after {record}"
            found = f"{run.topic!r}, queue {run.queue_id}"
            return Finding("queue-name", self._directory, run.start_offset, expected, found, run.messages)
        known = (queue.next_offset, queue.end_offset) if queue is not None else (0, 0)
        greatest = greatest_queue_offset(*known, run.start_offset)
        if 0 <= run.queue_offset <= greatest:
            return None
        directory = self._directory / run.topic / str(run.queue_id)
        expected, found = f"a queue offset from 0 to {greatest} {record}", f"{run.queue_offset}"
        return Finding("queue-offset", directory, run.start_offset, expected, found, run.messages)

    def finish(self, scan: LogScan) -> tuple[list[Finding], list[LostMessage]]:
        """All findings in the queues, and the messages that the damaged ranges have cost."""
        findings: list[Finding] = []
        lost: list[LostMessage] = []
        for topic, queue_id in sorted(self._queues.keys() | set(self._directories())):
            entries, deleted_to = self.entries_of(topic, queue_id), self._deleted.end_of(topic)
            unclaimed = UnclaimedEntries(
                topic, queue_id, entries, scan, deleted_to, after_crash=self._after_crash
            )
            unclaimed.run(self._queues.get((topic, queue_id)))
            findings += unclaimed.findings
            lost += unclaimed.lost
        return findings, lost

    def _directories(self) -> Iterator[tuple[str, int]]:
        for topic in self._file_system.list(self._directory):
            if not (topic.is_directory and is_text(topic.name)):
                continue
            for queue in self._file_system.list(self._directory / topic.name):
                if queue.is_directory and queue.name.isascii() and queue.name.isdigit():
                    yield topic.name, int(queue.name)

    def __repr__(self) -> str:
        return f"QueueCheck({str(self._directory)!r}, queues={len(self._queues)})"
