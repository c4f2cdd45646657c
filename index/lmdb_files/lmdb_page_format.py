"""The pages of an LMDB data file, as far as they lead to other bytes (format 1 of LMDB 0.9, 64 bits).

    page    +---------------------------------------------------------------+
          0 | page number                                                   |
          8 | pad           | flags         | lower         | upper         |
         16 | offsets of the nodes, 2 bytes each, in the order of their keys|
            | ... free room from lower to upper ... | nodes up to the end   |
            +---------------------------------------------------------------+
    node    +---------------------------------------------------------------+
          0 | value length, or child        | flags, child  | key length    |
          8 | key, then the value, or the first page of its overflow run    |
            +---------------------------------------------------------------+
    meta    +---------------------------------------------------------------+   pages 0 and 1, behind
         16 | magic BEEFC0DE                | version 1                     |   the page's header
         24 | address                                                       |
         32 | bytes of the map                                              |
         40 | tree of free pages, 48 bytes                                  |
         88 | tree of the pairs, 48 bytes                                   |
        136 | last page                                                     |
        144 | transaction                                                   |
            +---------------------------------------------------------------+
    tree    +---------------------------------------------------------------+
          0 | page size (free pages), or 0  | flags         | depth         |
          8 | branch pages                                                  |
         16 | leaf pages                                                    |
         24 | overflow pages                                                |
         32 | entries                                                       |
         40 | root page; all bits set: the tree is empty                    |
            +---------------------------------------------------------------+

In the byte order of the machine. Nodes lie side by side, from `upper` to the end of their page, each of an
even length. A long value lies on a run of overflow pages, which has one header; at 12 is the count of its
pages. A value of the tree of free pages is a count and that many page numbers, the greatest first; its key is
the transaction that freed them. Page: docs/format/key_index.md.

mqstore does not write these bytes; LMDB does. Checked by lmdb_pages.py. Pure functions; no I/O.
"""

import struct
from typing import Final, NamedTuple

__all__ = [
    "FIRST_TREE_PAGE",
    "LARGEST_DEPTH",
    "META_BYTES",
    "NO_PAGE",
    "PAGE_HEADER_BYTES",
    "Leaf",
    "LmdbMeta",
    "LmdbTree",
    "PageDamaged",
    "decode_branch",
    "decode_leaf",
    "decode_meta",
    "decode_overflow",
]

_PAGE_HEADER: Final = struct.Struct("=QHHHH")
_OVERFLOW_HEADER: Final = struct.Struct("=QHHI")
_NODE_HEADER: Final = struct.Struct("=IHH")
_TREE: Final = struct.Struct("=IHHQQQQQ")
_META_HEAD: Final = struct.Struct("=IIQQ")
_META_TAIL: Final = struct.Struct("=QQ")
_PAGE_NUMBER: Final = struct.Struct("=Q")

PAGE_HEADER_BYTES: Final = 16
META_BYTES: Final = 152
_NODE_HEADER_BYTES: Final = 8
_TREES_AT: Final = PAGE_HEADER_BYTES + _META_HEAD.size
assert (_PAGE_HEADER.size, _OVERFLOW_HEADER.size, _NODE_HEADER.size) == (16, 16, _NODE_HEADER_BYTES)
assert _TREES_AT + 2 * _TREE.size + _META_TAIL.size == META_BYTES

_MAGIC: Final = 0xBEEF_C0DE
_VERSION: Final = 1
_BRANCH: Final = 0x01
_LEAF: Final = 0x02
_OVERFLOW: Final = 0x04
_META: Final = 0x08
_BIG_VALUE: Final = 0x01
_INTEGER_KEYS: Final = 0x08
_PAGE_SIZES: Final = tuple(1 << bits for bits in range(9, 16))
_LONGEST_KEY_BYTES: Final = 511
# More than any process can map.
_LARGEST_MAP_BYTES: Final = 1 << 46

NO_PAGE: Final = (1 << 64) - 1
"""The root of an empty tree."""
FIRST_TREE_PAGE: Final = 2
"""The pages before it are the two metas."""
LARGEST_DEPTH: Final = 32
"""The most pages that a cursor of LMDB holds."""


class PageDamaged(Exception):
    """A page is not as LMDB writes it; the text says which and why."""


class LmdbTree(NamedTuple):
    """One of the two trees, as its meta describes it."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


class LmdbMeta(NamedTuple):
    """One of the two first pages."""

    page_size: int
    free_pages: LmdbTree
    pairs: LmdbTree
    last_page: int
    transaction: int


class Leaf(NamedTuple):
    """One pair of a leaf. value_at: byte within the page; of an overflow value, its first page's number."""

    key: bytes
    value_bytes: int
    value_at: int
    is_overflow: bool


