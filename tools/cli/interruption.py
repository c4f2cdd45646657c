"""Ctrl-C as a request: the work ends between two steps instead of in the middle of a put.

A second Ctrl-C ends at once. SIGTERM counts as Ctrl-C. Only in the main thread of a process; elsewhere
nothing is changed.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["Interruption", "interruptible"]


class Interruption:
    """Whether a stop was requested."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def ask(self, signal_number: int = 0, frame: FrameType | None = None) -> None:
        """Note the request; the second time, raise KeyboardInterrupt."""
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()
        # A signal may interrupt another write to the stream, which then refuses this one.
        with suppress(RuntimeError):
            sys.stderr.write("\nending at the next good place; Ctrl-C again ends at once\n")
            sys.stderr.flush()

    def is_asked(self) -> bool:
        """Whether to end after the current step."""
        return self._asked.is_set()


@contextmanager
def interruptible(interruption: Interruption | None = None) -> Iterator[Interruption]:
    """Note Ctrl-C and SIGTERM for the duration of the block."""
    interruption = interruption or Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, interruption.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
