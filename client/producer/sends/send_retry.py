"""The send retry: one SYNC send with all its attempts.

    choose a queue -> is there time left? -> ask its broker -> stored, or try another one, or raise

All attempts share one budget of time, and none waits before it begins. A message that may have been stored
(a time-out, a disk that failed) is tried again, too: it can be stored twice, with the same UNIQ_KEY.

Nearly every send ends with its first attempt. For messages of the plain kind that one is written out in
plain_send.py; `go_on` has what follows.
Threads: any. Durability: as the broker's result says.
Source: docs/spec/client_produce.md section 2; DefaultMQProducerImpl#sendDefaultImpl.
"""

from typing import Final, NamedTuple

import msgspec

from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import (
    BrokerNotConnected,
    BrokerTimedOut,
    ClientError,
    SendFailed,
    SendTimedOut,
)
from mqstore.client.producer.message.outgoing import Outgoing, OutgoingMessage
from mqstore.client.producer.queues.publish_routes import PublishRoute
from mqstore.client.producer.send_result import SendResult, SendStatus
from mqstore.client.producer.sends.send_kernel import SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.store.errors import MessageIllegal, StoreError
from mqstore.store.message.message import Message
from mqstore.store.record.properties_format import UNIQ_KEY

__all__ = ["FirstAttempt", "SendRetry", "fault_of"]

_REMOTING_ERRORS: Final = (BrokerNotConnected, BrokerTimedOut, SendTimedOut)
"""Errors on the way to a broker (RemotingException): it is avoided for a while."""


class FirstAttempt(NamedTuple):
    """The attempt of a plain send: at a queue, after `begin_s` of the timer, by a route of the topic."""

    message: Message
    unique_key: str
    queue: MessageQueue
    begin_s: float
    route: PublishRoute


class SendRetry:
    """Sends until a broker has stored the message, or attempts or time are used up."""

    def __init__(self, parts: SendParts, kernel: SendKernel) -> None:
        self._parts = parts
        self._kernel = kernel
        self._timer = parts.timer

    def send(self, message: Message, timeout_ms: int) -> SendResult:
        """Send one message to a queue in turn. Raises as `Producer.send`."""
        begin_s = self._timer()
        self._parts.check(message)
        route = self._parts.routes.find(message.topic, begin_s)
        attempts = _Attempts(self._parts, self._kernel, route, begin_s, timeout_ms)
        return attempts.run(self._parts.outgoing(message))

    def go_on(self, first: FirstAttempt, timeout_ms: int, outcome: SendResult | StoreError) -> SendResult:
        """Go on after the first attempt of a plain send, which failed, or was not as good as it should be."""
        message, unique_key, queue, begin_s, route = first
        attempts = _Attempts(self._parts, self._kernel, route, begin_s, timeout_ms)
        if isinstance(outcome, StoreError):
            attempts.failed(queue, outcome)
        else:
            attempts.stored(queue, outcome)
        sent = msgspec.structs.replace(message, properties={UNIQ_KEY: unique_key})
        return attempts.run(OutgoingMessage(sent, unique_key))

    def send_outgoing(self, outgoing: Outgoing, begin_s: float, timeout_ms: int) -> SendResult:
        """Send what is prepared already to a queue in turn. Raises as `Producer.send`."""
        route = self._parts.routes.find(outgoing.message.topic, begin_s)
        return _Attempts(self._parts, self._kernel, route, begin_s, timeout_ms).run(outgoing)


