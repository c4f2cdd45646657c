"""How members share queues: each row of the table of strategies in section 8 of client_produce.md.

The examples are the table's; the properties hold for any number of queues and members.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.broker.broker import MessageQueue
from mqstore.client.rebalance.consistent_hash import AllocateByConsistentHash
from mqstore.client.rebalance.queue_allocation import (
    AllocateByConfig,
    AllocateByMachineRoom,
    AllocateMachineRoomNearby,
    Allocation,
    allocate_averagely,
    allocate_averagely_by_circle,
)


class Rooms:
    """The room of a broker or client is what its name begins with, up to an @."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return queue.broker_name.partition("@")[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return client_id.partition("@")[0]


ROOMS = ("east", "north", "west")
BY_ROOM = AllocateByMachineRoom(ROOMS)
NEARBY = AllocateMachineRoomNearby(Rooms())
ALL: list[Allocation] = [
    allocate_averagely,
    allocate_averagely_by_circle,
    AllocateByConfig([MessageQueue("orders", "east@a", 0)]),
    BY_ROOM,
    NEARBY,
    AllocateByConsistentHash(),
]

some_members = st.lists(
    st.builds("{}@{}".format, st.sampled_from(ROOMS), st.integers(0, 99)),
    min_size=1,
    max_size=12,
    unique=True,
).map(sorted)
some_queues = st.lists(
    st.builds(
        MessageQueue,
        st.just("orders"),
        st.builds("{}@{}".format, st.sampled_from(ROOMS), st.sampled_from("ab")),
        st.integers(0, 15),
    ),
    min_size=1,
    max_size=40,
    unique=True,
).map(sorted)


def queues_of(count: int, broker_name: str = "east@a") -> list[MessageQueue]:
    return [MessageQueue("orders", broker_name, queue_id) for queue_id in range(count)]


def members_of(count: int) -> list[str]:
    return [f"east@{place}" for place in range(count)]


def name_of(value: object) -> str:
    """Of a strategy, without the address that a repr may have."""
    return getattr(value, "__name__", type(value).__name__)


