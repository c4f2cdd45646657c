"""The brokers that a client was given, by name.

A queue carries the name of its broker, and here that broker is found. Several brokers are several stores: a
topic has the queues of all of them. Threads: any; nothing here changes.
"""

from collections.abc import Sequence

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.errors import BrokerNotExist, NoBroker
from mqstore.store.errors import StoreClosed

__all__ = ["Brokers", "readable_queues"]


class Brokers(dict[str, Broker]):
    """name -> broker, in the order of the names. A name that was not given raises BrokerNotExist."""

    def __init__(self, brokers: Broker | Sequence[Broker], client: str) -> None:
        """client: its name in errors. Raises NoBroker; ValueError for two brokers of one name."""
        listed = list(brokers) if isinstance(brokers, Sequence) else [brokers]
        if not listed:
            raise NoBroker(client)
        names = sorted(broker.name for broker in listed)
        super().__init__((broker.name, broker) for broker in sorted(listed, key=lambda broker: broker.name))
        if len(self) < len(listed):
            raise ValueError(f"brokers must have different names, but these have {names}")

    def message_queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, of all brokers that are open; none if it does not exist."""
        queues: list[MessageQueue] = []
        for broker in self.values():
            try:
                queues += readable_queues(broker, topic)
            except StoreClosed:
                continue
        return queues

    def __missing__(self, name: str) -> Broker:
        raise BrokerNotExist(name, list(self))


def readable_queues(broker: Broker, topic: str) -> list[MessageQueue]:
    """The queues of a topic at one broker; none if they may not be read. Raises StoreClosed."""
    route = broker.topic_route(topic)
    if route is None or not route.is_readable:
        return []
    return [MessageQueue(topic, broker.name, queue_id) for queue_id in range(route.read_queue_nums)]
