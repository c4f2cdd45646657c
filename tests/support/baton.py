"""The baton: several threads of which exactly one runs at a time, in an order that a seed decides.

A thread gives the baton away in `pass_on`, which the simulated disk calls before each step, and where it
waits for a BatonLock. So the interleaving of putters and the leader of a group commit is the same in every
run.
"""

import random
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import cast

from mqstore.store.log.sync_waiters import SyncWaiters

__all__ = ["Baton", "BatonLock", "BatonWaiters"]


class Baton:
    """Runs functions as threads, one at a time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._turn = threading.Condition()
        # Under _turn: whose turn it is, and who may be given one.
        self._holder: int | None = None
        self._ready: set[int] = set()
        self._names = threading.local()
        self._failures: list[BaseException] = []

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run all to their ends; raises the first error of any."""
        threads = [
            threading.Thread(target=self._run_one, args=(name, function), name=f"baton-{name}", daemon=True)
            for name, function in enumerate(functions)
        ]
        self._ready = set(range(len(threads)))
        for thread in threads:
            thread.start()
        with self._turn:
            self._choose()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a thread waits for a turn that never comes"
        if self._failures:
            raise self._failures[0]

    def _run_one(self, name: int, function: Callable[[], None]) -> None:
        self._names.me = name
        self._await_turn()
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - told by `run`, in the thread that asked
            self._failures.append(error)
        with self._turn:
            self._ready.discard(name)
            self._choose()

    def pass_on(self) -> None:
        """Let chance decide who goes on; comes back when it is this thread's turn again."""
        with self._turn:
            self._choose()
        self._await_turn()

    def wait_until(self, is_free: Callable[[], bool]) -> None:
        """Give the baton away until `is_free()`."""
        while not is_free():
            me = self._names.me
            with self._turn:
                # Others go first, so that who holds the lock gets on.
                self._ready.discard(me)
                assert self._ready, "all threads wait for a lock"
                self._choose()
                self._ready.add(me)
            self._await_turn()

    def _choose(self) -> None:
        self._holder = self._chance.choice(sorted(self._ready)) if self._ready else None
        self._turn.notify_all()

    def _await_turn(self) -> None:
        with self._turn:
            while self._holder != self._names.me:
                self._turn.wait()


class BatonLock:
    """A lock whose waiters give the baton away. `is_owned`: only its holder may release it, as an RLock."""

    def __init__(self, baton: Baton, *, is_owned: bool = False) -> None:
        self._baton = baton
        self._is_owned = is_owned
        self._holder: threading.Thread | None = None

    def locked(self) -> bool:
        return self._holder is not None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait without end, whatever `timeout` says: time stands still while others hold the baton."""
        if self._holder is not None and not blocking:
            return False
        if threading.current_thread().name.startswith("baton-"):
            self._baton.wait_until(lambda: self._holder is None)
        assert self._holder is None
        self._holder = threading.current_thread()
        return True

    def release(self) -> None:
        if self._holder is None or (self._is_owned and self._holder is not threading.current_thread()):
            raise RuntimeError("released by one who does not hold it")
        self._holder = None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class BatonWaiters(SyncWaiters):
    """Sync waiters that give the baton away while they sleep: a wake-up that is lost stops the run."""

    def __init__(self, baton: Baton) -> None:
        super().__init__()
        self._baton = baton

    def _make_lock(self) -> threading.Lock:
        return cast("threading.Lock", BatonLock(self._baton))
