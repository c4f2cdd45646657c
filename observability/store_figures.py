"""The figures of a store at one moment: by topic, by group and topic, and of each group's failures.

`MessageStore.stats` has the raw numbers; here they are put together by what people ask about. Counters begin
when the store is opened; what is held, and the lag, are of the store as it is.

Asking costs what `stats` costs: entries of the queues that have come since the last time are read. Nothing is
counted in a put, and nothing is written. Threads: any.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from mqstore.message_store import MessageStore
from mqstore.store.files.file_system import DiskUsage
from mqstore.store.message.topic_names import DLQ_GROUP_TOPIC_PREFIX, is_dead_letter_topic
from mqstore.store_stats import StoreStats

__all__ = ["GroupFigures", "RetryFigures", "StoreFigures", "TopicFigures", "store_figures"]


class TopicFigures(NamedTuple):
    """messages: held in the queues. puts, put_bytes: messages put, and bytes of their records."""

    messages: int
    puts: int
    put_bytes: int


class GroupFigures(NamedTuple):
    """Of a group and a topic. lag: messages not consumed; None where the group has committed no offset.

    gets, get_bytes: messages handed to it, and bytes of their records.
    """

    lag: int | None
    gets: int
    get_bytes: int


class RetryFigures(NamedTuple):
    """What a group failed on. sent_back: to be retried, or dead at once.

    dead_letters: that it has got since the store was opened; dead_letters_held: that lie in its %DLQ% topic.
    """

    sent_back: int
    dead_letters: int
    dead_letters_held: int


@dataclass(frozen=True, kw_only=True)
class StoreFigures:
    """A store at one moment.

    topics: by name. groups: by (group, topic). retries: by group, of those that have failed on anything.
    stats: of the store as a whole, its delay levels, and the lag by queue. disk: room where it lies.
    """

    topics: dict[str, TopicFigures]
    groups: dict[tuple[str, str], GroupFigures]
    retries: dict[str, RetryFigures]
    stats: StoreStats
    disk: DiskUsage


def store_figures(store: MessageStore) -> StoreFigures:
    """The figures of an open store as they are now. Raises StoreForked in a child process.

    >>> from mqstore import Message, MessageStore
    >>> with MessageStore.open("counted") as store:
    ...     put = store.put_message(Message("orders", b"first"))
    ...     got = store.get_message("billing", "orders", 0, 0)
    ...     figures = store_figures(store)
    >>> figures.topics["orders"].puts, figures.groups["billing", "orders"].gets
    (1, 1)
    """
    stats = store.stats()
    held = _held(store)
    return StoreFigures(
        topics=_topics(stats, held),
        groups=_groups(stats),
        retries=_retries(stats, held),
        stats=stats,
        disk=store.disk_usage(),
    )


def _held(store: MessageStore) -> Counter[str]:
    """Messages in the queues, by topic."""
    held: Counter[str] = Counter()
    for topic, queue_id in store.consume_queues.queues():
        queue = store.consume_queues.find(topic, queue_id)
        if queue is not None:
            held[topic] += queue.max_offset - queue.min_offset
    return held


def _topics(stats: StoreStats, held: Counter[str]) -> dict[str, TopicFigures]:
    puts, sizes = stats.counters.topic_put_nums, stats.counters.topic_put_size
    return {
        topic: TopicFigures(held[topic], puts.get(topic, 0), sizes.get(topic, 0))
        for topic in sorted({*held, *puts})
    }


def _groups(stats: StoreStats) -> dict[tuple[str, str], GroupFigures]:
    lags: Counter[tuple[str, str]] = Counter()
    for lag in stats.consumer_lags:
        lags[lag.group, lag.topic] += lag.lag
    gets = {_pair(key): count for key, count in stats.counters.group_get_nums.items()}
    sizes = {_pair(key): size for key, size in stats.counters.group_get_size.items()}
    return {
        pair: GroupFigures(lags.get(pair), gets.get(pair, 0), sizes.get(pair, 0))
        for pair in sorted({*lags, *gets})
    }


def _retries(stats: StoreStats, held: Counter[str]) -> dict[str, RetryFigures]:
    sent_back: defaultdict[str, int] = defaultdict(int)
    for key, count in stats.counters.sndbck_put_nums.items():
        sent_back[_pair(key)[0]] += count
    dead = _by_group(stats.counters.topic_put_nums)
    dead_held = _by_group(held)
    return {
        group: RetryFigures(sent_back[group], dead.get(group, 0), dead_held.get(group, 0))
        for group in sorted({*sent_back, *dead, *dead_held})
    }


def _by_group(table: dict[str, int]) -> dict[str, int]:
    """What is counted for dead-letter topics, by group."""
    return {
        topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX): count
        for topic, count in table.items()
        if is_dead_letter_topic(topic)
    }


def _pair(key: str) -> tuple[str, str]:
    """(group, topic) of a key `topic@group`; both are the key where others were put together (OTHERS)."""
    topic, at, group = key.partition("@")
    return (group, topic) if at else (key, key)
