"""Three orders are charged. The card of one fails: the order is retried twice, then it is a dead letter.

    python examples/orders_with_retry.py

The store lies in a temporary directory, and the consumer has threads of its own. Each retry waits one second;
with RocketMQ's delay levels it would be 10 and 30 seconds.
"""

import tempfile
import threading
from collections.abc import Sequence

from mqstore import Message, MessageStore, StoreConfig, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumerSettings,
    EmbeddedBroker,
    PushConsumer,
)

ORDERS = {"o-1": b"42.00", "o-2": b"card expired", "o-3": b"13.50"}
dead = threading.Event()


def charge(
    messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """The listener: called with one order at a time. An exception counts as a failure, too, and is logged."""
    (order,) = messages
    print(f"{order.keys[0]}: attempt {order.reconsume_times + 1}: {order.body.decode()}")
    if order.body.replace(b".", b"").isdigit():
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    return ConsumeConcurrentlyStatus.RECONSUME_LATER


def main() -> None:
    # The first retry waits in level 3 of this table, the second in level 4.
    config = StoreConfig(message_delay_level="1s 1s 1s 1s 1s")
    # One order after the other, for a printout that is the same each time.
    settings = ConsumerSettings(max_reconsume_times=2, consume_thread_min=1)
    with (
        tempfile.TemporaryDirectory() as directory,
        MessageStore.open(directory, config) as store,
        EmbeddedBroker(store) as broker,
    ):
        store.add_arrival_listener(lambda arrival: arrival.topic == "%DLQ%billing" and dead.set())
        store.put_messages([Message("orders", body, keys=(key,)) for key, body in ORDERS.items()])

        with PushConsumer(broker, "billing", settings) as consumer:
            consumer.subscribe("orders")
            consumer.listener(charge)
            consumer.start()
            dead.wait(timeout=30)

        for letter in store.get_message("support", "%DLQ%billing", 0, 0).messages:
            print(f"given up: {letter.keys[0]}, first sent to {letter.properties['RETRY_TOPIC']}")


if __name__ == "__main__":
    main()
