"""Loops that numba compiles in this process, where they are kept, and the switch that checks bounds.

Loops that were built with the package need none of this (machine_code.py). These check no index: callers
give them arrays that are long enough, and loops check lengths from files before they use them.
NUMBA_BOUNDSCHECK=1, numba's own switch, checks every index and every raw copy, and raises IndexError instead
of reading elsewhere; `make fuzz BOUNDS=1` runs all hostile files with it. Compiled code is then not cached on
disk, unless NUMBA_CACHE_DIR names a folder. Use a separate folder for checked code: numba does not
distinguish the two.

Compiling takes a process 15 seconds before it has put and read a few messages, and longer for everything, so
loops are kept on disk. Where, is decided for each loop when it is decorated:
1. Where numba itself keeps code: in NUMBA_CACHE_DIR, in `__pycache__` beside the source, under ~/.cache.
2. If nothing of that can be written (a package that root installed, and a user without a home), or if the
   package lies in an archive: in NUMBA_CACHE_DIR, else under the temporary directory, in a folder that only
   this user can write (store/loops/private_folder.py).
3. Otherwise nowhere. Each process then compiles the loops that it uses, and logs one warning.
A place that fails later (a full disk, another user after a fork, a file that a power cut left empty) costs
time, and raises nothing.

Only compiled.py imports this module.
"""

import functools
import hashlib
import logging
import marshal
import os
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

import llvmlite.binding
import numba
from numba.core import caching, config, types
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import AppDirs

from mqstore.store.loops.installation import installation_name
from mqstore.store.loops.private_folder import make_private_folder

__all__ = ["CHECKS_BOUNDS", "Entry", "compile_loop", "compiles_with", "entries"]

_logger = logging.getLogger(__name__)

CHECKS_BOUNDS: Final = config.BOUNDSCHECK == 1
"""Whether every index is checked."""

_NAMED_BY_USER = "UserProvidedCacheLocator"
_IN_HOME = ("UserWideCacheLocator", "ZipCacheLocator")
"""numba's names, which begin with an underscore in older versions."""


class _NumbasPlace:
    """The first of numba's own places that can be written."""

    @classmethod
    def from_function(cls, function: FunctionType, source: str) -> Any:
        """A locator of numba's; None when no place can be written."""
        for kind in cls._kinds():
            place = kind.from_function(function, source)
            if place is not None and _can_write(place):
                return place
        return None

    @staticmethod
    def _kinds() -> Iterator[Any]:
        # Without a home the path is relative to the working directory, where anybody may have left code.
        has_home = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir).is_absolute()
        for kind in caching.CacheImpl._locator_classes:
            name = kind.__name__.lstrip("_")
            if name == _NAMED_BY_USER or (not CHECKS_BOUNDS and (has_home or name not in _IN_HOME)):
                yield kind


def _can_write(place: Any) -> bool:
    try:
        place.ensure_cache_path()
    except OSError:
        return False
    return True


class _OurPlace(caching._CacheLocator):  # type: ignore[misc]  # numba has no types
    """A folder of this installation in NUMBA_CACHE_DIR, else in our private folder."""

    def __init__(self, function: FunctionType, source: str, folder: Path, *, is_private: bool) -> None:
        self._function = function
        self._py_file = source  # numba's name, for its warnings
        self._private = folder if is_private else None
        self._path = folder / installation_name() / self.get_suitable_cache_subpath(source)

    @classmethod
    def from_function(cls, function: FunctionType, source: str) -> "_OurPlace":
        """The place of a loop. Raises OSError when there is none, or when others can write it."""
        if config.CACHE_DIR:
            place = cls(function, source, Path(config.CACHE_DIR), is_private=False)
            if _can_write(place):
                return place
        place = cls(function, source, _private_folder(), is_private=True)
        place.ensure_cache_path()
        return place

    def check_private(self) -> None:
        """Raises OSError when another user could have written what lies here."""
        if self._private is not None:
            make_private_folder(self._private)

    def ensure_cache_path(self) -> None:
        self.check_private()
        super().ensure_cache_path()

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return hashlib.sha256(marshal.dumps(self._function.__code__)).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self._function.__code__.co_firstlineno)


