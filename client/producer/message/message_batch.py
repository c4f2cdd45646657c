"""The batch: messages that are sent together to one queue, which gets all or none of them.

A broker stores each as a message of its own. Together they count against `max_message_size` of the producer,
as they would be encoded for the wire (store/record/batch_format.py), and none is compressed.
Pure functions: any thread.
Source: docs/spec/client_produce.md section 5; MessageBatch, DefaultMQProducer#batch of Apache RocketMQ.
"""

from collections.abc import Sequence
from typing import Final

from mqstore.client.errors import BatchIllegal
from mqstore.client.producer.message.message_check import check_body_size, check_message
from mqstore.client.producer.message.outgoing import OutgoingBatch, with_unique_key
from mqstore.client.producer.message.unique_id import UniqueIds
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.message_encoder import refuse_mistyped
from mqstore.store.message.message_properties import properties_of
from mqstore.store.message.topic_names import is_retry_topic
from mqstore.store.record.batch_format import ELEMENT_BYTES
from mqstore.store.record.properties_format import DELAY, TAGS, TIMER_REQUESTS, UNIQ_KEY, WAIT

__all__ = ["is_delayed", "make_batch"]

_ZERO: Final = 0
_MOST_UTF8_BYTES: Final = 4
# Of an element with UNIQ_KEY, TAGS and WAIT, each with its two separators.
_PLAIN_BYTES: Final = ELEMENT_BYTES + len(UNIQ_KEY) + len(TAGS) + len(WAIT) + len("false") + 3 * 2


def make_batch(messages: Sequence[Message], max_message_size: int, ids: UniqueIds) -> OutgoingBatch:
    """Check messages and make one batch of them, each with its UNIQ_KEY.

    Raises BatchIllegal, and for a single message what a send of it alone would raise.
    """
    messages = list(messages)
    if not messages:
        raise BatchIllegal("the batch is empty: send at least one message")
    first = messages[0]
    _check(first, first, max_message_size)
    prepared: list[Message] = []
    unique_keys: list[str] = []
    most_bytes = 0
    for message in messages:
        if not _is_plain(message, first):
            _check(message, first, max_message_size)
        sent, unique_key = with_unique_key(message, ids)
        prepared.append(sent)
        unique_keys.append(unique_key)
        most_bytes += _most_bytes(sent, unique_key)
    if most_bytes > max_message_size:
        size = sum([_encoded_bytes(message) for message in prepared])
        check_body_size("the batch", size, max_message_size)
    return OutgoingBatch(prepared, unique_keys)


def _is_plain(message: Message, first: Message) -> bool:
    """Whether there is nothing to check: most messages of a batch are like its first one."""
    return (
        type(message) is Message
        and message.topic == first.topic
        and type(message.body) is bytes
        and len(message.body) > 0
        and message.properties is NO_PROPERTIES
        and message.delay_level is _ZERO
        and message.wait_store_msg_ok is first.wait_store_msg_ok
    )


def _check(message: Message, first: Message, max_message_size: int) -> None:
    check_message(message, max_message_size)
    try:
        delayed = is_delayed(message)
    except (TypeError, AttributeError):
        refuse_mistyped(message)
        raise
    if delayed:
        raise BatchIllegal("a message of the batch asks for a delay: send it alone", value=message)
    if is_retry_topic(message.topic):
        raise BatchIllegal(
            f"a message of the batch goes to {message.topic!r}, a retry topic: send it alone", value=message
        )
    if message.topic != first.topic:
        raise BatchIllegal(
            f"the batch has messages to {first.topic!r} and to {message.topic!r}: send one batch a topic",
            value=message.topic,
            limit=first.topic,
        )
    if message.wait_store_msg_ok is not first.wait_store_msg_ok:
        raise BatchIllegal(
            "some messages of the batch have wait_store_msg_ok, others have not: send two batches",
            value=message.wait_store_msg_ok,
            limit=first.wait_store_msg_ok,
        )


def is_delayed(message: Message) -> bool:
    """Whether a message asks for a delay, by level or by time."""
    level = message.properties.get(DELAY, "")
    return (
        message.delay_level > 0
        or (level.isdigit() and int(level) > 0)
        or any(name in message.properties for name in TIMER_REQUESTS)
    )


def _encoded_bytes(message: Message) -> int:
    """What a message takes in the body of a batch."""
    return ELEMENT_BYTES + len(message.body) + len(properties_of(message))


def _most_bytes(message: Message, unique_key: str) -> int:
    """At least what `_encoded_bytes` says, without encoding anything."""
    if message.keys or len(message.properties) > 1:
        return _encoded_bytes(message)
    tags = message.tags
    texts = len(unique_key) + (len(tags) if tags else 0)
    return _PLAIN_BYTES + len(message.body) + _MOST_UTF8_BYTES * texts
