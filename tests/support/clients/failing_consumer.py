"""A message that is sent, fails, is retried, fails again and is a dead letter: over a store in memory.

Time stands still; the retry is delivered when the test moves the clock. Two clients do it, and `watched` is
called with each before they start.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyStatus,
    ConsumerSettings,
    EmbeddedBroker,
    Producer,
    PushConsumer,
)
from mqstore.put.arrivals import Arrival
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore, messages_of

__all__ = ["DEAD", "GROUP", "fail_until_dead"]

GROUP, DEAD = "billing", "%DLQ%billing"
_WAITING = "SCHEDULE_TOPIC_XXXX"
_WAIT_S = 30
_DELAY_MS = 3_600_000


def fail_until_dead(
    watched: Callable[[MessageStore, Producer, PushConsumer], object],
    message: Message,
    send: Callable[[Producer, Message], object] = lambda producer, message: producer.send(message),
    at_last: Callable[[MessageStore], object] = lambda store: None,
) -> StoredMessage:
    """Send a message that its listener fails on twice; the dead letter that it has become.

    at_last: called when the clients are closed, and the store is not.
    """
    clock = ManualClock()
    settings = ConsumerSettings(max_reconsume_times=1, await_termination_millis_when_shutdown=_WAIT_S * 1_000)
    with (
        SmallStore(MemoryFileSystem(), Path("/store"), clock=clock).open() as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "shop") as producer,
        PushConsumer(broker, GROUP, settings) as consumer,
    ):
        dead, changed = threading.Event(), threading.Event()

        def arrived(arrival: Arrival) -> None:
            if arrival.topic == DEAD:
                dead.set()
            if arrival.topic in (DEAD, _WAITING):
                changed.set()

        store.add_arrival_listener(arrived)
        watched(store, producer, consumer)
        consumer.subscribe(message.topic)
        consumer.listener(lambda messages, context: ConsumeConcurrentlyStatus.RECONSUME_LATER)
        send(producer, message)
        consumer.start()
        while not dead.is_set():
            assert changed.wait(_WAIT_S)
            changed.clear()
            clock.advance(_DELAY_MS)
            store.deliver_due()
        consumer.close()
        (letter,) = messages_of(store, DEAD)
        at_last(store)
        return letter.detached()
