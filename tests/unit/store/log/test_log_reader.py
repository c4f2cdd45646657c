"""The log reader: finds a record where one begins, and nothing anywhere else."""

import struct
from pathlib import Path
from typing import Any

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.record.host import Host
from mqstore.store.record.record_format import (
    HEADER_BYTES,
    PHYSICAL_OFFSET_POSITION,
    RecordIllegal,
    decode_layout,
)
from support.stores.small_log import SEGMENT_BYTES, SmallLog


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    return SmallLog(file_system, root / "commitlog")


def test_look_message_by_offset_takes_any_number(small: SmallLog) -> None:
    """Only where a record begins is one found; every other byte, and any number, is None."""
    places = [small.append(b"x" * 20), small.append(b"y" * 20)]
    starts = {place.physical_offset for place in places}
    for offset in range(-5, small.log.max_offset + 5):
        assert (small.log.look_message_by_offset(offset) is not None) == (offset in starts)
    for offset in (-(2**63), SEGMENT_BYTES, 2**62):
        assert small.log.look_message_by_offset(offset) is None
        assert small.log.store_timestamp_at(offset) == -1


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"body": b"", "topic": "t"},
        {"topic": "%RETRY%" + "g" * 121},
        {"born_host": Host.parse("[2001:db8::1]:7")},
        {"tags": "created", "properties": {"name": "v" * 300}},
    ],
)
def test_looking_finds_what_the_decoder_takes(small: SmallLog, fields: dict[str, Any]) -> None:
    """Whatever a byte is changed to: found where the lengths add up, its body where it lies."""
    place = small.append(**{"body": b"y" * 300} | fields)
    small.append(b"behind")
    segment = small.log.files.files[0]
    whole = bytes(segment.view[: small.log.max_offset])
    header = HEADER_BYTES + 24
    for at in (*range(header), *range(place.store_size - 60 - 330, place.store_size)):
        if not 0 <= at < place.store_size or PHYSICAL_OFFSET_POSITION <= at < PHYSICAL_OFFSET_POSITION + 8:
            continue
        for byte in {0, 1, 0x7F, 0x80, 0xFF, whole[at] ^ 1, whole[at] ^ 0x10}:
            segment.write(at, bytes([byte]))
            found = small.log.look_message_by_offset(place.physical_offset)
            (size,) = struct.unpack_from(">i", segment.view)
            try:
                expected = decode_layout(segment.view[: max(size, 0)], 0, size)
            except RecordIllegal:
                assert found is None, (at, byte)
            else:
                assert found is not None, (at, byte)
                assert found.stored_body == bytes(segment.view[expected.body_start : expected.body_stop])
                assert found.layout == expected
        segment.write(at, whole[at : at + 1])


def test_looking_at_the_end_of_a_segment_finds_nothing(small: SmallLog) -> None:
    """Where less than a header is left, in the BLANK or in a record, there is no record."""
    small.fill_to(20)
    small.append()
    assert small.log.max_offset > SEGMENT_BYTES
    for offset in range(SEGMENT_BYTES - 150, SEGMENT_BYTES):
        assert small.log.look_message_by_offset(offset) is None
        small.log.store_timestamp_at(offset)
        assert small.log.record_at(offset, 151) is None


def test_a_chunk_is_bounded_by_limit_and_segment(small: SmallLog) -> None:
    """It begins where asked and knows where its segment ends."""
    while len(small.log.files.files) < 2:
        small.append(bytes(9_000))
    chunk = small.log.chunk(100, 50)
    assert chunk is not None
    assert (chunk.base_offset, len(chunk.data), chunk.segment_end) == (100, 50, SEGMENT_BYTES)
    whole = small.log.chunk(0, 1 << 30)
    assert whole is not None
    assert len(whole.data) == SEGMENT_BYTES
    tail = small.log.chunk(SEGMENT_BYTES, 1 << 30)
    assert tail is not None
    assert SEGMENT_BYTES + len(tail.data) == small.log.max_offset
    assert small.log.chunk(small.log.max_offset, 10) is None
    assert small.log.chunk(-1, 10) is None
