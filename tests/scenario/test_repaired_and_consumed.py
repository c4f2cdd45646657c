"""A repaired store and its consumers: no listener is given what stands in the place of a lost message.

Method: a record in the middle of a queue is damaged and repaired; each kind of consumer reads the queue.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.client import (
    ConsumeFromWhere,
    ConsumerSettings,
    EmbeddedBroker,
    LitePullConsumer,
    LitePullSettings,
    PushConsumer,
)
from mqstore.repair import repair_in_place
from support.stores.small_log import small_config

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
WHOLE = ["0", "1", "3", "4"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Five messages, of which number 2 is lost."""
    with MessageStore.open(tmp_path, small_config()) as store:
        store.topics.create("orders", 1)
        puts = [store.put("orders", b"%060d" % number, keys=str(number)) for number in range(5)]
    segment = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[puts[2].physical_offset + 100] ^= 1
    segment.write_bytes(data)
    plan, _ = repair_in_place(tmp_path)
    assert plan.placeholders == 1
    with MessageStore.open(tmp_path) as store, EmbeddedBroker(store) as opened:
        found = store.get_message("reader", "orders", 0, 0).messages
        assert [message.is_placeholder for message in found] == [number == 2 for number in range(5)]
        yield opened


@pytest.mark.parametrize("is_orderly", [False, True])
def test_a_listener_gets_the_others(broker: EmbeddedBroker, is_orderly: bool) -> None:
    """And the group comes to the end of the queue."""
    got: list[str] = []
    is_done = threading.Event()

    def listen(messages: object, context: object) -> None:
        got.extend(message.keys[0] for message in messages)  # type: ignore[attr-defined]
        if len(got) == len(WHOLE):
            is_done.set()

    settings = ConsumerSettings(consume_from_where=FIRST, consume_thread_min=1)
    with PushConsumer(broker, "billing", settings) as consumer:
        consumer.subscribe("orders")
        (consumer.orderly_listener if is_orderly else consumer.listener)(listen)
        consumer.start()
        assert is_done.wait(60)
    assert got == WHOLE
    assert broker.query_consumer_offset("billing", "orders", 0) == 5


def test_a_loop_gets_the_others(broker: EmbeddedBroker) -> None:
    """As a listener does."""
    with LitePullConsumer(broker, "reports", LitePullSettings(consume_from_where=FIRST)) as consumer:
        consumer.subscribe("orders")
        got = [message.keys[0] for _, message in zip(WHOLE, consumer, strict=False)]
    assert got == WHOLE
