"""The promises of a store: what it has said up to a moment, and hence what must be true after a crash there.

Kept outside of the store, by the witness of a workload (witness.py), as events with the number of the
disk's steps at that time. `Promises` is their sum. What follows from it is judged by oracle.py.
"""

import copy
from collections.abc import Iterable
from typing import NamedTuple, Protocol

__all__ = [
    "Acknowledged",
    "Committed",
    "Event",
    "Expired",
    "Flushed",
    "Kept",
    "Promises",
    "Reopened",
    "Sent",
    "TimeIs",
    "TopicCreated",
]

Queue = tuple[str, int]


class Promises:
    """The sum of events."""

    def __init__(self, *, now_ms: int) -> None:
        self.now_ms = now_ms
        # By number: the body, and the topics that it may be found under.
        self.bodies: dict[int, bytes] = {}
        self.topics_of: dict[int, set[str]] = {}
        self.acknowledged: list[Acknowledged] = []
        self.flushed_offset = 0
        # (group, topic, queue id) -> the greatest offset that a consumer asked for, and the one known to be
        # kept.
        self.committed: dict[tuple[str, str, int], int] = {}
        self.kept: dict[tuple[str, str, int], int] = {}
        self.created_topics: dict[str, int] = {}
        # Records below it may have been deleted for their age.
        self.expired_below = 0
        # (number, reconsume times) of delayed messages whose copies were durable when they expired.
        self.delivered: set[tuple[int, int]] = set()

    def add(self, events: Iterable["Event"]) -> None:
        for event in events:
            event.add_to(self)

    def copy(self) -> "Promises":
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(twin, name, copy.copy(value))
        return twin

    def required(self, *, is_power_cut: bool) -> "list[Acknowledged]":
        """The acknowledged messages that must be there: after a power cut those that were called durable."""
        flushed_offset = self.flushed_offset
        return [
            message
            for message in self.acknowledged
            if not is_power_cut or message.is_durable or message.end <= flushed_offset
        ]


class Event(Protocol):
    """Something that the store said, or was asked."""

    def add_to(self, promises: Promises) -> None: ...


class Sent(NamedTuple):
    """The body of `number` was handed to the store and may be found under `topics` from now on."""

    number: int
    body: bytes
    topics: tuple[str, ...]

    def add_to(self, promises: Promises) -> None:
        promises.bodies[self.number] = self.body
        promises.topics_of.setdefault(self.number, set()).update(self.topics)


class Acknowledged(NamedTuple):
    """A put returned. `is_durable`: it promised that a power cut cannot take the message."""

    number: int
    reconsume_times: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    is_durable: bool

    @property
    def end(self) -> int:
        return self.physical_offset + self.size

    def add_to(self, promises: Promises) -> None:
        promises.acknowledged.append(self)


class Flushed(NamedTuple):
    """The store said that the log is durable up to `offset`."""

    offset: int

    def add_to(self, promises: Promises) -> None:
        promises.flushed_offset = max(promises.flushed_offset, self.offset)


class Committed(NamedTuple):
    """A group asked for this offset to be kept."""

    group: str
    topic: str
    queue_id: int
    offset: int

    def add_to(self, promises: Promises) -> None:
        key = self[:3]
        promises.committed[key] = max(promises.committed.get(key, 0), self.offset)


class Reopened(NamedTuple):
    """The store came back and showed these consumer offsets: what was committed beyond them is forgotten.

    Messages that a power cut took give their queue offsets to others, which no group has seen.
    """

    offsets: dict[tuple[str, str, int], int]

    def add_to(self, promises: Promises) -> None:
        promises.committed = dict(self.offsets)


class Kept(NamedTuple):
    """A flush returned: these consumer offsets are durable, by (group, topic, queue id)."""

    offsets: dict[tuple[str, str, int], int]

    def add_to(self, promises: Promises) -> None:
        promises.kept.update(self.offsets)


class TopicCreated(NamedTuple):
    """A topic was created, durably."""

    topic: str
    queue_nums: int

    def add_to(self, promises: Promises) -> None:
        promises.created_topics[self.topic] = self.queue_nums


class Expired(NamedTuple):
    """Retention may delete what lies below `offset`; these delayed messages are delivered durably."""

    offset: int
    delivered: frozenset[tuple[int, int]]

    def add_to(self, promises: Promises) -> None:
        promises.expired_below = max(promises.expired_below, self.offset)
        promises.delivered |= self.delivered


class TimeIs(NamedTuple):
    """The clock was moved."""

    now_ms: int

    def add_to(self, promises: Promises) -> None:
        promises.now_ms = self.now_ms
