"""The listening service: threads that call a listener, and what every consume service does with them.

    submit -> wake -> a thread of the service -> run
    no thread can be started: the items come again after 5 s

consume_service.py calls the listener concurrently, orderly/orderly_service.py in order.
Threads: `wake`, `skip` and `look_again` by the one that pulls, `run` by the service's own.
Source: ConsumeMessageService.
"""

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.store.errors import StoreClosed
from mqstore.store.threads.timer import Timer
from mqstore.store.threads.worker_threads import Unfinished, WorkerThreads

__all__ = ["ListeningService", "RoomListener"]

T = TypeVar("T")

_NO_THREAD_MS = 5_000


class RoomListener(Protocol):
    """Who waits for room in process queues: the pull service."""

    def has_room(self, pulled: PulledQueue) -> None:
        """Messages of a queue that is held back were worked off."""
        ...


class ListeningService(ABC, Generic[T]):
    """Runs items of one consumer: what is to be consumed next."""

    def __init__(self, group: str, settings: ConsumerSettings, offsets: OffsetStore, timer: Timer) -> None:
        self._group = group
        self._offsets = offsets
        self._timer = timer
        self._room_listener: RoomListener | None = None
        self._threads: WorkerThreads[T] = WorkerThreads(
            f"mqstore consume {group}", self.run, settings.consume_thread_min
        )

    @abstractmethod
    def run(self, item: T) -> None:
        """Consume an item that was submitted."""

    def wake(self) -> None:
        """Begin with what was submitted."""
        if not self._threads.wake():
            self._submit_refused()

    @property
    def is_behind(self) -> bool:
        """Whether items wait although a thread could take them: listeners may have become slow."""
        return self._threads.needs_wake

    def look_again(self) -> None:
        """Wake all threads that there is work for, if items wait still."""
        if not self._threads.wake_all():
            self._submit_refused()

    def _submit_refused(self) -> None:
        for item in self._threads.take_all():
            self._submit_later(item, _NO_THREAD_MS)

    def _submit_later(self, item: T, delay_ms: int) -> None:
        def submit() -> None:
            self._threads.add(item)
            self.wake()

        self._timer.call_later(delay_ms, submit)

    def skip(self, pulled: PulledQueue, offset: int) -> None:
        """Nothing is left of what matched before `offset`: that need not be looked at again."""
        self._offsets.update(pulled.queue, offset, increase_only=True)

    def end(self, broker_name: str, error: StoreClosed) -> None:
        """Nothing: what is in memory is still consumed."""

    def tell_of_room(self, listener: RoomListener) -> None:
        """Tell `listener` when messages of a queue that is held back were worked off."""
        self._room_listener = listener

    def _have_worked_off(self, pulled: PulledQueue) -> None:
        if pulled.is_held_back and self._room_listener is not None:
            self._room_listener.has_room(pulled)

    @property
    def is_listener_thread(self) -> bool:
        """Whether the caller is called by a listener."""
        return self._threads.is_own_thread

    def stop(self, timeout_s: float) -> list[Unfinished]:
        """Begin no more items; those under way have `timeout_s`. Returns the threads that need longer."""
        return self._threads.stop(timeout_s)
