"""Placeholders and fillers: whole records that fill a damaged range of the log byte for byte.

Two kinds, both of which RocketMQ and mqstore walk over like any record:

    a placeholder   takes the place of a lost message in its queue: same topic, queue and queue offset. Its
                    body is zeros, or empty; the property MQSTORE_LOST marks it
    a filler        takes up bytes: a record of the kind that a rolled-back transaction leaves, which gets
                    no entry in a queue and no key, so no reader sees it

In SCHEDULE_TOPIC_XXXX a placeholder is a delayed half message, which delivery discards, as a broker does: it
reaches no consumer. Where that does not fit, it is delivered to the topic LOST.
Why not a BLANK: it ends its segment. docs/decisions/0005-damage-is-covered-with-records.md.
Pure functions; no I/O and no clock here.
"""

from typing import Final

from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record.properties_format import LOST, REAL_QID, REAL_TOPIC
from mqstore.store.record.record_format import CRC_PROPERTY_BYTES, FIXED_BYTES, HEADER_BYTES, encode_topic
from mqstore.store.record.record_template import encode_record
from mqstore.store.record.sys_flag import TRANSACTION_ROLLBACK

__all__ = ["FILLER_TOPIC", "MIN_FILLER_BYTES", "filler", "least_bytes", "placeholder"]

FILLER_TOPIC: Final = "-"
"""One character, so that a filler fits where the shortest record of any topic was."""
MIN_FILLER_BYTES: Final = FIXED_BYTES + len(FILLER_TOPIC)

_MARK = f"{LOST}\x011\x02".encode()
# 127.0.0.1, port 0.
_HOST = bytes([127, 0, 0, 1, 0, 0, 0, 0])
"""By it StoredMessage.is_placeholder knows most messages to be none."""


def _destinations(topic: str) -> tuple[bytes, ...]:
    """Properties that a placeholder of this topic must have: one of these sets, the best first."""
    if topic != SCHEDULE_TOPIC:
        return (b"",)
    return tuple(
        f"{REAL_TOPIC}\x01{real_topic}\x02{REAL_QID}\x010\x02".encode()
        for real_topic in (TRANS_HALF_TOPIC, "LOST")
    )


def _choices(topic: str) -> list[tuple[bytes, bool]]:
    """(properties, whether the record's CRC follows), the longest and best first."""
    destinations = _destinations(topic)
    return [
        *((needed + _MARK, True) for needed in destinations),
        *((needed, True) for needed in destinations),
        *((needed, False) for needed in destinations),
    ]


def _bytes_of(topic_field: bytes, properties: bytes, has_crc: bool) -> int:
    return HEADER_BYTES + len(topic_field) + 2 + len(properties) + (CRC_PROPERTY_BYTES if has_crc else 0)


def least_bytes(topic: str) -> tuple[int, int]:
    """(the size of a placeholder of this topic with all its properties and a CRC; the least size)."""
    topic_field, _ = encode_topic(topic)
    sizes = [_bytes_of(topic_field, *choice) for choice in _choices(topic)]
    return sizes[0], min(sizes)


def placeholder(
    topic: str,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    size_bytes: int,
    store_timestamp: int,
) -> bytes:
    """The placeholder for one message, exactly `size_bytes` long; at least what `least_bytes` says."""
    topic_field, _ = encode_topic(topic)
    properties, has_crc = next(
        choice for choice in _choices(topic) if _bytes_of(topic_field, *choice) <= size_bytes
    )
    place = (queue_id, queue_offset, physical_offset, size_bytes, store_timestamp)
    return _record(topic, *place, 0, properties, has_crc)


def filler(physical_offset: int, size_bytes: int, store_timestamp: int) -> bytes:
    """A filler, exactly `size_bytes` long; at least MIN_FILLER_BYTES."""
    has_crc = size_bytes >= MIN_FILLER_BYTES + CRC_PROPERTY_BYTES
    place = (0, 0, physical_offset, size_bytes, store_timestamp)
    return _record(FILLER_TOPIC, *place, TRANSACTION_ROLLBACK, b"", has_crc)


def _record(
    topic: str,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    size_bytes: int,
    store_timestamp: int,
    sys_flag: int,
    properties: bytes,
    has_crc: bool,
) -> bytes:
    topic_field, magic = encode_topic(topic)
    body = bytes(size_bytes - _bytes_of(topic_field, properties, has_crc))
    record = encode_record(
        magic=magic,
        topic_field=topic_field,
        body=body,
        properties=properties,
        queue_id=queue_id,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=store_timestamp,
        born_host=_HOST,
        store_timestamp=store_timestamp,
        store_host=_HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        append_crc=has_crc,
    )
    assert len(record) == size_bytes, (len(record), size_bytes)
    return record
