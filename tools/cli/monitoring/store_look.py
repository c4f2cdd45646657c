"""A look at a store: its numbers at one moment, and what was put between two looks.

A look is a plain value that outlives the store it was taken of. Each is taken of a store that was opened for
it: a reader has topics, groups and progress as they were when it opened, and a segment that it keeps mapped
takes its room on the disk after it was deleted.

What is of the writer is as it last saved it: the flushed offset about a second ago, the offsets of groups and
the progress of delay levels a few seconds ago.
Pure but for what it reads; any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mqstore.index.queue.consume_queue_format import BLANK_SIZE
from mqstore.message_store import MessageStore
from mqstore.schedule.delivery.level_status import LevelStatus
from mqstore.store.files.file_system import DiskUsage
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout
from mqstore.store_stats import ConsumerLag

__all__ = ["Puts", "StoreLook", "puts_since", "take_look"]

QueueEnds = Mapping[tuple[str, int], int]
"""By topic and queue id: the queue offset that the next message gets."""


class Puts(NamedTuple):
    """Messages put to a topic, and bytes of their records."""

    messages: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class StoreLook:
    """A store at one moment. Offsets are physical.

    time_ms: epoch ms. at_s: seconds of a clock that never steps back, for the time between two looks.
    flushed_offset: up to where the writer last said that the log is durable; None where it never did, as in a
    directory that only a broker has written. messages: in the queues of each topic.
    """

    path: str
    time_ms: int
    at_s: float
    min_offset: int
    max_offset: int
    flushed_offset: int | None
    queue_ends: QueueEnds
    messages: Mapping[str, int]
    lags: tuple[ConsumerLag, ...]
    levels: tuple[LevelStatus, ...]
    disk: DiskUsage


def take_look(store: MessageStore, path: Path, at_s: float) -> StoreLook:
    """Look at a store that was just opened to be read. Raises what reading its files raises."""
    file_system = OsFileSystem()
    point = RecoveryPointFile(file_system, StoreLayout(path).recovery_point).load()
    stats = store.stats()
    ends: dict[tuple[str, int], int] = {}
    messages: dict[str, int] = {}
    for topic, queue_id in store.consume_queues.queues():
        end = ends[topic, queue_id] = store.get_max_offset_in_queue(topic, queue_id)
        held = end - store.get_min_offset_in_queue(topic, queue_id)
        messages[topic] = messages.get(topic, 0) + held
    return StoreLook(
        path=str(path),
        time_ms=store.clock.now_ms(),
        at_s=at_s,
        min_offset=stats.min_offset,
        max_offset=stats.max_offset,
        # The point may be of a log that has lost its end since.
        flushed_offset=None if point is None else min(point.log_offset, stats.max_offset),
        queue_ends=ends,
        messages=messages,
        lags=tuple(stats.consumer_lags),
        levels=tuple(level for level in stats.delay_levels if level.next_offset or level.pending),
        disk=file_system.disk_usage(path),
    )


def puts_since(store: MessageStore, before: StoreLook, after: StoreLook) -> dict[str, Puts]:
    """What was put to each topic between two looks, of which `after` was taken of `store`.

    Read off the entries that its queues have got; a queue that began again is counted from its start.
    """
    found: dict[str, Puts] = {}
    for (topic, queue_id), end in after.queue_ends.items():
        begin = before.queue_ends.get((topic, queue_id), 0)
        puts = _entries_between(store, topic, queue_id, begin if begin <= end else 0, end)
        if puts.messages:
            known = found.get(topic, Puts(0, 0))
            found[topic] = Puts(known.messages + puts.messages, known.size_bytes + puts.size_bytes)
    return found


def _entries_between(store: MessageStore, topic: str, queue_id: int, begin: int, end: int) -> Puts:
    queue = store.consume_queues.find(topic, queue_id)
    count, size_bytes = 0, 0
    offset = end if queue is None else max(begin, queue.min_offset)
    while queue is not None and offset < end:
        entries = queue.entries_from(offset, end - offset)
        if not len(entries):
            break
        sizes = entries["size"][entries["size"] != BLANK_SIZE]
        count += sizes.size
        size_bytes += int(sizes.sum(dtype=np.int64))
        offset += len(entries)
    return Puts(count, size_bytes)
