"""Goal: what was entered is read again, and anything else is seen. Method: entries with each byte changed."""

import pytest

from mqstore.tools.archive.manifest import (
    ArchivedSegment,
    ArchivedTopic,
    ArchiveRoot,
    Manifest,
    decode_signed,
    encode_signed,
    entry_name,
    offset_of,
    root_identity,
    root_name,
    segment_offset,
)

SEGMENT = ArchivedSegment(
    store="a" * 32,
    start_offset=131072,
    end_offset=262144,
    name="commitlog/00000000000000131072-0a1b2c3d",
    size_bytes=131072,
    crc32c=0xE3069283,
    records=3,
    min_store_timestamp=1_795_305_600_000,
    max_store_timestamp=1_795_305_600_001,
    topics={
        "orders": ArchivedTopic(messages=2, queues={0: (4, 6)}),
        "%RETRY%ü": ArchivedTopic(messages=0, queues={}),
    },
)


def test_an_entry_is_read_as_it_was_written() -> None:
    """Its JSON names are RocketMQ's spelling of ours, and are not changed."""
    encoded = encode_signed(SEGMENT)
    assert decode_signed(encoded, ArchivedSegment) == SEGMENT
    assert encoded.startswith(b'{"crc32c":"')
    assert (
        b'"startOffset":131072,"endOffset":262144,"name":"commitlog/00000000000000131072-0a1b2c3d"' in encoded
    )
    assert b'"orders":{"messages":2,"queues":{"0":[4,6]}}' in encoded


def test_every_changed_or_missing_byte_is_seen() -> None:
    """Whatever else the JSON may still be, but for the line's end."""
    encoded = encode_signed(ArchiveRoot(store="b" * 32, segment_bytes=1))
    for at in range(len(encoded) - 1):
        for damaged in (encoded[:at], encoded[:at] + bytes([encoded[at] ^ 1]) + encoded[at + 1 :]):
            with pytest.raises(ValueError, match=r".*"):
                decode_signed(damaged, ArchiveRoot)


def test_names() -> None:
    """Offsets are read from them; other names are none of ours."""
    assert offset_of(entry_name(131072).rpartition("/")[2]) == 131072
    assert segment_offset("00000000000000131072-0a1b2c3d") == 131072
    assert root_identity(root_name("c" * 32)) == "c" * 32
    for name in (
        "00000000000000131072",
        "x.json",
        "store-1.json",
        "00000000000000131072-0A1b2c3d",
        "",
        ".json",
    ):
        assert offset_of(name) is segment_offset(name) is root_identity(name) is None


def test_gaps() -> None:
    """Between segments that do not follow one another."""
    manifest = Manifest("p", "a", 131072, (SEGMENT,))
    assert manifest.gaps == ()
    import msgspec

    later = msgspec.structs.replace(SEGMENT, start_offset=524288, end_offset=655360)
    assert manifest._replace(segments=(SEGMENT, later)).gaps == ((262144, 524288),)
