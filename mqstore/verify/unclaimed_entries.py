"""Queue entries that no record claims, and queue offsets that no record has: damage, or lost messages.

Each entry without a record is judged by the place that it points to:

    below the log                  expired, or a pre-blank entry: nothing
    in a damaged range             that message is lost: all but its content is known
    behind the end of the log      ahead: normal after a crash, else damage
    elsewhere                      it points to no record of its queue: damage

A queue offset that no record has, between two that do, is a lost message as well if a damaged range lies
between them; its place is then unknown. Repair gives lost messages a placeholder. Threads: one.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.store.finding import Finding
from mqstore.store.log.log_offsets import END_OF_LOG
from mqstore.store.record.record_format import FIXED_BYTES
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import DamagedRange

__all__ = ["Gap", "LoggedQueue", "LostMessage", "UnclaimedEntries", "entry_text", "runs_above_0"]

_UNKNOWN = -1


class LostMessage(NamedTuple):
    """A message whose record is damaged. physical_offset, size_bytes: -1 where its queue has no entry for it.

    It lies at or behind `after_offset` and before `before_offset`.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size_bytes: int
    after_offset: int
    before_offset: int


class Gap(NamedTuple):
    """Queue offsets first to stop - 1 have no record; those around them lie at these physical offsets."""

    first: int
    stop: int
    after_offset: int
    before_offset: int


class LoggedQueue:
    """What the log holds of one queue, as far as it has been walked.

    first_queue_offset, start_offset: of its first message. next_offset: behind its last one, by number.
    end_offset: behind its last one, in the log. wrong: findings in entries that do have a record.
    """

    def __init__(self, first_queue_offset: int, start_offset: int) -> None:
        self.first_queue_offset = first_queue_offset
        self.start_offset = start_offset
        self.next_offset = first_queue_offset
        self.end_offset = 0
        self.wrong: list[Finding] = []
        self.gaps: list[Gap] = []

    def __repr__(self) -> str:
        return f"LoggedQueue({self.first_queue_offset} to {self.next_offset}, gaps={self.gaps})"


class UnclaimedEntries:
    """Judges one queue: `run` fills in `findings` and `lost`."""

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
        """deleted_to: a deletion that was cut short may have left entries that point before this offset."""
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

    def run(self, queue: LoggedQueue | None) -> None:
        """Judge the whole queue. queue: what the log holds of it; None for nothing."""
        least, end = self._entries.min_offset, END_OF_LOG
        if queue is None:
            self._look(least, self._entries.end_offset(least), 0, end)
            return
        self.findings += queue.wrong
        first, start_offset = queue.first_queue_offset, queue.start_offset
        if first > least:
            known = self._look(least, first, 0, start_offset)
            # A log that begins at 0 holds each queue from its first message on: those are known by number.
            if self._scan.min_offset == 0 and self._damages_between(0, start_offset):
                self._lose(Gap(0, first, 0, start_offset), known)
        for gap in queue.gaps:
            known = self._look(gap.first, gap.stop, gap.after_offset, gap.before_offset)
            self._lose(gap, known)
        self._look(queue.next_offset, self._entries.end_offset(queue.next_offset), queue.end_offset, end)

    def _damages_between(self, after_offset: int, before_offset: int) -> list[DamagedRange]:
        return [
            damage
            for damage in self._scan.damages
            if damage.start_offset >= after_offset and damage.end_offset <= before_offset
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
        """One finding for each run of entries that no record claims; rows[0] is entry `at`."""
        for start, stop in runs_above_0(np.where(is_strange, 1 + is_ahead, 0)):
            path, position = self._entries.place_of(at + start)
            kind, expected = "queue-entry", f"the place of message {at + start}"
            if is_ahead[start]:
                kind, expected = "queue-entry-ahead", f"no entry behind the log's end {self._scan.end_offset}"
            yield Finding(
                kind, path, position, expected, entry_text(rows[start]), stop - start, not self._after_crash
            )

    def _are_in_damage(
        self, offsets: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which records, by their places, lay in a damaged range."""
        are_in = np.zeros(len(offsets), np.bool_)
        for damage in self._scan.damages:
            are_in |= (damage.start_offset <= offsets) & (offsets <= damage.end_offset - sizes)
        return are_in & (sizes >= FIXED_BYTES)

    def _lose(self, gap: Gap, known: set[int]) -> None:
        """Queue offsets without a record: lost messages if the damaged ranges have room for them."""
        damages = self._damages_between(gap.after_offset, gap.before_offset)
        room = sum(damage.length_bytes for damage in damages) // FIXED_BYTES
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

    def __repr__(self) -> str:
        return f"UnclaimedEntries({self._topic!r}, {self._queue_id}, lost={len(self.lost)})"


def runs_above_0(kinds: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(start, stop) of each run of equal kinds that are above 0."""
    for start, stop in itertools.pairwise(np.flatnonzero(np.diff(kinds, prepend=0, append=0)).tolist()):
        if kinds[start]:
            yield start, stop


def entry_text(row: Sequence[int] | npt.NDArray[np.uint8]) -> str:
    """(physical offset, size, tags code) of 20 bytes."""
    return str(ENTRY.unpack(bytes(row)))
