"""Goal: code is loaded only from a folder that no other user can write or replace.

Method: each way in which another user could have prepared the temporary directory; the folder is refused.
Owners are changed by what os.geteuid says, so that the tests need no second user.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mqstore.store.loops.private_folder import FolderNotPrivate, make_private_folder


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A directory that is as open as /tmp."""
    path = tmp_path.resolve() / "temporary"
    path.mkdir()
    path.chmod(0o1777)
    return path


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_a_folder_is_made_and_taken_again(temporary: Path, umask: int) -> None:
    """With mode 0700 under any umask."""
    folder = temporary / "folder"
    before = os.umask(umask)
    try:
        make_private_folder(folder)
    finally:
        os.umask(before)
    make_private_folder(folder)
    assert folder.stat().st_mode & 0o7777 == 0o700


def test_several_make_it_at_once(temporary: Path) -> None:
    """All succeed."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make_private_folder, [temporary / "folder"] * 64))


def _as_a_file(folder: Path) -> None:
    folder.write_bytes(b"")


def _as_a_link_to_a_private_folder(folder: Path) -> None:
    folder.with_name("other").mkdir(0o700)
    folder.symlink_to("other")


def _as_a_dangling_link(folder: Path) -> None:
    folder.symlink_to("nowhere")


def _readable_by_others(folder: Path) -> None:
    folder.mkdir(0o755)


def _writable_by_the_group(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def _in_a_directory_without_sticky_bit(folder: Path) -> None:
    folder.mkdir(0o700)
    folder.parent.chmod(0o777)


def _in_a_directory_of_a_group(folder: Path) -> None:
    folder.mkdir(0o700)
    folder.parent.chmod(0o775)


@pytest.mark.parametrize(
    "prepare",
    [
        _as_a_file,
        _as_a_link_to_a_private_folder,
        _as_a_dangling_link,
        _readable_by_others,
        _writable_by_the_group,
        _in_a_directory_without_sticky_bit,
        _in_a_directory_of_a_group,
    ],
)
def test_a_prepared_folder_is_refused(temporary: Path, prepare: Callable[[Path], None]) -> None:
    """Whatever lies there already is taken only if it is ours alone."""
    prepare(temporary / "folder")
    with pytest.raises(FolderNotPrivate, match=str(temporary)):
        make_private_folder(temporary / "folder")


def test_a_folder_of_another_user_is_refused(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with mode 0700: its owner could write it."""
    make_private_folder(temporary / "folder")
    monkeypatch.setattr(os, "geteuid", lambda: temporary.stat().st_uid + 1)
    with pytest.raises(FolderNotPrivate, match="belongs to the user"):
        make_private_folder(temporary / "folder")


def test_a_folder_above_that_is_a_link_is_refused(temporary: Path) -> None:
    """Its target could change later."""
    (temporary / "real").mkdir(0o700)
    (temporary / "link").symlink_to("real")
    with pytest.raises(FolderNotPrivate, match="link is no folder"):
        make_private_folder(temporary / "link" / "folder")


def test_without_a_temporary_directory_it_says_so(tmp_path: Path) -> None:
    """As an OSError."""
    with pytest.raises(FileNotFoundError):
        make_private_folder(tmp_path.resolve() / "none" / "folder")
