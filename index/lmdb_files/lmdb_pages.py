"""Whether LMDB may open a data file: every page that it would follow is in the file, and of the right kind.

LMDB does not check what it reads through its map. A wrong page number or length leads it out of the file: a
SIGBUS, which ends the process. So the file is read first, through the FileSystem seam: the meta page that
LMDB will choose, and both of its trees, each page once. For a long value only the first page's
header is read: LMDB does not read the value, and its users check it. A key index has few pairs with long
values, so its trees are a handful of pages. The bytes: lmdb_page_format.py.

A writer of another process may commit at the same time, and overwrite pages that were free. So apparent
damage is read again if there was a commit meanwhile.

Called by lmdb_environment.py before each opening. Threads: any. Nothing is changed.
"""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from mqstore.index.lmdb_files.lmdb_page_format import (
    FIRST_TREE_PAGE,
    LARGEST_DEPTH,
    META_BYTES,
    NO_PAGE,
    PAGE_HEADER_BYTES,
    Leaf,
    LmdbMeta,
    LmdbTree,
    PageDamaged,
    decode_branch,
    decode_leaf,
    decode_meta,
    decode_overflow,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import raise_foreign

__all__ = ["find_damage"]

# How often a file is checked again because of a commit meanwhile.
_ATTEMPTS: Final = 20
_WORD_BYTES: Final = 8
_BYTE_ORDER: Final = sys.byteorder
# Bytes of a list of free pages that are read at once.
_PIECE_BYTES: Final = 1 << 20


def find_damage(file_system: FileSystem, path: Path) -> str | None:
    """What is wrong with LMDB's data file; None if LMDB may open it. An empty or missing file is right."""
    damage = None
    for _ in range(_ATTEMPTS):
        before = _metas_bytes(file_system, path)
        if not before:
            return None
        try:
            _check(file_system, path)
        except PageDamaged as error:
            damage = str(error)
        else:
            return None
        if _metas_bytes(file_system, path) == before:
            break
    return damage


def _metas_bytes(file_system: FileSystem, path: Path) -> bytes:
    """The bytes that change with each commit; empty if the file is missing or empty."""
    first = b""
    try:
        first = file_system.read_at(path, 0, META_BYTES)
    except FileNotFoundError as error:
        raise_foreign(error)
    try:
        second_at = decode_meta(first, 0).page_size
    except PageDamaged:
        return first
    return first + file_system.read_at(path, second_at, META_BYTES)


def _check(file_system: FileSystem, path: Path) -> None:
    """Raises PageDamaged."""
    meta = _newest_meta(file_system, path)
    # After the meta page: all that it refers to was written before it.
    sizes = {entry.name: entry.size_bytes for entry in file_system.list(path.parent)}
    pages = _Pages(file_system, path, meta, sizes.get(path.name, 0))
    pages.check_tree(meta.pairs)
    pages.check_tree(meta.free_pages, is_free_list=True)
    pages.check_each_used_once()


def _newest_meta(file_system: FileSystem, path: Path) -> LmdbMeta:
    """The meta page that LMDB takes; it writes that of transaction n to page n % 2."""
    first = decode_meta(file_system.read_at(path, 0, META_BYTES), 0)
    second = decode_meta(file_system.read_at(path, first.page_size, META_BYTES), 1)
    newest = second if first.transaction < second.transaction else first
    if first.page_size != second.page_size or newest.transaction % 2 != (newest is second):
        raise PageDamaged("pages 0 and 1: meta pages that do not go together")
    return newest


class _Pages:
    """The pages of one snapshot that were read so far."""

    def __init__(self, file_system: FileSystem, path: Path, meta: LmdbMeta, file_bytes: int) -> None:
        self._file_system = file_system
        self._path = path
        self._meta = meta
        # Free pages at the end need not be in the file.
        self._readable_count = min(meta.last_page + 1, file_bytes // meta.page_size)
        self._tree_pages: set[int] = set()
        self._overflow_runs: list[tuple[int, int]] = []
        self._free_pages: list[npt.NDArray[np.uint64]] = []

    def check_tree(self, tree: LmdbTree, *, is_free_list: bool = False) -> None:
        """Go over all pages of a tree. Raises PageDamaged."""
        walk = _TreeWalk(self, is_free_list=is_free_list)
        if tree.root != NO_PAGE:
            if not 0 < tree.depth <= LARGEST_DEPTH:
                raise PageDamaged(f"a tree {tree.depth} pages deep")
            walk.go(tree.root, tree.depth, None, None)
        elif tree.depth:
            raise PageDamaged("an empty tree that has a depth")
        counted = (walk.branch_pages, walk.leaf_pages, walk.overflow_pages, walk.entries)
        if counted != tree[3:7]:
            raise PageDamaged(f"a tree of {counted} pages and entries, and not of {tree[3:7]}")

    def read(self, number: int) -> bytes:
        """A page of a tree; each may be read once. Raises PageDamaged."""
        if not FIRST_TREE_PAGE <= number < self._readable_count or number in self._tree_pages:
            raise PageDamaged(f"page {number}: not in the file, or met twice")
        self._tree_pages.add(number)
        page_size = self._meta.page_size
        page = self._file_system.read_at(self._path, number * page_size, page_size)
        if len(page) != page_size:
            raise PageDamaged(f"page {number}: cut short")
        return page

    def check_overflow(self, number: int, value_bytes: int) -> int:
        """Number of pages of a long value, checked to fit it and the file. Raises PageDamaged."""
        page_size = self._meta.page_size
        needed_count = -(-(PAGE_HEADER_BYTES + value_bytes) // page_size)
        if not FIRST_TREE_PAGE <= number <= self._readable_count - needed_count:
            raise PageDamaged(f"page {number}: a value that is not in the file")
        header = self._file_system.read_at(self._path, number * page_size, PAGE_HEADER_BYTES)
        page_count = decode_overflow(header, number)
        if not needed_count <= page_count <= self._meta.last_page + 1 - number:
            raise PageDamaged(f"page {number}: {page_count} pages for {value_bytes} bytes")
        self._overflow_runs.append((number, page_count))
        return page_count

    def check_free_list(self, pair: Leaf, page: bytes) -> None:
        """Check a list of free pages: its count, and numbers that descend. Raises PageDamaged."""
        transaction = int.from_bytes(pair.key, _BYTE_ORDER)
        if len(pair.key) != _WORD_BYTES or transaction > self._meta.transaction:
            raise PageDamaged(f"free pages of the transaction {transaction}")
        at = pair.value_at * self._meta.page_size + PAGE_HEADER_BYTES
        count, least = -1, np.uint64(NO_PAGE)
        for start in range(0, pair.value_bytes, _PIECE_BYTES):
            length = min(_PIECE_BYTES, pair.value_bytes - start)
            if pair.is_overflow:
                piece = self._file_system.read_at(self._path, at + start, length)
            else:
                piece = page[pair.value_at : pair.value_at + pair.value_bytes]
            numbers = np.frombuffer(piece[: len(piece) // _WORD_BYTES * _WORD_BYTES], np.uint64)
            if start == 0 and len(numbers):
                count, numbers = int(numbers[0]), numbers[1:]
            if len(numbers):
                if numbers[0] >= least or (numbers[1:] >= numbers[:-1]).any():
                    raise PageDamaged("free pages that do not descend")
                least = numbers[-1]
                self._free_pages.append(numbers)
        if pair.value_bytes != (count + 1) * _WORD_BYTES:
            raise PageDamaged(f"{count} free pages in {pair.value_bytes} bytes")

    def check_each_used_once(self) -> None:
        """No page is in two places, or free and used. Raises PageDamaged."""
        used = sorted([*((number, 1) for number in self._tree_pages), *self._overflow_runs])
        for (number, page_count), (following, _) in pairwise(used):
            if number + page_count > following:
                raise PageDamaged(f"page {following}: in two places")
        free = np.sort(np.concatenate([np.empty(0, np.uint64), *self._free_pages]))
        if not len(free):
            return
        if free[0] < FIRST_TREE_PAGE or free[-1] > self._meta.last_page or (free[1:] == free[:-1]).any():
            raise PageDamaged("free pages that are none, or free twice")
        if used:
            starts, counts = np.array(used, np.uint64).T
            at = np.searchsorted(starts, free, side="right").astype(np.int64) - 1
            if (free < (starts + counts)[np.maximum(at, 0)])[at >= 0].any():
                raise PageDamaged("a page that is free and used")


class _TreeWalk:
    """A walk through one tree, from its root down, the least keys first."""

    def __init__(self, pages: _Pages, *, is_free_list: bool) -> None:
        self.branch_pages = self.leaf_pages = self.overflow_pages = self.entries = 0
        self._pages = pages
        self._is_free_list = is_free_list

    def go(self, number: int, depth: int, least: bytes | None, below: bytes | None) -> None:
        """Check the page and what lies under it: keys from `least` on, and below `below`."""
        page = self._pages.read(number)
        if depth == 1:
            self._check_leaf(page, number, least, below)
            return
        self.branch_pages += 1
        children = decode_branch(page, number)
        if len(children) == 1 and not self._is_free_list:
            raise PageDamaged(f"page {number}: a branch with one child")
        bounds = [least, *(key for key, _ in children[1:]), below]
        self._check_order(number, bounds)
        for (_, child), (child_least, child_below) in zip(children, pairwise(bounds), strict=True):
            self.go(child, depth - 1, child_least, child_below)

    def _check_leaf(self, page: bytes, number: int, least: bytes | None, below: bytes | None) -> None:
        self.leaf_pages += 1
        pairs = decode_leaf(page, number)
        self.entries += len(pairs)
        keys = [pair.key for pair in pairs]
        if least is not None and self._ordered(keys[0]) < self._ordered(least):
            raise PageDamaged(f"page {number}: a key that belongs before it")
        self._check_order(number, [None, *keys, below])
        for pair in pairs:
            if pair.is_overflow:
                self.overflow_pages += self._pages.check_overflow(pair.value_at, pair.value_bytes)
            if self._is_free_list:
                self._pages.check_free_list(pair, page)

    def _check_order(self, number: int, keys: list[bytes | None]) -> None:
        """Check that keys ascend; unknown ones at the ends are left out."""
        known = [self._ordered(key) for key in keys if key is not None]
        if any(one >= other for one, other in pairwise(known)):
            raise PageDamaged(f"page {number}: keys that do not ascend")

    def _ordered(self, key: bytes) -> bytes:
        """LMDB compares bytes, and the transactions of free pages as numbers."""
        return key[::-1] if self._is_free_list and _BYTE_ORDER == "little" else key
