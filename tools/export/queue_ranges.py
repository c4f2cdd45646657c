"""The queue ranges of an export: which topics, and from which queue offset to which in each of their queues.

They are taken once, before the first row is read, so that an export beside a live writer ends.

Without names all topics are meant but the broker's own (`is_system_topic`); retries and dead letters are
messages of users. A topic whose queues only a RocketMQ broker keeps (BatchCQ, LMQ) cannot be read by queue:
named, it is an error, else it is left out and reported.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mqstore.message_store import MessageStore
from mqstore.metadata.pull_permission import refuse_without_queues
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.message.topic_names import is_system_topic
from mqstore.tools.export.export_errors import TopicUnknown

__all__ = ["QueueRange", "chosen_topics", "queue_ranges"]


class QueueRange(NamedTuple):
    """Consecutive messages of one queue; the end is not included."""

    topic: str
    queue_id: int
    begin_offset: int
    end_offset: int


def chosen_topics(
    store: MessageStore, topics: Iterable[str] | None, *, all_topics: bool
) -> tuple[list[str], list[str]]:
    """(topics to export, topics left out because the store cannot read their queues).

    Raises TopicUnknown, TopicNotSupported for a topic that was named.
    """
    known = {config.topic_name for config in store.topics} | {topic for topic, _ in _queues(store)}
    if topics is None:
        unreadable = store.topics.without_queues
        wanted = sorted(topic for topic in known if all_topics or not is_system_topic(topic))
        return (
            [topic for topic in wanted if topic not in unreadable],
            [topic for topic in wanted if topic in unreadable],
        )
    named = list(dict.fromkeys(topics))
    for topic in named:
        if topic not in known:
            raise TopicUnknown(store.path, topic, sorted(known))
        refuse_without_queues(store.topics, topic)
    return named, []


def queue_ranges(store: MessageStore, topics: Iterable[str], begin_ms: int, end_ms: int) -> list[QueueRange]:
    """The ranges stored from `begin_ms` on and before `end_ms`: topic by topic as given, queue by queue.

    Where the clock was set back, a range may begin or end at any of the places where the times cross.
    """
    queues: dict[str, list[int]] = {}
    for topic, queue_id in sorted(_queues(store)):
        queues.setdefault(topic, []).append(queue_id)
    ranges = [
        QueueRange(
            topic,
            queue_id,
            _begin_offset(store, topic, queue_id, begin_ms),
            _end_offset(store, topic, queue_id, end_ms),
        )
        for topic in topics
        for queue_id in queues.get(topic, ())
    ]
    return [each for each in ranges if each.begin_offset < each.end_offset]


def _queues(store: MessageStore) -> list[tuple[str, int]]:
    # Asked for any queue, the store brings all of them up to its log.
    store.get_max_offset_in_queue("", 0)
    return store.consume_queues.queues()


def _begin_offset(store: MessageStore, topic: str, queue_id: int, begin_ms: int) -> int:
    if begin_ms <= 0:
        return store.get_min_offset_in_queue(topic, queue_id)
    return store.get_offset_in_queue_by_time(topic, queue_id, begin_ms)


def _end_offset(store: MessageStore, topic: str, queue_id: int, end_ms: int) -> int:
    if end_ms >= END_OF_TIME_MS:
        return store.get_max_offset_in_queue(topic, queue_id)
    return store.get_offset_in_queue_by_time(topic, queue_id, end_ms)
