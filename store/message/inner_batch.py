"""The inner batch: a record whose body holds several messages, as a broker stores them for BatchCQ topics.

Consumers get the single messages, each as a record of its own that never was in the log: its queue offset
counts on from the batch's, physical offset, hosts and times are the batch's, body, flag and properties its
own. Bytes: batch_format.py. The store takes no such record (message_encoder.py); a RocketMQ broker wrote it.
Pure functions: any thread. Source: PullAPIWrapper#processPullResult, MessageDecoder#decodeMessage.
"""

from mqstore.store.errors import BodyTooLarge, CorruptBody, MessageIllegal
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.batch_format import BatchElement, decode_batch
from mqstore.store.record.record_format import encode_topic
from mqstore.store.record.record_template import encode_record
from mqstore.store.record.sys_flag import INNER_BATCH, NEED_UNWRAP

__all__ = ["is_inner_batch", "single_messages"]

_TO_UNWRAP = INNER_BATCH | NEED_UNWRAP


def is_inner_batch(sys_flag: int) -> bool:
    """Whether a record's body is a batch that its consumer takes apart."""
    return sys_flag & _TO_UNWRAP == _TO_UNWRAP


def single_messages(batch: StoredMessage) -> list[StoredMessage]:
    """The messages of an inner batch; the record itself when its body is no batch, as RocketMQ does it.

    If the body cannot be decompressed, the record itself is returned; reading its body raises the error.
    """
    try:
        elements = decode_batch(batch.body_view)
        return [_single(batch, index, element) for index, element in enumerate(elements)]
    except (MessageIllegal, CorruptBody, BodyTooLarge):
        return [batch]


def _single(batch: StoredMessage, index: int, element: BatchElement) -> StoredMessage:
    header = batch.header
    topic_field, magic = encode_topic(batch.topic)
    record = encode_record(
        magic=magic,
        topic_field=topic_field,
        body=element.body,
        properties=element.properties,
        queue_id=header.queue_id,
        flag=element.flag,
        queue_offset=header.queue_offset + index,
        physical_offset=header.physical_offset,
        # A batch that was compressed has been decompressed as a whole.
        sys_flag=batch.sys_flag & ~_TO_UNWRAP,
        born_timestamp=header.born_timestamp,
        born_host=header.born_host,
        store_timestamp=header.store_timestamp,
        store_host=header.store_host,
        reconsume_times=header.reconsume_times,
        prepared_transaction_offset=header.prepared_transaction_offset,
        append_crc=False,
    )
    return StoredMessage.of(memoryview(record))
