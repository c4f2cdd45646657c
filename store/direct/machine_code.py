"""The machine code of the direct put that was built with the package, if it is there and fits.

A wheel has one extension module (build.py), and a list of all sources that it was built from or leans on. If
one has changed since, the module is refused with a warning, and all puts are interpreted: an old binary
beside an edited source would run what nobody reads. The module has another name than its source, so Python
does not take it by itself.
MQSTORE_DIRECT_PUT=0 has all puts go the interpreted way.
"""

import importlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import msgspec

from mqstore.store.loops.machine_code import digest_of
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult

__all__ = ["MACHINE_CODE", "DirectPut", "MachineCode", "Watched", "find", "find_module"]

_logger = logging.getLogger(__name__)

_MODULE: Final = "put_machine_code"


class DirectPut(Protocol):
    """The class of direct_put.py."""

    def put(self, message: Message) -> PutMessageResult:
        """Store one message of a producer, in one way or the other."""
        ...

    def append(self, message: Message) -> PutMessageResult | None:
        """Append one message of a producer; None, and nothing is changed, if it is not ordinary."""
        ...

    def append_own(self, message: Message) -> PutMessageResult | None:
        """As `append`, one of the store's own, after the delay rewrite."""
        ...

    def append_all(self, messages: list[Message]) -> list[PutMessageResult] | None:
        """Append messages of producers, all or none: None, and nothing is changed, if one is not ordinary."""
        ...

    def put_sent(self, message: Message, queue_id: int, unique_key: str) -> PutMessageResult | None:
        """Store one message as its producer sends it; None, and nothing is changed, if it is not ordinary."""
        ...


class Watched(Protocol):
    """What may want to hear of puts."""

    wanted: bool


class Manifest(msgspec.Struct, frozen=True):
    """What was built. sources: the digest of each, by its path in the package."""

    compiler: str
    file: str
    size_bytes: int
    sources: dict[str, str]


class MachineCode:
    """The compiled direct put. direct_put: makes the one of a store; its arguments: direct_put.py."""

    def __init__(self, module: ModuleType, compiler: str) -> None:
        self.compiler = compiler
        self.checksum: Callable[..., int] = module.checksum
        self.direct_put: Callable[..., Any] = module.DirectPut

    def __repr__(self) -> str:
        return f"MachineCode({self.compiler!r})"


def find(folder: Path, package: Path) -> MachineCode | None:
    """The direct put in `folder` of the sources in `package`; None if there is none that fits."""
    found = find_module(folder, package, f"{__package__}.{_MODULE}")
    return None if found is None else MachineCode(*found)


def find_module(folder: Path, package: Path, name: str) -> tuple[ModuleType, str] | None:
    """The extension module `name` in `folder`, and its compiler; None if there is none that fits.

    What was built and cannot be taken is logged, for it should be.
    """
    if os.environ.get("MQSTORE_DIRECT_PUT") == "0":
        return None
    manifest_path = folder / f"{name.rpartition('.')[2]}.json"
    if not manifest_path.exists():
        return None
    try:
        manifest = msgspec.json.decode(manifest_path.read_bytes(), type=Manifest)
        size_bytes = (folder / manifest.file).stat().st_size
        if size_bytes != manifest.size_bytes:
            # One that was cut short would end the process.
            _refused(f"{manifest.file} has {size_bytes} bytes instead of {manifest.size_bytes}")
            return None
        for source, digest in manifest.sources.items():
            if (package / source).exists() and digest_of(package / source) != digest:
                _refused(f"it was built before {source} changed")
                return None
        return importlib.import_module(name), manifest.compiler
    except (OSError, ImportError, msgspec.MsgspecError) as error:
        _refused(str(error))
        return None


def _refused(reason: str) -> None:
    _logger.warning(
        "The compiled put cannot be taken: %s. All puts are interpreted. Install mqstore again.", reason
    )


MACHINE_CODE: Final = find(Path(__file__).parent, Path(__file__).parents[2])
"""The compiled put of this process; None if all puts are interpreted."""
