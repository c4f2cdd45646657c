"""Producers and consumers with RocketMQ's behaviour, for programs that hold a MessageStore."""

from mqstore.client.consumer.consume_from_where import ConsumeFromWhere
from mqstore.client.consumer.listener import ConsumeContext, ConsumeStatus
from mqstore.client.consumer.push_consumer import MessageListener, PushConsumer, SendBackRefused
from mqstore.client.consumer.received_message import ReceivedMessage

__all__ = [
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeStatus",
    "MessageListener",
    "PushConsumer",
    "ReceivedMessage",
    "SendBackRefused",
]
