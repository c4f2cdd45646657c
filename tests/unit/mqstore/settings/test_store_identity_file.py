"""Goal: a store has one identity for life, and a new directory another.

Method: stores opened, restarted, copied and damaged, on disk and in memory.
"""

import shutil
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.settings.store_identity_file import StoreIdentityFile
from mqstore.store.errors import StateFileCorrupt
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from support.stores.small_log import small_config


def _identity(root: Path) -> str | None:
    return StoreIdentityFile(OsFileSystem(), StoreLayout(root).identity).load()


def _open_once(root: Path) -> str | None:
    with MessageStore.open(root, small_config(), start=False) as store:
        store.put_message(Message("orders", b"x"))
    return _identity(root)


def test_it_stays_through_restarts_and_differs_from_others(tmp_path: Path) -> None:
    """And a directory that is made anew has another one."""
    first = _open_once(tmp_path / "a")
    assert first is not None
    assert len(first) == 32
    assert _open_once(tmp_path / "a") == first
    assert _open_once(tmp_path / "b") != first
    shutil.rmtree(tmp_path / "a")
    assert _open_once(tmp_path / "a") not in (None, first)


def test_an_old_directory_gets_one_from_its_next_writer(tmp_path: Path) -> None:
    """A reader makes none."""
    _open_once(tmp_path)
    StoreLayout(tmp_path).identity.unlink()
    with MessageStore.open(tmp_path, small_config(), read_only=True):
        assert _identity(tmp_path) is None
    assert _open_once(tmp_path) is not None


@pytest.mark.parametrize("damage", [b"", b"mqstore-store", b"mqstore-store " + b"0" * 32 + b" 00000000\n"])
def test_one_that_cannot_be_read_is_made_anew_by_a_writer(tmp_path: Path, damage: bytes) -> None:
    """A reader gets an error; the store opens all the same."""
    first = _open_once(tmp_path)
    StoreLayout(tmp_path).identity.write_bytes(damage)
    with pytest.raises(StateFileCorrupt):
        _identity(tmp_path)
    assert _open_once(tmp_path) not in (None, first)
