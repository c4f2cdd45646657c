"""The check of the consume queues against the log: verify's half, and what repair must know of lost messages.

Each piece of whole records gives the entries that belong to it (kernels.consume_queue_entries), which are
compared with those on disk byte by byte; that is `digest`, on any thread. `take` puts the answers together in
the order of the log, and `finish` looks at the entries that no record has asked for:

    its offset is below the log           expired, or a pre-blank entry: nothing
    it lies in a damaged stretch          that message is lost: all but its content is known
    it lies behind the end of the log     ahead: normal after a crash, else damage
    elsewhere                             it points to no record of its queue: damage

A queue offset that no record has, between two that do, is a lost message as well if a stretch lies between
them: where it was is then not known. A queue that begins anew at 0 was deleted and created again.
Two kinds of record belong to no queue, though they are whole, and are told as damage: of a topic or queue
that no directory can be named after, and with a queue offset for which the log has no room
(consume_queue.py). A rebuild passes over both.
Nothing is changed. Threads: `digest` any; the rest one.
"""

import itertools
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue import greatest_queue_offset
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, ENTRY_BYTES
from mqstore.index.queue.consume_queue_store import is_queue_name
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.finding import Finding
from mqstore.store.record.record_format import FIXED_BYTES
from mqstore.verify.log_scan import DamagedStretch, LogScan, Piece

__all__ = ["LostMessage", "QueueCheck", "Run"]

_UNKNOWN = -1


