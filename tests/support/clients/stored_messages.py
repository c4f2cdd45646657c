"""Messages as a pull returns them, made without a store."""

from collections.abc import Mapping

from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import encode_properties
from mqstore.store.record.record_format import encode_topic
from mqstore.store.record.record_template import encode_record

__all__ = ["RECORD_BYTES", "stored_message", "stored_messages"]

_HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def stored_message(
    queue_offset: int,
    *,
    topic: str = "orders",
    body: bytes = b"x",
    properties: Mapping[str, str] | None = None,
    reconsume_times: int = 0,
    sys_flag: int = 0,
    flag: int = 0,
) -> StoredMessage:
    """One message; its physical offset is a thousand times its queue offset."""
    topic_field, magic = encode_topic(topic)
    record = encode_record(
        magic=magic,
        topic_field=topic_field,
        body=body,
        properties=encode_properties(properties or {}),
        queue_id=0,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=1_000 * queue_offset,
        sys_flag=sys_flag,
        born_timestamp=1_726_740_000_000,
        born_host=_HOST,
        store_timestamp=1_726_740_000_001,
        store_host=_HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        append_crc=False,
    )
    return StoredMessage.of(memoryview(record))


def stored_messages(*queue_offsets: int) -> list[StoredMessage]:
    """Equally long messages at these offsets."""
    return [stored_message(queue_offset) for queue_offset in queue_offsets]


RECORD_BYTES = stored_message(0).store_size
"""Bytes of one of `stored_messages`."""
