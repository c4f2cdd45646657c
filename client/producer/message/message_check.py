"""The checks of a message before it is sent: those that need no broker.

A broker checks again, and more (properties, queue, permission).
Source: docs/spec/client_produce.md section 2; Validators#checkMessage of Apache RocketMQ.
"""

from typing import Final

from mqstore.store.errors import MessageIllegal, MessageTooLarge, NoPermission, TopicIllegal
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import refuse_mistyped
from mqstore.store.message.topic_names import MAX_TOPIC_LENGTH, NOT_ALLOWED_SEND_TOPICS, check_topic

__all__ = ["check_body_size", "check_message", "check_topic_to_send"]

_BODY: Final = (bytes, bytearray, memoryview)


def check_message(message: Message, max_message_size: int) -> None:
    """Raise MessageIllegal, TopicIllegal, MessageTooLarge or NoPermission for what no broker would take."""
    if not isinstance(message, Message) or not isinstance(message.body, _BODY):
        refuse_mistyped(message)
    check_topic_to_send(message.topic)
    if not message.body:
        raise MessageIllegal(
            "the body is empty: a producer sends at least one byte (a store takes empty bodies)",
            value=message.body,
            limit="at least one byte",
        )
    check_body_size("the body", len(message.body), max_message_size)


def check_topic_to_send(topic: str) -> None:
    """Raise TopicIllegal for a name that no topic may have, NoPermission for a topic of the brokers' own."""
    check_topic(topic)
    if len(topic) > MAX_TOPIC_LENGTH:
        raise TopicIllegal(
            f"topic {topic!r} has {len(topic)} characters: a producer sends to topics of at most "
            f"{MAX_TOPIC_LENGTH}",
            value=topic,
            limit=MAX_TOPIC_LENGTH,
        )
    if topic in NOT_ALLOWED_SEND_TOPICS:
        raise NoPermission(topic, 0, "send to it (it is a broker's own)")


def check_body_size(name: str, size: int, max_message_size: int) -> None:
    """Raise MessageTooLarge for more bytes than the producer's `max_message_size`."""
    if size > max_message_size:
        raise MessageTooLarge(
            f"{name} has {size} bytes, more than max_message_size = {max_message_size} of the producer: "
            "split it, or set that higher here and in the stores",
            value=size,
            limit=max_message_size,
        )
