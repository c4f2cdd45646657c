"""The dead letter: what becomes of a retry that a client puts itself, when the group has failed too often.

A client whose send-back failed puts the message to `%RETRY%group` by itself. If its retries are exhausted,
the put path stores it in `%DLQ%group` instead. For a send-back, retry_policy.py decides.

`divert_exhausted_retry` is pure, without I/O. Any thread.
Source: docs/spec/schedule_and_retry.md section 8; SendMessageProcessor#handleRetryAndDLQ.
"""

import logging

import msgspec

from mqstore.store.errors import MessageIllegal
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import RETRY_GROUP_TOPIC_PREFIX, dead_letter_topic, is_retry_topic
from mqstore.store.record.properties_format import (
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
    UNIQ_KEY,
)

__all__ = ["divert_exhausted_retry", "tell_of_dead_letter"]

_logger = logging.getLogger(__name__)


def tell_of_dead_letter(group: str, message: Message | StoredMessage, reconsume_times: int) -> None:
    """Log that `group` has given up a message, which is stored in its dead letters.

    reconsume_times: of the dead letter.
    """
    properties = message.properties
    topic = properties.get(RETRY_TOPIC, message.topic)
    message_id = properties.get(UNIQ_KEY) or properties.get(ORIGIN_MESSAGE_ID, "")
    log_event(
        *(_logger, events.DEAD_LETTERED, "a message of %s is a dead letter of group %s", topic, group),
        consumer_group=group,
        topic=topic,
        message_id=message_id,
        reconsume_times=reconsume_times,
    )


def divert_exhausted_retry(
    message: Message, retry_max_times: int, *, holds_queue_lock: bool = False
) -> Message:
    """The message to store for one that a client puts to `%RETRY%group` itself, when send-back failed.

    It is diverted to queue 0 of `%DLQ%group`, with DELAY = -1, if its property RECONSUME_TIME (already
    counted up) is above the limit, or if the group holds queues in order (`holds_queue_lock`). The limit is
    its property MAX_RECONSUME_TIMES, else the group's `retry_max_times`. Messages to other topics are
    returned unchanged. The caller looks the group up and creates the topic. Raises MessageIllegal when one
    of the two properties is no whole number.
    """
    if not is_retry_topic(message.topic):
        return message
    reconsume_times = _number(message, RECONSUME_TIME, message.reconsume_times)
    limit = _number(message, MAX_RECONSUME_TIMES, retry_max_times)
    if reconsume_times <= limit and not holds_queue_lock:
        return msgspec.structs.replace(message, reconsume_times=reconsume_times)
    return msgspec.structs.replace(
        message,
        topic=dead_letter_topic(message.topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)),
        queue_id=0,
        delay_level=0,
        properties={**message.properties, DELAY: "-1"},
        reconsume_times=reconsume_times,
    )


def _number(message: Message, name: str, default: int) -> int:
    text = message.properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError:
        raise MessageIllegal(
            f"property {name} is {text!r}: give a whole number", value=text, limit="a whole number"
        ) from None