def _private_folder() -> Path:
    """Our folder under the temporary directory. Raises OSError when there is no such directory."""
    return Path(tempfile.gettempdir()).resolve(strict=True) / f"mqstore-{os.geteuid()}"


class _Places(caching.CompileResultCacheImpl):  # type: ignore[misc]  # as above
    _locator_classes = [_NumbasPlace] if CHECKS_BOUNDS else [_NumbasPlace, _OurPlace]


class _DiskCache(caching.FunctionCache):  # type: ignore[misc]  # as above
    """The cache of one loop on disk. Where it cannot be read or written, the loop is compiled."""

    _impl_class = _Places

    def load_overload(self, signature: Any, target: Any) -> Any:
        try:
            if isinstance(self._impl.locator, _OurPlace):
                self._impl.locator.check_private()
            return super().load_overload(signature, target)
        except OSError:
            return None
        except (EOFError, pickle.UnpicklingError):
            self._forget_damaged()
            return None

    def _forget_damaged(self) -> None:
        """Write an empty index: numba reads the old one before it keeps the loop again."""
        with suppress(OSError):
            self.flush()

    def save_overload(self, signature: Any, code: Any) -> None:
        try:
            super().save_overload(signature, code)
        except (EOFError, pickle.UnpicklingError):
            return  # The index is damaged and cannot be written.
        except OSError as error:
            _say_that_nothing_is_kept(error.strerror or str(error))


def _cache_of(function: FunctionType) -> Any:
    try:
        return _DiskCache(function)
    except (OSError, RuntimeError) as error:  # a RuntimeError is numba's word for no place at all
        if not CHECKS_BOUNDS:
            _say_that_nothing_is_kept(str(error) if isinstance(error, OSError) else "numba has no place")
        return caching.NullCache()


@functools.cache
def _say_that_nothing_is_kept(reason: str) -> None:
    """A warning, once in a process for each reason."""
    _logger.warning(
        "Compiled loops cannot be kept on disk (%s), so every process spends its time to compile what it "
        "uses. Name a folder that it can write in the environment variable NUMBA_CACHE_DIR.",
        reason,
    )


class Entry(NamedTuple):
    """A loop that Python calls. function: its source. kinds: of its arguments (kinds.py)."""

    function: Any
    kinds: tuple[str, ...]
    holds_gil: bool


entries: Final[list[Entry]] = []
"""Those of all kernels that have been imported, for the build of machine code (build.py)."""


def compile_loop(function: FunctionType, kinds: tuple[str, ...], *, holds_gil: bool, **options: Any) -> Any:
    """numba.njit with our cache. kinds: of a loop that Python calls; none for one that loops call."""
    loop: Any = numba.njit(boundscheck=CHECKS_BOUNDS, nogil=not holds_gil, **options)(function)
    if kinds:
        entries.append(Entry(function, kinds, holds_gil))
    if loop is not function:  # with NUMBA_DISABLE_JIT it is
        loop._cache = _cache_of(function)
        if kinds:
            loop.compile(tuple(map(type_of_kind, kinds)))
            loop.disable_compile()
    return loop


def type_of_kind(kind: str) -> Any:
    """numba's type for one of kinds.py."""
    name, _, dimensions = kind.removeprefix("const ").partition("[")
    scalar = getattr(types, name)
    if not dimensions:
        return scalar
    array: Any = types.Array
    layout = "C" if "::1" in dimensions else "A"
    return array(scalar, dimensions.count(",") + 1, layout, readonly=kind.startswith("const "))


def compiles_with(*wanted: str) -> bool:
    """Whether numba compiles for a processor with these features, by LLVM's names."""
    if config.DISABLE_JIT:
        return False
    if config.CPU_NAME or config.CPU_FEATURES:
        # For another processor than this one: what is not named is not there.
        return all(f"+{feature}" in (config.CPU_FEATURES or "").split(",") for feature in wanted)
    features = llvmlite.binding.get_host_cpu_features()
    has_wide = config.ENABLE_AVX or not any(feature.startswith("avx") for feature in wanted)
    return bool(has_wide and all(features.get(feature) for feature in wanted))


# A fork waits while a loop is being compiled or loaded: otherwise LLVM would abort a child with a half-loaded
# loop when its interpreter ends.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)
