"""The interrupt storm in short: see tests/support/crash/interrupt_storm.py. `make storm` strikes everywhere.

Each operation is struck at places some way apart, first with every message durable before it is acknowledged,
then without; signals that strike anywhere follow. The store must hold all its promises then.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.crash.interrupt_storm import OPERATIONS, StormyStore, storm, sweep

SEED = 20261122
STRIKES = 150
# Places between two strikes: how many places an operation has differs.
STRIDES = {
    "put_async_with_callback": 151,
    "read_beside": 211,
    "delete_topic": 401,
    "administer": 401,
    "reopen": 701,
    "verify": 1009,
    "repair": 1009,
}
STRIDE = 29

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What is logged of a close that was struck does not matter here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_exception_at_any_place_breaks_no_promise(operation: str, tmp_path: Path) -> None:
    """It comes out as it is; nothing acknowledged is lost, no lock stays taken, now and after a reopening."""
    stormy = StormyStore(tmp_path / "data", flush_disk_type="SYNC_FLUSH")
    stormy.put_some()
    stride = STRIDES.get(operation, STRIDE)
    assert not sweep(stormy, operation, 1 + OPERATIONS.index(operation) % stride, stride)
    stormy.audit()
    stormy.audit_closed()
    stormy.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_storm_of_signals_breaks_no_promise(flush_disk_type: str, tmp_path: Path) -> None:
    """In the main thread of a store at work, with two others that put."""
    stormy = StormyStore(tmp_path / "data", start=True, flush_disk_type=flush_disk_type)
    stormy.put_some()
    assert not storm(stormy, SEED, STRIKES), SEED
    stormy.audit()
    stormy.audit_closed()
    stormy.store.close()
