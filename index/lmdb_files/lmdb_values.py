"""The pairs of a snapshot of LMDB as views of its data file: no value is read, however long.

py-lmdb reads through each value that it hands out, so a walk through the runs of a key index read the whole
file: at forty million keys 1 GiB, 20 s from a cold disk. Here the leaves are decoded by
lmdb_page_format.py, and a value is a view of a mapping of the same file. LMDB writes by calls
(`writemap=False`), so such a mapping shows what it wrote.

A snapshot keeps its pages: while its transaction is open, LMDB does not use them again. Its meta page is
written once more by the second commit after it, so that is looked at again at the end. Called by
lmdb_environment.py, inside a transaction of a file that lmdb_pages.py found to be sound.
Threads: callers take turns. Durability: nothing is written.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mqstore.index.lmdb_files.lmdb_page_format import (
    LARGEST_DEPTH,
    META_BYTES,
    NO_PAGE,
    PAGE_HEADER_BYTES,
    LmdbMeta,
    PageDamaged,
    decode_branch,
    decode_leaf,
    decode_meta,
)
from mqstore.store.files.file_system import FileSystem, MappedRegion

__all__ = ["LmdbValues", "Pairs"]

Pairs = Sequence[tuple[bytes | memoryview, memoryview]]
"""Keys and values, ascending by key."""

_META_PAGES: Final = 2


class LmdbValues:
    """The data file of one environment, mapped for reading."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        """path: of data.mdb. It is mapped when it is first needed, and again when it has grown."""
        self._file_system = file_system
        self._path = path
        self._region: MappedRegion | None = None

    def pairs(self, transaction: int) -> Pairs | None:
        """All pairs that the snapshot with this number has; views are valid until its transaction ends.

        None if its meta page has been written again, or the file is not what LMDB wrote.
        """
        try:
            region = self._mapped(0)
            page_size = decode_meta(bytes(region.view[:META_BYTES]), 0).page_size
            number = transaction % _META_PAGES
            meta_at = number * page_size
            meta_bytes = bytes(region.view[meta_at : meta_at + META_BYTES])
            meta = decode_meta(meta_bytes, number)
            if meta.transaction != transaction:
                return None
            region = self._mapped((meta.last_page + 1) * page_size)
            root, depth = meta.pairs.root, min(meta.pairs.depth, LARGEST_DEPTH)
            found = list(_walk(region.view, meta, root, depth)) if root != NO_PAGE else []
        except (PageDamaged, FileNotFoundError):
            return None
        is_same = (
            len(found) == meta.pairs.entries and region.view[meta_at : meta_at + META_BYTES] == meta_bytes
        )
        return found if is_same else None

    def _mapped(self, wanted_bytes: int) -> MappedRegion:
        """The mapping, made again if the file has grown. It may be shorter: free pages need no room."""
        region = self._region
        if region is None or region.size_bytes < wanted_bytes:
            sizes = {entry.name: entry.size_bytes for entry in self._file_system.list(self._path.parent)}
            size_bytes = sizes.get(self._path.name, 0)
            if not size_bytes:
                raise PageDamaged("an empty file")
            if region is None or region.size_bytes < size_bytes:
                region = self._region = self._file_system.map(self._path, size_bytes, read_only=True)
        return region

    def __repr__(self) -> str:
        return f"LmdbValues({str(self._path)!r})"


def _walk(view: memoryview, meta: LmdbMeta, number: int, depth: int) -> Iterator[tuple[bytes, memoryview]]:
    """The pairs under a page, ascending. Raises PageDamaged."""
    page = bytes(_piece(view, number * meta.page_size, meta.page_size))
    if depth > 1:
        for _, child in decode_branch(page, number):
            yield from _walk(view, meta, child, depth - 1)
        return
    for pair in decode_leaf(page, number):
        if pair.is_overflow:
            at = pair.value_at * meta.page_size + PAGE_HEADER_BYTES
        else:
            at = number * meta.page_size + pair.value_at
        yield pair.key, _piece(view, at, pair.value_bytes)


def _piece(view: memoryview, at: int, length: int) -> memoryview:
    if not 0 <= at <= len(view) - length:
        raise PageDamaged(f"bytes {at} to {at + length}: not in the file")
    return view[at : at + length]
