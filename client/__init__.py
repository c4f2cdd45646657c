"""Producers and consumers with RocketMQ's behaviour, over any `Broker`, such as the embedded one."""

from mqstore.broker.broker import MessageModel, MessageQueue, TransactionState
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.broker.transaction_checks import TransactionSettings
from mqstore.client.consumer.consume_hooks import ConsumeMessageContext, ConsumeMessageHook, ConsumeReturnType
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    MessageListener,
    MessageListenerConcurrently,
)
from mqstore.client.consumer.lite_pull.lite_pull_consumer import LitePullConsumer
from mqstore.client.consumer.lite_pull.lite_pull_settings import LitePullSettings
from mqstore.client.consumer.orderly.orderly_listener import (
    ConsumeOrderlyContext,
    MessageListenerOrderly,
    OrderlyMessageListener,
)
from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.send_back_hooks import SendBackContext, SendBackHook
from mqstore.client.dead_letters.dead_letter import (
    DeadLetter,
    DeadLetterNotFound,
    DeadLetterNotSendable,
    Resent,
)
from mqstore.client.dead_letters.dead_letter_filter import DeadLetterFilter
from mqstore.client.dead_letters.dead_letters import DeadLetters, DeadMessage
from mqstore.client.errors import (
    BatchIllegal,
    BrokerConnectionLost,
    BrokerNotConnected,
    BrokerNotExist,
    BrokerRefused,
    BrokerTimedOut,
    ClientError,
    ClientNotRunning,
    ConsumerClosed,
    ConsumerNotReady,
    ConsumerStarted,
    ListenerIllegal,
    OffsetOutOfRange,
    QueueNotAssigned,
    RequestNotSent,
    RequestTimedOut,
    SendFailed,
    SendRejected,
    SendTimedOut,
    SubscribesAndAssigned,
    TopicRouteNotFound,
)
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.client.producer.message.reply_message import create_reply_message
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.queues.queue_selector import (
    SelectMessageQueueByRandom,
    select_message_queue_by_hash,
)
from mqstore.client.producer.send_result import SendResult, SendStatus, TransactionSendResult
from mqstore.client.producer.sends.send_hooks import SendMessageContext, SendMessageHook
from mqstore.client.producer.transaction_producer import TransactionListener, TransactionProducer
from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.remoting.signature import Credentials
from mqstore.schedule.retry.retry_policy import CustomizedRetryPolicy, ExponentialRetryPolicy

__all__ = [
    "BatchIllegal",
    "BrokerConnectionLost",
    "BrokerNotConnected",
    "BrokerNotExist",
    "BrokerRefused",
    "BrokerTimedOut",
    "ClientError",
    "ClientNotRunning",
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
    "Credentials",
    "CustomizedRetryPolicy",
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLetterNotFound",
    "DeadLetterNotSendable",
    "DeadLetters",
    "DeadMessage",
    "EmbeddedBroker",
    "ExponentialRetryPolicy",
    "ListenerIllegal",
    "LitePullConsumer",
    "LitePullSettings",
    "MessageListener",
    "MessageListenerConcurrently",
    "MessageListenerOrderly",
    "MessageModel",
    "MessageQueue",
    "OffsetOutOfRange",
    "OrderlyMessageListener",
    "Producer",
    "ProducerSettings",
    "PushConsumer",
    "QueueNotAssigned",
    "ReceivedMessage",
    "RemoteBroker",
    "RequestNotSent",
    "RequestTimedOut",
    "Resent",
    "SelectMessageQueueByRandom",
    "SendBackContext",
    "SendBackHook",
    "SendFailed",
    "SendMessageContext",
    "SendMessageHook",
    "SendRejected",
    "SendResult",
    "SendStatus",
    "SendTimedOut",
    "SubscribesAndAssigned",
    "TopicRouteNotFound",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionSettings",
    "TransactionState",
    "create_reply_message",
    "select_message_queue_by_hash",
]
