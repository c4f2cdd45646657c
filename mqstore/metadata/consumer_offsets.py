"""The consumer offsets: which message of each queue a group consumes next.

Kept in config/consumerOffset.json in RocketMQ's text, "topic@group" -> queue -> offset (page
docs/format/state_files.md). It does not know how long a queue is, and does not check what a group
commits.

Two values per queue: the one in memory is what the group committed; the one on disk never exceeds
the flushed log. Otherwise a power cut would take the messages and leave the group waiting behind the end
of its queue. So `persist` gets the flushed length of each queue and writes the lower of both; memory
keeps the committed one. After a crash those messages are consumed again.

Threads: any; one lock guards the table, and `persist` writes outside of it, so that a commit never
waits for the disk.
Durability: a commit lasts after the next `persist`, up to the bound.
Source: docs/spec/schedule_and_retry.md section 7; ConsumerOffsetManager of Apache RocketMQ.
"""

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topics import TopicConfigs
from mqstore.store.clock import Clock
from mqstore.store.errors import QueueIllegal, StoreError, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state import state_file_format
from mqstore.store.state.data_version import DataVersion
from mqstore.store.state.state_file import StateFile
from mqstore.store.threads.lock import Lock

__all__ = ["CONSUMER_OFFSET_FILE_NAME", "NO_OFFSET", "ConsumerOffset", "ConsumerOffsets", "DurableBound"]

CONSUMER_OFFSET_FILE_NAME: Final = "consumerOffset.json"

NO_OFFSET: Final = -1
"""What `query` answers for a queue that the group never committed."""

DurableBound = Callable[[str, int], int]
"""(topic, queue_id) -> how many entries of the queue have their record in the flushed log."""

# What a broker can read back.
_MAX_QUEUE_ID: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 1
_SEPARATOR = "@"  # No topic and no group contains it.
# No number of changes: what was written lower than it is has to be written again.
_NOT_ALL: Final = -1


class ConsumerOffset(NamedTuple):
    """One row of the table."""

    group: str
    topic: str
    queue_id: int
    offset: int


