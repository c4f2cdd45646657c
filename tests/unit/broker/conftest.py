"""A store in memory without services, and clocks that stand: what the tests of brokers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore


@pytest.fixture
def small(clock: ManualClock) -> SmallStore:
    return SmallStore(MemoryFileSystem(clock=clock), Path("/store"), clock=clock)


@pytest.fixture
def store(small: SmallStore) -> Iterator[MessageStore]:
    with small.open() as opened:
        yield opened


@pytest.fixture
def seconds() -> ManualSeconds:
    return ManualSeconds()
