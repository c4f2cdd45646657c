"""A store in memory without services, for records to be sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MessageStore]:
    with SmallStore(MemoryFileSystem(clock=clock), Path("/store"), clock=clock).open() as opened:
        yield opened