class ConsumerOffsets:
    """Progress of all groups, in memory and in consumerOffset.json."""

    def __init__(
        self,
        file_system: FileSystem,
        config_directory: Path,
        clock: Clock,
        *,
        topics: TopicConfigs,
        subscription_groups: SubscriptionGroups,
        update_version_step: int = 500,
        read_only: bool = False,
    ) -> None:
        """`update_version_step`: number of commits after which the data version moves."""
        self._file = StateFile(file_system, config_directory / CONSUMER_OFFSET_FILE_NAME)
        self._clock = clock
        self._topics = topics
        self._subscription_groups = subscription_groups
        self._update_version_step = update_version_step
        self._read_only = read_only
        self._lock = Lock()
        # All under the lock; keys are "topic@group".
        self._table: dict[str, dict[int, int]] = {}
        self._resets: dict[str, dict[int, int]] = {}
        self._other_fields: dict[str, Any] = {}
        self._commits = 0
        # How often an offset has changed, and how often it had when all of them were on disk as they are.
        self._changes = self._saved_changes = 0
        self._data_version = DataVersion(timestamp_ms=clock.now_ms())

    def load(self) -> None:
        """Read consumerOffset.json, once, before anything else. Raises StateFileCorrupt."""
        state = self._file.load(_decode)
        if state is not None:
            with self._lock:
                self._table, self._data_version, self._other_fields = state

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note that `group` consumes message `offset` of the queue next; a smaller one moves it back.

        Ignored while a reset is pending. An unknown group or topic is created as at any other first use.
        Raises SubscriptionGroupNotExist, TopicNotExist, GroupIllegal, TopicIllegal, QueueIllegal,
        StoreReadOnly, StoreClosed.
        """
        queue_id, offset = self._checked(group, topic, queue_id, offset)
        key = topic + _SEPARATOR + group
        with self._lock:
            if queue_id not in self._resets.get(key, ()):
                self._put(key, queue_id, offset)

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The message that `group` consumes next: a pending reset, else what was committed, else -1."""
        key = topic + _SEPARATOR + group
        with self._lock:
            offset = self._resets.get(key, {}).get(queue_id)
            if offset is None:
                offset = self._table.get(key, {}).get(queue_id)
        return NO_OFFSET if offset is None else offset

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Move `group` to `offset`, whatever its consumers commit until one of them has seen it.

        Until `take_reset`, commits for the queue are ignored and `query` answers `offset`.
        Raises as `commit` does.
        """
        queue_id, offset = self._checked(group, topic, queue_id, offset)
        key = topic + _SEPARATOR + group
        with self._lock:
            self._resets.setdefault(key, {})[queue_id] = offset
            self._put(key, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """End the pending reset and return its offset; None without one. A pull asks this first."""
        if not self._resets:
            # Without the lock: each pull asks, and hardly ever was anything reset.
            return None
        with self._lock:
            return self._resets.get(topic + _SEPARATOR + group, {}).pop(queue_id, None)

    def delete(
        self, group: str | None = None, topic: str | None = None, queue_id: int | None = None
    ) -> list[ConsumerOffset]:
        """Delete the offsets of a group, of a topic, or of one queue; None stands for all. Returns them.

        The group then starts as a new one does. Pending resets are deleted as well. Raises StoreReadOnly,
        StoreClosed.
        """
        if self._read_only:
            raise StoreReadOnly(self._file.path)
        self._file.check_open()
        gone = [
            row
            for row in self
            if group in (None, row.group) and topic in (None, row.topic) and queue_id in (None, row.queue_id)
        ]
        with self._lock:
            self._drop(gone)
            if gone:
                self._changes += 1
                self._data_version = self._data_version.next(self._clock.now_ms())
        return gone

    def _drop(self, gone: list[ConsumerOffset]) -> None:
        for row in gone:
            key = row.topic + _SEPARATOR + row.group
            for table in (self._table, self._resets):
                queues = table.get(key, {})
                queues.pop(row.queue_id, None)
                if not queues:
                    table.pop(key, None)

    def move(self, row: ConsumerOffset) -> None:
        """`reset` of a group and topic that may have no settings any more."""
        key = row.topic + _SEPARATOR + row.group
        with self._lock:
            self._resets.setdefault(key, {})[row.queue_id] = row.offset
            self._put(key, row.queue_id, row.offset)

    def correct(self, length: Callable[[str, int], int]) -> list[ConsumerOffset]:
        """Move every offset beyond the end of its queue back to the end; called after recovery.

        `length(topic, queue_id)` is the queue's number of entries. Returns the rows as they were.
        """
        beyond = [row for row in self if row.offset > length(row.topic, row.queue_id)]
        with self._lock:
            for row in beyond:
                self._put(row.topic + _SEPARATOR + row.group, row.queue_id, length(row.topic, row.queue_id))
        return beyond

    def persist(self, durable_bound: DurableBound) -> bool:
        """Write consumerOffset.json if it changes; durable on return.

        No offset is written above `durable_bound(topic, queue_id)`. Raises OSError or StoreFull; the old
        state is then intact.
        """
        if self._read_only:
            return False
        changes = 0

        def snapshot() -> bytes:
            nonlocal changes
            changes, text = self._encode(durable_bound)
            return text

        is_saved = self._file.save_snapshot(snapshot)
        self._saved_changes = changes
        return is_saved

    @property
    def have_moved(self) -> bool:
        """Whether an offset has changed since the last `persist`, or was written lower than it is."""
        return self._changes != self._saved_changes

    def refuse(self, reason: Callable[[], StoreError]) -> None:
        """Write nothing more: `commit`, `reset` and `persist` raise the error that `reason` makes."""
        self._file.refuse(reason)

    def _checked(self, group: str, topic: str, queue_id: int, offset: int) -> tuple[int, int]:
        """Check all arguments; returns (queue_id, offset) as plain ints."""
        if self._read_only:
            raise StoreReadOnly(self._file.path)
        self._file.check_open()
        if type(queue_id) is not int or type(offset) is not int:
            queue_id, offset = _whole_number("queue_id", queue_id), _whole_number("offset", offset)
        if self._subscription_groups.lookup(group) is None:
            self._subscription_groups.find(group)
        if self._topics.lookup(topic) is None:
            self._topics.find(topic)
        for name, value, limit in (("queue_id", queue_id, _MAX_QUEUE_ID), ("offset", offset, _MAX_OFFSET)):
            if not 0 <= value <= limit:
                raise QueueIllegal(
                    f"{name} of topic {topic!r} is {value}, but must be from 0 to {limit}",
                    value=value,
                    limit=limit,
                )
        return queue_id, offset

    def _put(self, key: str, queue_id: int, offset: int) -> None:
        queues = self._table.setdefault(key, {})
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self._changes += 1
        self._commits += 1
        if self._commits % self._update_version_step == 0:
            self._data_version = self._data_version.next(self._clock.now_ms())

    def _encode(self, durable_bound: DurableBound) -> tuple[int, bytes]:
        """How many changes the text has in full, and the text."""
        with self._lock:
            changes = self._changes
            table = {key: dict(sorted(queues.items())) for key, queues in sorted(self._table.items())}
            state = self._other_fields | {"dataVersion": self._data_version.encode()}
        for key, queues in table.items():
            topic = key.partition(_SEPARATOR)[0]
            for queue_id, offset in queues.items():
                bound = durable_bound(topic, queue_id)
                if bound < offset:
                    queues[queue_id], changes = bound, _NOT_ALL
        state |= {"groupTopicMap": _topics_by_group(table), "offsetTable": table}
        return changes, state_file_format.encode(dict(sorted(state.items())))

    @property
    def data_version(self) -> DataVersion:
        """The stamp that the next save carries."""
        return self._data_version

    def __iter__(self) -> Iterator[ConsumerOffset]:
        """All rows as they are now, in the order of topic and group."""
        with self._lock:
            table = {key: dict(queues) for key, queues in self._table.items()}
        for key, queues in sorted(table.items()):
            topic, _, group = key.partition(_SEPARATOR)
            for queue_id, offset in sorted(queues.items()):
                yield ConsumerOffset(group, topic, queue_id, offset)

    def __len__(self) -> int:
        with self._lock:
            return sum(len(queues) for queues in self._table.values())

    def __repr__(self) -> str:
        return f"<ConsumerOffsets of {len(self)} queues in {str(self._file.path)!r}>"


def _whole_number(name: str, value: object) -> int:
    """`value` as an int, if it is a whole number of any type (numpy's, say) and no bool."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise QueueIllegal(f"{name} is {value!r}, but must be a whole number from 0", value=value, limit=0)


def _topics_by_group(table: dict[str, dict[int, int]]) -> dict[str, list[str]]:
    """RocketMQ saves it with the offsets, and ignores it when it reads them."""
    topics: dict[str, list[str]] = {}
    for key in table:
        topic, _, group = key.partition(_SEPARATOR)
        topics.setdefault(group, []).append(topic)
    return dict(sorted(topics.items()))


def _decode(text: bytes) -> tuple[dict[str, dict[int, int]], DataVersion, dict[str, Any]]:
    state = state_file_format.decode(text)
    table = state.pop("offsetTable", None) or {}
    version = DataVersion.decode(state.pop("dataVersion", None))
    state.pop("groupTopicMap", None)
    if not isinstance(table, dict):
        raise ValueError(f"offsetTable is {table!r}, not an object")
    return {key: _decode_queues(key, queues) for key, queues in table.items()}, version, state


def _decode_queues(key: str, queues: object) -> dict[int, int]:
    if not isinstance(queues, dict):
        raise ValueError(f"offsetTable.{key} is {queues!r}, not an object")
    return {int(queue_id): state_file_format.whole_number(offset) for queue_id, offset in queues.items()}
