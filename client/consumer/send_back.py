"""The send-back of a client: a message that the listener failed on comes again later, by one of two ways.

    1  its broker copies its record                     Broker.send_message_back
    2  if that fails, the message is put by the client  Broker.send, to %RETRY%group of that broker,
                                                        or of another one if it refuses

If both fail the message stays with the consumer, which hands it out again itself (consume_service.py). So
does a record that was damaged in the log, which has no message to send.
The message of the second way, by docs/spec/client_consume.md section 4:

    topic                 %RETRY%group, body and flag copied, and all properties but those below
    ORIGIN_MESSAGE_ID     kept, or the message's id: its UNIQ_KEY, else its offset message id
    RETRY_TOPIC           the topic that the listener saw
    RECONSUME_TIME        reconsume times + 1
    MAX_RECONSUME_TIMES   of this consumer
    TRAN_MSG              removed
    DELAY                 3 + reconsume times, whatever level was asked for; that of the consumer's retry
                          policy, if it has one

When a message is dead is decided by the broker (schedule/retry/). Threads: any.
Durability: a message that was sent back is as durable as a put. Source: DefaultMQPushConsumerImpl
#sendMessageBack.
"""

import itertools
import logging
from collections.abc import Callable, Mapping

from mqstore.broker.broker import Broker
from mqstore.client.consumer.send_back_hooks import SendBackContext, SendBackHooks
from mqstore.schedule.retry.retry_policy import retry_or_dead_letter
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import retry_topic
from mqstore.store.record.properties_format import (
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
)
from mqstore.store.record.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK
from mqstore.store.status import Disposition

__all__ = ["RetryDelay", "SendBack", "retry_message"]

_logger = logging.getLogger(__name__)

RetryDelay = Callable[[int], int]
"""(reconsume times, 0 at the first failure) -> milliseconds until the next attempt."""

_SEND_BACK_TIMEOUT_MS = 5_000
_SEND_TIMEOUT_MS = 3_000
_TRANSACTION_PREPARED = "TRAN_MSG"
_FIRST_DELAY_LEVEL = 3


