"""Goal: `mqstore archive` and `mqstore restore` say what was done, and how it ended.

Method: run on small stores.
"""

import os
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.administration.unfinished_copy import begin_copy, unfinished_layout
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from support.archives.segmented_store import SEGMENT_BYTES, fill, open_store
from support.command_line import json_lines, run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with open_store(tmp_path / "store") as opened:
        fill(opened, 2)
    return tmp_path / "store"


def test_there_and_back(tmp_path: Path, store: Path) -> None:
    """As a person types it."""
    done = run("archive", store, tmp_path / "archive")
    assert done.exit_code == 0
    assert f"archived 2 segments, 262,144 bytes; {tmp_path / 'archive'} has 2" in done.stdout
    done = run("restore", tmp_path / "archive", tmp_path / "restored")
    assert done.exit_code == 0
    assert "restored: physical offsets 0 to 262,144 in 2 segments" in done.stdout
    assert run("verify", tmp_path / "restored").exit_code == 0


def test_json(tmp_path: Path, store: Path) -> None:
    """The reports, whole."""
    (archived,) = json_lines(run("archive", store, tmp_path / "archive", "--guard", "--json"))
    assert archived["endOffset"] == 2 * SEGMENT_BYTES
    assert (archived["isGuarded"], archived["gaps"], archived["missing"]) == (True, [], [])
    (archived,) = json_lines(run("archive", store, tmp_path / "archive", "--no-guard", "--json"))
    assert (archived["archivedSegments"], archived["isGuarded"]) == (0, False)
    (restored,) = json_lines(run("restore", tmp_path / "archive", tmp_path / "r", "--json"))
    assert (restored["segments"], restored["restoredBytes"]) == (2, 2 * SEGMENT_BYTES)


def test_retain_obeys_the_guard(tmp_path: Path, store: Path) -> None:
    """Another program than the one that archived."""
    run("archive", store, tmp_path / "archive", "--guard")
    with open_store(store) as opened:
        fill(opened, 1)
    for path in StoreLayout(store).commit_log.iterdir():
        os.utime(path, (0, 0))
    shown = run("retain", store, "--json")
    assert '"segments":2' in shown.stdout
    (applied,) = json_lines(run("retain", store, "--apply", "--json"))
    assert applied["minOffset"] == 2 * SEGMENT_BYTES


def test_another_restore_to_the_same_place_is_under_way(tmp_path: Path, store: Path) -> None:
    """It is waited for, or another place is named: exit code 3."""
    run("archive", store, tmp_path / "archive")
    mark = begin_copy(OsFileSystem(), unfinished_layout(tmp_path / "restored"))
    try:
        result = run("restore", tmp_path / "archive", tmp_path / "restored")
    finally:
        mark.release()
    assert (result.exit_code, "another restore to this place is under way" in result.stderr) == (3, True)
    assert not (tmp_path / "restored").exists()


def test_exit_codes(tmp_path: Path, store: Path) -> None:
    """1: a gap; 2: no place for it; 3: another archiver is at work; 4: an object is gone."""
    assert run("archive", store, "s3x://bucket").exit_code == 2
    assert run("restore", tmp_path / "nothing", tmp_path / "r").exit_code == 2
    assert run("archive", store, tmp_path / "archive").exit_code == 0
    assert run("restore", tmp_path / "archive", store).exit_code == 2
    with MessageStore.open(store, read_only=True) as opened:
        lock = opened._parts.file_system.lock(StoreLayout(store).archive_lock)
        assert run("archive", store, tmp_path / "archive").exit_code == 3
        lock.release()
    gone = next((tmp_path / "archive" / "commitlog").glob("00000000000000000000-*"))
    gone.unlink()
    failed = run("restore", tmp_path / "archive", tmp_path / "r")
    assert failed.exit_code == 4
    assert gone.name in failed.stderr
    with open_store(store) as opened:
        fill(opened, 1)
        for path in sorted(StoreLayout(store).commit_log.iterdir())[:3]:
            os.utime(path, (0, 0))
        assert opened.delete_expired_files() == 3
        fill(opened, 1)
    failed = run("archive", store, tmp_path / "archive")
    assert failed.exit_code == 1
    assert "was deleted before it was archived" in failed.stderr
    assert "the object of the segment at 0 is gone" in failed.stderr
