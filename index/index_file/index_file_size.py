"""How many slots and entries the index files of a directory have, found in their contents.

The two numbers are settings of the broker that made the files, and the files do not hold them. But a file is
40 + 4 * slots + 20 * entries bytes long, so only every fifth number of slots is possible; and with
the right one the header's first and last record are those of the first and last entry, and inserting all
entries again gives exactly the slots that are there. A file without entries shows nothing. One whose slots
and entries are of different age after a power cut may show nothing either.

Called when the files are longer or shorter than the settings say, and only then: a search of 420 MB takes a
second. It does not open files. Pure functions.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from mqstore.index.index_file.index_file_format import (
    ENTRY_BYTES,
    HEADER_BYTES,
    LONGEST_FILE_BYTES,
    SLOT_BYTES,
    IndexHeader,
    decode_header,
)

__all__ = ["find_slot_count"]

_WORD_BYTES: Final = 4
_ENTRY_WORDS: Final = ENTRY_BYTES // _WORD_BYTES
# Possible numbers that are tested together.
_STEP: Final = 1 << 18

Words = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int64]


def find_slot_count(data: memoryview) -> int | None:
    """The number of slots of the index file `data`; None when contents and length do not show it."""
    if not HEADER_BYTES <= len(data) <= LONGEST_FILE_BYTES or len(data) % _WORD_BYTES:
        return None
    header, word_count = decode_header(data), (len(data) - HEADER_BYTES) // _WORD_BYTES
    if header.index_count <= 1:
        return None
    words = np.frombuffer(data, ">i4", word_count, HEADER_BYTES)
    least = word_count % _ENTRY_WORDS or _ENTRY_WORDS
    greatest = word_count - _ENTRY_WORDS * header.index_count
    found: list[int] = []
    for start in range(least, greatest + 1, _STEP * _ENTRY_WORDS):
        stop = min(start + _STEP * _ENTRY_WORDS, greatest + 1)
        possible = _with_these_ends(words, header, np.arange(start, stop, _ENTRY_WORDS))
        found += [slot_count for slot_count in possible.tolist() if _are_of(data, header, slot_count)]
    return found[0] if len(found) == 1 else None


def _with_these_ends(words: Words, header: IndexHeader, slots: Slots) -> Slots:
    """The numbers of slots with which the first and the last entry agree with the header."""
    last_number = header.index_count - 1
    # Entry 0 lies behind the slots.
    slots = slots[_offsets(words, slots + _ENTRY_WORDS * last_number) == header.end_physical_offset]
    slots = slots[_offsets(words, slots + _ENTRY_WORDS) == header.begin_physical_offset]
    codes = words[slots + _ENTRY_WORDS * last_number]
    slots, codes = slots[codes >= 0], codes[codes >= 0]
    fitting: Slots = slots[words[codes % slots] == last_number]
    return fitting


def _offsets(words: Words, entries_at: Slots) -> npt.NDArray[np.int64]:
    """The physical offsets in the entries that begin at these words."""
    high, low = words[entries_at + 1].astype(np.int64), words[entries_at + 2].astype(np.int64)
    offsets: npt.NDArray[np.int64] = high << 32 | low & 0xFFFF_FFFF
    return offsets


def _are_of(data: memoryview, header: IndexHeader, slot_count: int) -> bool:
    """Whether the slots are what inserting the entries leaves, under this number of slots."""
    from mqstore.index.index_file import index_file_kernels

    slot_bytes = SLOT_BYTES * slot_count
    content = np.frombuffer(data, np.uint8, offset=HEADER_BYTES)
    slots = np.zeros(slot_bytes, np.uint8)
    used = index_file_kernels.index_slots(content[slot_bytes:], header.index_count, slots)
    return bool(used == header.hash_slot_count and np.array_equal(slots, content[:slot_bytes]))
