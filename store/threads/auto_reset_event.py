"""A bell: one thread sleeps until another rings.

A ring while nobody sleeps is heard by the next who does; several of them are one. Unlike `threading.Event`
it is one lock of the interpreter's own, so an interrupt (Ctrl-C) in the midst of a ring leaves nothing that
others would wait for, and it costs a quarter.
Threads: any rings, one at a time sleeps.
"""

import threading

__all__ = ["Bell"]


class Bell:
    """Rings are kept until somebody has slept."""

    __slots__ = ("__weakref__", "_silence")

    def __init__(self) -> None:
        # Held as long as nobody has rung.
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        """Wake who sleeps, or the next who would."""
        if self._silence.locked():
            try:
                self._silence.release()
            except RuntimeError:
                # Somebody else rang in between.
                return

    def sleep(self, timeout_s: float) -> bool:
        """Sleep until the bell rings, `timeout_s` at most; whether it rang."""
        return self._silence.acquire(True, timeout_s)
