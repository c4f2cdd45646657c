"""Producers and consumers with RocketMQ's behaviour, over a `Broker`: an embedded one, say."""

from mqstore.broker.broker import MessageModel, MessageQueue
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consume_hooks import ConsumeMessageContext, ConsumeMessageHook, ConsumeReturnType
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    MessageListener,
    MessageListenerConcurrently,
)
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.received_message import ReceivedMessage
from mqstore.client.consumer_errors import ConsumerClosed, ConsumerNotReady, ConsumerStarted, ListenerIllegal
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.client.dead_letters.dead_letter import DeadLetter, DeadLetterNotFound, DeadLetterNotSendable
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import DeadLetters, Resent

__all__ = [
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeMessageContext",
    "ConsumeMessageHook",
    "ConsumeReturnType",
    "ConsumeStatus",
    "ConsumerClosed",
    "ConsumerNotReady",
    "ConsumerSettings",
    "ConsumerStarted",
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLetterNotFound",
    "DeadLetterNotSendable",
    "DeadLetters",
    "EmbeddedBroker",
    "ListenerIllegal",
    "MessageListener",
    "MessageListenerConcurrently",
    "MessageModel",
    "MessageQueue",
    "PushConsumer",
    "ReceivedMessage",
    "Resent",
    "SendBackRefused",
]
