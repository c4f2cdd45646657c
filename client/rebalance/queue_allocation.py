"""Queue allocation: how the members of a group share the queues of a topic. n queues, m members, i: my place.

    allocate_averagely            blocks: n div m queues each, and one more for the first n mod m members
    allocate_averagely_by_circle  queues i, i + m, i + 2m, ...
    AllocateByConfig              a fixed list
    AllocateByMachineRoom         queues of some rooms: n div m each as a block, and the rest one by one
    AllocateMachineRoomNearby     each room's queues to the room's members; those of empty rooms to all
    AllocateByConsistentHash      consistent_hash.py

Every member calls the same rule with the same sorted lists, so a queue has one owner once all have seen the
same members. A client that is not in the list has no queues. An empty client id, and an empty list, are
refused.

It does not find out who the members are, nor when to ask (rebalance_service.py).
Threads: any; nothing here changes.
Source: docs/spec/client_produce.md section 8; AllocateMessageQueueStrategy of Apache RocketMQ and the classes
that implement it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from mqstore.broker.broker import MessageQueue

__all__ = [
    "AllocateByConfig",
    "AllocateByMachineRoom",
    "AllocateMachineRoomNearby",
    "Allocation",
    "MachineRooms",
    "allocate_averagely",
    "allocate_averagely_by_circle",
    "check_allocation",
]

Allocation: TypeAlias = Callable[[str, Sequence[str], Sequence[MessageQueue]], Collection[MessageQueue]]
"""(client id, sorted members, sorted queues of a topic) -> the queues that are the client's."""


def check_allocation(client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> bool:
    """Whether the client is a member. Raises ValueError for an empty id or list."""
    if not client_id:
        raise ValueError("client_id is empty: give the id that the client has registered")
    if not queues:
        raise ValueError("queues is empty: allocate the queues of a topic that has some")
    if not members:
        raise ValueError("members is empty: give the clients that have registered")
    return client_id in members


def allocate_averagely(
    client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> list[MessageQueue]:
    """Blocks of queues that lie side by side, which differ in size by one at most. RocketMQ's default.

    >>> queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(5)]
    >>> [queue.queue_id for queue in allocate_averagely("b", ["a", "b"], queues)]
    [3, 4]
    """
    if not check_allocation(client_id, members, queues):
        return []
    place = members.index(client_id)
    size, rest = divmod(len(queues), len(members))
    start = place * size + min(place, rest)
    return list(queues[start : start + size + (place < rest)])


def allocate_averagely_by_circle(
    client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> list[MessageQueue]:
    """Queue after queue goes to the next member, round and round.

    >>> queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(5)]
    >>> [queue.queue_id for queue in allocate_averagely_by_circle("b", ["a", "b"], queues)]
    [1, 3]
    """
    if not check_allocation(client_id, members, queues):
        return []
    return list(queues[members.index(client_id) :: len(members)])


class AllocateByConfig:
    """A fixed list for this client; whoever configures the members sees that each queue is in one list.

    Of the list, those that exist in the topic that is shared. RocketMQ gives the whole list, whatever was
    asked.
    """

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._configured = frozenset(queues)

    def __call__(
        self, client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """As `Allocation`. Raises ValueError for an empty id or list."""
        if not check_allocation(client_id, members, queues):
            return []
        return [queue for queue in queues if queue in self._configured]

    def __repr__(self) -> str:
        return f"AllocateByConfig({sorted(self._configured)})"


class AllocateByMachineRoom:
    """Only queues of brokers that are named `room@broker`, of these rooms. Others have no owner."""

    def __init__(self, rooms: Iterable[str]) -> None:
        self._rooms = frozenset(rooms)

    def __call__(
        self, client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """As `Allocation`. Raises ValueError for an empty id or list."""
        if not check_allocation(client_id, members, queues):
            return []
        shared = [queue for queue in queues if _room_of(queue.broker_name) in self._rooms]
        place = members.index(client_id)
        size, rest = divmod(len(shared), len(members))
        mine = shared[place * size : (place + 1) * size]
        if place < rest:
            mine.append(shared[place + size * len(members)])
        return mine

    def __repr__(self) -> str:
        return f"AllocateByMachineRoom({sorted(self._rooms)})"


class MachineRooms(Protocol):
    """Says where brokers and clients are (MachineRoomResolver)."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        """The room of the queue's broker."""
        ...

    def consumer_deploy_in(self, client_id: str) -> str:
        """The room of a client."""
        ...


class AllocateMachineRoomNearby:
    """Queues are consumed in their room as long as it has members. inner: how those of a room are shared."""

    def __init__(self, rooms: MachineRooms, inner: Allocation = allocate_averagely) -> None:
        self._rooms = rooms
        self._inner = inner

    def __call__(
        self, client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """As `Allocation`. Raises ValueError for an empty id or list, and for one whose room is not known."""
        if not check_allocation(client_id, members, queues):
            return []
        members_of: dict[str, list[str]] = {}
        for member in members:
            room = _known(self._rooms.consumer_deploy_in(member), member)
            members_of.setdefault(room, []).append(member)
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(_known(self._rooms.broker_deploy_in(queue), queue), []).append(queue)
        mine: list[MessageQueue] = []
        for room in sorted(queues_of):
            sharing = members_of.get(room, members)
            if client_id in sharing:
                mine += self._inner(client_id, sharing, queues_of[room])
        return mine

    def __repr__(self) -> str:
        return f"AllocateMachineRoomNearby({self._rooms!r}, {self._inner!r})"


def _room_of(broker_name: str) -> str | None:
    """The room in `room@broker`; None for a name of another form."""
    # Java's split drops what is empty at the end.
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _known(room: str, what: object) -> str:
    if not room:
        raise ValueError(f"the machine room of {what!r} is not known: name one for each broker and client")
    return room