class SendBack:
    """Sends messages back for one consumer."""

    def __init__(
        self,
        brokers: Mapping[str, Broker],
        group: str,
        max_reconsume_times: int,
        retry_policy: RetryDelay | None = None,
        hooks: SendBackHooks | None = None,
    ) -> None:
        """brokers: by name. max_reconsume_times: of the consumer, whatever the group's settings say.

        retry_policy: says how long a message waits for which the listener names no level. hooks: called
        around each message.
        """
        self._brokers = brokers
        self._group = group
        self._max_reconsume_times = max_reconsume_times
        self._retry_policy = retry_policy
        self._hooks = hooks or SendBackHooks()
        self._turns = itertools.count()

    def send_back(self, message: StoredMessage, delay_level: int, broker_name: str) -> bool:
        """Have a message of this broker come again; False if neither way has worked, which is logged.

        delay_level: 0 for the policy's, or the broker's rule; negative for a dead letter at once.
        """
        if not self._can_send(message):
            return False
        if not self._hooks.registered:
            return self._send_back(message, delay_level, broker_name)
        times = message.reconsume_times - getattr(message, "local_reconsume_times", 0)
        decision = retry_or_dead_letter(times, delay_level, self._max_reconsume_times)
        context = SendBackContext(self._group, message, delay_level, decision.disposition)
        return self._hooks.around(context, lambda: self._send_back(message, delay_level, broker_name))

    def _can_send(self, message: StoredMessage) -> bool:
        """Whether there is a message: of a record that is damaged there is none to send, which is logged."""
        if not message.is_whole:
            self._log_failure(
                message,
                "group %s cannot send back %s: it comes again from memory. `mqstore verify` finds its place, "
                "and with a store that `mqstore repair` has filled the group goes on",
            )
        return message.is_whole

    def _log_failure(self, message: StoredMessage, text: str, *errors: Exception) -> None:
        """text: with places for the group, the message and the errors."""
        is_whole = message.is_whole
        log_event(
            _logger,
            events.SEND_BACK_FAILED,
            text,
            *(self._group, message, *errors),
            consumer_group=self._group,
            topic=message.topic if is_whole else "",
            message_id=(message.unique_key or message.msg_id) if is_whole else "",
        )

    def _send_back(self, message: StoredMessage, delay_level: int, broker_name: str) -> bool:
        try:
            broker = self._brokers[broker_name]
            broker.send_message_back(
                self._group,
                message,
                delay_level=delay_level or self._policy_level(message, broker),
                max_reconsume_times=self._max_reconsume_times,
                timeout_ms=_SEND_BACK_TIMEOUT_MS,
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, there is a second way
            return self._put(message, broker_name, error)
        return True

    def _policy_level(self, message: StoredMessage, broker: Broker) -> int:
        """The delay level of the policy; 0 without one, and where it has failed, which is logged."""
        if self._retry_policy is None:
            return 0
        try:
            delay_ms = self._retry_policy(message.reconsume_times)
            if type(delay_ms) is not int or delay_ms < 0:
                raise TypeError(f"it answered {delay_ms!r}: give milliseconds, a whole number from 0 on")
        except Exception:
            _logger.exception(
                "the retry policy of group %s failed for %s, which waits as without one", self._group, message
            )
            return 0
        return broker.delay_level_of(delay_ms)

    def _put(self, message: StoredMessage, broker_name: str, first_error: Exception) -> bool:
        error = self._put_to_retry_topic(message, broker_name)
        if error is not None:
            text = "group %s can send back %s neither so (%s) nor so (%s): it comes again from memory"
            self._log_failure(message, text, first_error, error)
            return False
        _logger.info("group %s has put %s itself, for: %s", self._group, message, first_error)
        return True

    def send_to_retry_topic(self, message: StoredMessage, broker_name: str) -> bool:
        """Put a message by the second way alone, as consumers in order do; False if that fails.

        The broker makes it a dead letter, since its group consumes in order.
        """
        if not self._can_send(message):
            return False
        if not self._hooks.registered:
            return self._send_to_retry_topic(message, broker_name)
        context = SendBackContext(self._group, message, 0, Disposition.DEAD_LETTER)
        return self._hooks.around(context, lambda: self._send_to_retry_topic(message, broker_name))

    def _send_to_retry_topic(self, message: StoredMessage, broker_name: str) -> bool:
        error = self._put_to_retry_topic(message, broker_name)
        if error is not None:
            text = "group %s cannot put %s to its retry topic (%s): it comes again from memory"
            self._log_failure(message, text, error)
        return error is None

    def _put_to_retry_topic(self, message: StoredMessage, broker_name: str) -> Exception | None:
        """Put a copy as an ordinary message to the first broker that takes it; an error if none does."""
        first_error: Exception | None = None
        for name in sorted(self._brokers, key=lambda name: (name != broker_name, name)):
            try:
                self._put_at(self._brokers[name], message)
            except Exception as error:  # noqa: BLE001 - another broker may take it; if not, the caller keeps it
                first_error = first_error or error
            else:
                return None
        return first_error

    def _put_at(self, broker: Broker, message: StoredMessage) -> None:
        route = broker.topic_route(retry_topic(self._group))
        queue_id = 0 if route is None else next(self._turns) % max(1, route.write_queue_nums)
        copy = retry_message(
            message,
            self._group,
            self._max_reconsume_times,
            queue_id,
            delay_level=self._policy_level(message, broker),
        )
        # A disk or a replica that was slow is told of in the result: the message is stored.
        broker.send(copy, timeout_ms=_SEND_TIMEOUT_MS)

    def __repr__(self) -> str:
        return f"SendBack({self._group!r}, max_reconsume_times={self._max_reconsume_times})"


def retry_message(
    message: StoredMessage, group: str, max_reconsume_times: int, queue_id: int, *, delay_level: int = 0
) -> Message:
    """The message to put for one that could not be sent back. delay_level: 0 for 3 + reconsume times."""
    properties = dict(message.properties)
    for name in (_TRANSACTION_PREPARED, DELAY):
        properties.pop(name, None)
    if not properties.get(ORIGIN_MESSAGE_ID, "").strip():
        properties[ORIGIN_MESSAGE_ID] = message.unique_key or message.msg_id
    reconsume_times = message.reconsume_times + 1
    properties[RETRY_TOPIC] = message.topic
    properties[RECONSUME_TIME] = str(reconsume_times)
    properties[MAX_RECONSUME_TIMES] = str(max_reconsume_times)
    return Message(
        retry_topic(group),
        message.stored_body_view,
        queue_id=queue_id,
        delay_level=delay_level or _FIRST_DELAY_LEVEL + message.reconsume_times,
        properties=properties,
        flag=message.flag,
        sys_flag=message.stored_sys_flag & (COMPRESSED | COMPRESSION_TYPE_MASK),
        reconsume_times=reconsume_times,
    )
