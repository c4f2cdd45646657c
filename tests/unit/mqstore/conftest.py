"""The store that most tests of the front door open: small files, on each file system, a clock that stands."""

from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore


@pytest.fixture
def small(file_system: FileSystem, root: Path, clock: ManualClock) -> SmallStore:
    return SmallStore(file_system, root / "store", clock=clock)
