"""The compiled loops against their plain twins, over whole logs, harmed logs and random bytes."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.arrow import column_kernels
from mqstore.store.record import record_kernels
from mqstore.store.record.record_format import RecordIllegal, check_record, encode_blank, encode_topic
from mqstore.store.record.record_template import encode_record
from support.twins.plain_records import V1, V2, host_bytes, record
from support.twins.record_scan import plain_find, plain_scan, plain_whole_record_size

RECORDS = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=40),
        "topic": st.sampled_from(["t", "orders", "%RETRY%" + "g" * 121]),
        "properties": st.sampled_from(
            [b"", b"A\x01b\x02", b"A\x01b", b"__CRC32#\x010123456789\x02", b"A\x01\0"]
        ),
        "born_host": st.sampled_from([bytes(8), bytes(20)]),
        "store_host": st.sampled_from([bytes(8), bytes(20)]),
        "append_crc": st.booleans(),
        "store_timestamp": st.integers(0, 2**62),
    }
)
IPV6 = host_bytes("2001:db8::1", 7)
IPV4 = host_bytes("10.0.0.1", 7)
BASES = st.sampled_from([0, 1_048_576, 2**40])


def array_of(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def encode(fields: dict[str, Any], physical_offset: int) -> bytes:
    topic_field, magic = encode_topic(fields["topic"])
    return encode_record(
        magic=magic,
        topic_field=topic_field,
        queue_id=0,
        flag=0,
        queue_offset=0,
        physical_offset=physical_offset,
        sys_flag=0x10 * (len(fields["born_host"]) == 20) | 0x20 * (len(fields["store_host"]) == 20),
        born_timestamp=0,
        reconsume_times=0,
        prepared_transaction_offset=0,
        **{name: value for name, value in fields.items() if name != "topic"},
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int]:
    """Some records, perhaps a BLANK, perhaps zeros, with up to three bytes changed; and the base offset."""
    base_offset = draw(BASES)
    data = b""
    for fields in draw(st.lists(RECORDS, max_size=6)):
        data += encode(fields, base_offset + len(data))
    data += draw(
        st.sampled_from([b"", encode_blank(50).ljust(50, b"\0"), bytes(30), b"\xda\xa3\x20\xa7" * 9])
    )
    harmed = bytearray(data)
    if harmed:
        for at, value in draw(
            st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=3)
        ):
            harmed[at] = value
    return bytes(harmed), base_offset


def array(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


@pytest.mark.slow
@settings(max_examples=300)
@given(logs(), st.data())
def test_scan_is_the_plain_scan(log: tuple[bytes, int], data: st.DataObject) -> None:
    """Where it stops, how many records, the last store time, and why: for every beginning and every end."""
    content, base_offset = log
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    for begin, stop in ((0, len(content)), (0, end), (start, end)):
        assert record_kernels.scan(array(content), begin, stop, base_offset) == plain_scan(
            content, begin, stop, base_offset
        )


@pytest.mark.slow
@settings(max_examples=200)
@given(logs(), st.data())
def test_find_record_is_the_plain_search(log: tuple[bytes, int], data: st.DataObject) -> None:
    """The first whole record that begins between two positions."""
    content, base_offset = log
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    end = data.draw(st.integers(stop, len(content)))
    found = record_kernels.find_record(array(content), start, stop, end, base_offset)
    plain = plain_find(content, start, end, base_offset)
    assert found == (plain if plain < stop else -1)


@pytest.mark.parametrize("end", [0, 3])
def test_a_record_is_found_behind_any_number_of_zeros(end: int) -> None:
    """Zeros are stepped over eight at a time: none of them too many, at the end of the bytes neither."""
    for zeros in range(40):
        whole = bytes(zeros) + record(zeros, body=b"body") + bytes(end)
        assert record_kernels.find_record(array_of(whole), 0, len(whole), len(whole), 0) == zeros
        assert column_kernels.find_header(array_of(whole), len(whole), 0, len(whole)) == zeros
        assert record_kernels.find_record(array_of(bytes(zeros)), 0, zeros, zeros, 0) == -1
        assert column_kernels.find_header(array_of(bytes(zeros)), zeros, 0, zeros) == -1


@pytest.mark.slow
@settings(max_examples=200)
@given(logs())
def test_the_kernel_and_check_record_agree(log: tuple[bytes, int]) -> None:
    """What recovery takes for whole is what `check_record` takes for whole, at every byte of the log."""
    content, base_offset = log
    for at in range(len(content)):
        size = plain_whole_record_size(content, at, base_offset)
        assert record_kernels.whole_record_size(array(content), at, len(content), base_offset) == size
        try:
            checked = check_record(memoryview(content)[at:], base_offset + at).total_size
        except RecordIllegal:
            checked = -1
        assert checked == size


@given(st.binary(max_size=400))
def test_random_bytes_are_no_records(content: bytes) -> None:
    """Nothing is read beyond the end, whatever the lengths in them say."""
    assert record_kernels.scan(array(content), 0, len(content), 0) == plain_scan(content, 0, len(content), 0)
    assert record_kernels.find_record(array(content), 0, len(content), len(content), 0) == -1


@pytest.mark.parametrize("name", ["read_int", "read_long"])
def test_integers_are_signed_and_big_endian(name: str) -> None:
    """As Java reads them."""
    width = {"read_int": 4, "read_long": 8}[name]
    read = getattr(record_kernels, name)
    for value in (0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)), 0x0102_0304):
        assert read(array(b"x" + value.to_bytes(width, "big", signed=True)), 1) == value


@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize("hosts", [(IPV4, IPV4), (IPV6, IPV4), (IPV4, IPV6), (IPV6, IPV6)])
def test_record_layout_finds_topic_and_properties(magic: int, hosts: tuple[bytes, bytes]) -> None:
    """For each version and each kind of host, and with bytes before and after."""
    row = record(
        0,
        topic="T",
        body=b"b",
        properties=b"A\x01b\x02",
        magic=magic,
        born_host=hosts[0],
        store_host=hosts[1],
    )
    data = b"xyz" + row + b"more"
    layout = record_kernels.record_layout(array_of(data), 3, len(data))
    total, body_at, body_length, topic_at, topic_length, properties_at, properties_length = layout
    assert total == len(row)
    assert data[body_at : body_at + body_length] == b"b"
    assert data[topic_at : topic_at + topic_length] == b"T"
    assert data[properties_at : properties_at + properties_length] == b"A\x01b\x02"
    assert record_kernels.record_layout(array_of(data), 3, 3 + len(row) - 1)[0] == record_kernels.NO_LAYOUT


def test_lengths_that_do_not_add_up_are_no_record() -> None:
    """Each length field one too long or negative: nothing of it is believed."""
    row = record(0, topic="T", body=b"body", properties=b"A\x01b\x02")
    body_at = row.index(b"body")
    changes: list[tuple[int, bytes]] = [
        (0, struct.pack(">i", len(row) - 1)),
        (0, struct.pack(">i", -5)),
        (body_at - 4, struct.pack(">i", 5)),
        (body_at - 4, struct.pack(">i", -1)),
        (body_at - 4, struct.pack(">i", 2**31 - 1)),
        (body_at + 4, b"\xff"),
        (body_at + 6, b"\xff\xff"),
    ]
    check: Callable[[bytes], int] = lambda data: record_kernels.record_layout(array_of(data), 0, len(data))[0]  # noqa: E731
    assert check(row) == len(row)
    for at, change in changes:
        assert check(row[:at] + change + row[at + len(change) :]) == record_kernels.NO_LAYOUT
