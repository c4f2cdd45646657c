"""An auto-reset event: one thread waits until another sets it, and the wait resets it.

If nobody waits, the event stays set for the next wait; setting it several times counts once. Unlike
`threading.Event` it is a single lock of the interpreter's own. So an interrupt (Ctrl-C) in the middle of
`set` leaves no lock taken that others wait for, and it costs a quarter.
Threads: any thread may set it, one at a time may wait.
"""

from mqstore.store.threads.lock import Lock

__all__ = ["AutoResetEvent"]


class AutoResetEvent:
    """Stays set until a thread has waited for it."""

    __slots__ = ("__weakref__", "_unset")

    def __init__(self) -> None:
        # Held as long as the event is not set.
        self._unset = Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Wake the thread that waits, or let the next wait return at once."""
        if self._unset.locked():
            try:
                self._unset.release()
            except RuntimeError:
                # Another thread set it in between.
                return

    def wait(self, timeout_s: float) -> bool:
        """Wait until the event is set, `timeout_s` at most, and reset it; returns whether it was set."""
        return self._unset.acquire(True, timeout_s)
