"""The machine code of loops that was built with the package, if it is there and fits.

A wheel has one extension module for each kind of processor (build.py), and a list of them with the digests
of all sources they were built from. The first is taken that this processor can run. If a source has changed
since, none is: an old binary beside an edited source would run what nobody reads. One that cannot be loaded
is left out, and the next one is tried.
MQSTORE_LOOPS=compile has loops compiled by numba all the same, as NUMBA_BOUNDSCHECK=1 does, which has their
bounds checked.
"""

import hashlib
import importlib
import logging
import os
import platform
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import msgspec

__all__ = [
    "BUILT_IN",
    "FOUND",
    "MANIFEST_NAME",
    "MachineCode",
    "Manifest",
    "NotFound",
    "Variant",
    "digest_of",
    "features_of_processor",
    "find",
    "symbol_of",
]

_logger = logging.getLogger(__name__)

MANIFEST_NAME: Final = "machine_code.json"
_SWITCHES: Final = (("MQSTORE_LOOPS", "compile"), ("NUMBA_BOUNDSCHECK", "1"))


class Variant(msgspec.Struct, frozen=True):
    """The machine code for one kind of processor: its module and file, and the features that it needs."""

    module: str
    file: str
    size_bytes: int
    machine: str
    features: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """What was built. sources: the digest of each, by its path in the package. The best variant is first."""

    compiler: str
    sources: dict[str, str]
    variants: tuple[Variant, ...]


class NotFound(NamedTuple):
    """No machine code is taken. reason: why, as a sentence without its full stop."""

    reason: str


class MachineCode:
    """The loops of one extension module."""

    def __init__(self, module: ModuleType, compiler: str) -> None:
        self.name = module.__name__.rpartition(".")[2]
        self.compiler = compiler
        self._module = module

    def loop_of(self, function: FunctionType, kinds: tuple[str, ...], **_: object) -> Callable[..., Any]:
        """The loop of a source that has `kinds`. Without, only loops call it, and it stays as it is."""
        if not kinds:
            return function
        loop: Callable[..., Any] = getattr(self._module, symbol_of(function))
        return loop

    def compiles_with(self, *_: str) -> bool:
        """Nothing is compiled here, for whatever features."""
        return False

    def __repr__(self) -> str:
        return f"MachineCode({self.name!r}, {self.compiler!r})"


def symbol_of(function: FunctionType) -> str:
    """What a loop is called in the machine code."""
    return "__".join([*function.__module__.split(".")[1:], function.__name__])


def digest_of(source: Path) -> str:
    """The digest of a source."""
    return hashlib.sha256(source.read_bytes()).hexdigest()


def find(folder: Path, package: Path, features: frozenset[str]) -> "MachineCode | NotFound":
    """The machine code in `folder` of the loops in `package`, for a processor with these features.

    What was built and cannot be taken is logged, for it should be.
    """
    switch = next((name for name, value in _SWITCHES if os.environ.get(name) == value), None)
    if switch is not None:
        return NotFound(f"the environment variable {switch} has numba compile the loops")
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_NAME).read_bytes(), type=Manifest)
    except FileNotFoundError:
        return NotFound("this mqstore was installed without machine code for its loops")
    except (OSError, msgspec.MsgspecError) as error:
        return _warned(f"{folder / MANIFEST_NAME} cannot be read ({error})")
    changed = next(
        (name for name, digest in manifest.sources.items() if _is_edited(package / name, digest)), None
    )
    if changed is not None:
        return _warned(f"the machine code in {folder} was built before {changed} changed")
    problems = []
    for variant in manifest.variants:
        if variant.machine == platform.machine() and features.issuperset(variant.features):
            try:
                return MachineCode(_load(folder, variant), manifest.compiler)
            except (ImportError, OSError) as error:
                problems.append(f"{variant.module} cannot be loaded ({error})")
    if problems:
        return _warned(f"the machine code in {folder}: {', '.join(problems)}")
    return NotFound(f"there is no machine code for this processor ({platform.machine()})")


def _load(folder: Path, variant: Variant) -> ModuleType:
    """Load one. Raises ImportError, also if the file was cut short, which would end the process."""
    file = folder / variant.file
    size_bytes = file.stat().st_size
    if size_bytes != variant.size_bytes:
        raise ImportError(f"{file.name} has {size_bytes} bytes instead of {variant.size_bytes}")
    return importlib.import_module(f"{__package__}.{variant.module}")


def _is_edited(source: Path, digest: str) -> bool:
    """Whether a source differs; one that is not there, as in a package of bytecode alone, does not."""
    try:
        return digest_of(source) != digest
    except OSError:
        return False


def _warned(reason: str) -> NotFound:
    _logger.warning("%s, so numba compiles the loops. Install mqstore again.", reason)
    return NotFound(reason)


def features_of_processor() -> frozenset[str]:
    """The features of this processor, by Linux's names."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    named = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(named.partition(":")[2].split())


FOUND: Final = find(Path(__file__).parent, Path(__file__).parents[2], features_of_processor())
"""The machine code of this process, or why there is none."""

BUILT_IN: Final = FOUND if isinstance(FOUND, MachineCode) else None
"""The machine code of this process; None if numba compiles its loops."""
