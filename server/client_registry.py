"""The client registry: which client is in which group, over which connection, and what it has told of itself.

The broker knows members by their ids (broker/consumer_groups.py); here is what a network adds: a client comes
by heartbeat, and leaves by request, with its connection, or after two minutes without a heartbeat. A client
that has connected anew is no longer its old connection's: when that closes, it stays.

The subscription of a group is its members' together: for each topic the one with the greatest version.
Threads: the loop's alone. In memory alone; after a restart clients tell it again within 30 s.
Source: docs/spec/remoting.md section 7; ConsumerGroupInfo, ProducerManager of Apache RocketMQ.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from mqstore.remoting.bodies import HeartbeatConsumer, SubscriptionData
from mqstore.server.connection import Connection

__all__ = ["ClientRegistry", "Consumer", "Producer"]


class Consumer(NamedTuple):
    """A member of a consumer group. seen_s: its last heartbeat, in the loop's time."""

    group: str
    client_id: str
    connection: Connection
    language: str
    version: int
    data: HeartbeatConsumer
    seen_s: float


class Producer(NamedTuple):
    """A client of a producer group."""

    group: str
    client_id: str
    connection: Connection
    language: str
    version: int
    seen_s: float


ClientT = TypeVar("ClientT", Consumer, Producer)


class _Groups(Generic[ClientT]):
    """Clients by group and id, and how many each connection has."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, ClientT]] = {}
        self._by_connection: dict[Connection, dict[tuple[str, str], None]] = {}

    def add(self, client: ClientT) -> bool:
        """Whether the client is new, or has connected anew."""
        before = self.get(client.group, client.client_id)
        if before is not None:
            self._forget(before)
        self._groups.setdefault(client.group, {})[client.client_id] = client
        self._by_connection.setdefault(client.connection, {})[client.group, client.client_id] = None
        return before is None or before.connection is not client.connection

    def remove(self, client: ClientT) -> None:
        members = self._groups[client.group]
        del members[client.client_id]
        if not members:
            del self._groups[client.group]
        self._forget(client)

    def _forget(self, client: ClientT) -> None:
        """Of its connection."""
        names = self._by_connection[client.connection]
        del names[client.group, client.client_id]
        if not names:
            del self._by_connection[client.connection]

    def get(self, group: str, client_id: str) -> ClientT | None:
        return self._groups.get(group, {}).get(client_id)

    def members(self, group: str) -> list[ClientT]:
        return list(self._groups.get(group, {}).values())

    def of_connection(self, connection: Connection) -> list[ClientT]:
        return [self._groups[group][name] for group, name in self._by_connection.get(connection, ())]

    def count_of(self, connection: Connection) -> int:
        return len(self._by_connection.get(connection, ()))

    def __iter__(self) -> Iterator[ClientT]:
        return (client for members in self._groups.values() for client in members.values())

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))


class ClientRegistry:
    """The clients of one server. on_leave: called for each that leaves a group, however it does."""

    def __init__(self, on_leave: Callable[[Consumer | Producer], None]) -> None:
        self._on_leave = on_leave
        self._consumers = _Groups[Consumer]()
        self._producers = _Groups[Producer]()
        # Group -> topic -> what the group wants of it.
        self._subscriptions: dict[str, dict[str, SubscriptionData]] = {}

    # -- coming and leaving ---------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> bool:
        """A heartbeat has come; whether the client is new, or its group's topics have changed."""
        is_new = self._consumers.add(consumer)
        return self._merge(consumer.group, consumer.data.subscription_data_set) or is_new

    def _merge(self, group: str, wanted: Iterable[SubscriptionData]) -> bool:
        """Take over newer subscriptions and drop topics that are not wanted; whether the topics changed."""
        known = self._subscriptions.setdefault(group, {})
        before = set(known)
        for subscription in wanted:
            older = known.get(subscription.topic)
            if older is None or subscription.sub_version > older.sub_version:
                known[subscription.topic] = subscription
        for topic in before - {subscription.topic for subscription in wanted}:
            del known[topic]
        return before != set(known)

    def add_producer(self, producer: Producer) -> bool:
        """A heartbeat has come; whether the client is new."""
        return self._producers.add(producer)

    def remove(self, client_id: str, *, consumer_group: str | None, producer_group: str | None) -> None:
        """A client says that it leaves."""
        self._drop_consumer(self._consumers.get(consumer_group or "", client_id))
        self._drop_producer(self._producers.get(producer_group or "", client_id))

    def remove_connection(self, connection: Connection) -> None:
        """A connection is gone, and its clients with it."""
        for consumer in self._consumers.of_connection(connection):
            self._drop_consumer(consumer)
        for producer in self._producers.of_connection(connection):
            self._drop_producer(producer)

    def remove_silent(self, before_s: float) -> None:
        """Drop those whose last heartbeat came before that time."""
        for consumer in [each for each in self._consumers if each.seen_s < before_s]:
            self._drop_consumer(consumer)
        for producer in [each for each in self._producers if each.seen_s < before_s]:
            self._drop_producer(producer)

    def _drop_consumer(self, consumer: Consumer | None) -> None:
        if consumer is not None:
            self._consumers.remove(consumer)
            if not self._consumers.members(consumer.group):
                self._subscriptions.pop(consumer.group, None)
            self._on_leave(consumer)

    def _drop_producer(self, producer: Producer | None) -> None:
        if producer is not None:
            self._producers.remove(producer)
            self._on_leave(producer)

    # -- looking up -----------------------------------------------------------------------------------

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What a group wants of a topic; None if it has not subscribed, or has no members."""
        return self._subscriptions.get(group, {}).get(topic)

    def subscriptions(self, group: str) -> dict[str, SubscriptionData]:
        """What a group wants, by topic."""
        return dict(self._subscriptions.get(group, {}))

    def consumers(self, group: str) -> list[Consumer]:
        """The members of a group."""
        return self._consumers.members(group)

    def producers(self, group: str) -> list[Producer]:
        """The clients of a producer group."""
        return self._producers.members(group)

    def groups_of(self, topic: str) -> list[str]:
        """The groups whose members have subscribed to a topic."""
        return sorted(group for group, topics in self._subscriptions.items() if topic in topics)

    def has_producer(self, connection: Connection, client_id: str) -> bool:
        """Whether a client is of any producer group over this connection."""
        return any(each.client_id == client_id for each in self._producers.of_connection(connection))

    def count_of(self, connection: Connection) -> int:
        """In how many groups the clients of a connection are."""
        return self._consumers.count_of(connection) + self._producers.count_of(connection)

    def __len__(self) -> int:
        return len(self._consumers) + len(self._producers)

    def __repr__(self) -> str:
        return f"ClientRegistry({len(self._consumers)} consumers, {len(self._producers)} producers)"
