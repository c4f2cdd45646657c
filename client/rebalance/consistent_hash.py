"""Allocation by consistent hash: when a member comes or goes, only queues that it gets or had change hands.

    ring     10 points for each member, of the texts `<client id>-0` to `<client id>-9`
    queue    the text `MessageQueue [topic=t, brokerName=b, queueId=0]` goes to the first point at or after
             its own, behind the last one to the first

A point is the first 4 bytes of the text's MD5, big-endian. Shares differ by more than one: that is the price.
Texts and points are exactly RocketMQ's, so members of both kinds agree.
Threads: any; nothing here changes.
Source: docs/spec/client_produce.md section 8; AllocateMessageQueueConsistentHash, ConsistentHashRouter.
"""

import bisect
import hashlib
from collections.abc import Sequence

from mqstore.broker.broker import MessageQueue
from mqstore.client.rebalance.queue_allocation import check_allocation

__all__ = ["AllocateByConsistentHash"]

_POINTS_OF_A_MEMBER = 10


class AllocateByConsistentHash:
    """points: how many each member has on the ring. All members of a group must say the same."""

    def __init__(self, points: int = _POINTS_OF_A_MEMBER) -> None:
        """Raises ValueError for fewer points than 1."""
        if points < 1:
            raise ValueError(f"points is {points}: give 1 or more, RocketMQ has {_POINTS_OF_A_MEMBER}")
        self._points = points

    def __call__(
        self, client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
    ) -> list[MessageQueue]:
        """As `Allocation`. Raises ValueError for an empty id or list."""
        if not check_allocation(client_id, members, queues):
            return []
        # Of two members at one point, the later one has it.
        ring = {_point(f"{member}-{k}"): member for member in members for k in range(self._points)}
        places = sorted(ring)
        return [queue for queue in queues if ring[_at_or_after(places, _point(_text(queue)))] == client_id]

    def __repr__(self) -> str:
        return f"AllocateByConsistentHash({self._points})"


def _at_or_after(places: list[int], place: int) -> int:
    index = bisect.bisect_left(places, place)
    return places[index] if index < len(places) else places[0]


def _text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def _point(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")
