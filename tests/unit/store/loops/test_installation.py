"""Goal: compiled code of one installation is never taken by another.

Method: a small tree of packages, changed in one way at a time; each change must change the name.
"""

import os
import zipfile
from pathlib import Path

from mqstore.store.loops.installation import installation_name, name_of


def _package(folder: Path) -> Path:
    for name in ("__init__.py", "inner/__init__.py", "inner/x_kernels.py", "inner/other.py"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
    return folder


def test_a_name_is_always_the_same(tmp_path: Path) -> None:
    """And fits into a path."""
    assert name_of(_package(tmp_path)) == name_of(tmp_path)
    assert installation_name().isalnum()


def test_another_place_has_another_name(tmp_path: Path) -> None:
    """Two installations of one version do not meet."""
    assert name_of(_package(tmp_path / "a")) != name_of(_package(tmp_path / "b"))


def test_a_loop_that_changed_gives_another_name(tmp_path: Path) -> None:
    """A loop of the same length and time is another loop; what is no loop does not matter."""
    package = _package(tmp_path)
    name = name_of(package)
    (package / "inner/other.py").write_text("two")
    (package / "environment").mkdir()
    (package / "environment/x_kernels.py").write_text("not ours")
    assert name_of(package) == name
    loops = package / "inner/x_kernels.py"
    times = loops.stat()
    loops.write_text("two")
    os.utime(loops, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert name_of(package) != name


def test_a_new_archive_has_another_name(tmp_path: Path) -> None:
    """A package in an archive is known by the archive's size and time."""
    archive = tmp_path / "mqstore.zip"
    names = set()
    for content in (b"one", b"three"):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("mqstore/x_kernels.py", content)
        names |= {name_of(archive / "mqstore"), name_of(archive / "mqstore")}
    assert len(names) == 2
