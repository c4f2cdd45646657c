"""A producer and a worker in one process: the worker is called as soon as an order is stored.

python examples/quickstart.py
"""

import tempfile
import threading
from collections.abc import Sequence

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import ConsumeConcurrentlyContext, EmbeddedBroker, Producer, PushConsumer


def main() -> None:
    charged = threading.Event()
    with (
        tempfile.TemporaryDirectory() as directory,
        MessageStore.open(directory) as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "billing-producers") as producer,
        PushConsumer(broker, "billing") as consumer,
    ):
        consumer.subscribe("orders", "paid")

        @consumer.listener
        def charge(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
            """If it raised, the order would come again after 10 s, 30 s, 1 min and so on."""
            for order in messages:
                print(f"charge order {order.keys[0]}: {order.body.decode()}")
            charged.set()

        consumer.start()
        producer.send(Message("orders", b"42.00", tags="created", keys=("o-1",)))
        result = producer.send(Message("orders", b"42.00", tags="paid", keys=("o-1",)))
        charged.wait(timeout=30)
        print(f"the send had answered {result.send_status.name}")


if __name__ == "__main__":
    main()
