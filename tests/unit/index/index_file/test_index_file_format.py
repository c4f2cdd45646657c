"""RocketMQ's index file: the worked example of the specification, both ways, and chains that a crash tore."""

import pytest

from mqstore.index.index_file import index_file_format as index_file
from mqstore.index.index_file.index_file_format import IndexEntry, IndexHeader
from mqstore.store.record.java_hash import string_hash

STORE_TIME_MS = 1726740000123
HEADER = IndexHeader(STORE_TIME_MS, STORE_TIME_MS, 0, 0, 2, 3)
HEADER_BYTES = bytes.fromhex(
    "0000019209b96d7b 0000019209b96d7b 0000000000000000 0000000000000000 00000002 00000003"
)


def test_the_default_file_is_420_000_040_bytes() -> None:
    """Five million slots, twenty million entries."""
    assert index_file.file_size_bytes() == 420_000_040


def test_the_sample_header() -> None:
    """40 bytes, written and read as RocketMQ does."""
    assert index_file.encode_header(HEADER) == HEADER_BYTES
    assert index_file.decode_header(HEADER_BYTES) == HEADER


def test_an_index_count_of_0_is_read_as_1() -> None:
    """A fresh file is all zero, and entry 0 is never used."""
    assert index_file.decode_header(bytes(40)).index_count == 1


@pytest.mark.parametrize(
    ("key", "key_hash", "slot", "slot_position", "number", "position", "entry_bytes"),
    [
        ("0A00000112345678ABCD000000010001", 742058140, 2058140, 8232600, 1, 20000060, "2c3ae89c"),
        ("order-1", 1829193424, 4193424, 16773736, 2, 20000080, "6d0746d0"),
    ],
)
def test_the_sample_entries(
    key: str, key_hash: int, slot: int, slot_position: int, number: int, position: int, entry_bytes: str
) -> None:
    """Hash, slot, place and bytes of both keys of the worked example."""
    assert index_file.key_hash("TopicTest", key) == key_hash
    assert index_file.slot_of(key_hash) == slot
    assert index_file.slot_position(slot) == slot_position
    assert index_file.entry_position(number) == position
    entry = IndexEntry(key_hash, 0, 0, 0)
    assert index_file.encode_entry(entry) == bytes.fromhex(entry_bytes) + bytes(16)
    assert index_file.decode_entry(index_file.encode_entry(entry)) == entry
    assert index_file.encode_slot(number) == number.to_bytes(4, "big")


def test_the_hash_without_an_absolute_value_is_0() -> None:
    """Java's abs(-2147483648) is negative; RocketMQ takes 0 then."""
    assert string_hash("T#E8Hcafb") == -(2**31)
    assert index_file.key_hash("T", "E8Hcafb") == 0


def small_file(entries: list[IndexEntry], newest: int) -> bytes:
    """One slot, five entries."""
    header = HEADER._replace(index_count=len(entries) + 1)
    content = index_file.encode_header(header) + index_file.encode_slot(newest) + bytes(20)
    return (content + b"".join(map(index_file.encode_entry, entries))).ljust(
        index_file.file_size_bytes(1, 5), b"\0"
    )


FIRST, SECOND = IndexEntry(7, 100, 0, 0), IndexEntry(8, 200, 3, 1)


@pytest.mark.parametrize(
    ("entries", "newest", "found"),
    [
        ([FIRST, SECOND], 2, [SECOND, FIRST]),
        ([FIRST, SECOND], 0, []),
        ([FIRST, SECOND], -1, []),
        ([FIRST, SECOND], 3, []),
        ([FIRST, SECOND._replace(previous_entry=2)], 2, [SECOND._replace(previous_entry=2)]),
        ([FIRST, SECOND._replace(previous_entry=9)], 2, [SECOND._replace(previous_entry=9)]),
        ([FIRST, SECOND._replace(previous_entry=-1)], 2, [SECOND._replace(previous_entry=-1)]),
    ],
)
def test_a_chain_runs_backwards_and_ends(
    entries: list[IndexEntry], newest: int, found: list[IndexEntry]
) -> None:
    """Newest first; a number outside the file, or one that leads forward or in a circle, ends it."""
    assert list(index_file.chain(small_file(entries, newest), 0, slot_count=1)) == found
