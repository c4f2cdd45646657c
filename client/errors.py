"""Errors of clients: what a producer or a consumer raises by itself, not a store.

    StoreError
    |- ClientError                         catch this to catch all of these
    |  |- ClientNotRunning                 start it, or make another: a closed one stays closed
    |  |- NoBroker (ValueError)            10004: give the client a broker
    |  |- BrokerNotConnected               10001: the broker cannot be reached; nothing was sent
    |  |  `- BrokerConnectionLost          10001: the connection ended before the answer; it may be stored
    |  |- BrokerTimedOut (TimeoutError)    10002: no answer came in time; the message may be stored
    |  |- BrokerNotExist                   10003: the client was given no broker of this name
    |  |- TopicRouteNotFound               10005: create the topic
    |  |- RequestTimedOut (TimeoutError)   10006: the request was sent, and no reply came in time
    |  |- ReplyNotCreated                  10007: only a request that came through a broker can be replied to
    |  |- SendTimedOut (TimeoutError)      the time for the send was over before the broker was asked
    |  |- SendFailed                       all attempts failed; `errors` says how
    |  |- SendRejected                     too many asynchronous sends wait: let some end first
    |  |- QueueNotSelected                 the selector of queues raised, or chose none
    |  |- ConsumerNotReady                 register a listener, or subscribe to a topic, then start
    |  |- ConsumerStarted                  do it before `start`
    |  |- ConsumerClosed                   make another consumer
    |  |- SubscribesAndAssigned            make another consumer for the other way
    |  |- QueueNotAssigned                 only a queue that the consumer has
    |  |- OffsetOutOfRange (ValueError)    an offset between the first message and the end of the queue
    |  |- ListenerIllegal (TypeError)      give a plain function of (messages, context)
    |  `- AnswerIllegal (TypeError)        return None or a ConsumeConcurrentlyStatus; only logged
    |- BrokerRefused                       what a broker over the network answered: its `response_code`
    `- MessageIllegal
       `- BatchIllegal                     these messages cannot be sent as one batch

Numbers are RocketMQ's (ClientErrorCode) and never change. What a broker of this process answers stays the
StoreError that it is: `TopicIllegal`, `StoreFull` and the others of store/errors.py.
Source: docs/spec/client_produce.md section 2; MQClientException, RemotingException and their leaves.
"""

import enum
from collections.abc import Sequence

from mqstore.broker.broker import MessageQueue
from mqstore.store.errors import MessageIllegal, StoreError
from mqstore.store.status import ResponseCode

__all__ = [
    "AnswerIllegal",
    "BatchIllegal",
    "BrokerConnectionLost",
    "BrokerNotConnected",
    "BrokerNotExist",
    "BrokerRefused",
    "BrokerTimedOut",
    "ClientError",
    "ClientErrorCode",
    "ClientNotRunning",
    "ConsumerClosed",
    "ConsumerNotReady",
    "ConsumerStarted",
    "ListenerIllegal",
    "NoBroker",
    "OffsetOutOfRange",
    "QueueNotAssigned",
    "QueueNotSelected",
    "ReplyNotCreated",
    "RequestNotSent",
    "RequestTimedOut",
    "SendFailed",
    "SendRejected",
    "SendTimedOut",
    "SubscribesAndAssigned",
    "TopicRouteNotFound",
]


_KNOWN_CODES = frozenset(ResponseCode)


class ClientErrorCode(enum.IntEnum):
    """What went wrong in a client. A broker's own answers are `ResponseCode`s."""

    CONNECT_BROKER_EXCEPTION = 10001
    ACCESS_BROKER_TIMEOUT = 10002
    BROKER_NOT_EXIST_EXCEPTION = 10003
    NO_NAME_SERVER_EXCEPTION = 10004
    NOT_FOUND_TOPIC_EXCEPTION = 10005
    REQUEST_TIMEOUT_EXCEPTION = 10006
    CREATE_REPLY_MESSAGE_EXCEPTION = 10007


class ClientError(StoreError):
    """Root of the errors that a client raises by itself. `code` is None where RocketMQ has no number."""

    code: ClientErrorCode | ResponseCode | None = None


class ClientNotRunning(ClientError):
    """The client was not started, or it was closed. `state` is RocketMQ's ServiceState."""

    def __init__(self, client: str, state: str) -> None:
        was_closed = state == "SHUTDOWN_ALREADY"
        remedy = "was closed: make another" if was_closed else "was not started: call start(), or use `with`"
        super().__init__(f"{client} {remedy}")
        self.client = client
        self.state = state


