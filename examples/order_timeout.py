"""Two orders are to be paid within a second. A delayed message looks after each; one is paid in time.

    python examples/order_timeout.py

The message that looks is sent together with the order, and is delivered when the time is over, also if the
process was restarted meanwhile: what waits is in the store.
"""

import tempfile
import threading
from collections.abc import Sequence

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    ConsumerSettings,
    EmbeddedBroker,
    Producer,
    PushConsumer,
)

ONE_SECOND = 1
"""The first of RocketMQ's delay levels: 1 s, 5 s, 10 s, 30 s, 1 min and so on."""

orders: dict[str, str] = {}
looked_at = threading.Semaphore(0)


def look(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
    """Cancels an order that is not paid yet."""
    for message in messages:
        order = message.keys[0]
        if orders[order] != "paid":
            orders[order] = "cancelled"
        looked_at.release()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        MessageStore.open(directory) as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "shop") as producer,
        PushConsumer(broker, "timeouts", ConsumerSettings(consume_thread_min=1)) as consumer,
    ):
        consumer.subscribe("order-timeouts")
        consumer.listener(look)
        consumer.start()
        for order in ("o-1", "o-2"):
            orders[order] = "waits for its payment"
            producer.send(Message("order-timeouts", b"look", keys=(order,), delay_level=ONE_SECOND))
        orders["o-2"] = "paid"
        for _ in orders:
            looked_at.acquire(timeout=30)
    for order, state in sorted(orders.items()):
        print(f"{order}: {state}")


if __name__ == "__main__":
    main()
