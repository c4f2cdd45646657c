"""Goal: a copy has its name only when it is complete, and a leftover is told from what is somebody's.

Method: the steps one by one on the real disk. Whole copies: test_backup.py, test_store_restore.py.
"""

from pathlib import Path

import pytest

from mqstore.administration.unfinished_copy import (
    begin_copy,
    check_closed,
    end_copy,
    name_copy,
    refuse_taken,
    unfinished_layout,
)
from mqstore.store.errors import BackupRefused, StoreFull, StoreLocked
from mqstore.store.files.os_file_system import OsFileSystem

FILES = OsFileSystem()


def test_a_leftover_is_replaced_unless_it_is_in_work(tmp_path: Path) -> None:
    """Its mark says that it is one."""
    unfinished = unfinished_layout(tmp_path / "copy")
    mark = begin_copy(FILES, unfinished)
    (unfinished.root / "half").touch()
    with pytest.raises(StoreLocked):
        begin_copy(FILES, unfinished)
    mark.release()
    mark = begin_copy(FILES, unfinished)
    assert [path.name for path in unfinished.root.iterdir()] == ["unfinished-backup"]
    end_copy(FILES, unfinished)
    mark.release()
    name_copy(FILES, unfinished, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_what_is_no_leftover_stays(tmp_path: Path) -> None:
    """A directory of that name without the mark, and a target that is not empty."""
    unfinished = unfinished_layout(tmp_path / "copy")
    unfinished.root.mkdir()
    (unfinished.root / "somebody's").touch()
    with pytest.raises(BackupRefused, match="move it away"):
        begin_copy(FILES, unfinished)
    with pytest.raises(BackupRefused, match="not empty"):
        refuse_taken(FILES, unfinished.root)
    assert (unfinished.root / "somebody's").exists()


def test_a_copy_that_was_closed_without_room_is_full(tmp_path: Path) -> None:
    """`abort` is still there then."""
    unfinished = unfinished_layout(tmp_path / "copy")
    unfinished.root.mkdir()
    unfinished.lock.touch()
    unfinished.abort.touch()
    with pytest.raises(StoreFull):
        check_closed(FILES, unfinished)
    unfinished.abort.unlink()
    check_closed(FILES, unfinished)
    assert not unfinished.lock.exists()