class NoBroker(ClientError, ValueError):
    """A client was given no broker at all."""

    code = ClientErrorCode.NO_NAME_SERVER_EXCEPTION

    def __init__(self, client: str) -> None:
        super().__init__(f"{client} was given no broker: give it one or several")
        self.client = client


class BrokerNotConnected(ClientError):
    """No connection to the broker: it was not asked."""

    code = ClientErrorCode.CONNECT_BROKER_EXCEPTION

    def __init__(self, broker_name: str, reason: str) -> None:
        super().__init__(f"broker {broker_name!r} cannot be reached: {reason}")
        self.broker_name = broker_name
        self.reason = reason


class BrokerConnectionLost(BrokerNotConnected):
    """The connection ended while the broker had a request; it may have done what it was asked."""


class BrokerRefused(StoreError):
    """A broker over the network has answered with an error. remark: what it says.

    answer_code: the number of its answer; `response_code` is SYSTEM_ERROR for one that has no name here.
    """

    def __init__(self, broker_name: str, answer_code: int, remark: str | None) -> None:
        super().__init__(
            f"broker {broker_name!r} refused with code {answer_code}: {remark or 'no reason given'}"
        )
        self.broker_name = broker_name
        self.answer_code = answer_code
        self.remark = remark
        if answer_code in _KNOWN_CODES:
            self.response_code = ResponseCode(answer_code)


class BrokerTimedOut(ClientError, TimeoutError):
    """The broker did not answer in time. It may have done what it was asked, or may do it later."""

    code = ClientErrorCode.ACCESS_BROKER_TIMEOUT

    def __init__(self, broker_name: str, timeout_ms: int) -> None:
        super().__init__(
            f"broker {broker_name!r} did not answer within {timeout_ms} ms, and may have done it all the "
            "same: send a message again, with the same UNIQ_KEY, if twice is better than never"
        )
        self.broker_name = broker_name
        self.timeout_ms = timeout_ms


class BrokerNotExist(ClientError):
    """A queue is of a broker that the client was not given."""

    code = ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION

    def __init__(self, broker_name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no broker {broker_name!r}: this client knows {', '.join(map(repr, known))}"
        )
        self.broker_name = broker_name
        self.known = tuple(known)


class TopicRouteNotFound(ClientError):
    """No broker has the topic, or lets producers write to it, and none creates topics by itself."""

    code = ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION

    def __init__(self, topic: str, broker_names: Sequence[str]) -> None:
        super().__init__(
            f"no broker of {', '.join(map(repr, broker_names))} takes messages for topic {topic!r}: create "
            "the topic with permission to write, or turn auto_create_topic_enable on"
        )
        self.topic = topic
        self.broker_names = tuple(broker_names)


class RequestNotSent(ClientError):
    """A request was not sent, for the reason that is the cause."""

    def __init__(self, topic: str, correlation_id: str, cause: BaseException) -> None:
        super().__init__(f"the request {correlation_id} to topic {topic!r} was not sent: {cause}")
        self.topic = topic
        self.correlation_id = correlation_id


class RequestTimedOut(ClientError, TimeoutError):
    """A request was sent, and no reply came in time."""

    code = ClientErrorCode.REQUEST_TIMEOUT_EXCEPTION

    def __init__(self, topic: str, correlation_id: str, timeout_ms: int) -> None:
        super().__init__(
            f"the request {correlation_id} to topic {topic!r} was sent, but no reply came within "
            f"{timeout_ms} ms"
        )
        self.topic = topic
        self.correlation_id = correlation_id
        self.timeout_ms = timeout_ms


class ReplyNotCreated(ClientError):
    """The message lacks the property that says where a reply goes."""

    code = ClientErrorCode.CREATE_REPLY_MESSAGE_EXCEPTION

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the request has no property {name}, so nobody knows where its reply goes: reply only to "
            "messages that were sent with `request` and came through a broker"
        )
        self.name = name


class SendTimedOut(ClientError, TimeoutError):
    """The time for a send was over before the broker was asked (RemotingTooMuchRequestException)."""

    def __init__(self, topic: str, timeout_ms: int, cost_ms: int) -> None:
        super().__init__(
            f"the send to topic {topic!r} had {timeout_ms} ms, and after {cost_ms} ms there was no time left "
            "to ask a broker (again): give it more time (send_msg_timeout), or send less at once"
        )
        self.topic = topic
        self.timeout_ms = timeout_ms
        self.cost_ms = cost_ms