def decode_meta(data: bytes, number: int) -> LmdbMeta:
    """The meta page with that number, 0 or 1. Raises PageDamaged."""
    _require(len(data) == META_BYTES, number, "cut short")
    stored_number, _, flags, _, _ = _PAGE_HEADER.unpack_from(data)
    magic, version, _, map_bytes = _META_HEAD.unpack_from(data, PAGE_HEADER_BYTES)
    is_meta = (stored_number, flags, magic, version) == (number, _META, _MAGIC, _VERSION)
    _require(is_meta, number, "no meta page")
    free_pages = LmdbTree(*_TREE.unpack_from(data, _TREES_AT))
    pairs = LmdbTree(*_TREE.unpack_from(data, _TREES_AT + _TREE.size))
    last_page, transaction = _META_TAIL.unpack_from(data, _TREES_AT + 2 * _TREE.size)
    page_size = free_pages.pad
    _require(page_size in _PAGE_SIZES, number, f"a page size of {page_size}")
    _require(free_pages.flags == _INTEGER_KEYS and pairs[:2] == (0, 0), number, "other flags of a tree")
    _require(
        (last_page + 1) * page_size <= map_bytes <= _LARGEST_MAP_BYTES, number, f"a map of {map_bytes} bytes"
    )
    return LmdbMeta(page_size, free_pages, pairs, last_page, transaction)


def decode_branch(page: bytes, number: int) -> list[tuple[bytes, int]]:
    """Keys and children of a branch page; the first key may be empty. Raises PageDamaged."""
    places, children = [], []
    for at in _node_offsets(page, number, _BRANCH):
        low, high, key_bytes = _NODE_HEADER.unpack_from(page, at)
        places.append((at, _end_of_node(page, number, at, key_bytes, 0)))
        key_at = at + _NODE_HEADER_BYTES
        children.append((page[key_at : key_at + key_bytes], low | high << 32))
    _require_side_by_side(page, number, places)
    return children


def decode_leaf(page: bytes, number: int) -> list[Leaf]:
    """The pairs of a leaf page. Raises PageDamaged."""
    places, pairs = [], []
    for at in _node_offsets(page, number, _LEAF):
        value_bytes, flags, key_bytes = _NODE_HEADER.unpack_from(page, at)
        is_overflow = flags == _BIG_VALUE
        _require(is_overflow or flags == 0, number, f"a node with the flags {flags}")
        _require(key_bytes > 0, number, "an empty key")
        held_bytes = _PAGE_NUMBER.size if is_overflow else value_bytes
        places.append((at, _end_of_node(page, number, at, key_bytes, held_bytes)))
        value_at = at + _NODE_HEADER_BYTES + key_bytes
        key = page[at + _NODE_HEADER_BYTES : value_at]
        if is_overflow:
            (value_at,) = _PAGE_NUMBER.unpack_from(page, value_at)
        pairs.append(Leaf(key, value_bytes, value_at, is_overflow))
    _require_side_by_side(page, number, places)
    return pairs


def decode_overflow(header: bytes, number: int) -> int:
    """How many pages the run has that begins with this header. Raises PageDamaged."""
    _require(len(header) == PAGE_HEADER_BYTES, number, "cut short")
    stored_number, _, flags, page_count = _OVERFLOW_HEADER.unpack(header)
    _require((stored_number, flags) == (number, _OVERFLOW), number, "no overflow page")
    return int(page_count)


def _node_offsets(page: bytes, number: int, kind: int) -> tuple[int, ...]:
    """Where the nodes begin; their headers are within the page."""
    stored_number, _, flags, lower, upper = _PAGE_HEADER.unpack_from(page)
    _require((stored_number, flags) == (number, kind), number, "a page of another number or kind")
    _require(
        PAGE_HEADER_BYTES < lower <= upper <= len(page) and lower % 2 == 0,
        number,
        f"free room from {lower} to {upper}",
    )
    offsets = struct.unpack_from(f"={(lower - PAGE_HEADER_BYTES) // 2}H", page, PAGE_HEADER_BYTES)
    _require(
        upper <= min(offsets) and max(offsets) <= len(page) - _NODE_HEADER_BYTES,
        number,
        "a node outside of its page",
    )
    return offsets


def _end_of_node(page: bytes, number: int, at: int, key_bytes: int, held_bytes: int) -> int:
    end = at + (_NODE_HEADER_BYTES + key_bytes + held_bytes + 1) // 2 * 2
    _require(key_bytes <= _LONGEST_KEY_BYTES and end <= len(page), number, "a node that ends outside")
    return end


def _require_side_by_side(page: bytes, number: int, places: list[tuple[int, int]]) -> None:
    """Nodes fill the page from `upper` to its end; LMDB moves them by their lengths."""
    expected = _PAGE_HEADER.unpack_from(page)[4]
    for at, end in sorted(places):
        _require(at == expected, number, "nodes that do not lie side by side")
        expected = end
    _require(expected == len(page), number, "nodes that do not reach its end")


def _require(is_sound: bool, number: int, fault: str) -> None:
    if not is_sound:
        raise PageDamaged(f"page {number}: {fault}")
