"""The plain send: `Producer.send` for the messages that nearly all are, and their first attempt.

    is it plain? -> the next queue of its route -> a UNIQ_KEY -> a broker -> its result

A send is plain if no queue, selector or time-out was given, the route of the topic is known, and the message
has no properties and a body that is not compressed; and if the producer has no hooks, no latency faults and
so on (`allow`). What is not plain is sent otherwise (producer.py), and attempts after the first one are made
by send_retry.py.

It is one function that keeps what it needs in its variables: around a put that takes a microsecond each call
and each look-up counts. A broker of this process may put the message directly (`put_sent`), without a second
`Message`. A wheel has the same as compiled code (direct_send.py).
Threads: any may send. `allow` is called by one at a time, and a send that has begun goes on.
"""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from mqstore.broker.broker import MessageQueue
from mqstore.client.producer.queues.queue_selector import MessageQueueSelector
from mqstore.client.producer.send_result import SendResult
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.client.producer.sends.send_retry import FirstAttempt, SendRetry
from mqstore.store.errors import StoreError
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.record.properties_format import UNIQ_KEY
from mqstore.store.status import PutMessageStatus

__all__ = ["OtherwiseSend", "Send", "plain_send"]


class Send(Protocol):
    """`Producer.send`."""

    def __call__(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message."""
        ...


OtherwiseSend = Callable[
    [Message, MessageQueue | None, MessageQueueSelector | None, Any, int | None], SendResult
]


def plain_send(
    parts: SendParts, retry: SendRetry, send_otherwise: OtherwiseSend
) -> tuple[Send, Callable[[bool], None]]:
    """The `send` of one producer, and `allow`, which says whether its sends may be plain: at first not."""
    settings, ids = parts.settings, parts.ids
    # Bodies from here on are too long, or to be compressed.
    plain_below = min(settings.compress_msg_body_over_howmuch, settings.max_message_size + 1)
    budget_ms = settings.send_msg_timeout
    wants_all_ok = settings.retry_another_broker_when_not_store_ok
    routes, timer, block_of_ids = parts.routes.plain, parts.timer, ids.current
    put_ok, replace = PutMessageStatus.PUT_OK, msgspec.structs.replace
    is_allowed = False

    def allow(is_plain: bool) -> None:
        nonlocal is_allowed
        is_allowed = is_plain

    def send(
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: MessageQueueSelector | None = None,
        arg: Any = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """As `Producer.send`."""
        if not is_allowed or queue is not None or selector is not None or timeout_ms is not None:
            return send_otherwise(message, queue, selector, arg, timeout_ms)
        begin_s = timer()
        try:
            topic, body = message.topic, message.body
            expires_s, turns, route = routes[topic]
            is_plain = (
                type(body) is bytes
                and 0 < len(body) < plain_below
                and message.properties is NO_PROPERTIES
                and begin_s < expires_s
            )
        except (AttributeError, TypeError, KeyError):
            # An unknown topic, or something that is no message.
            return send_otherwise(message, None, None, None, None)
        if not is_plain:
            return send_otherwise(message, None, None, None, None)
        queue, queue_id, broker, put_sent = next(turns.targets)
        if broker is None:
            return send_otherwise(message, None, None, None, None)
        renew_s, prefix, digits = block_of_ids[0]
        last = next(digits, None) if begin_s < renew_s else None
        unique_key = ids.create(begin_s) if last is None else prefix + last
        try:
            put = None if put_sent is None else put_sent(message, topic, body, queue_id, unique_key)
            if put is None:
                sent = replace(message, queue_id=queue_id, properties={UNIQ_KEY: unique_key})
                put = broker.send(sent, timeout_ms=budget_ms)
        except StoreError as error:
            outcome: SendResult | StoreError = error
        else:
            outcome = SendResult(unique_key, queue, put)
            if not wants_all_ok or put.status is put_ok:
                return outcome
        return retry.go_on(FirstAttempt(message, unique_key, queue, begin_s, route), budget_ms, outcome)

    return send, allow
