"""The open halves: which transactions nobody has ended yet, as the broker remembers them.

A half is known by its queue offset, and by those of the halves that it has replaced: a producer may end any
of them, and the first to do so ends the transaction. Nothing is on disk here: ops are (half_message.py).
Threads: any. One lock is held for microseconds, and nothing is called under it. A second one is held while
halves are checked, and only those who end one of just these wait for it.
What happens meanwhile is passed as a function: a generator of `contextmanager` that an interrupt leaves
entered would claim a half as long as anybody keeps the error.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from mqstore.store.threads.lock import Lock

__all__ = ["OpenHalf", "OpenHalves"]

Result = TypeVar("Result")


class OpenHalf(NamedTuple):
    """names: the queue offsets by which producers know it: of the halves that it replaces, and its own."""

    physical_offset: int
    names: tuple[int, ...]


class _Held(NamedTuple):
    """Halves that one thread ends or checks. op_floor: the op that names them will not lie below it."""

    queue_offsets: frozenset[int]
    op_floor: int


class OpenHalves:
    """The open halves of one broker."""

    def __init__(self) -> None:
        # Held while halves are checked.
        self._check_lock = Lock()
        # Guards all that follows.
        self._lock = Lock()
        # By queue offset.
        self._open: dict[int, OpenHalf] = {}
        # From each name to the queue offset.
        self._newest: dict[int, int] = {}
        # By the call that ends or checks them.
        self._ending: dict[object, _Held] = {}
        self._checking: dict[object, _Held] = {}
        # Of halves that are being put: no higher than the queue offset that each will get.
        self._arriving: dict[object, int] = {}
        # Ops that name halves which a restart reads again: the highest name of each.
        self._ops: dict[int, int] = {}
        # Where the next op will be, or a later one.
        self._op_end = 0
        # No half below is open, and none will be.
        self._first = 0

    def load(self, halves: dict[int, OpenHalf], ops: dict[int, int], op_progress: int) -> None:
        """Begin with what was read: the halves by queue offset, and the ops from `op_progress` on."""
        with self._lock:
            for queue_offset, half in halves.items():
                self._add(queue_offset, half)
            self._ops = ops
            self._op_end = max((op_progress, *(op_offset + 1 for op_offset in ops)))

    def arriving(self, floor: int, put: Callable[[], Result]) -> Result:
        """Call `put`, which puts and adds a half whose queue offset will be `floor` or more."""
        arrival = object()
        try:
            with self._lock:
                self._arriving[arrival] = floor
            return put()
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

    def ending(self, name: int, end: Callable[[int | None], Result]) -> Result:
        """Call `end` with the queue offset of the open half of that name, or with None if none is open.

        Unless it calls `close`, the half is as open as before afterwards. Waits while the half is checked.
        """
        claim = object()
        try:
            return end(self._claim(name, claim))
        finally:
            with self._lock:
                self._ending.pop(claim, None)

    def _claim(self, name: int, claim: object) -> int | None:
        while True:
            with self._lock:
                queue_offset = self._newest.get(name)
                if queue_offset is None or queue_offset not in self._open:
                    return None
                if _is_held(self._ending, queue_offset):
                    return None
                if not _is_held(self._checking, queue_offset):
                    self._ending[claim] = _Held(frozenset([queue_offset]), self._op_end)
                    return queue_offset
            with self._check_lock:
                # It has another queue offset now, or is given up.
                pass

    def close(self, queue_offsets: Iterable[int], op_offset: int | None) -> None:
        """They are ended. op_offset: of the op that names them; None for halves that the log has lost."""
        with self._lock:
            self._close(queue_offsets, op_offset)

    def forget_lost(self, queue_offset: int) -> None:
        """The log has lost its record: nobody can end it any more."""
        with self._lock:
            if queue_offset in self._open and not _is_held(self._ending, queue_offset):
                self._close([queue_offset], None)

    def checking(self, queue_offsets: Iterable[int], work: Callable[[frozenset[int]], Result]) -> Result:
        """Call `work` with those halves that nobody ends: ends of these wait meanwhile."""
        check = object()
        with self._check_lock:
            try:
                with self._lock:
                    left = frozenset(self._open.keys() & set(queue_offsets)) - _all_of(self._ending)
                    self._checking[check] = _Held(left, self._op_end)
                return work(left)
            finally:
                with self._lock:
                    self._checking.pop(check, None)

    def replace(self, closed: Iterable[int], op_offset: int | None, opened: dict[int, OpenHalf]) -> None:
        """Close halves and open those that stand for some of them, in one step.

        op_offset: of the op that names the closed ones; None if a later one will.
        """
        with self._lock:
            self._close(closed, op_offset)
            for queue_offset, half in opened.items():
                self._add(queue_offset, half)

    def in_order(self) -> list[int]:
        """The queue offsets of all that nobody ends just now."""
        with self._lock:
            return sorted(self._open.keys() - _all_of(self._ending))

    def progress(self, end: int) -> tuple[int, int]:
        """From which half and from which op on a restart must read.

        end: of the queue of halves, asked before this call. What lies below it is open, arriving or closed.
        """
        with self._lock:
            # Never back: a half that is arriving since the last call may have a floor below the end of then.
            self._first = max(self._first, min((end, *self._open, *self._arriving.values())))
            self._ops = self._ops_from(self._first)
            held = (*self._ending.values(), *self._checking.values())
            return self._first, min((self._op_end, *self._ops, *(each.op_floor for each in held)))

    def _ops_from(self, first: int) -> dict[int, int]:
        return {op: highest for op, highest in self._ops.items() if highest >= first}

    def _add(self, queue_offset: int, half: OpenHalf) -> None:
        self._open[queue_offset] = half
        for name in half.names:
            self._newest[name] = queue_offset

    def _close(self, queue_offsets: Iterable[int], op_offset: int | None) -> None:
        closed = list(queue_offsets)
        if op_offset is not None:
            # First: an interrupt may end this at any place, and a restart must read the op.
            self._ops[op_offset] = max(closed)
            self._op_end = max(self._op_end, op_offset + 1)
        for queue_offset in closed:
            for name in self._open.pop(queue_offset).names:
                self._newest.pop(name, None)

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"OpenHalves({len(self)} open)"


def _all_of(held: Mapping[object, _Held]) -> frozenset[int]:
    return frozenset().union(*(each.queue_offsets for each in held.values()))


def _is_held(held: Mapping[object, _Held], queue_offset: int) -> bool:
    return any(queue_offset in each.queue_offsets for each in held.values())
