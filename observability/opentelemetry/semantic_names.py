"""The names of OpenTelemetry's semantic conventions for messaging that mqstore uses.

Those for RocketMQ are the names that the published Python package of conventions has (0.66b2); newer drafts
call some of them `rocketmq.*`. Names of ours begin with `mqstore.`.
Source: docs/messaging/rocketmq.md, messaging-spans.md and messaging-metrics.md of OpenTelemetry's semantic
conventions. A test compares with that package.
"""

from typing import Final

__all__ = [
    "BATCH_MESSAGE_COUNT",
    "BODY_SIZE",
    "CONSUMED_MESSAGES",
    "CONSUMER_GROUP",
    "DELAY_LEVEL",
    "DESTINATION",
    "DISPOSITION",
    "ERROR_TYPE",
    "KEYS",
    "MESSAGE_ID",
    "OPERATION_DURATION",
    "OPERATION_NAME",
    "OPERATION_TYPE",
    "PARTITION",
    "PROCESS_DURATION",
    "PRODUCER_GROUP",
    "QUEUE_OFFSET",
    "RECONSUME_TIMES",
    "ROCKETMQ",
    "SENT_MESSAGES",
    "SYSTEM",
    "TAG",
]

SYSTEM: Final = "messaging.system"
ROCKETMQ: Final = "rocketmq"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
PRODUCER_GROUP: Final = "messaging.rocketmq.client_group"
MESSAGE_ID: Final = "messaging.message.id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_MESSAGE_COUNT: Final = "messaging.batch.message_count"
TAG: Final = "messaging.rocketmq.message.tag"
KEYS: Final = "messaging.rocketmq.message.keys"
DELAY_LEVEL: Final = "messaging.rocketmq.message.delay_time_level"
ERROR_TYPE: Final = "error.type"

SENT_MESSAGES: Final = "messaging.client.sent.messages"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"
OPERATION_DURATION: Final = "messaging.client.operation.duration"
PROCESS_DURATION: Final = "messaging.process.duration"

RECONSUME_TIMES: Final = "mqstore.message.reconsume_times"
QUEUE_OFFSET: Final = "mqstore.message.queue_offset"
DISPOSITION: Final = "mqstore.disposition"