class _Attempts:
    """The attempts of one send. For one thread."""

    __slots__ = (
        "_begin_s",
        "_brokers_sent",
        "_errors",
        "_kernel",
        "_parts",
        "_result",
        "_route",
        "_timeout_ms",
    )

    def __init__(
        self, parts: SendParts, kernel: SendKernel, route: PublishRoute, begin_s: float, timeout_ms: int
    ) -> None:
        self._parts = parts
        self._kernel = kernel
        self._route = route
        self._begin_s = begin_s
        self._timeout_ms = timeout_ms
        self._brokers_sent: list[str] = []
        self._errors: list[StoreError] = []
        # Of an attempt after which the message is stored, but not as well as it should be.
        self._result: SendResult | None = None

    def run(self, outgoing: Outgoing) -> SendResult:
        """Try until it is stored. Raises what is final, SendTimedOut, SendFailed."""
        parts, topic = self._parts, self._route.topic
        total = 1 + parts.settings.retry_times_when_send_failed
        timed_out: SendTimedOut | None = None
        while len(self._brokers_sent) < total:
            last = self._brokers_sent[-1] if self._brokers_sent else None
            queue = parts.selector.select(self._route, last, is_again=last is not None)
            cost_ms = parts.cost_ms(self._begin_s)
            if self._timeout_ms < cost_ms:
                timed_out = SendTimedOut(topic, self._timeout_ms, cost_ms)
                break
            result = self._attempt(outgoing, queue, self._time_for_one(cost_ms, total))
            if result is not None:
                return result
        if self._result is not None:
            return self._result
        last_error = self._errors[-1] if self._errors else None
        if timed_out is not None or last_error is None:
            assert timed_out is not None, "a send without an attempt has no time"
            raise timed_out from last_error
        cost_ms = parts.cost_ms(self._begin_s)
        raise SendFailed(topic, self._errors, self._brokers_sent, cost_ms) from last_error

    def _time_for_one(self, cost_ms: int, total: int) -> int:
        """Milliseconds for the next attempt. The last one has all that is left."""
        remaining_ms = self._timeout_ms - cost_ms
        most_ms = self._parts.settings.send_msg_max_timeout_per_request
        is_last = len(self._brokers_sent) + 1 >= total
        return remaining_ms if most_ms < 0 or is_last else min(most_ms, remaining_ms)

    def _attempt(self, outgoing: Outgoing, queue: MessageQueue, timeout_ms: int) -> SendResult | None:
        """One attempt; None if another one may follow."""
        parts = self._parts
        begin_s = parts.timer()
        is_isolated, is_reachable = False, True
        try:
            result = self._kernel.attempt(outgoing, queue, timeout_ms, len(self._brokers_sent))
        except StoreError as error:
            is_isolated, is_reachable = fault_of(error, is_detecting=parts.faults.is_detecting)
            return self.failed(queue, error)
        finally:
            parts.faults.update(
                queue.broker_name,
                parts.cost_ms(begin_s),
                is_isolated=is_isolated,
                is_reachable=is_reachable,
            )
        return self.stored(queue, result)

    def stored(self, queue: MessageQueue, result: SendResult) -> SendResult | None:
        """Note an attempt that stored the message; its result, or None if another attempt shall follow."""
        self._brokers_sent.append(queue.broker_name)
        self._result = result
        wants_another = self._parts.settings.retry_another_broker_when_not_store_ok
        return None if wants_another and result.send_status is not SendStatus.SEND_OK else result

    def failed(self, queue: MessageQueue, error: StoreError) -> SendResult | None:
        """Note an attempt that failed. Raises `error` if no other may follow and none has stored it."""
        self._brokers_sent.append(queue.broker_name)
        self._errors.append(error)
        self._parts.heed(queue.topic, error)
        if self._may_try_again(error):
            return None
        if self._result is None:
            raise error
        return self._result

    def _may_try_again(self, error: StoreError) -> bool:
        if isinstance(error, ClientError):
            return True
        # Some of these have a code that says otherwise, but no broker takes such a message.
        if isinstance(error, MessageIllegal):
            return False
        return error.response_code in self._parts.settings.retry_response_codes


def fault_of(error: StoreError, *, is_detecting: bool) -> tuple[bool, bool]:
    """What an error says of a broker: whether it is to be isolated, whether it can be reached."""
    if isinstance(error, _REMOTING_ERRORS):
        return True, not is_detecting
    if isinstance(error, ClientError):
        return False, True
    return True, False
