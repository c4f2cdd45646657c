"""The machine code of loops that was built with the package, if it is there and fits.

A wheel has one extension module for each kind of processor (build.py), and a list of them with the digests
of all sources they were built from. The first is taken that this processor can run. If a source has changed
since, none is: an old binary beside an edited source would run what nobody reads.
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
from typing import Any, Final

import msgspec

__all__ = [
    "BUILT_IN",
    "MANIFEST_NAME",
    "MachineCode",
    "Manifest",
    "Variant",
    "digest_of",
    "features_of_processor",
    "find",
    "symbol_of",
]

_logger = logging.getLogger(__name__)

MANIFEST_NAME: Final = "machine_code.json"


class Variant(msgspec.Struct, frozen=True):
    """The machine code for one kind of processor: its module here, and the features that it needs."""

    module: str
    machine: str
    features: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """What was built. sources: the digest of each, by its path in the package. The best variant is first."""

    compiler: str
    sources: dict[str, str]
    variants: tuple[Variant, ...]


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


def find(folder: Path, package: Path, features: frozenset[str]) -> MachineCode | None:
    """The machine code in `folder` of the loops in `package`, for a processor with these features."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_NAME).read_bytes(), type=Manifest)
    except OSError:
        return None
    if os.environ.get("MQSTORE_LOOPS") == "compile" or os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        return None
    changed = [name for name, digest in manifest.sources.items() if _digest(package / name) != digest]
    if changed:
        _logger.warning(
            "The machine code in %s was built before %s changed, so numba compiles the loops. Install "
            "mqstore again to build them.",
            folder,
            changed[0],
        )
        return None
    for variant in manifest.variants:
        if variant.machine == platform.machine() and features.issuperset(variant.features):
            return MachineCode(importlib.import_module(f"{__package__}.{variant.module}"), manifest.compiler)
    return None


def _digest(source: Path) -> str | None:
    try:
        return digest_of(source)
    except OSError:
        return None


def features_of_processor() -> frozenset[str]:
    """The features of this processor, by Linux's names."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    named = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(named.partition(":")[2].split())


BUILT_IN: Final = find(Path(__file__).parent, Path(__file__).parents[2], features_of_processor())
"""The machine code of this process; None if numba compiles its loops."""
