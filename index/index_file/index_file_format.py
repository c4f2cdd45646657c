"""RocketMQ's index file: a hash table from `topic#key` to physical offsets.

    +---------------------------------------------------------------+
    | header, 40 bytes                                              |
    +---------------------------------------------------------------+
    | slots: slot_count x int32, newest entry of the chain or 0     |
    +---------------------------------------------------------------+
    | entries: entry_count x 20 bytes, entry 0 never used           |
    +---------------------------------------------------------------+

    header  +---------------------------------------------------------------+
          0 | begin_timestamp_ms                                            |
          8 | end_timestamp_ms                                              |
         16 | begin_physical_offset                                         |
         24 | end_physical_offset                                           |
         32 | hash_slot_count               | index_count                   |
            +---------------------------------------------------------------+
    entry   +---------------------------------------------------------------+
          0 | key_hash                      | physical_offset ...           |
          8 | ... physical_offset           | time_difference_s             |
         16 | previous_entry                |
            +-------------------------------+

Big-endian. Files are `index/yyyyMMddHHmmssSSS` (local time of creation), 420,000,040 bytes by default;
the numbers of slots and entries are a broker's settings (`max_hash_slot_num`, `max_index_num`) and not in
the file. An entry has only the hash of its key, so its record must be compared with the key.
page: docs/format/index_file.md. Written and read by index_file.py; the list of files is
index_file_list.py.

The file is derived from the commit log, so it has no checksum. Pure functions; no I/O, no clock.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.store.record.java_hash import string_hash

__all__ = [
    "DEFAULT_ENTRY_COUNT",
    "DEFAULT_SLOT_COUNT",
    "ENTRY_BYTES",
    "GROUP_SHIFT",
    "HEADER_BYTES",
    "LONGEST_FILE_BYTES",
    "NO_ENTRY",
    "PHYSICAL_OFFSET_POSITION",
    "PREVIOUS_ENTRY_POSITION",
    "SLOT_BYTES",
    "TIME_DIFFERENCE_POSITION",
    "IndexEntry",
    "IndexHeader",
    "chain",
    "decode_entry",
    "decode_header",
    "decode_slot",
    "encode_entry",
    "encode_header",
    "encode_slot",
    "entries_of",
    "entry_position",
    "file_size_bytes",
    "key_hash",
    "slot_of",
    "slot_position",
]

_HEADER: Final = struct.Struct(">qqqqii")
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">iqii")

HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
ENTRY_BYTES: Final = 20
assert (_HEADER.size, _SLOT.size, _ENTRY.size) == (HEADER_BYTES, SLOT_BYTES, ENTRY_BYTES)

# Where the fields of an entry begin.
PHYSICAL_OFFSET_POSITION: Final = 4
TIME_DIFFERENCE_POSITION: Final = 12
PREVIOUS_ENTRY_POSITION: Final = 16

_ENTRY_COLUMNS: Final = np.dtype(
    [
        ("key_hash", ">i4"),
        ("physical_offset", ">i8"),
        ("time_difference_s", ">i4"),
        ("previous_entry", ">i4"),
    ]
)
assert _ENTRY_COLUMNS.itemsize == ENTRY_BYTES
assert [struct.calcsize(fields) for fields in (">i", ">iq", ">iqi")] == [
    PHYSICAL_OFFSET_POSITION,
    TIME_DIFFERENCE_POSITION,
    PREVIOUS_ENTRY_POSITION,
]

DEFAULT_SLOT_COUNT: Final = 5_000_000
"""RocketMQ's maxHashSlotNum."""
DEFAULT_ENTRY_COUNT: Final = 20_000_000
"""RocketMQ's maxIndexNum; one less is usable."""
LONGEST_FILE_BYTES: Final = 2**31 - 1
"""RocketMQ maps a file in whole, and holds its length in an int."""
GROUP_SHIFT: Final = 10
"""Slots are written back in groups of 2 to the power of this: 4 KiB. Not a property of the file."""
NO_ENTRY: Final = 0
"""Ends a chain; the value of an empty slot."""


