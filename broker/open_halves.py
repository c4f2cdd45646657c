"""The open halves: which transactions nobody has ended yet, as the broker remembers them.

A half is known by its queue offset, and by those of the halves that it has replaced: a producer may end any
of them, and the first to do so ends the transaction. Nothing is on disk here: ops are (half_message.py).
Threads: any. One lock is held for microseconds, and nothing is called under it. A second one is held while
halves are checked, and only those who end one of just these wait for it.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["OpenHalf", "OpenHalves"]


class OpenHalf(NamedTuple):
    """names: the queue offsets by which producers know it: of the halves that it replaces, and its own."""

    physical_offset: int
    names: tuple[int, ...]


class OpenHalves:
    """The open halves of one broker."""

    def __init__(self) -> None:
        # Held while halves are checked.
        self._check_lock = threading.Lock()
        # Guards all that follows.
        self._lock = threading.Lock()
        # By queue offset.
        self._open: dict[int, OpenHalf] = {}
        # From each name to the queue offset.
        self._newest: dict[int, int] = {}
        self._ending: set[int] = set()
        self._checking: set[int] = set()
        # Of halves that are being put: no higher than the queue offset that each will get.
        self._arriving: dict[object, int] = {}
        # For each op from _op_progress on: the highest queue offset that it names.
        self._ops: dict[int, int] = {}
        self._op_progress = 0

    def load(self, halves: dict[int, OpenHalf], ops: dict[int, int], op_progress: int) -> None:
        """Begin with what was read: the halves by queue offset, and the ops from `op_progress` on."""
        with self._lock:
            for queue_offset, half in halves.items():
                self._add(queue_offset, half)
            self._ops = ops
            self._op_progress = op_progress

    @contextmanager
    def arriving(self, floor: int) -> Iterator[None]:
        """While a half is put and added, whose queue offset will be `floor` or more."""
        arrival = object()
        try:
            with self._lock:
                self._arriving[arrival] = floor
            yield
        finally:
            with self._lock:
                self._arriving.pop(arrival, None)

    def add(self, queue_offset: int, half: OpenHalf) -> None:
        """A half is open now."""
        with self._lock:
            self._add(queue_offset, half)

    def get(self, queue_offset: int) -> OpenHalf | None:
        """The open half with this queue offset; None if it was ended."""
        return self._open.get(queue_offset)

    def claim(self, name: int) -> int | None:
        """The queue offset of the open half of that name, for the caller to end; None if none is open.

        The caller then calls `close` or `release`. Waits while the half is checked.
        """
        while True:
            with self._lock:
                queue_offset = self._newest.get(name)
                if queue_offset is None or queue_offset in self._ending:
                    return None
                if queue_offset not in self._checking:
                    self._ending.add(queue_offset)
                    return queue_offset
            with self._check_lock:
                # It has another queue offset now, or is given up.
                pass

    def release(self, queue_offset: int) -> None:
        """It could not be ended, and is as open as before."""
        with self._lock:
            self._ending.discard(queue_offset)

    def close(self, queue_offsets: Iterable[int], op_offset: int | None) -> None:
        """They are ended. op_offset: of the op that names them; None for halves that the log has lost."""
        with self._lock:
            self._close(queue_offsets, op_offset)

    def forget_lost(self, queue_offset: int) -> None:
        """The log has lost its record: nobody can end it any more."""
        with self._lock:
            if queue_offset in self._open and queue_offset not in self._ending:
                self._close([queue_offset], None)

    @contextmanager
    def checking(self, queue_offsets: Iterable[int]) -> Iterator[list[int]]:
        """While halves are checked, for those that nobody ends: ends of these wait."""
        with self._check_lock:
            try:
                with self._lock:
                    left = [at for at in queue_offsets if at in self._open and at not in self._ending]
                    self._checking.update(left)
                yield left
            finally:
                with self._lock:
                    self._checking.clear()

    def replace(self, closed: Iterable[int], op_offset: int, opened: dict[int, OpenHalf]) -> None:
        """Close halves, and open those that stand for some of them, in one step."""
        with self._lock:
            self._close(closed, op_offset)
            for queue_offset, half in opened.items():
                self._add(queue_offset, half)

    def in_order(self) -> list[int]:
        """The queue offsets of all that nobody ends just now."""
        with self._lock:
            return sorted(self._open.keys() - self._ending)

    def progress(self, end: int) -> tuple[int, int]:
        """From which half and from which op on a restart must read.

        end: of the queue of halves, asked before this call. What lies below it is open, arriving or closed.
        """
        with self._lock:
            first = min((end, *self._open, *self._arriving.values()))
            # Ops in their order: one that has not been noted yet may name a half behind `first`.
            while self._ops.get(self._op_progress, end) < first:
                del self._ops[self._op_progress]
                self._op_progress += 1
            return first, self._op_progress

    def _add(self, queue_offset: int, half: OpenHalf) -> None:
        self._open[queue_offset] = half
        for name in half.names:
            self._newest[name] = queue_offset

    def _close(self, queue_offsets: Iterable[int], op_offset: int | None) -> None:
        closed = list(queue_offsets)
        for queue_offset in closed:
            for name in self._open.pop(queue_offset).names:
                self._newest.pop(name, None)
            self._ending.discard(queue_offset)
        if op_offset is not None:
            self._ops[op_offset] = max(closed)

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"OpenHalves({len(self)} open)"
