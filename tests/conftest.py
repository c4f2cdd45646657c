"""Fixtures for all tests: the golden directories, both file systems, and a clock that stands still."""

import gc
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from mqstore import StoreConfig
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from support.golden.archive import unpack
from support.golden.manifest import GOLDEN
from support.manual_clock import ManualClock

# No test asserts a wall-clock time, and the first call of a compiled loop takes its time.
# A failure prints what replays it.
settings.register_profile("mqstore", deadline=None, print_blob=True)
settings.load_profile("mqstore")

# A shell that starts the tests in its background has them ignore Ctrl-C, and their child processes too. Tests
# of interrupts, and of commands that end by Ctrl-C, need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Any fixed moment will do; this one is that of the spec's samples.
START_MS = 1_726_740_000_000


def pytest_report_header() -> str:
    """Says how full the disk of the tests is: above the last of its limits a store refuses puts, rightly."""
    place = Path(tempfile.gettempdir())
    used_percent = OsFileSystem().disk_usage(place).used_percent
    limit = StoreConfig().disk_space_warning_level_ratio
    if used_percent > limit:
        raise pytest.UsageError(
            f"the disk of {place} is {used_percent} % full, and above {limit} % stores refuse puts: "
            "make room, or set TMPDIR to a directory of another disk"
        )
    return f"the disk of {place} is {used_percent} % full"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all modules stay to the end: no collection of garbage needs to look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Gives each file of tests/spark/ to one worker as a whole, for its tests share a session of Spark.

    pytest-xdist 3.8 overlooks all marks of groups where pytest is 9.2 or newer (its issue 1386).
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class WholeSparkFiles(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return path if path.startswith("tests/spark/") else super()._split_scope(nodeid)

    return WholeSparkFiles(config, log)


@pytest.fixture(scope="session")
def golden_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The unpacked store directory of a golden archive, by its name; shared, so not to be written to."""
    unpacked: dict[str, Path] = {}

    def directory(name: str) -> Path:
        if name not in unpacked:
            unpacked[name] = unpack(GOLDEN / f"{name}.tar.zst", tmp_path_factory.mktemp(name))
        return unpacked[name]

    return directory


@pytest.fixture
def golden_copy(golden_directory: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a golden directory that a test may write to."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(golden_directory(name), tmp_path / name))

    return copy


@pytest.fixture(params=["memory", "disk"])
def file_system(request: pytest.FixtureRequest) -> FileSystem:
    """Each implementation of the file seam in turn."""
    return MemoryFileSystem() if request.param == "memory" else OsFileSystem()


@pytest.fixture
def root(file_system: FileSystem, tmp_path: Path) -> Path:
    """An existing, empty directory on `file_system`."""
    file_system.make_directories(tmp_path)
    return tmp_path


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when told."""
    return ManualClock(START_MS)
