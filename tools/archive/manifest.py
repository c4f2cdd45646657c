"""The manifest of an archive: which objects it has, and what is in each. Names, structs and JSON; no I/O.

    store-<identity>.json                   one: whose archive this is
    commitlog/<20 digits>-<8 hex>           a segment, byte by byte; the digits are its first offset
    manifest/<20 digits>.json               its entry, written when the object was read back and found whole
    state/<20 digits>.json                  the small files of the store, when its log ended at that offset

The entries together are the manifest. Each is an object of its own, so two archivers never write into one
growing list. An object of `commitlog/` counts only once an entry names it; its hexadecimal digits are drawn
at random for each upload, so that no upload that is broken off can replace bytes that are confirmed.

An entry of version 2 tells the parts of its segment too: where records begin in it, about every hundredth of
it, and what is between. Who reads a time range needs those parts only. Entries of version 1 have none, and a
release that knows version 1 alone reads an entry of version 2 without them.

Each JSON object has the CRC-32C of its content beside it: {"crc32c":"<8 hex>","content":{...}}. Page:
docs/archive.md.
"""

import re
from typing import Final, NamedTuple, TypeVar

import msgspec

from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.files.file_names import file_name, is_file_name

__all__ = [
    "ENTRY_VERSION",
    "MANIFEST_FOLDER",
    "SEGMENT_FOLDER",
    "STATE_FOLDER",
    "ArchiveRoot",
    "ArchivedPart",
    "ArchivedSegment",
    "ArchivedTopic",
    "Manifest",
    "StateSnapshot",
    "decode_signed",
    "encode_signed",
    "entry_name",
    "offset_of",
    "root_identity",
    "root_name",
    "segment_offset",
    "state_name",
]

VERSION: Final = 1
"""Of the root: how the objects are named and signed."""
ENTRY_VERSION: Final = 2
"""Of an entry that is written now; those of versions 1 and 2 are read."""
SEGMENT_FOLDER: Final = "commitlog"
MANIFEST_FOLDER: Final = "manifest"
STATE_FOLDER: Final = "state"

_ROOT = re.compile("store-([0-9a-f]{32})[.]json")
_SEGMENT = re.compile("([0-9]{20})-[0-9a-f]{8}")


class ArchiveRoot(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Whose archive it is: the identity of the store, and the length of its segments in bytes."""

    version: int = VERSION
    store: str
    segment_bytes: int


class ArchivedTopic(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The messages of a topic in a segment.

    queues: by queue id, the least queue offset and the one behind the greatest.
    """

    messages: int
    queues: dict[int, tuple[int, int]]


class ArchivedPart(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive records of a segment: in JSON a list of these values.

    position, size_bytes: where in the segment its first record begins, and the bytes of all of them.
    min_store_timestamp, max_store_timestamp: epoch ms. topics: places in the sorted names of the entry's
    `topics`; None: not told.
    """

    position: int
    size_bytes: int
    records: int
    min_store_timestamp: int
    max_store_timestamp: int
    topics: tuple[int, ...] | None = None


class ArchivedSegment(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One segment of an archive.

    start_offset, end_offset: physical offsets of its first byte, and behind its last one. name: of its
    object. records: all of them; topics has those that consume queues have, which half messages are not.
    min_store_timestamp, max_store_timestamp: epoch ms. crc32c: of all its bytes. parts: all its records, in
    their order and without a gap; none in an entry of version 1.
    """

    version: int = 1
    store: str
    start_offset: int
    end_offset: int
    name: str
    size_bytes: int
    crc32c: int
    records: int
    min_store_timestamp: int
    max_store_timestamp: int
    topics: dict[str, ArchivedTopic]
    parts: tuple[ArchivedPart, ...] = ()


class StateSnapshot(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The small files of a store, by their path in its directory.

    end_offset: where the log ended; no consumer offset and no delivery in the files is beyond it.
    """

    store: str
    end_offset: int
    files: dict[str, bytes]


class Manifest(NamedTuple):
    """The segments of an archive in their order. place: where it is. store: the identity of the store."""

    place: str
    store: str
    segment_bytes: int
    segments: tuple[ArchivedSegment, ...]

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Ranges of physical offsets that are not there though later ones are."""
        pairs = zip(self.segments, self.segments[1:], strict=False)
        return tuple((a.end_offset, b.start_offset) for a, b in pairs if a.end_offset < b.start_offset)


class _Signed(msgspec.Struct):
    crc32c: str
    content: msgspec.Raw


StructT = TypeVar("StructT", bound=msgspec.Struct)


def encode_signed(content: msgspec.Struct) -> bytes:
    """The JSON object with its checksum."""
    encoded = msgspec.json.encode(content)
    return msgspec.json.encode(_Signed(f"{crc32c(encoded):08x}", msgspec.Raw(encoded))) + b"\n"


def decode_signed(data: bytes, kind: type[StructT]) -> StructT:
    """The content. Raises ValueError for anything but what `encode_signed` has made."""
    signed = msgspec.json.decode(data, type=_Signed)
    content = bytes(signed.content)
    if signed.crc32c != f"{crc32c(content):08x}":
        raise ValueError(f"its CRC-32C is {signed.crc32c}, that of its content {crc32c(content):08x}")
    return msgspec.json.decode(content, type=kind)


def root_name(identity: str) -> str:
    """The name of the root of a store's archive."""
    return f"store-{identity}.json"


def root_identity(name: str) -> str | None:
    """The identity in the name of a root; None for other names."""
    found = _ROOT.fullmatch(name)
    return found[1] if found else None


def entry_name(start_offset: int) -> str:
    """The entry of a segment.

    >>> entry_name(131072)
    'manifest/00000000000000131072.json'
    """
    return f"{MANIFEST_FOLDER}/{file_name(start_offset)}.json"


def state_name(end_offset: int) -> str:
    """The small files of a store whose log ended there."""
    return f"{STATE_FOLDER}/{file_name(end_offset)}.json"


def offset_of(name: str) -> int | None:
    """The offset in the name of an entry or a state, without its folder; None for other names."""
    digits = name.removesuffix(".json")
    return int(digits) if digits != name and is_file_name(digits) else None


def segment_offset(name: str) -> int | None:
    """The offset in the name of a segment, without its folder; None for other names."""
    found = _SEGMENT.fullmatch(name)
    return int(found[1]) if found else None
