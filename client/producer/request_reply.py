"""Requests: messages for which a reply is awaited, by a producer that takes replies.

    request -> send_async -> a consumer -> create_reply_message -> its producer -> a broker -> here, by its id

A reply finds its request by the property CORRELATION_ID. One that nobody waits for any more is dropped.
Requests and replies are ordinary messages beside: they are stored, and a request that was sent is consumed
whether anybody still waits or not.

Threads: any. Replies arrive in the thread of the replying producer, and are handed out in callback threads.
Once there was a request without a waiting caller, a thread looks for what has waited too long.
Source: docs/spec/client_produce.md section 6; DefaultMQProducerImpl#request, RequestFutureHolder,
RequestResponseFuture, ClientRemotingProcessor#receiveReplyMessage.
"""

import logging
from concurrent.futures import Future, InvalidStateError
from typing import Any, Final

from mqstore.client.errors import ClientNotRunning, RequestNotSent, RequestTimedOut
from mqstore.client.producer.message.reply_message import received_reply, request_of
from mqstore.client.producer.sends.async_sends import AsyncSends, body_bytes_of, topic_of
from mqstore.client.producer.sends.awaited_future import AwaitedFuture
from mqstore.client.producer.sends.send_kernel import Destination, SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.store.clock import Clock
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.record.properties_format import CORRELATION_ID
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.service import Service

__all__ = ["ReplyFuture", "Requests"]

_logger = logging.getLogger(__name__)

_EXPIRY_PERIOD_MS: Final = 1_000


class ReplyFuture(AwaitedFuture[Message]):
    """The reply to come: `result()` in a thread, `await` in asyncio."""


class _Request:
    """A request that waits for its reply."""

    __slots__ = ("begin_s", "correlation_id", "future", "timeout_ms", "topic")

    def __init__(self, topic: str, correlation_id: str, timeout_ms: int, begin_s: float) -> None:
        self.topic = topic
        self.correlation_id = correlation_id
        self.timeout_ms = timeout_ms
        self.begin_s = begin_s
        self.future = ReplyFuture()

    def timed_out(self) -> RequestTimedOut:
        return RequestTimedOut(self.topic, self.correlation_id, self.timeout_ms)


class Requests:
    """The requests of one producer."""

    def __init__(
        self, parts: SendParts, kernel: SendKernel, sends: AsyncSends, client_id: str, clock: Clock
    ) -> None:
        self._parts = parts
        self._kernel = kernel
        self._sends = sends
        self._client_id = client_id
        self._clock = clock
        # By correlation id. Whoever takes one out ends it.
        self._waiting: dict[str, _Request] = {}
        self._lock = Lock()
        self._is_registered = False
        self._expiry = Service("producer-requests", _EXPIRY_PERIOD_MS, self.expire_once)
        self._expires = False

    def request(self, message: Message, destination: Destination, timeout_ms: int) -> Message:
        """Send a request, and wait for the reply. Raises as `Producer.request`."""
        request = self._send(message, destination, timeout_ms)
        remaining_ms = timeout_ms - self._parts.cost_ms(request.begin_s)
        try:
            return request.future.result(max(0, remaining_ms) / 1000)
        except TimeoutError:
            if self._waiting.pop(request.correlation_id, None) is None:
                # It has ended at this moment, or is a time-out itself.
                return request.future.result()
            raise request.timed_out() from None
        finally:
            self._waiting.pop(request.correlation_id, None)

    def request_async(self, message: Message, destination: Destination, timeout_ms: int) -> ReplyFuture:
        """As `request`, without waiting."""
        if not self._expires:
            with self._lock:
                if not self._expires:
                    self._expiry.start()
                    self._expires = True
        return self._send(message, destination, timeout_ms).future

    def expire_once(self) -> None:
        """End the requests that have waited too long."""
        for request in list(self._waiting.values()):
            if self._parts.cost_ms(request.begin_s) > request.timeout_ms:
                self._end(request.correlation_id, request.timed_out())

    def close(self, client: str, state: str) -> None:
        """Take no more replies; what waits ends with ClientNotRunning."""
        self._expiry.stop()
        if self._is_registered:
            for broker in self._parts.brokers.values():
                broker.unregister_reply_receiver(self._client_id)
        for correlation_id in list(self._waiting):
            self._end(correlation_id, ClientNotRunning(client, state))

    # -- inside ---------------------------------------------------------------------------------------

    def _send(self, message: Message, destination: Destination, timeout_ms: int) -> _Request:
        begin_s = self._parts.timer()
        self._parts.check(message)
        self._register()
        sent, correlation_id = request_of(message, self._client_id, timeout_ms)
        request = _Request(topic_of(message), correlation_id, timeout_ms, begin_s)
        self._waiting[correlation_id] = request
        try:
            future = self._sends.send(
                topic_of(sent),
                body_bytes_of(sent),
                lambda begin_s: self._kernel.begin(sent, destination, begin_s),
                max(0, timeout_ms - self._parts.cost_ms(begin_s)),
            )
        except BaseException:
            self._waiting.pop(correlation_id, None)
            raise
        future.add_done_callback(lambda done: self._sent(request, done))
        return request

    def _sent(self, request: _Request, done: "Future[Any]") -> None:
        error = done.exception()
        if error is not None:
            not_sent = RequestNotSent(request.topic, request.correlation_id, error)
            not_sent.__cause__ = error
            self._end(request.correlation_id, not_sent)

    def _register(self) -> None:
        """Have all brokers hand replies to this client: they come through any of them."""
        if self._is_registered:
            return
        with self._lock:
            if self._is_registered:
                return
            for broker in self._parts.brokers.values():
                try:
                    broker.register_reply_receiver(self._client_id, self._receive)
                except StoreError:
                    _logger.warning("broker %s will hand no reply on", broker.name, exc_info=True)
            self._is_registered = True

    def _receive(self, reply: Message) -> None:
        arrived_ms = self._clock.now_ms()
        self._sends.do_later(lambda: self._take(reply, arrived_ms))

    def _take(self, reply: Message, arrived_ms: int) -> None:
        correlation_id = reply.properties.get(CORRELATION_ID, "")
        try:
            outcome: Message | Exception = received_reply(reply, arrived_ms)
        except StoreError as error:
            outcome = error
        if not self._end(correlation_id, outcome):
            _logger.info("a reply came to request %s, for which nobody waits", correlation_id)

    def _end(self, correlation_id: str, outcome: Message | Exception) -> bool:
        """End a request; False if it has ended before."""
        request = self._waiting.pop(correlation_id, None)
        if request is None:
            return False
        try:
            if isinstance(outcome, Exception):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)
        except InvalidStateError:
            return False  # its caller has cancelled it
        return True

    def __repr__(self) -> str:
        return f"Requests(waiting={len(self._waiting)})"
