"""Sends as requests, and what their answers say: one message (310), a batch (320), a reply (325).

    Message -> fields under one letter each, body  ->  broker
    PutMessageResult <- msgId, queueId, queueOffset <- answer

The broker's answer does not say how long the record is, when it was stored, or how far the log is durable:
these are 0 in the result, and `durable` is False. Its status says FLUSH_DISK_TIMEOUT where the disk, or a
replica, has not confirmed in time.
Pure; any thread.
Source: docs/spec/remoting.md section 5; MQClientAPIImpl#sendMessage, #processSendResponse of Apache RocketMQ.
"""

from collections.abc import Sequence
from typing import Final

from mqstore.client.errors import BrokerRefused
from mqstore.remoting.command import Command
from mqstore.remoting.errors import FieldsIllegal
from mqstore.store.message.message import Message
from mqstore.store.message.message_properties import properties_of
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.topic_names import AUTO_CREATE_TOPIC_KEY_TOPIC, is_retry_topic
from mqstore.store.record.batch_format import BatchElement, encode_batch
from mqstore.store.record.message_id import decode_message_id
from mqstore.store.record.properties_format import MAX_RECONSUME_TIMES, RECONSUME_TIME
from mqstore.store.status import PutMessageStatus, ResponseCode

__all__ = ["batch_body_of", "put_of", "puts_of", "send_fields_of"]

_QUEUES_OF_A_NEW_TOPIC: Final = 4
_NO_NUMBER: Final = 0
# The message is stored in all cases.
_STATUS_OF_ANSWER: Final = {
    ResponseCode.SUCCESS: PutMessageStatus.PUT_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: PutMessageStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: PutMessageStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: PutMessageStatus.FLUSH_DISK_TIMEOUT,
}


def send_fields_of(
    message: Message, producer_group: str, now_ms: int, *, is_batch: bool = False
) -> dict[str, str]:
    """The fields of a send. Raises PropertiesIllegal.

    Of a batch, `message` is the first, and its properties are left to its element.
    """
    fields = {
        "a": producer_group,
        "b": message.topic,
        "c": AUTO_CREATE_TOPIC_KEY_TOPIC,
        "d": str(_QUEUES_OF_A_NEW_TOPIC),
        "e": str(message.queue_id),
        "f": str(message.sys_flag),
        "g": str(now_ms if message.born_timestamp is None else message.born_timestamp),
        "h": str(message.flag),
        "i": "" if is_batch else properties_of(message).decode(),
        "j": str(message.reconsume_times),
        "k": "false",
        "m": "true" if is_batch else "false",
    }
    if is_retry_topic(message.topic):
        # The broker counts by these whether it is a dead letter.
        for letter, name in (("j", RECONSUME_TIME), ("l", MAX_RECONSUME_TIMES)):
            if name in message.properties:
                fields[letter] = message.properties[name]
    return fields


def batch_body_of(messages: Sequence[Message]) -> bytes:
    """The body of a batch. Raises PropertiesIllegal."""
    return encode_batch(
        BatchElement(bytes(message.body), properties_of(message), message.flag) for message in messages
    )


def put_of(answer: Command, message: Message, broker_name: str) -> PutMessageResult:
    """Where a message lies. Raises BrokerRefused, FieldsIllegal."""
    return puts_of(answer, [message], broker_name)[0]


def puts_of(answer: Command, messages: Sequence[Message], broker_name: str) -> list[PutMessageResult]:
    """Where the messages of a batch lie, one behind the other. Raises BrokerRefused, FieldsIllegal."""
    status = _STATUS_OF_ANSWER.get(answer.code)  # type: ignore[call-overload]
    if status is None:
        raise BrokerRefused(broker_name, answer.code, answer.remark)
    fields = answer.fields_as_texts()
    try:
        first, queue_id = int(fields.get("queueOffset", "-1")), int(fields.get("queueId", "-1"))
    except ValueError as error:
        raise FieldsIllegal(answer.code, repr(error)) from error
    ids = fields.get("msgId", "").split(",")
    if len(ids) != len(messages):
        ids = [ids[0]] * len(messages)
    puts = []
    for at, (message, message_id) in enumerate(zip(messages, ids, strict=True)):
        store_host, physical_offset = _place_of(message_id)
        puts.append(
            PutMessageResult(
                status=status,
                topic=message.topic,
                queue_id=queue_id,
                queue_offset=first + at if first >= 0 else -1,
                physical_offset=physical_offset,
                store_size=_NO_NUMBER,
                store_timestamp=_NO_NUMBER,
                flushed_offset=-1,
                store_host=store_host,
            )
        )
    return puts


def _place_of(message_id: str) -> tuple[bytes, int]:
    """Store host and physical offset; of an answer that tells none, as that to a reply, no host and -1."""
    try:
        host, physical_offset = decode_message_id(message_id)
    except ValueError:
        return b"", -1
    return host.encode(), physical_offset
