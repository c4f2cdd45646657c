"""One record made from a template: its CRCs are zlib's, and its properties end as RocketMQ's do."""

import struct
import zlib

import pytest

from mqstore.store.record.record_format import check_record, crc_property, encode_topic
from mqstore.store.record.record_template import encode_record


def record(
    body: bytes = b"body", *, properties: bytes, append_crc: bool, queue_id: int = 0, flag: int = 0
) -> bytes:
    topic_field, magic = encode_topic("orders")
    return encode_record(
        magic=magic,
        topic_field=topic_field,
        body=body,
        properties=properties,
        queue_id=queue_id,
        flag=flag,
        queue_offset=0,
        physical_offset=0,
        sys_flag=0,
        born_timestamp=0,
        born_host=bytes(8),
        store_timestamp=0,
        store_host=bytes(8),
        reconsume_times=0,
        prepared_transaction_offset=0,
        append_crc=append_crc,
    )


@pytest.mark.parametrize("body_bytes", [0, 1, 5_119, 5_120, 5_121, 40_000])
@pytest.mark.parametrize("properties", [b"", b"A\x01b\x02"])
def test_both_crcs_are_zlibs(body_bytes: int, properties: bytes) -> None:
    """Also where the record's is put together from those of its parts, as it is for long bodies."""
    body = bytes(index * 7 % 251 for index in range(body_bytes))
    encoded = record(body, properties=properties, append_crc=True, queue_id=3, flag=-1)
    assert struct.unpack_from(">i", encoded, 8) == (zlib.crc32(body) & 0x7FFF_FFFF,)
    assert encoded[-20:] == crc_property(zlib.crc32(encoded[:-20]))
    check_record(memoryview(encoded), 0)


def test_a_missing_separator_is_added_before_the_crc() -> None:
    """As RocketMQ's single-message path does."""
    assert record(properties=b"A\x01b", append_crc=True)[:-20].endswith(b"\x00\x18A\x01b\x02")
    assert record(properties=b"", append_crc=True)[:-20].endswith(b"\x00\x14")
    assert record(properties=b"A\x01b", append_crc=False).endswith(b"\x00\x03A\x01b")
