"""Readers beside a writer that deletes files between their listing and their first look into one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import FilesVanished
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.verify import verify
from support.stores.small_log import small_config


class Deleting(OsFileSystem):
    """Deletes the first segment whenever it is about to be looked into, `times` times."""

    times = 0

    def map(self, path: Path, size_bytes: int, **settings: Any) -> Any:
        self._meet(path)
        return super().map(path, size_bytes, **settings)

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        self._meet(path)
        return super().read_at(path, position, length_bytes)

    def _meet(self, path: Path) -> None:
        segments = sorted(path.parent.iterdir())
        if path.parent.name == "commitlog" and path == segments[0] and self.times:
            self.times -= 1
            if len(segments) > 1:
                path.unlink()
            else:
                raise FileNotFoundError(2, "deleted and made again", str(path))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with MessageStore.open(tmp_path / "store", small_config(), start=False) as store:
        store.put_messages([Message("orders", bytes(900)) for _ in range(400)])
    # So that a reader walks from the first segment on.
    (tmp_path / "store" / "mqstore" / "recovery-point").unlink()
    (tmp_path / "store" / "abort").touch()
    return tmp_path / "store"


def _open(root: Path, disk: Deleting) -> int:
    with MessageStore.open(root, small_config(), read_only=True, file_system=disk) as store:
        return store.min_offset


def _refresh(root: Path, disk: Deleting) -> int:
    """Of a reader whose segments are all gone since."""
    times, disk.times = disk.times, 0
    with (
        MessageStore.open(root, small_config(), start=False) as writer,
        MessageStore.open(root, small_config(), read_only=True, file_system=disk) as store,
    ):
        writer.put_messages([Message("orders", bytes(900)) for _ in range(400)])
        for segment in sorted((root / "commitlog").iterdir())[: len(store.commit_log.files.files)]:
            segment.unlink()
        disk.times = times
        store.refresh()
        return store.min_offset


def _verify(root: Path, disk: Deleting) -> int:
    return verify(root, small_config(), file_system=disk, live=True).scan.min_offset


@pytest.mark.parametrize("read", [_open, _refresh, _verify])
def test_a_reader_lists_again(root: Path, read: Callable[[Path, Deleting], int]) -> None:
    """The segments that are left are those it has; without end, it says what goes on."""
    disk = Deleting()
    disk.times = 2
    assert read(root, disk) > 0
    disk.times = 1_000
    with pytest.raises(FilesVanished, match="file_reserved_time"):
        read(root, disk)