class IndexHeader(NamedTuple):
    """The first 40 bytes."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_physical_offset: int
    end_physical_offset: int
    hash_slot_count: int
    """Inserts that found their slot empty."""
    index_count: int
    """Number of the next entry to write; entries 1 to index_count - 1 are there."""


class IndexEntry(NamedTuple):
    """One key of one message."""

    key_hash: int
    physical_offset: int
    time_difference_s: int
    """Whole seconds from the header's begin_timestamp_ms to the store time."""
    previous_entry: int
    """Number of the entry before it in the same chain; 0 for none."""


def file_size_bytes(slot_count: int = DEFAULT_SLOT_COUNT, entry_count: int = DEFAULT_ENTRY_COUNT) -> int:
    """Length of a file with so many slots and entries."""
    return HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry_count


def encode_header(header: IndexHeader) -> bytes:
    """The header's 40 bytes."""
    return _HEADER.pack(*header)


def decode_header(data: bytes | memoryview) -> IndexHeader:
    """The header at the start of `data`; an index_count of 0 or less is read as 1."""
    header = IndexHeader(*_HEADER.unpack_from(data))
    return header if header.index_count > 0 else header._replace(index_count=1)


def encode_slot(entry_number: int) -> bytes:
    """A slot's 4 bytes."""
    return _SLOT.pack(entry_number)


def decode_slot(data: bytes | memoryview, slot: int) -> int:
    """Number of the newest entry in the chain of `slot`; 0 or less for none. `data` is the whole file."""
    (entry_number,) = _SLOT.unpack_from(data, slot_position(slot))
    return int(entry_number)


def encode_entry(entry: IndexEntry) -> bytes:
    """An entry's 20 bytes."""
    return _ENTRY.pack(*entry)


def decode_entry(data: bytes | memoryview, position: int = 0) -> IndexEntry:
    """The entry at a byte of `data`."""
    return IndexEntry(*_ENTRY.unpack_from(data, position))


def entries_of(data: memoryview, slot_count: int, entry_count: int) -> npt.NDArray[np.void]:
    """All entries of a file as a structured array over its bytes, the unused entry 0 included.

    `data` is the whole file; the columns have the names of `IndexEntry`.
    """
    return np.frombuffer(data, _ENTRY_COLUMNS, entry_count, entry_position(0, slot_count))


def slot_position(slot: int) -> int:
    """Byte where `slot` lies."""
    return HEADER_BYTES + SLOT_BYTES * slot


def entry_position(entry_number: int, slot_count: int = DEFAULT_SLOT_COUNT) -> int:
    """Byte where the entry lies."""
    return HEADER_BYTES + SLOT_BYTES * slot_count + ENTRY_BYTES * entry_number


def key_hash(topic: str, key: str) -> int:
    """abs(hashCode of topic#key); 0 where Java's abs stays negative.

    >>> key_hash("TopicTest", "order-1")
    1829193424
    """
    code = abs(string_hash(f"{topic}#{key}"))
    return code if code < 2**31 else 0


def slot_of(hash_of_key: int, slot_count: int = DEFAULT_SLOT_COUNT) -> int:
    """The slot whose chain holds a hash."""
    return hash_of_key % slot_count


def chain(data: bytes | memoryview, slot: int, slot_count: int = DEFAULT_SLOT_COUNT) -> Iterator[IndexEntry]:
    """Entries of one slot, newest first. `data` is the whole file.

    A number that points outside the written entries, or not backwards, ends the chain, as a crash can
    leave slots and entries of different age.
    """
    entry_number = decode_slot(data, slot)
    limit = decode_header(data).index_count
    while NO_ENTRY < entry_number < limit:
        entry = decode_entry(data, entry_position(entry_number, slot_count))
        yield entry
        limit, entry_number = entry_number, entry.previous_entry