class LostMessage(NamedTuple):
    """A message whose record is damaged. physical_offset, size_bytes: -1 where its queue does not tell.

    It lies at or behind `after_offset` and before `before_offset`.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size_bytes: int
    after_offset: int
    before_offset: int


class Run(NamedTuple):
    """Consecutive messages of one queue in one piece, and what is wrong with their entries."""

    topic: str
    queue_id: int
    queue_offset: int
    messages: int
    start_offset: int
    end_offset: int
    wrong: tuple[Finding, ...]


class _Gap(NamedTuple):
    """Queue offsets first to stop - 1 have no record; those around them lie at these physical offsets."""

    first: int
    stop: int
    after_offset: int
    before_offset: int


class _Queue:
    """What the log says of one queue, as far as it was walked."""

    def __init__(self, run: Run) -> None:
        self.first = run
        self.next_offset = run.queue_offset
        self.end_offset = 0
        self.wrong: list[Finding] = []
        self.gaps: list[_Gap] = []


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

        dispatched_offset: up to here the entries of all records are known to be there. after_crash: what
        lies behind it may be torn as well as missing.
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
        self._queues: dict[tuple[str, int], _Queue] = {}

    def entries_of(self, topic: str, queue_id: int) -> QueueEntries:
        """The entries of a queue on disk."""
        entries = self._on_disk.get((topic, queue_id))
        if entries is None:
            directory = self._directory / topic / str(queue_id)
            entries = QueueEntries(self._file_system, directory, self._file_bytes)
            self._on_disk[topic, queue_id] = entries
        return entries

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Behind the last message of a queue, by the log; 0 for a name that no queue can have.

        No bound for a queue that a broker keeps.
        """
        if topic in self._without_queues:
            return 2**63 - 1
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
        """One finding for each stretch of wrong entries."""
        is_missing: npt.NDArray[np.bool_] = on_disk.max(axis=1) == 0
        is_wrong = (rows != on_disk).max(axis=1)
        offsets = rows[:, :8].copy().view(">i8").reshape(-1)
        is_normal: npt.NDArray[np.bool_] = offsets >= self._dispatched_offset
        is_normal &= is_missing | self._after_crash
        kinds = np.where(is_wrong, 1 + is_missing + 2 * is_normal, 0)
        for start, stop in _runs_above_0(kinds):
            path, position = entries.place_of(queue_offset + start)
            yield Finding(
                "queue-entry-missing" if is_missing[start] else "queue-entry",
                path,
                position,
                _text(rows[start]),
                "none" if is_missing[start] else _text(on_disk[start]),
                stop - start,
                not is_normal[start],
            )

    # -- in the order of the log ----------------------------------------------------------------------

    def take(self, runs: Iterable[Run]) -> Iterator[Finding]:
        """Follow the numbering of the queues; what is wrong in the log itself is told at once."""
        for run in runs:
            if run.topic in self._without_queues:
                continue
            queue = self._queues.get((run.topic, run.queue_id))
            stranger = self._stranger(run, queue)
            if stranger is not None:
                yield stranger
                continue
            if queue is None or (run.queue_offset == 0 and queue.next_offset > 0):
                queue = self._queues[run.topic, run.queue_id] = _Queue(run)
            elif run.queue_offset > queue.next_offset:
                queue.gaps.append(
                    _Gap(queue.next_offset, run.queue_offset, queue.end_offset, run.start_offset)
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

    def _stranger(self, run: Run, queue: _Queue | None) -> Finding | None:
        """What is wrong with records that can be of no queue; None for all others."""
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
        """All findings in the queues, and the messages that the damaged stretches have cost."""
        findings: list[Finding] = []
        lost: list[LostMessage] = []
        for topic, queue_id in sorted(self._queues.keys() | set(self._directories())):
            entries, deleted_to = self.entries_of(topic, queue_id), self._deleted.end_of(topic)
            judge = _Judge(topic, queue_id, entries, scan, deleted_to, after_crash=self._after_crash)
            judge.run(self._queues.get((topic, queue_id)))
            findings += judge.findings
            lost += judge.lost
        return findings, lost

    def _directories(self) -> Iterator[tuple[str, int]]:
        for topic in self._file_system.list(self._directory):
            for queue in self._file_system.list(self._directory / topic.name) if topic.is_directory else ():
                if queue.is_directory and queue.name.isascii() and queue.name.isdigit():
                    yield topic.name, int(queue.name)

    def __repr__(self) -> str:
        return f"QueueCheck({str(self._directory)!r}, queues={len(self._queues)})"


class _Judge:
    """Looks at what no record has asked for, in one queue."""

    def __init__(
        self,
        topic: str,
        queue_id: int,
        entries: QueueEntries,
        scan: LogScan,
        deleted_to: int,
        *,
        after_crash: bool,
    ) -> None:
        """deleted_to: entries that point before this offset are those of a deletion that was cut short."""
        self.findings = entries.find_wrong_files(after_crash=after_crash)
        if deleted_to and after_crash:
            self.findings = [each._replace(is_damage=False) for each in self.findings]
        self._known_from = max(deleted_to, scan.min_offset)
        self.lost: list[LostMessage] = []
        self._topic = topic
        self._queue_id = queue_id
        self._entries = entries
        self._scan = scan
        self._after_crash = after_crash

    def run(self, queue: _Queue | None) -> None:
        """Judge all of it."""
        least, end = self._entries.min_offset, 2**62
        if queue is None:
            self._look(least, self._entries.end_offset(least), 0, end)
            return
        self.findings += queue.wrong
        first = queue.first
        if first.queue_offset > least:
            known = self._look(least, first.queue_offset, 0, first.start_offset)
            # Of a log that is whole from its first byte on, the queue's first messages are known by number.
            if self._scan.min_offset == 0 and self._stretches(0, first.start_offset):
                self._lose(_Gap(0, first.queue_offset, 0, first.start_offset), known)
        for gap in queue.gaps:
            known = self._look(gap.first, gap.stop, gap.after_offset, gap.before_offset)
            self._lose(gap, known)
        self._look(queue.next_offset, self._entries.end_offset(queue.next_offset), queue.end_offset, end)

    def _stretches(self, after_offset: int, before_offset: int) -> list[DamagedStretch]:
        return [
            stretch
            for stretch in self._scan.damages
            if stretch.start_offset >= after_offset and stretch.end_offset <= before_offset
        ]

    def _look(self, first: int, stop: int, after_offset: int, before_offset: int) -> set[int]:
        """Judge the entries first to stop - 1; returns the queue offsets of those that are lost messages."""
        known: set[int] = set()
        for at, end in self._entries.pieces(first, stop):
            rows = self._entries.read(at, end - at)
            offsets = rows[:, :8].copy().view(">i8").reshape(-1).astype(np.int64)
            sizes = rows[:, 8:12].copy().view(">i4").reshape(-1).astype(np.int64)
            # Neither empty nor blank nor expired.
            is_strange = rows.any(axis=1) & (sizes != BLANK_SIZE) & (offsets >= self._known_from)
            is_lost = is_strange & self._are_in_damage(offsets, sizes)
            for index in np.flatnonzero(is_lost).tolist():
                known.add(at + index)
                place = (int(offsets[index]), int(sizes[index]), after_offset, before_offset)
                self.lost.append(LostMessage(self._topic, self._queue_id, at + index, *place))
            is_ahead = offsets > self._scan.end_offset - sizes
            self.findings += self._strange(at, rows, is_strange & ~is_lost, is_ahead)
        return known

    def _strange(
        self,
        at: int,
        rows: npt.NDArray[np.uint8],
        is_strange: npt.NDArray[np.bool_],
        is_ahead: npt.NDArray[np.bool_],
    ) -> Iterator[Finding]:
        """One finding for each stretch of entries that no record has asked for; rows[0] is entry `at`."""
        for start, stop in _runs_above_0(np.where(is_strange, 1 + is_ahead, 0)):
            path, position = self._entries.place_of(at + start)
            kind, expected = "queue-entry", f"the place of message {at + start}"
            if is_ahead[start]:
                kind, expected = "queue-entry-ahead", f"no entry behind the log's end {self._scan.end_offset}"
            yield Finding(
                kind, path, position, expected, _text(rows[start]), stop - start, not self._after_crash
            )

    def _are_in_damage(
        self, offsets: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which records, by their places, lay in a damaged stretch."""
        are_in = np.zeros(len(offsets), np.bool_)
        for stretch in self._scan.damages:
            are_in |= (stretch.start_offset <= offsets) & (offsets <= stretch.end_offset - sizes)
        return are_in & (sizes >= FIXED_BYTES)

    def _lose(self, gap: _Gap, known: set[int]) -> None:
        """Queue offsets without a record: lost messages if there is room for them in what is damaged."""
        stretches = self._stretches(gap.after_offset, gap.before_offset)
        room = sum(stretch.length_bytes for stretch in stretches) // FIXED_BYTES
        if gap.stop - gap.first > room:
            path, position = self._entries.place_of(gap.first)
            expected = f"a record with queue offset {gap.first} in the log"
            self.findings.append(
                Finding("queue-hole", path, position, expected, "none", gap.stop - gap.first)
            )
            return
        for queue_offset in range(gap.first, gap.stop):
            if queue_offset not in known:
                place = (_UNKNOWN, _UNKNOWN, gap.after_offset, gap.before_offset)
                self.lost.append(LostMessage(self._topic, self._queue_id, queue_offset, *place))


def _runs_above_0(kinds: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(start, stop) of each stretch of equal kinds that are above 0."""
    for start, stop in itertools.pairwise(np.flatnonzero(np.diff(kinds, prepend=0, append=0)).tolist()):
        if kinds[start]:
            yield start, stop


def _text(row: Sequence[int] | npt.NDArray[np.uint8]) -> str:
    """(physical offset, size, tags code) of 20 bytes."""
    return str(ENTRY.unpack(bytes(row)))
