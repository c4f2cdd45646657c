"""Plain-Python twin of tools/archive/segments: counts the records of a segment one by one."""

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["PlainRecord", "content"]


class PlainRecord(NamedTuple):
    """What is counted of a record."""

    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp: int
    is_half: bool
    size_bytes: int


def content(records: Iterable[PlainRecord], part_bytes: int) -> tuple[dict[str, object], list[object]]:
    """({topic: (messages, {queue id: (least offset, behind the greatest)})}, a list of the parts).

    A part is [position, size, records, least time, greatest time, the names of its topics].
    """
    topics: dict[str, object] = {}
    queues: dict[tuple[str, int], list[int]] = {}
    parts: dict[int, list[tuple[int, PlainRecord]]] = {}
    position = 0
    for record in records:
        parts.setdefault(position // part_bytes, []).append((position, record))
        position += record.size_bytes
        if not record.is_half:
            queues.setdefault((record.topic, record.queue_id), []).append(record.queue_offset)
    for topic in sorted({topic for topic, _ in queues}):
        of_topic = {queue_id: offsets for (name, queue_id), offsets in queues.items() if name == topic}
        ranges = {queue_id: (min(offsets), max(offsets) + 1) for queue_id, offsets in of_topic.items()}
        topics[topic] = (sum(map(len, of_topic.values())), ranges)
    return topics, [_part(within) for _, within in sorted(parts.items())]


def _part(within: list[tuple[int, PlainRecord]]) -> object:
    times = [record.store_timestamp for _, record in within]
    return [
        within[0][0],
        sum(record.size_bytes for _, record in within),
        len(within),
        min(times),
        max(times),
        {record.topic for _, record in within if not record.is_half},
    ]
