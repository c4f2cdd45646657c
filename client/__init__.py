"""Producers and consumers with RocketMQ's behaviour, over any `Broker`, such as the embedded one."""

from mqstore.broker.broker import MessageModel, MessageQueue, TransactionState
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consume_hooks import ConsumeMessageContext, ConsumeMessageHook, ConsumeReturnType
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    MessageListener,
    MessageListenerConcurrently,
)
from mqstore.client.consumer.orderly.orderly_listener import (
    ConsumeOrderlyContext,
    MessageListenerOrderly,
    OrderlyMessageListener,
)
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.received_message import ReceivedMessage
from mqstore.client.dead_letters.dead_letter import DeadLetter, DeadLetterNotFound, DeadLetterNotSendable
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import DeadLetters, Resent
from mqstore.client.errors import (
    ClientError,
    ConsumerClosed,
    ConsumerNotReady,
    ConsumerStarted,
    ListenerIllegal,
    SendFailed,
    SendTimedOut,
)
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.send_result import SendResult, SendStatus, TransactionSendResult
from mqstore.client.producer.transaction_producer import TransactionListener, TransactionProducer

__all__ = [
    "ClientError",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeMessageContext",
    "ConsumeMessageHook",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "ConsumeReturnType",
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
    "MessageListenerOrderly",
    "MessageModel",
    "MessageQueue",
    "OrderlyMessageListener",
    "Producer",
    "ProducerSettings",
    "PushConsumer",
    "ReceivedMessage",
    "Resent",
    "SendFailed",
    "SendResult",
    "SendStatus",
    "SendTimedOut",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionState",
]
