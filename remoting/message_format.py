"""A stored message as a broker sends it to its producer: under another topic and queue than it lies in.

The record is that of docs/format/commit_log.md, without the record's CRC, which would not hold any more.
Pure; any thread. Source: MessageDecoder#encode of Apache RocketMQ.
"""

from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import encode_properties
from mqstore.store.record.record_format import (
    MAGIC_CODE_POSITION,
    PROPERTIES_LENGTH,
    QUEUE_ID_POSITION,
    encode_topic,
)

__all__ = ["record_under"]

_INT_BYTES = 4


def record_under(message: StoredMessage, topic: str, queue_id: int) -> bytes:
    """The record of `message` as if it lay in that queue; its offsets stay those where it lies."""
    layout, data = message.layout, message.data
    encoded_topic, magic = encode_topic(topic)
    properties = encode_properties(message.properties)
    ending = encoded_topic + PROPERTIES_LENGTH.pack(len(properties)) + properties
    record = bytearray(data[message.start : layout.body_stop]) + ending
    for position, value in ((0, len(record)), (MAGIC_CODE_POSITION, magic), (QUEUE_ID_POSITION, queue_id)):
        record[position : position + _INT_BYTES] = value.to_bytes(_INT_BYTES, "big", signed=True)
    return bytes(record)