class SendFailed(ClientError):
    """All attempts of a send failed.

    code: of the last broker's answer, or 10001 to 10003; None if it was none of these. errors: of each
    attempt, in order; the last is the cause, too. brokers_sent: whom each attempt asked. If one of the
    errors is a BrokerTimedOut, BrokerConnectionLost or StorePoisoned, that broker may have stored the
    message.
    """

    def __init__(
        self, topic: str, errors: Sequence[StoreError], brokers_sent: Sequence[str], cost_ms: int
    ) -> None:
        last = errors[-1]
        super().__init__(
            f"sent {len(brokers_sent)} times to topic {topic!r} within {cost_ms} ms, still failed, at "
            f"brokers {', '.join(dict.fromkeys(brokers_sent))}: {last}"
        )
        self.topic = topic
        self.errors = tuple(errors)
        self.brokers_sent = tuple(brokers_sent)
        self.cost_ms = cost_ms
        self.code = _code_of(last)


def _code_of(error: StoreError) -> ClientErrorCode | ResponseCode | None:
    if isinstance(error, SendTimedOut):
        return None
    if isinstance(error, ClientError):
        if isinstance(error, (BrokerNotConnected, BrokerTimedOut)):
            return error.code
        return ClientErrorCode.BROKER_NOT_EXIST_EXCEPTION
    return error.response_code


class SendRejected(ClientError):
    """As many asynchronous sends wait for a thread as may wait."""

    def __init__(self, topic: str, waiting: int) -> None:
        super().__init__(
            f"the asynchronous send to topic {topic!r} was rejected: {waiting:,} others wait for a thread. "
            "Let some end first, or turn enable_backpressure_for_async_mode on"
        )
        self.topic = topic
        self.waiting = waiting


class QueueNotSelected(ClientError):
    """The selector of queues raised, which is then the cause, or returned no queue."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"no queue of topic {topic!r} was selected: the selector {reason}")
        self.topic = topic
        self.reason = reason


class ConsumerNotReady(ClientError):
    """The consumer cannot start. missing: what it lacks."""

    def __init__(self, group: str, missing: str, way_out: str) -> None:
        super().__init__(f"the consumer of group {group!r} has no {missing}: {way_out}")
        self.group = group
        self.missing = missing


class ConsumerStarted(ClientError):
    """The operation comes too late: the consumer was started."""

    def __init__(self, group: str, operation: str) -> None:
        super().__init__(f"the consumer of group {group!r} was started: {operation} before `start`, once")
        self.group = group
        self.operation = operation


class ConsumerClosed(ClientError):
    """The consumer was closed."""

    def __init__(self, group: str, operation: str) -> None:
        super().__init__(f"the consumer of group {group!r} is closed and cannot {operation}: make another")
        self.group = group
        self.operation = operation


class SubscribesAndAssigned(ClientError):
    """A lite pull consumer either subscribes, and shares with its group, or is assigned queues by hand."""

    def __init__(self, group: str, has_subscribed: bool) -> None:
        has, wants = ("subscribes to topics", "is assigned queues")
        if not has_subscribed:
            has, wants = "is assigned queues", "subscribes to topics"
        super().__init__(
            f"subscribe and assign are mutually exclusive: the consumer of group {group!r} {has}. Make "
            f"another one that {wants}"
        )
        self.group = group


class QueueNotAssigned(ClientError):
    """The consumer does not have this queue now."""

    def __init__(self, group: str, queue: MessageQueue, operation: str) -> None:
        super().__init__(
            f"the consumer of group {group!r} cannot {operation} {queue!r}: it does not have that queue now. "
            "Assign it, or wait until the group has shared its queues (see consumer.queues)"
        )
        self.group = group
        self.queue = queue


class OffsetOutOfRange(ClientError, ValueError):
    """There is no such offset in the queue."""

    def __init__(self, queue: MessageQueue, offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(
            f"offset {offset!r} of {queue!r} is illegal: give one from {min_offset} to {max_offset}"
        )
        self.queue = queue
        self.offset = offset
        self.min_offset = min_offset
        self.max_offset = max_offset


class ListenerIllegal(ClientError, TypeError):
    """The listener cannot be called with (messages, context), or its call would not consume anything."""

    def __init__(self, listener: object, reason: str) -> None:
        super().__init__(f"the listener {listener!r} {reason}: give a plain function of (messages, context)")
        self.listener = listener
        self.reason = reason


class AnswerIllegal(ClientError, TypeError):
    """The listener answered what is no status, or set something illegal on its context."""

    def __init__(self, listener: object, what: str, answer: object, wanted: str) -> None:
        super().__init__(f"the listener {listener!r} {what} {answer!r}: {wanted}")
        self.listener = listener
        self.answer = answer


class BatchIllegal(MessageIllegal):
    """These messages cannot be sent as one batch; none was sent."""
