"""The page of a topic: pages of a queue follow one another, and each search finds what it says."""

from pathlib import Path
from typing import Any

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.ui.pages.asked import Asked
from mqstore.tools.cli.ui.pages.topic import PAGE_MESSAGES, topic
from support.manual_clock import ManualClock


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """120 messages in queue 0, one a second; 60 in queue 1 at the same times; every tenth is paid."""
    clock = ManualClock()
    with MessageStore.open(tmp_path / "store", clock=clock, start=False) as opened:
        for number in range(120):
            tags = "paid" if number % 10 == 0 else "created"
            opened.put_message(Message("orders", b"%d" % number, tags=tags, queue_id=0))
            if number % 2:
                opened.put_message(Message("orders", b"odd %d" % number, queue_id=1))
            clock.advance(1_000)
        opened.flush()
        yield opened


def bodies(store: MessageStore, **parameters: object) -> list[str]:
    asked = Asked({"name": "orders", **{name: str(value) for name, value in parameters.items()}})
    return [line.body for line in topic(store, asked)["lines"]]


def test_pages_of_a_queue_follow_one_another(store: MessageStore) -> None:
    """From the first to the last by what each calls newer, and back by what it calls older."""
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = topic(store, Asked({"name": "orders", "queue": "0", "offset": str(offset)}))
        found += [line.body for line in page["lines"]]
        offset = page["newer"]
    assert found == [str(number) for number in range(120)]
    last = topic(store, Asked({"name": "orders", "queue": "0"}))
    assert [line.body for line in last["lines"]] == [str(number) for number in range(70, 120)]
    assert (last["older"], last["newer"]) == (120 - 2 * PAGE_MESSAGES, None)
    first = topic(store, Asked({"name": "orders", "queue": "0", "offset": "0"}))
    assert (first["older"], first["newer"]) == (None, PAGE_MESSAGES)


def test_the_newest_of_all_queues_come_first(store: MessageStore) -> None:
    """By their store time, over the queues together."""
    assert bodies(store)[:4] == ["odd 119", "119", "118", "odd 117"]


def test_a_time_is_where_a_page_begins(store: MessageStore) -> None:
    """In each queue, oldest first; a time beyond the end finds nothing."""
    time_ms = store.get_message_store_timestamp("orders", 0, 100)
    assert bodies(store, time=time_ms)[:3] == ["100", "101", "odd 101"]
    assert bodies(store, time=time_ms, queue=1)[0] == "odd 101"
    assert bodies(store, time=2**62) == []


def test_tags_choose(store: MessageStore) -> None:
    """In one queue over as many entries as it takes, and among the newest of all."""
    tens = [str(number) for number in range(0, 120, 10)]
    assert bodies(store, queue=0, offset=0, tags="paid") == tens
    assert bodies(store, tags="paid") == tens[::-1]
    assert bodies(store, tags="none") == []


def test_an_offset_outside_of_the_queue_is_no_error(store: MessageStore) -> None:
    """Beyond its end there is nothing; before its beginning it begins."""
    assert bodies(store, queue=0, offset=120) == []
    assert bodies(store, queue=0, offset=2**62) == []
