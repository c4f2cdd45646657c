"""The index point: its bytes, which the format page shows, and a file that is replaced as a whole."""

from pathlib import Path

import pytest

from mqstore.index.index_file.index_file_format import IndexHeader
from mqstore.index.index_file.index_point_file import IndexPointFile
from mqstore.index.index_file.index_point_format import IndexPoint, decode_index_point, encode_index_point
from mqstore.store.files.file_system import FileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.golden.format_page import code_block, field_table

STORED_MS = 1_726_740_000_123
POINT = IndexPoint(137, 0, STORED_MS, 20_240_919_100_000_000, IndexHeader(STORED_MS, STORED_MS, 0, 0, 2, 3))


def test_the_example_of_the_page() -> None:
    """Byte for byte, both ways."""
    data = bytes.fromhex(code_block("index_file.md", "Index point"))
    assert encode_index_point(POINT) == data
    assert decode_index_point(data) == POINT


def test_the_fields_lie_where_the_page_says() -> None:
    """End to end, 84 bytes."""
    rows = field_table("index_file.md", "Index point")
    assert [row.at for row in rows] == [sum(row.size for row in rows[:index]) for index in range(len(rows))]
    assert sum(row.size for row in rows) == len(encode_index_point(POINT))
    data = encode_index_point(POINT)
    for row, value in zip(rows[2:6], POINT[:4], strict=True):
        assert int.from_bytes(data[row.at : row.at + row.size], "big", signed=True) == value


@pytest.mark.parametrize("at", range(84))
def test_any_changed_byte_is_found(at: int) -> None:
    """Magic and version by themselves, the others by the CRC; then there is no point."""
    data = bytearray(encode_index_point(POINT))
    data[at] ^= 0x10
    assert decode_index_point(bytes(data)) is None


@pytest.mark.parametrize("length", [0, 4, 83, 85])
def test_any_other_length_is_no_point(length: int) -> None:
    """Cut short, or with something behind it."""
    assert decode_index_point(encode_index_point(POINT).ljust(length, b"\0")[:length]) is None


def test_what_was_saved_is_loaded(file_system: FileSystem, root: Path) -> None:
    """Through a file beside it, which is synced before it takes the name; the same again writes nothing."""
    watched = WatchedFileSystem(file_system)
    path = root / "mqstore" / "index-point"
    IndexPointFile(watched, path).save(POINT)
    kinds = [kind for kind, _ in watched.steps if kind in ("write", "sync", "rename", "sync_directory")]
    assert kinds == ["write", "sync", "rename", "sync_directory"]
    loaded = IndexPointFile(watched, path)
    assert loaded.load() == POINT
    count = len(watched.steps)
    loaded.save(POINT)
    assert len(watched.steps) == count
    assert repr(loaded) == f"IndexPointFile({POINT})"


def test_a_missing_file_is_no_point(file_system: FileSystem, root: Path) -> None:
    """Neither is a deleted one; deleting it twice is no error."""
    path = root / "index-point"
    point_file = IndexPointFile(file_system, path)
    assert point_file.load() is None
    point_file.save(POINT)
    for _ in range(2):
        point_file.delete()
    assert point_file.point is None
    assert IndexPointFile(file_system, path).load() is None
