"""Unfinished exports: a name appears with its whole content, and what is there goes only if asked."""

import os
from pathlib import Path

import pytest

from mqstore.tools.export.export_errors import ExportRefused
from mqstore.tools.export.unfinished import unfinished


def write_file(target: Path, content: str = "new", *, overwrite: bool = False) -> None:
    with unfinished(target, is_directory=False, overwrite=overwrite) as path:
        path.write_text(content)
        assert target.parent in path.parents
        assert not target.exists() or overwrite


def write_directory(target: Path, content: str = "new", *, overwrite: bool = False) -> None:
    with unfinished(target, is_directory=True, overwrite=overwrite) as path:
        (path / "topic=a").mkdir()
        (path / "topic=a" / "part").write_text(content)


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_gets_its_name_at_the_end(tmp_path: Path) -> None:
    """And nothing else stays."""
    write_file(tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text() == "new"
    assert names(tmp_path) == ["o.csv"]


def test_what_is_unfinished_is_hidden(tmp_path: Path) -> None:
    """Beside the target, so that the rename stays on one file system; its name fits, however long."""
    target = tmp_path / ("x" * 251 + ".csv")
    with unfinished(target, is_directory=False, overwrite=False) as path:
        (folder,) = tmp_path.iterdir()
        assert folder.name.startswith(".xxx")
        assert folder.name.endswith(".unfinished")
        path.write_text("new")
    assert list(tmp_path.iterdir()) == [target]


def fail(target: Path, error: type[BaseException], *, is_directory: bool) -> None:
    with unfinished(target, is_directory=is_directory, overwrite=False) as path:
        (path / "file" if is_directory else path).write_text("half")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("is_directory", [False, True])
def test_an_error_leaves_nothing(tmp_path: Path, error: type[BaseException], is_directory: bool) -> None:
    """Of either kind of target."""
    with pytest.raises(error):
        fail(tmp_path / "target", error, is_directory=is_directory)
    assert names(tmp_path) == []


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    """The error says how."""
    write_file(tmp_path / "o.csv", "old")
    with pytest.raises(ExportRefused, match=r"o\.csv exists: .* --force"):
        write_file(tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text() == "old"
    write_file(tmp_path / "o.csv", overwrite=True)
    assert (tmp_path / "o.csv").read_text() == "new"
    assert names(tmp_path) == ["o.csv"]


def test_a_directory_is_replaced_only_on_request(tmp_path: Path) -> None:
    """As a whole: no file of the old export stays. An empty one is simply taken."""
    (tmp_path / "lake").mkdir()
    write_directory(tmp_path / "lake", "old")
    (tmp_path / "lake" / "topic=old").mkdir()
    with pytest.raises(ExportRefused, match=r"lake holds an export: .* --force"):
        write_directory(tmp_path / "lake")
    write_directory(tmp_path / "lake", overwrite=True)
    assert names(tmp_path) == ["lake", "lake/topic=a", "lake/topic=a/part"]
    assert (tmp_path / "lake" / "topic=a" / "part").read_text() == "new"


def test_no_directory_goes_that_is_no_exports(tmp_path: Path) -> None:
    """However much it is asked for: a home directory, say."""
    (tmp_path / "home" / "topic=a").mkdir(parents=True)
    (tmp_path / "home" / "letter.txt").write_text("mine")
    with pytest.raises(ExportRefused, match=r"'letter\.txt' in it, which is no export's"):
        write_directory(tmp_path / "home", overwrite=True)
    assert names(tmp_path) == ["home", "home/letter.txt", "home/topic=a"]


@pytest.mark.parametrize("is_directory", [False, True])
def test_nothing_else_is_replaced_either(tmp_path: Path, is_directory: bool) -> None:
    """A pipe, a device, a link to nowhere."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "link"):
        with (
            pytest.raises(ExportRefused, match="give another name"),
            unfinished(tmp_path / name, is_directory=is_directory, overwrite=True),
        ):
            pass
    assert names(tmp_path) == ["link", "pipe"]


def write_twice(target: Path) -> None:
    with unfinished(target, is_directory=False, overwrite=False) as path:
        path.write_text("second")
        write_file(target, "first")


def test_a_target_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    """The later of two exports is refused."""
    with pytest.raises(ExportRefused, match="exists"):
        write_twice(tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text() == "first"
    assert names(tmp_path) == ["o.csv"]


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    """As for all files of a store; the folder in which they are made is the maker's alone."""
    before = os.umask(0o022)
    try:
        write_file(tmp_path / "o.csv")
        write_directory(tmp_path / "lake")
    finally:
        os.umask(before)
    assert (tmp_path / "o.csv").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "lake").stat().st_mode & 0o777 == 0o755
