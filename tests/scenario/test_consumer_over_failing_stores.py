"""A consumer over three stores: one disk is full, one store is poisoned, and one is closed later.

What a failing store has is still consumed; what cannot come again there comes again from another one, and no
message is lost. Method: three real stores on simulated disks; every message fails once.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from mqstore import Message, StoredMessage
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeConcurrentlyContext
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.schedule.delivery.waiting_message import WaitingMessage
from mqstore.store.errors import StoreError, StoreFull
from mqstore.store.message.topic_names import retry_topic
from support.manual_clock import ManualClock
from support.stores.shard import Shard
from support.stores.small_store import kill

GROUP = "billing"
SETTINGS = ConsumerSettings(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    await_termination_millis_when_shutdown=5_000,
)
BODIES = [b"%d" % number for number in range(12)]


class Listener:
    """Fails on each message once."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[bytes, int]] = Counter()
        self.condition = threading.Condition()

    def __call__(self, messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
        (message,) = messages
        with self.condition:
            self.seen[message.body, message.reconsume_times] += 1
            self.condition.notify_all()
        if not message.reconsume_times:
            raise ValueError("once")

    def wait_for(self, attempts: set[tuple[bytes, int]]) -> None:
        """Until it has seen these."""
        with self.condition:
            assert self.condition.wait_for(lambda: attempts <= self.seen.keys(), 20), self.seen


@pytest.fixture
def shards(clock: ManualClock) -> Iterator[list[Shard]]:
    made = [Shard(name, clock) for name in ("full", "poisoned", "sound")]
    for number, body in enumerate(BODIES):
        made[number % 3].store.put_message(Message("orders", body))
    for shard in made:
        shard.store.topics.ensure(retry_topic(GROUP), 1, perm=6, topic_sys_flag=0)
    yield made
    for shard in made:
        shard.broker.close()
        kill(shard.store)


def test_what_fails_comes_again_from_another_store(shards: list[Shard]) -> None:
    """Of the full store and the poisoned one by way of the sound one; each message twice, none lost."""
    full, poisoned, sound = shards
    full.fill_up()
    # The window that was there is used up, down to what no record fits in.
    for size in (3_000, 1):
        with suppress(StoreFull):
            while True:
                full.store.put_message(Message("filler", bytes(size)))
    poisoned.break_down()
    with pytest.raises(StoreError):
        poisoned.store.put_message(Message("orders", b"never acknowledged"))
    listener = Listener()
    with PushConsumer([shard.broker for shard in shards], GROUP, SETTINGS) as consumer:
        consumer.subscribe("orders")
        consumer.listener(listener)
        consumer.start()
        listener.wait_for({(body, 0) for body in BODIES})
        copies = retry_topic(GROUP)
        waiting = [message.message for message in wait_for_copies(sound, len(BODIES))]
        assert {message.properties["REAL_TOPIC"] for message in waiting} == {copies}
        sound.clock.advance(10_000)
        sound.store.deliver_due()
        listener.wait_for({(body, 1) for body in BODIES})
    assert {attempt: count for attempt, count in listener.seen.items() if count > 1} == {}


def wait_for_copies(shard: Shard, count: int) -> list[WaitingMessage]:
    """The copies that wait in a store, once there are so many."""
    for _ in range(2_000):
        found = list(shard.store.waiting_messages())
        if len(found) >= count:
            return found
        threading.Event().wait(0.01)
    raise AssertionError(f"{len(found)} of {count} copies")


def test_a_store_that_is_closed_leaves_the_others(shards: list[Shard]) -> None:
    """Its queues are given up; what is put elsewhere is consumed."""
    listener = Listener()
    _, closed, sound = shards
    with PushConsumer([shard.broker for shard in shards], GROUP, SETTINGS) as consumer:
        consumer.subscribe("orders")
        consumer.listener(listener)
        consumer.start()
        listener.wait_for({(body, 0) for body in BODIES})
        closed.broker.close()
        sound.store.put_message(Message("orders", b"later"))
        listener.wait_for({(b"later", 0)})
