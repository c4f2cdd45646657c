"""Goal: retention learns what is archived, or that it cannot know. Method: files changed and deleted."""

from pathlib import Path

import pytest

from mqstore.settings.archived_file import Archived, ArchivedFile
from mqstore.store.errors import StateFileCorrupt
from mqstore.store.files.os_file_system import OsFileSystem


def test_it_is_read_as_it_was_saved(tmp_path: Path) -> None:
    """Whatever characters the place has; without the file nothing waits."""
    file = ArchivedFile(OsFileSystem(), tmp_path / "archived")
    assert file.load() is None
    for archived in (Archived(131072, "s3://bucket/orders"), Archived(262144, 'a "b" \n ü')):
        file.save(archived)
        assert ArchivedFile(OsFileSystem(), tmp_path / "archived").load() == archived
    file.delete()
    assert file.load() is None


@pytest.mark.parametrize("at", [0, 17, 20, 30, -2])
def test_a_changed_byte_is_an_error(tmp_path: Path, at: int) -> None:
    """It is never read as "nothing waits"."""
    path = tmp_path / "archived"
    file = ArchivedFile(OsFileSystem(), path)
    file.load()
    file.save(Archived(131072, "s3://bucket/orders"))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateFileCorrupt):
        file.load()
