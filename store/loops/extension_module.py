"""An extension module that Cython built with the package, if it is there and fits its sources.

A wheel has with each module a list of all sources that it was built from or leans on (store/direct/build.py).
If one has changed since, the module is refused with a warning, and what it does is interpreted: an old binary
beside an edited source would run what nobody reads. A module has another name than its source, so Python does
not take it by itself.
"""

import importlib
import logging
import os
from pathlib import Path
from types import ModuleType

import msgspec

from mqstore.store.loops.machine_code import digest_of

__all__ = ["Manifest", "find_extension", "module_beside"]

_logger = logging.getLogger(__name__)


class Manifest(msgspec.Struct, frozen=True):
    """What was built. sources: the digest of each, by its path in the package."""

    compiler: str
    file: str
    size_bytes: int
    sources: dict[str, str]


def find_extension(
    folder: Path, package: Path, name: str, *, switch: str, what: str
) -> tuple[ModuleType, str] | None:
    """The extension module `name` in `folder`, and its compiler; None if there is none that fits.

    switch: the environment variable that refuses it by 0. what: it does, in the plural. What was built and
    cannot be taken is logged, for it should be.
    """
    if os.environ.get(switch) == "0":
        return None
    manifest_path = folder / f"{name.rpartition('.')[2]}.json"
    if not manifest_path.exists():
        return None
    try:
        manifest = msgspec.json.decode(manifest_path.read_bytes(), type=Manifest)
        size_bytes = (folder / manifest.file).stat().st_size
        if size_bytes != manifest.size_bytes:
            # One that was cut short would end the process.
            _refused(what, f"{manifest.file} has {size_bytes} bytes instead of {manifest.size_bytes}")
            return None
        for source, digest in manifest.sources.items():
            if (package / source).exists() and digest_of(package / source) != digest:
                _refused(what, f"it was built before {source} changed")
                return None
        return importlib.import_module(name), manifest.compiler
    except (OSError, ImportError, msgspec.MsgspecError) as error:
        _refused(what, str(error))
        return None


def module_beside(source: str, room: str | None, module: str, *, switch: str, what: str) -> ModuleType | None:
    """The extension module beside a source of the package. source, room: its `__file__`, `__package__`."""
    path, room = Path(source), room or ""
    found = find_extension(
        path.parent, path.parents[room.count(".")], f"{room}.{module}", switch=switch, what=what
    )
    return None if found is None else found[0]


def _refused(what: str, reason: str) -> None:
    _logger.warning(
        "The machine code of %s cannot be taken: %s. All %s are interpreted. Install mqstore again.",
        what, reason, what,
    )  # fmt: skip
