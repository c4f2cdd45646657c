"""A service: one function that a thread of its own calls again and again until it is stopped.

A step that fails is kept in `error` for `stats()` and tried again after the next period; the step itself
decides what is final. Nothing runs before `start`; tests call the step directly.
Threads: `start`, `stop` and `wake` from any thread.
"""

import threading
from collections.abc import Callable

from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Service"]


class Service:
    """Calls `run_once` every `period_ms`, or at once when woken."""

    def __init__(
        self,
        name: str,
        period_ms: int,
        run_once: Callable[[], object],
        *,
        event: AutoResetEvent | None = None,
    ) -> None:
        """event: what wakes it besides `wake`; no other thread may wait for it."""
        self.name = name
        self.error: Exception | None = None
        self._period_s = period_ms / 1000
        self._run_once = run_once
        self._event = event or AutoResetEvent()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. It is a daemon: it keeps no process alive that forgot to close its store.

        Raises RuntimeError if none can be started.
        """
        # Assigned before the start: an interrupt (Ctrl-C) may come when the thread already runs.
        self._thread = threading.Thread(target=self._loop, name=f"mqstore-{self.name}", daemon=True)
        if not start_thread(self._thread):
            raise RuntimeError(f"the thread {self._thread.name!r} cannot be started: end other threads")

    def wake(self) -> None:
        """Run the next step now; a step that is running does not count."""
        self._event.set()

    def stop(self) -> None:
        """Wait for the running step, and end the thread."""
        self._stopping = True
        self._event.set()
        thread = self._thread
        # A thread without an ident could not be started, or has not run yet and will not run a step.
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self) -> None:
        while not self._stopping:
            self._event.wait(self._period_s)
            if self._stopping:
                return
            try:
                self._run_once()
            except Exception as error:  # noqa: BLE001 - a step that fails must not end the service
                self.error = error
            else:
                self.error = None

    def __repr__(self) -> str:
        return f"Service({self.name!r}, error={self.error!r})"
