"""The asynchronous send: one message, or one batch, from its first attempt to the end of its future.

Its passes run in threads of the producer (async_sends.py), one at a time.

An answer of a broker is final, but for those of a store that takes nothing at all (full, poisoned, closed):
in one process they stand for a broker that cannot be reached. RocketMQ tries no answer again.
Threads: one at a time has to do with it.
Source: docs/spec/client_produce.md section 4; MQClientAPIImpl#sendMessageAsync, #onExceptionImpl.
"""

import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import BrokerNotConnected, BrokerTimedOut, ClientError, SendTimedOut
from mqstore.client.producer.message.outgoing import Outgoing
from mqstore.client.producer.queues.publish_routes import PublishRoute
from mqstore.client.producer.send_result import SendResult
from mqstore.client.producer.sends.awaited_future import AwaitedFuture
from mqstore.client.producer.sends.send_hooks import CommunicationMode, SendMessageContext
from mqstore.client.producer.sends.send_kernel import Begun, SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.store.errors import StoreClosed, StoreError, StoreFull, StorePoisoned

__all__ = ["AsyncSend", "Begin", "SendFuture"]

# The broker was not asked, or did not answer.
_NO_ANSWER: Final = (BrokerNotConnected, BrokerTimedOut)
# The broker takes nothing: in one process, as if it could not be reached.
_NO_STORE: Final = (StoreFull, StorePoisoned, StoreClosed)

Result = TypeVar("Result", bound=SendResult)
Begin: TypeAlias = Callable[[float], Begun]
"""Checks and prepares a send that began at a time of the timer."""


class SendFuture(AwaitedFuture[Result]):
    """The `SendResult` to come: `result()` in a thread, `await` in asyncio.

    `cancel` succeeds until a sender thread takes the message; it is not sent then.
    """


class SendsUnderWay(Protocol):
    """What is common to all sends of a producer (async_sends.py)."""

    parts: SendParts
    kernel: SendKernel

    def take_permits(self, send: "AsyncSend") -> bool:
        """Wait for the permits of back pressure; False if the time is over, and the send has failed."""
        ...

    def await_answer(self, send: "AsyncSend", future: "Future[Any]") -> None:
        """Call `answered` of the send, or `expire`, later."""
        ...

    def is_taken(self, send: "AsyncSend") -> bool:
        """Whether another thread goes on with the send already; else this one may, and no other."""
        ...

    def give_back(self, size_bytes: int | None) -> None:
        """Give back the permits of back pressure."""
        ...


