"""The ring of the consistent hash: row ConsistentHash of section 8 of client_produce.md.

The owners below were computed by Java's MessageDigest and TreeMap, by the row's rule.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.broker.broker import MessageQueue
from mqstore.client.rebalance import consistent_hash
from mqstore.client.rebalance.consistent_hash import AllocateByConsistentHash

MEMBERS = ["10.0.0.1@1", "10.0.0.1@2", "10.0.0.2@1"]
QUEUES = [MessageQueue("TopicTest", "broker-a", queue_id) for queue_id in range(12)]
ALLOCATE = AllocateByConsistentHash()

some_members = st.lists(st.text("abc@#", min_size=1), min_size=1, max_size=8, unique=True).map(sorted)


def test_owners_are_those_that_java_computes() -> None:
    """Row ConsistentHash: 10 points for each member, a queue at or after its own, else at the first."""
    owners = {member: [queue.queue_id for queue in ALLOCATE(member, MEMBERS, QUEUES)] for member in MEMBERS}
    assert owners == {
        "10.0.0.1@1": [1, 5, 8],
        "10.0.0.1@2": [2, 3, 4, 10, 11],
        "10.0.0.2@1": [0, 6, 7, 9],
    }


def test_a_point_is_four_bytes_of_the_md5() -> None:
    """Row ConsistentHash: the first 4 bytes, big-endian, of the text in UTF-8."""
    assert consistent_hash._point("10.0.0.1@1-0") == 2998294157
    text = "MessageQueue [topic=TopicTest, brokerName=broker-a, queueId=0]"
    assert consistent_hash._text(QUEUES[0]) == text
    assert consistent_hash._point(text) == 1987926524


def test_at_or_after() -> None:
    """Row ConsistentHash: a point of its own, the next, and behind the last one the first."""
    assert [consistent_hash._at_or_after([10, 20], place) for place in (9, 10, 11, 20, 21)] == [
        10,
        10,
        20,
        20,
        10,
    ]


def test_points_are_limited() -> None:
    """A ring without points would own nothing."""
    with pytest.raises(ValueError, match="points is 0: give 1 or more"):
        AllocateByConsistentHash(0)


@given(members=some_members, gone=st.integers(0, 7))
def test_a_member_that_goes_moves_its_own_queues_only(members: list[str], gone: int) -> None:
    """The others keep all that they had."""
    left = [member for place, member in enumerate(members) if place != gone % len(members)]
    for member in left:
        assert set(ALLOCATE(member, members, QUEUES)) <= set(ALLOCATE(member, left, QUEUES))
