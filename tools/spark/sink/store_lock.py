"""The writer's lock of a store that the sink writes into: waited for, up to a limit.

Another commit holds it for as long as its rows take, so a driver that finds it taken asks again, some twenty
times a second, until `timeout_ms` have passed (option `lockTimeout`). Then LockTimeout says who holds it. A
store that this very process has open is refused at once: who would close it is who waits.
Threads: any. Durability: none of its own.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mqstore.message_store import MessageStore
from mqstore.store.errors import StoreError, StoreLocked

__all__ = ["LockTimeout", "opened_for_write"]

_PAUSE_S = 0.05


class LockTimeout(StoreLocked):
    """Another process has held the store for longer than `lockTimeout`. timeout_ms: that limit."""

    def __init__(self, path: Path, holder_pid: int | None, timeout_ms: int) -> None:
        holder = "another process" if holder_pid is None else f"process {holder_pid}"
        # Not the message of StoreLocked: to open read only is no way out for who writes.
        StoreError.__init__(
            self,
            f"{path} is locked by {holder}, and option lockTimeout ({timeout_ms} ms) has passed: stop that "
            "writer, or set lockTimeout to longer than its writes take. Into a store that a program has open "
            "all day, write through that program or `mqstore serve`",
        )
        self.path, self.holder_pid, self.is_own = path, holder_pid, False
        self.timeout_ms = timeout_ms


@contextmanager
def opened_for_write(
    root: Path,
    timeout_ms: int,
    *,
    now_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[MessageStore]:
    """The store, opened without services, and closed after the block.

    Raises LockTimeout, StoreLocked (this process has it open), and what else MessageStore.open raises.
    """
    with _opened(root, timeout_ms, now_s, pause) as store:
        yield store


def _opened(
    root: Path, timeout_ms: int, now_s: Callable[[], float], pause: Callable[[float], object]
) -> MessageStore:
    end_s = now_s() + timeout_ms / 1000
    while True:
        try:
            return MessageStore.open(root, start=False)
        except StoreLocked as error:
            if error.is_own:
                raise
            rest_s = end_s - now_s()
            if rest_s <= 0:
                raise LockTimeout(error.path, error.holder_pid, timeout_ms) from error
        pause(min(_PAUSE_S, rest_s))
