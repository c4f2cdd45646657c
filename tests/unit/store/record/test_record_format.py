"""The record's bytes: every field back and forth, every kind of broken record found by `check_record`.

The samples of the spec are in tests/golden/test_spec_samples.py; here are the properties that hold for all
records, and the faults one by one.
"""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.record import record_format, record_kernels
from mqstore.store.record.record_format import (
    MESSAGE_MAGIC_CODE,
    MESSAGE_MAGIC_CODE_V2,
    RecordIllegal,
    check_record,
    crc_property,
    decode_header,
    decode_layout,
    encode_blank,
    encode_topic,
    store_timestamp_position,
)
from mqstore.store.record.record_template import encode_record

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)


def record(
    body: bytes = b"body",
    topic: str = "orders",
    properties: bytes = b"",
    *,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_host: bytes = bytes(8),
    store_host: bytes = bytes(8),
    append_crc: bool = False,
    **fields: Any,
) -> bytes:
    topic_field, magic = encode_topic(topic)
    sys_flag = sys_flag & ~0x30 | 0x10 * (len(born_host) == 20) | 0x20 * (len(store_host) == 20)
    numbers = {
        "queue_id": 0,
        "flag": 0,
        "queue_offset": 0,
        "born_timestamp": 0,
        "store_timestamp": 0,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
    } | fields
    return encode_record(
        magic=magic,
        topic_field=topic_field,
        body=body,
        properties=properties,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_host=born_host,
        store_host=store_host,
        append_crc=append_crc,
        **numbers,
    )


@given(
    body=st.binary(max_size=300),
    topic=st.text(st.sampled_from("abc%-"), min_size=1, max_size=300),
    properties=st.sampled_from([b"", b"A\x01b\x02", b"A\x01b"]),
    physical_offset=st.integers(0, 2**62),
    sys_flag=INTS,
    born_host=HOSTS,
    store_host=HOSTS,
    append_crc=st.booleans(),
    numbers=st.fixed_dictionaries(
        {
            "queue_id": INTS,
            "flag": INTS,
            "queue_offset": LONGS,
            "born_timestamp": LONGS,
            "store_timestamp": LONGS,
            "reconsume_times": INTS,
            "prepared_transaction_offset": LONGS,
        }
    ),
)
def test_every_field_comes_back(
    body: bytes, topic: str, properties: bytes, append_crc: bool, numbers: dict[str, int], **fields: Any
) -> None:
    """Header, body, topic and properties, for all combinations of hosts, versions and CRC."""
    encoded = record(body, topic, properties, append_crc=append_crc, **fields, **numbers)
    header = check_record(memoryview(encoded + b"what follows"), fields["physical_offset"])
    layout = decode_layout(encoded, 0, len(encoded))
    assert header.total_size == len(encoded)
    assert (header.magic == MESSAGE_MAGIC_CODE_V2) == (len(topic) > 127)
    assert (
        encoded[layout.body_start : layout.body_stop],
        encoded[layout.topic_start : layout.topic_stop].decode(),
    ) == (body, topic)
    stored = encoded[layout.properties_start : layout.properties_stop]
    assert (
        stored[:-20].removesuffix(b"\x02") == properties.removesuffix(b"\x02")
        if append_crc
        else stored == properties
    )
    assert {name: getattr(header, name) for name in numbers} == numbers
    assert (header.born_host, header.store_host) == (fields["born_host"], fields["store_host"])
    at = store_timestamp_position(header.sys_flag)
    assert struct.unpack_from(">q", encoded, at) == (numbers["store_timestamp"],)
    assert layout.body_start == 72 + len(header.born_host) + len(header.store_host)


@pytest.mark.parametrize(
    ("topic", "magic", "field"),
    [
        ("x" * 127, MESSAGE_MAGIC_CODE, b"\x7f"),
        ("x" * 128, MESSAGE_MAGIC_CODE_V2, b"\x00\x80"),
        ("x" * 255, MESSAGE_MAGIC_CODE_V2, b"\x00\xff"),
    ],
)
def test_a_topic_of_more_than_127_characters_makes_a_v2_record(topic: str, magic: int, field: bytes) -> None:
    """The length field then takes two bytes."""
    encoded, found = encode_topic(topic)
    assert (encoded, found) == (field + topic.encode(), magic)


@pytest.mark.parametrize("properties", [b"", b"A\x01b\x02"])
@pytest.mark.parametrize("body", [b"", b"some body"])
def test_the_record_crc_finds_every_changed_byte(body: bytes, properties: bytes) -> None:
    """With `__CRC32#` no single byte can change unnoticed, not even with an empty body.

    Only its own name is beyond it: without the name there is no record CRC, as in records of other writers.
    """
    whole = record(body, properties=properties, append_crc=True)
    name_at = len(whole) - record_format.CRC_PROPERTY_BYTES
    for at in (*range(name_at), *range(name_at + 9, len(whole))):
        harmed = bytearray(whole)
        harmed[at] ^= 0x40
        with pytest.raises(RecordIllegal):
            check_record(memoryview(harmed), 0)


