"""A store that is damaged under its consumers: the others are consumed, and the group waits for the repair.

Method: the test overwrites the magic of one record in the file of an open store. A pull then returns bytes
that are no record. Each kind of push consumer reads the queue.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mqstore import MessageStore, StoredMessage
from mqstore.client import ConsumeFromWhere, ConsumerSettings, EmbeddedBroker, PushConsumer
from mqstore.store.errors import RecordIllegal
from support.stores.small_log import small_config

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
DAMAGED = 2
MAGIC = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Five messages, of which number 2 is no record any more."""
    with MessageStore.open(tmp_path, small_config()) as store, EmbeddedBroker(store) as opened:
        store.topics.create("orders", 1)
        puts = [store.put("orders", b"x", keys=str(number)) for number in range(5)]
        store.flush()
        with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as segment:
            segment.seek(puts[DAMAGED].physical_offset + MAGIC)
            segment.write(b"\xde\xad\xbe\xef")
        yield opened


@pytest.mark.parametrize("is_orderly", [False, True])
def test_the_group_waits_at_the_damage(
    broker: EmbeddedBroker,
    is_orderly: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The failure is logged, the record comes again from memory, and the group's offset stays before it.

    A consumer in order is given nothing behind it.
    """
    got: list[str] = []
    failed = threading.Semaphore(0)
    is_done = threading.Event()
    others = 2 if is_orderly else 4

    def listen(messages: Sequence[StoredMessage], context: object) -> None:
        try:
            got.extend(message.keys[0] for message in messages)
        except RecordIllegal:
            failed.release()
            raise
        if len(got) == others:
            is_done.set()

    settings = ConsumerSettings(consume_from_where=FIRST, consume_thread_min=1, max_reconsume_times=0)
    with caplog.at_level(logging.WARNING, "mqstore"), PushConsumer(broker, "billing", settings) as consumer:
        consumer.subscribe("orders")
        (consumer.orderly_listener if is_orderly else consumer.listener)(listen)
        consumer.start()
        assert is_done.wait(60)
        assert all(failed.acquire(timeout=60) for _ in range(2))
    assert sorted(got) == ["0", "1"] if is_orderly else ["0", "1", "3", "4"]
    assert broker.query_consumer_offset("billing", "orders", 0) == DAMAGED
    assert "mqstore repair" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
