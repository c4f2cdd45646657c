"""An unfinished export: a file or a directory that gets its name only when it is complete and durable.

    .orders.parquet.k3x9_q2a.unfinished/     beside the target, while the work goes on
        orders.parquet                       renamed to the target at the end

The folder goes whether the work ends well, fails or is interrupted. A process that is killed leaves it; it
may be deleted. So two exports to one target do not meet, and no reader of the folder around it sees half a
file: names with a dot in front are passed over by Spark, Arrow and DuckDB.

An existing target is replaced only if the caller says so: a regular file, or a directory in which everything
is an export's. Between the two renames that replace a directory there is none.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.export.export_errors import ExportRefused

__all__ = ["unfinished"]

# Room in a name of 255 bytes for what tempfile adds.
_SHOWN_CHARACTERS = 40


@contextmanager
def unfinished(target: Path, *, is_directory: bool, overwrite: bool) -> Iterator[Path]:
    """Lend a path to write to (a new directory, or a file still to be made); then it becomes `target`.

    After an exception within the block nothing is left. Raises ExportRefused, also at the end if somebody
    else made the target meanwhile.
    """
    _refuse_taken(target, is_directory=is_directory, overwrite=overwrite)
    if not target.parent.is_dir():
        raise ExportRefused(f"there is no folder {target.parent} for {target.name}: create it", value=target)
    name = f".{target.name[:_SHOWN_CHARACTERS]}."
    folder = Path(tempfile.mkdtemp(prefix=name, suffix=".unfinished", dir=target.parent))
    try:
        path = folder / target.name
        if is_directory:
            path.mkdir()
        yield path
        _make_durable(path)
        _refuse_taken(target, is_directory=is_directory, overwrite=overwrite)
        _replace(path, target, folder / "replaced")
        OsFileSystem().sync_directory(target.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_taken(target: Path, *, is_directory: bool, overwrite: bool) -> None:
    if not (target.exists() or target.is_symlink()):
        return
    if is_directory:
        _refuse_directory(target, overwrite=overwrite)
    elif not target.is_file():
        raise ExportRefused(f"{target} is no regular file: give another name", value=target)
    elif not overwrite:
        raise ExportRefused(
            f"{target} exists: give another name, or --force (overwrite=True) to replace it", value=target
        )


def _refuse_directory(target: Path, *, overwrite: bool) -> None:
    if not target.is_dir() or target.is_symlink():
        raise ExportRefused(f"{target} is no directory: give another name", value=target)
    names = sorted(entry.name for entry in target.iterdir())
    foreign = next((name for name in names if not name.startswith("topic=")), None)
    if foreign is not None:
        raise ExportRefused(
            f"{target} has {foreign!r} in it, which is no export's: give a new or an empty directory",
            value=target,
        )
    if names and not overwrite:
        raise ExportRefused(
            f"{target} holds an export: give another name, or --force (overwrite=True) to replace it",
            value=target,
        )


def _make_durable(path: Path) -> None:
    file_system = OsFileSystem()
    for each in (path, *path.rglob("*")):
        if each.is_dir():
            file_system.sync_directory(each)
        else:
            file_system.sync(each)


def _replace(path: Path, target: Path, aside: Path) -> None:
    if path.is_dir() and target.is_dir():
        target.rename(aside)
    path.replace(target)