def shares(allocate: Allocation, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[list[int]]:
    """The places in `queues` of each member's share."""
    return [[queues.index(queue) for queue in allocate(member, members, queues)] for member in members]


def test_averagely() -> None:
    """Row Averagely: 10 for 4 are blocks of 3, 3, 2, 2."""
    expected = [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]
    assert shares(allocate_averagely, members_of(4), queues_of(10)) == expected


def test_averagely_without_rest() -> None:
    """Row Averagely, r = 0: q queues from iq."""
    assert shares(allocate_averagely, members_of(2), queues_of(4)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("count", [1, 3, 4])
def test_averagely_with_few_queues(count: int) -> None:
    """Row Averagely, n <= m: member i has queue i, and the others none."""
    expected = [[place] if place < count else [] for place in range(4)]
    assert shares(allocate_averagely, members_of(4), queues_of(count)) == expected


def test_averagely_by_circle() -> None:
    """Row AveragelyByCircle: 10 for 4."""
    expected = [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    assert shares(allocate_averagely_by_circle, members_of(4), queues_of(10)) == expected


def test_by_config() -> None:
    """Row ByConfig: the fixed list, as far as the topic has its queues."""
    queues = queues_of(4)
    allocate = AllocateByConfig([queues[3], queues[1], MessageQueue("refunds", "east@a", 0)])
    assert allocate("east@0", members_of(2), queues) == [queues[1], queues[3]]


def test_by_machine_room() -> None:
    """Row ByMachineRoom: 5 for 2."""
    assert shares(BY_ROOM, members_of(2), queues_of(5)) == [[0, 1, 4], [2, 3]]


@pytest.mark.parametrize(
    ("broker_name", "is_shared"),
    [
        ("east@a", True),
        ("south@a", False),
        ("east", False),
        ("east@", False),
        ("east@a@b", False),
        ("@east", False),
        # What is empty at the end does not count for Java's split.
        ("east@a@", True),
    ],
)
def test_which_brokers_are_in_a_machine_room(broker_name: str, is_shared: bool) -> None:
    """Row ByMachineRoom: named `room@broker`, with a room of the configured set."""
    queues = queues_of(1, broker_name)
    assert BY_ROOM("me", ["me"], queues) == (queues if is_shared else [])


def test_machine_room_nearby() -> None:
    """Row MachineRoomNearby: my room's queues among my room; those of rooms without members among all."""
    members = ["east@0", "east@1", "west@0"]
    queues = [*queues_of(4, "east@a"), *queues_of(3, "north@a"), *queues_of(2, "west@a")]
    assert shares(NEARBY, members, queues) == [[0, 1, 4], [2, 3, 5], [6, 7, 8]]


def test_machine_room_nearby_asks_the_inner_strategy() -> None:
    """Row MachineRoomNearby: by the inner strategy."""
    nearby = AllocateMachineRoomNearby(Rooms(), allocate_averagely_by_circle)
    assert shares(nearby, members_of(2), queues_of(4)) == [[0, 2], [1, 3]]


def test_machine_room_nearby_wants_a_room_for_each() -> None:
    """A client or broker without one is refused, by name."""
    with pytest.raises(ValueError, match="@nowhere"):
        NEARBY("@nowhere", ["@nowhere"], queues_of(1))
    with pytest.raises(ValueError, match="broker_name='@a'"):
        NEARBY("east@0", ["east@0"], queues_of(1, "@a"))


@pytest.mark.parametrize("allocate", ALL, ids=name_of)
def test_a_client_that_is_not_in_the_list(allocate: Allocation) -> None:
    """All strategies: empty."""
    assert allocate("east@9", members_of(2), queues_of(4)) == []


@pytest.mark.parametrize("allocate", ALL, ids=name_of)
@pytest.mark.parametrize(
    ("client_id", "member_count", "queue_count", "named"),
    [("", 1, 1, "client_id"), ("east@0", 0, 1, "members"), ("east@0", 1, 0, "queues")],
)
def test_what_is_empty_is_refused(
    allocate: Allocation, client_id: str, member_count: int, queue_count: int, named: str
) -> None:
    """All strategies: an error for an empty id or list, that names it."""
    with pytest.raises(ValueError, match=named):
        allocate(client_id, members_of(member_count), queues_of(queue_count))


@pytest.mark.slow
@pytest.mark.parametrize(
    "allocate",
    [allocate_averagely, allocate_averagely_by_circle, BY_ROOM, NEARBY, AllocateByConsistentHash()],
    ids=name_of,
)
@given(members=some_members, queues=some_queues)
def test_every_queue_has_one_owner(
    allocate: Allocation, members: list[str], queues: list[MessageQueue]
) -> None:
    """Whatever members and queues there are."""
    owned = [queue for member in members for queue in allocate(member, members, queues)]
    assert sorted(owned) == queues


@pytest.mark.slow
@pytest.mark.parametrize("allocate", [allocate_averagely, allocate_averagely_by_circle, BY_ROOM], ids=name_of)
@given(members=some_members, queues=some_queues)
def test_shares_differ_by_one(allocate: Allocation, members: list[str], queues: list[MessageQueue]) -> None:
    """At most; the first members have the larger ones."""
    sizes = [len(allocate(member, members, queues)) for member in members]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@given(members=some_members, queues=some_queues)
def test_a_room_with_members_keeps_its_queues(members: list[str], queues: list[MessageQueue]) -> None:
    """Row MachineRoomNearby: nobody of another room has them."""
    rooms, inhabited = Rooms(), {member.partition("@")[0] for member in members}
    for member in members:
        for queue in NEARBY(member, members, queues):
            room = rooms.broker_deploy_in(queue)
            assert room == rooms.consumer_deploy_in(member) or room not in inhabited