def test_what_is_found_in_the_place_of_the_record_crc_is_shown_as_text() -> None:
    """Digits beside digits, without Python's quotes; what is no text as hex."""
    whole = bytearray(record(b"body", append_crc=True))
    digits_at = len(whole) - record_format.CRC_PROPERTY_BYTES + 9
    whole[digits_at : digits_at + 10] = b"1860018470"
    with pytest.raises(RecordIllegal) as refused:
        check_record(memoryview(whole), 0)
    assert (refused.value.expected[:11], refused.value.found) == ("record CRC ", "1860018470")
    whole[digits_at] = 0xFF
    with pytest.raises(RecordIllegal) as refused:
        check_record(memoryview(whole), 0)
    assert refused.value.found == "0xff" + b"860018470".hex()


@pytest.mark.parametrize("kept", range(record_format.CRC_PROPERTY_BYTES + 1))
def test_zeros_that_reach_into_the_record_crc_are_found(kept: int) -> None:
    """A sector in front did not reach the disk, and its end lies in `__CRC32#` or behind its name.

    Found by a million simulated power cuts: without its name there seemed to be no record CRC, and the CRC of
    the body, which was whole, was believed.
    """
    whole = record(b"body", properties=b"colour\x01" + b"r" * 60 + b"\x02", append_crc=True)
    stop = len(whole) - kept
    harmed = whole[: stop - 40] + bytes(40) + whole[stop:]
    with pytest.raises(RecordIllegal):
        check_record(memoryview(harmed), 0)
    assert record_kernels.whole_record_size(np.frombuffer(harmed, np.uint8), 0, len(harmed), 0) == -1


def test_the_body_crc_finds_every_changed_byte_of_the_body() -> None:
    """Without the record CRC the body is still guarded."""
    whole = record(b"some body")
    at = whole.index(b"some body")
    for position in range(at, at + 9):
        harmed = bytearray(whole)
        harmed[position] ^= 1
        with pytest.raises(RecordIllegal, match="body CRC"):
            check_record(memoryview(harmed), 0)


def test_a_record_cut_at_any_byte_is_none() -> None:
    """However much of it there is."""
    whole = record(b"some body", properties=b"A\x01b\x02")
    for length in range(len(whole)):
        with pytest.raises(RecordIllegal):
            check_record(memoryview(whole)[:length], 0)


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (0, struct.pack(">i", 50), "a total size from 88"),
        (0, struct.pack(">i", -1), "a total size from 88"),
        (0, struct.pack(">i", 2**31 - 1), "a total size from 88"),
        (0, struct.pack(">i", 100), "a length from 0 to"),
        (4, struct.pack(">i", record_format.BLANK_MAGIC_CODE), "magic DAA320A7 or DAA320AB, found CBD43194"),
        (4, bytes(4), "found 00000000"),
        (28, struct.pack(">q", 7), "physical offset 0, found 7"),
        (36, struct.pack(">i", 0x10), "found"),
        (84, struct.pack(">i", -1), "a length from 0"),
        (84, struct.pack(">i", 1000), "a length from 0"),
        (92, b"\xff", "a length from 0"),
        (92, b"\x05", "found"),
        (99, b"\xff\xff", "a length from 0"),
        (99, b"\x00\x01", "found"),
    ],
)
def test_a_broken_record_is_told_from_a_whole_one(position: int, value: bytes, words: str) -> None:
    """Each field that can contradict another one; the error says what was expected and what was found."""
    harmed = bytearray(record(b"body", "orders"))
    harmed[position : position + len(value)] = value
    with pytest.raises(RecordIllegal, match=words) as caught:
        check_record(memoryview(harmed), 0)
    assert caught.value.expected
    assert caught.value.found


def test_crc_property_is_twenty_bytes_with_its_digits_reversed() -> None:
    """Padded with 0 on the right, without the sign bit."""
    assert crc_property(0) == b"__CRC32#\x010000000000\x02"
    assert crc_property(12) == b"__CRC32#\x012100000000\x02"
    assert crc_property(0xFFFF_FFFF) == b"__CRC32#\x017463847412\x02"
    assert len(crc_property(1)) == record_format.CRC_PROPERTY_BYTES


def test_a_blank_is_its_length_and_its_magic() -> None:
    """The example of the spec: 200 bytes left."""
    assert encode_blank(200).hex(" ") == "00 00 00 c8 cb d4 31 94"


def test_a_header_is_read_from_the_front_of_longer_bytes() -> None:
    """What follows the record does not matter; too few bytes are an error."""
    whole = record(born_host=bytes(20))
    assert decode_header(whole + b"more").total_size == len(whole)
    with pytest.raises(RecordIllegal, match="at least 88 bytes, found 87"):
        decode_header(whole[:87])
    with pytest.raises(RecordIllegal, match="at least 100 bytes, found 99"):
        decode_header(whole[:99])
