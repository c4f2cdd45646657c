"""The asynchronous sends: handed to a broker by threads of the producer, with a future for each.

    caller -> (back pressure) -> a sender thread: check, queue, compress, hand over -> the broker's future
           <- future          <- a callback thread: another attempt, or hooks and the result

The caller waits for no disk, so it may be an asyncio loop: `await producer.send_async(message)`. What is
wrong with a message, or a route, shows in the future. A future is completed once, after the hooks, and
never by the thread that syncs a store: what its callbacks do keeps no disk from working.

What becomes of one of them is in async_send.py.
Threads: any. Durability: a result means what the `SendResult` says.
Source: docs/spec/client_produce.md section 4; DefaultMQProducerImpl#executeAsyncMessageSend,
MQClientAPIImpl#sendMessageAsync, #onExceptionImpl.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from mqstore.client.errors import SendRejected, SendTimedOut
from mqstore.client.producer.sends.async_send import AsyncSend, Begin, SendFuture
from mqstore.client.producer.sends.send_kernel import SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.store.message.message import Message
from mqstore.store.threads.bounded_executor import BoundedExecutor
from mqstore.store.threads.fair_permits import FairPermits
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.service import Service

__all__ = ["AsyncSends", "body_bytes_of", "topic_of"]

_EXPIRY_PERIOD_MS: Final = 1_000
_LEAST_UNDER_WAY: Final = 10
_LEAST_BYTES_UNDER_WAY: Final = 1024 * 1024


class AsyncSends:
    """The asynchronous sends of one producer."""

    def __init__(self, parts: SendParts, kernel: SendKernel) -> None:
        self.parts = parts
        self.kernel = kernel
        settings = parts.settings
        self._senders = BoundedExecutor(
            "producer-sender", settings.async_sender_threads, settings.async_sender_queue_capacity
        )
        self.callbacks = BoundedExecutor("producer-callback", settings.async_sender_threads)
        self._has_back_pressure = settings.enable_backpressure_for_async_mode
        self._number = FairPermits(max(settings.back_pressure_for_async_send_num, _LEAST_UNDER_WAY))
        self._bytes = FairPermits(max(settings.back_pressure_for_async_send_size, _LEAST_BYTES_UNDER_WAY))
        # Sends whose broker has not answered. Whoever takes one out goes on with it.
        self._unanswered: dict[AsyncSend, None] = {}
        self._expiry = Service("producer-expiry", _EXPIRY_PERIOD_MS, self.expire_once)
        self._expiry_lock = Lock()
        self._expires = False

    def send(self, topic: str, size_bytes: int, begin: Begin, timeout_ms: int) -> SendFuture[Any]:
        """Have a thread send what `begin` prepares. Raises SendRejected."""
        send = AsyncSend(self, topic, size_bytes, begin, timeout_ms)
        # A loop of asyncio must not wait: then a sender thread waits for the permits.
        is_in_loop = self._has_back_pressure and _runs_a_loop()
        if self._has_back_pressure and not is_in_loop and not self.take_permits(send):
            return send.future
        call = send.run_with_permits if is_in_loop else send.run
        if not self._senders.submit(call):
            if self._has_back_pressure and not is_in_loop:
                send.run()
            else:
                raise SendRejected(topic, self._senders.waiting)
        return send.future

    def take_permits(self, send: AsyncSend) -> bool:
        """Wait until not too much is under way; False if its time is over before, and the send has failed."""
        if not self._number.acquire(1, send.remaining_ms() / 1000):
            send.fail(SendTimedOut(send.topic, send.timeout_ms, send.cost_ms()))
            return False
        send.permits = 0
        if not self._bytes.acquire(send.size_bytes, send.remaining_ms() / 1000):
            send.fail(SendTimedOut(send.topic, send.timeout_ms, send.cost_ms()))
            return False
        send.permits = send.size_bytes
        return True

    def give_back(self, size_bytes: int | None) -> None:
        """The permits of a send that is over. None: it had none, 0: only the first."""
        if size_bytes is not None:
            self._number.release(1)
            self._bytes.release(size_bytes)

    def await_answer(self, send: AsyncSend, future: "Future[Any]") -> None:
        """Go on with `send` when the broker answers, or when its time is over."""
        self._unanswered[send] = None
        if not self._expires:
            with self._expiry_lock:
                if not self._expires:
                    self._expiry.start()
                    self._expires = True
        future.add_done_callback(lambda done: self.do_later(lambda: send.answered(done)))

    def is_taken(self, send: AsyncSend) -> bool:
        """Whether another thread goes on with `send` already; else the caller does."""
        return self._unanswered.pop(send, send) is not None

    def do_later(self, call: Callable[[], object]) -> None:
        """Call it in a callback thread; here, if there are none any more."""
        if not self.callbacks.submit(call):
            call()

    def expire_once(self) -> None:
        """End the sends that have waited for their broker for too long."""
        for send in list(self._unanswered):
            if send.remaining_ms() <= 0:
                self.do_later(send.expire)

    def close(self) -> None:
        """Hand over what waits, and end the threads. Futures that wait for a disk end when it answers."""
        self._senders.close()
        self._expiry.stop()
        self.callbacks.close()

    def __repr__(self) -> str:
        return f"AsyncSends({self._senders!r}, unanswered={len(self._unanswered)})"


def _runs_a_loop() -> bool:
    """Whether this thread runs a loop of asyncio."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def topic_of(message: Message) -> str:
    """For errors; what is no message is refused when it is sent."""
    return str(getattr(message, "topic", ""))


def body_bytes_of(message: Message) -> int:
    """What a message counts for back pressure."""
    body = getattr(message, "body", b"")
    return len(body) if hasattr(body, "__len__") else 1
