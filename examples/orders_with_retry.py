"""Orders that are charged, and one whose card fails: retried twice, then a dead letter.

    python examples/orders_with_retry.py

A store in a temporary directory, a consumer in a thread, delays of one second instead of RocketMQ's ten.
"""

import tempfile
import threading
from collections.abc import Sequence

from mqstore import Message, MessageStore, StoreConfig
from mqstore.client import ConsumeContext, ConsumeFromWhere, ConsumeStatus, PushConsumer, ReceivedMessage

ORDERS = {"o-1": b"42.00", "o-2": b"card expired", "o-3": b"13.50"}
dead = threading.Event()


def charge(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
    """The listener: one order a call. Raising would count as a failure, too, and be logged."""
    (order,) = messages
    print(f"{order.keys[0]}: attempt {order.reconsume_times + 1}: {order.body.decode()}")
    is_amount = order.body.replace(b".", b"").isdigit()
    return ConsumeStatus.CONSUME_SUCCESS if is_amount else ConsumeStatus.RECONSUME_LATER


def main() -> None:
    # Retry r waits in level 3 + r of this table.
    config = StoreConfig(message_delay_level="1s 1s 1s 1s 1s")
    with tempfile.TemporaryDirectory() as directory, MessageStore.open(directory, config) as store:
        store.add_arrival_listener(lambda arrival: arrival.topic == "%DLQ%billing" and dead.set())
        store.put_messages([Message("orders", body, keys=(key,)) for key, body in ORDERS.items()])

        consumer = PushConsumer(
            store,
            "billing",
            {"orders": "*"},
            charge,
            max_reconsume_times=2,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.start()
        dead.wait(timeout=30)
        consumer.stop()

        for letter in store.get_message("support", "%DLQ%billing", 0, 0).messages:
            print(f"given up: {letter.keys[0]}, first sent to {letter.properties['RETRY_TOPIC']}")


if __name__ == "__main__":
    main()