class AsyncSend:
    """One send that is under way."""

    __slots__ = (
        "_attempt_s",
        "_begin",
        "_begin_s",
        "_caller",
        "_context",
        "_outgoing",
        "_queue",
        "_route",
        "_sends",
        "_times",
        "_tried",
        "future",
        "permits",
        "size_bytes",
        "timeout_ms",
        "topic",
    )

    def __init__(
        self, sends: SendsUnderWay, topic: str, size_bytes: int, begin: Begin, timeout_ms: int
    ) -> None:
        self.topic = topic
        self.size_bytes = size_bytes
        self.timeout_ms = timeout_ms
        self.future: SendFuture[Any] = SendFuture()
        # Bytes of back pressure that it has taken; None while it has none.
        self.permits: int | None = None
        self._sends = sends
        self._begin = begin
        self._begin_s = self._attempt_s = sends.parts.timer()
        self._times = 0
        self._tried: set[str] = set()
        self._context: SendMessageContext | None = None
        # None where there is no hook: then the send does nothing for hooks.
        self._caller = contextvars.copy_context() if sends.parts.hooks.registered else None
        self._outgoing: Outgoing
        self._queue: MessageQueue
        self._route: PublishRoute | None

    def cost_ms(self) -> int:
        """What it has taken so far."""
        return self._sends.parts.cost_ms(self._begin_s)

    def remaining_ms(self) -> int:
        """What is left of its time."""
        return self.timeout_ms - self.cost_ms()

    # -- one pass -------------------------------------------------------------------------------------

    def run_with_permits(self) -> None:
        """As `run`, after waiting for the permits."""
        if self.future.set_running_or_notify_cancel() and self._sends.take_permits(self):
            self._pass()

    def run(self) -> None:
        """Prepare it and hand it over, in a sender thread."""
        if self.future.set_running_or_notify_cancel():
            self._pass()
        else:
            self._sends.give_back(self.permits)

    def _pass(self) -> None:
        try:
            if self.remaining_ms() <= 0:
                raise SendTimedOut(self.topic, self.timeout_ms, self.cost_ms())
            self._outgoing, queue, self._route = self._begin(self._begin_s)
            self._sends.kernel.remaining_ms(self.topic, self._begin_s, self.timeout_ms)
            if self._caller is not None:
                self._call_hooks(self._caller, queue)
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the future
            self.fail(error)
            return
        self._attempts(queue)

    def _call_hooks(self, caller: contextvars.Context, queue: MessageQueue) -> None:
        """Once for all attempts, as in RocketMQ; with the context variables of the caller: its trace."""
        before = self._sends.parts.hooks.before
        self._context = caller.run(before, self._outgoing, queue, CommunicationMode.ASYNC)
        if self._context is not None:
            self._outgoing = self._context.outgoing

    def _attempts(self, queue: MessageQueue | None) -> None:
        while queue is not None:
            queue = self._attempt(queue)

    def _attempt(self, queue: MessageQueue) -> MessageQueue | None:
        """Hand it over; the queue for another attempt that can begin at once."""
        self._queue, self._attempt_s = queue, self._sends.parts.timer()
        try:
            broker = self._sends.kernel.broker_of(queue)
            future = self._outgoing.send_async(broker, queue, max(0, self.remaining_ms()))
        except Exception as error:  # noqa: BLE001 - as above
            self._tell(is_isolated=True, is_reachable=False)
            return self._next_queue(error)
        if future.done():
            return self._take_answer(future)
        self._sends.await_answer(self, future)
        return None

    # -- the answer -----------------------------------------------------------------------------------

    def answered(self, future: "Future[Any]") -> None:
        """Go on when the broker has answered, in a callback thread."""
        if not self._sends.is_taken(self):
            self._attempts(self._take_answer(future))

    def expire(self) -> None:
        """End it, since the broker has not answered in time."""
        if not self._sends.is_taken(self):
            self._tell(is_isolated=True, is_reachable=True)
            self._attempts(self._next_queue(BrokerTimedOut(self._queue.broker_name, self.timeout_ms)))

    def _take_answer(self, future: "Future[Any]") -> MessageQueue | None:
        try:
            answer = future.result()
            result = self._outgoing.result_of(self._queue, answer)
        except Exception as error:  # noqa: BLE001 - as above
            self._tell(is_isolated=True, is_reachable=True)
            return self._next_queue(error)
        self._tell(is_isolated=False, is_reachable=True)
        self._end(result, None)
        return None

    def _next_queue(self, error: Exception) -> MessageQueue | None:
        """The queue for another attempt; None if there is none, and the send has failed with `error`."""
        self._times += 1
        self._sends.parts.heed(self.topic, error)
        most = self._sends.parts.settings.retry_times_when_send_async_failed
        if not _may_try_again(error) or self._times > most or self.remaining_ms() <= 0:
            self.fail(error)
            return None
        if self._route is None:
            return self._queue
        other = self._other_queue(self._route)
        # The request stays what it is, its queue id as well, where the other broker has that queue.
        same = self._queue._replace(broker_name=other.broker_name)
        return same if same in self._route.queues else other

    def _other_queue(self, route: PublishRoute) -> MessageQueue:
        """One choice away from the last broker; again, if it was tried, so that three brokers are all asked.

        Attempts are made in different threads, each with its own turns.
        """
        last, select = self._queue.broker_name, self._sends.parts.selector.select
        self._tried.add(last)
        other = select(route, last)
        for _ in route.queues:
            if other.broker_name not in self._tried:
                break
            other = select(route, last)
        return other

    def _tell(self, *, is_isolated: bool, is_reachable: bool) -> None:
        parts = self._sends.parts
        parts.faults.update(
            self._queue.broker_name,
            parts.cost_ms(self._attempt_s),
            is_isolated=is_isolated,
            is_reachable=is_reachable,
        )

    # -- the end --------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """End it with an error."""
        self._end(None, error)

    def _end(self, result: SendResult | None, error: Exception | None) -> None:
        self._sends.give_back(self.permits)
        if self._context is not None:
            self._context.retries = self._times if error is None else max(0, self._times - 1)
            self._sends.parts.hooks.after(self._context, result, error)
        if error is not None:
            self.future.set_exception(error)
        elif result is not None:
            self.future.set_result(result)


def _may_try_again(error: Exception) -> bool:
    if isinstance(error, ClientError):
        return isinstance(error, _NO_ANSWER)
    return isinstance(error, _NO_STORE) or not isinstance(error, StoreError)
