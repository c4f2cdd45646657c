"""The acknowledger: a client is told when its message is durable, and in time when the disk hangs.

Method: puts to a store in SYNC_FLUSH whose segment's sync is slow or fails; answers as the loop gets them.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, PutMessageResult, PutMessageStatus
from mqstore.server.acknowledger import Acknowledger
from mqstore.store.errors import StorePoisoned
from support.stores.small_log import small_config
from support.stores.small_store import bodies_of

Outcomes = list[PutMessageResult | Exception]


def open_store(path: Path, limit_ms: int) -> MessageStore:
    """Its service for pending syncs runs."""
    return MessageStore.open(path, small_config(flush_disk_type="SYNC_FLUSH", sync_flush_timeout=limit_ms))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """On a machine that may be busy."""
    with open_store(tmp_path / "store", 60_000) as store:
        yield store


def acknowledge(store: MessageStore, bodies: list[bytes], meanwhile: Callable[[], object]) -> Outcomes:
    """Put as the server's loop does; the outcomes in the order in which they are told."""

    async def serve() -> Outcomes:
        outcomes: Outcomes = []
        are_all_told = asyncio.Event()

        def tell(outcome: PutMessageResult | Exception) -> None:
            outcomes.append(outcome)
            if len(outcomes) == len(bodies):
                are_all_told.set()

        acknowledger = Acknowledger(asyncio.get_running_loop(), store.config.sync_flush_timeout)
        for body in bodies:
            acknowledger.add(store.put_message_async(Message("orders", body)), tell)
        await asyncio.to_thread(meanwhile)
        await asyncio.wait_for(are_all_told.wait(), 60)
        acknowledger.stop()
        assert acknowledger.waiting_count == 0
        return outcomes

    return asyncio.run(serve())


def statuses(outcomes: Outcomes) -> list[object]:
    return [getattr(outcome, "status", outcome) for outcome in outcomes]


def test_durable_messages_are_answered_in_their_order(store: MessageStore) -> None:
    """All by one sync, or few."""
    outcomes = acknowledge(store, [b"%d" % number for number in range(50)], lambda: None)
    assert statuses(outcomes) == [PutMessageStatus.PUT_OK] * 50
    places = [outcome.physical_offset for outcome in outcomes if isinstance(outcome, PutMessageResult)]
    assert places == sorted(places)
    assert store.commit_log.flushed_offset == store.max_offset


def test_a_disk_that_hangs_is_answered_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FLUSH_DISK_TIMEOUT for each, and not one after the other; the messages are stored."""
    with open_store(tmp_path / "store", 200) as store:
        put_while_the_disk_hangs(store, monkeypatch)


def put_while_the_disk_hangs(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge(store, [b"first"], lambda: None)
    goes_on = threading.Event()
    region = store.commit_log.files.files[0].region
    sync = region.sync

    def sync_within(timeout_s: float) -> bool:
        if not goes_on.wait(min(timeout_s, 60)):
            return False
        sync()
        return True

    monkeypatch.setattr(region, "sync_within", sync_within)
    monkeypatch.setattr(region, "sync", lambda: sync_within(60))
    bodies = [b"%d" % number for number in range(50)]
    outcomes = acknowledge(store, bodies, lambda: None)
    assert statuses(outcomes) == [PutMessageStatus.FLUSH_DISK_TIMEOUT] * 50
    goes_on.set()
    store.flush()
    assert store.commit_log.flushed_offset == store.max_offset
    assert bodies_of(store, "orders") == [b"first", *bodies]


def test_a_disk_that_fails_is_told(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client gets the error."""
    acknowledge(store, [b"first"], lambda: None)

    def fail(_timeout_s: float = 0) -> bool:
        raise OSError(5, "Input/output error")

    region = store.commit_log.files.files[0].region
    monkeypatch.setattr(region, "sync_within", fail)
    monkeypatch.setattr(region, "sync", fail)
    outcomes = acknowledge(store, [b"x", b"y"], lambda: None)
    assert [type(outcome) for outcome in outcomes] == [StorePoisoned, StorePoisoned]
