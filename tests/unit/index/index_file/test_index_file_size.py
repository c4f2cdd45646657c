"""How many slots an index file has, found in its contents: right or not at all.

Method: files of RocketMQ, whose settings are known, and files of any size that keys were put into.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.index.index_file.index_file import IndexFile, IndexFileSize
from mqstore.index.index_file.index_file_format import IndexHeader, encode_header
from mqstore.index.index_file.index_file_size import find_slot_count
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from support.golden.manifest import GOLDEN_NAMES, VERSION_NAMES

PATH = Path("/20260101000000000")


def index_file(
    file_system: FileSystem, path: Path, size: IndexFileSize, keys: list[tuple[int, int]]
) -> bytes:
    """A file into which entries of (hash, physical offset) were put."""
    file_system.make_directories(path.parent)
    file = IndexFile(file_system, path, size, read_only=False, create=True)
    if keys:
        file.put(np.array([(code, 1_726_740_000_000, offset) for code, offset in keys], np.int64))
    file.write_back()
    return file_system.read(path)


@pytest.mark.parametrize("name", [*GOLDEN_NAMES, *VERSION_NAMES])
def test_files_of_every_version(name: str, golden_directory: Callable[[str], Path]) -> None:
    """500 slots and 5,000."""
    for path in (golden_directory(name) / "index").iterdir():
        slot_count = find_slot_count(memoryview(path.read_bytes()))
        assert slot_count == (500 if name in GOLDEN_NAMES else 5_000)


@pytest.mark.slow
@given(
    slot_count=st.integers(1, 60),
    spare=st.integers(1, 60),
    keys=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 400)), max_size=40),
)
def test_never_a_wrong_number(slot_count: int, spare: int, keys: list[tuple[int, int]]) -> None:
    """Of a small file it may remain unknown, for more than one number may fit."""
    keys = sorted(keys, key=lambda key: key[1])
    size = IndexFileSize(slot_count, len(keys) + spare)
    data = index_file(MemoryFileSystem(), PATH, size, keys)
    assert len(data) == size.file_bytes
    assert find_slot_count(memoryview(data)) in (slot_count, None)


@pytest.mark.parametrize("keys", [1, 2, 1_000, 29_999])
def test_a_larger_file_always_tells(keys: int, file_system: FileSystem, root: Path) -> None:
    """From the first key on, that of the record at 0, until it is full."""
    codes = np.random.default_rng(keys).integers(1, 2**31, keys).tolist()
    rows = [(code, 100 * number) for number, code in enumerate(codes)]
    data = index_file(file_system, root / PATH.name, IndexFileSize(12_345, 30_000), rows)
    assert find_slot_count(memoryview(data)) == 12_345


def test_a_file_without_entries_does_not_tell() -> None:
    """And no more does one that is too short, or no multiple of four bytes long."""
    data = index_file(MemoryFileSystem(), PATH, IndexFileSize(100, 100), [])
    assert find_slot_count(memoryview(data)) is None
    full = index_file(MemoryFileSystem(), PATH, IndexFileSize(100, 100), [(77, 0), (78, 5)])
    assert find_slot_count(memoryview(full)[:60]) is None
    assert find_slot_count(memoryview(full)[:-2]) is None
    assert find_slot_count(memoryview(b"")) is None


def test_slots_that_are_not_those_of_the_entries_do_not_tell() -> None:
    """As a power cut may leave them."""
    data = bytearray(index_file(MemoryFileSystem(), PATH, IndexFileSize(100, 100), [(77, 0), (78, 5)]))
    data[40 + 4 * 77 + 3] = 9
    assert find_slot_count(memoryview(data)) is None


def test_a_file_longer_than_any_that_rocketmq_maps_is_not_searched(tmp_path: Path) -> None:
    """A sparse file of 8 GiB has room for half a billion numbers of slots, and all of it would be read."""
    path = tmp_path / "20260101000000000"
    path.write_bytes(encode_header(IndexHeader(1, 2, 3, 4, 5, 6)))
    os.truncate(path, 1 << 33)
    assert find_slot_count(OsFileSystem().map(path, 1 << 33, read_only=True).view) is None
    assert path.stat().st_blocks < 1 << 10
    path.unlink()
