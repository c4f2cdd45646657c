"""Administration: what an operator deletes or moves, and RocketMQ's rules for it.

    topic    its settings, its queues, the offsets of its groups, the pop retry topics of these groups.
             Its records stay in the log until they expire, and so do messages that wait for delivery: they
             are delivered, and the topic is there again. A topic that is put to again begins at 0.
    group    its settings, and on request its offsets. Its retry and dead-letter topics stay.
    offset   moved to a queue offset, a time or the end
    queues   those of which no message is left, and those of topics without settings

The steps of deleting a topic, so that a crash between any two leaves a store that opens and is sound, and so
that it can be done again:

    1  settings gone           an opening gives a topic that has queues settings again
    2  offsets gone            before the queues: one that outlived its queue would be beyond its new end
    3  remembered as deleted   no record before this offset gets an entry any more, nor is one missed. Where a
                               crash has cut the log before it, the next opening takes the log's end
    4  queues gone             the next opening deletes what is left of them (queue_leftovers.py)
    5  offsets gone            those that were committed meanwhile

3 and 4 are done between two appends, so no message continues the queue offsets of the deleted queues.
Threads: any; one at a time. Durability: what is done is durable when a method returns. Source:
AdminBrokerProcessor of Apache RocketMQ, ConsumerOffsetManager, DefaultMessageStore#deleteTopics,
#cleanUnusedTopic, #cleanExpiredConsumerQueue.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mqstore.metadata.pull_permission import refuse_queue
from mqstore.persistence import Persistence
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.errors import QueueIllegal, SubscriptionGroupNotExist, TopicIllegal, TopicNotExist
from mqstore.store.log.flusher import Flusher
from mqstore.store.message.topic_names import RETRY_GROUP_TOPIC_PREFIX, is_system_topic
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.run_in_thread import run_in_thread
from mqstore.store_parts import StoreParts

__all__ = ["Administration", "DeletedTopic"]


class DeletedTopic(NamedTuple):
    """What a deletion took. had_settings: whether there was a config."""

    topic: str
    queues: int
    offsets: int
    had_settings: bool


class Administration:
    """Deletes and moves what belongs to one open store."""

    def __init__(
        self,
        parts: StoreParts,
        flusher: Flusher,
        persistence: Persistence,
        offset_by_time: Callable[[str, int, int], int],
    ) -> None:
        """`offset_by_time(topic, queue_id, timestamp_ms)`: the queue offset at a time."""
        self._parts = parts
        self._flusher = flusher
        self._persistence = persistence
        self._offset_by_time = offset_by_time
        self._lock = Lock()

    # -- topics ---------------------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> list[DeletedTopic]:
        """Delete the topic and its groups' pop retry topics. Raises TopicIllegal for a system topic."""
        if is_system_topic(topic):
            raise TopicIllegal(f"topic {topic!r} is a system topic, which is not deleted", value=topic)
        with self._lock:
            return [self._delete_topic(each) for each in (topic, *self._pop_retry_topics(topic))]

    def _pop_retry_topics(self, topic: str) -> list[str]:
        """`%RETRY%group+topic` and, of older brokers, `%RETRY%group_topic`, where they have settings."""
        groups = sorted({row.group for row in self._parts.consumer_offsets if row.topic == topic})
        names = [f"{RETRY_GROUP_TOPIC_PREFIX}{group}{mark}{topic}" for group in groups for mark in "+_"]
        return [name for name in names if name in self._parts.topics]

    def _delete_topic(self, topic: str) -> DeletedTopic:
        parts = self._parts
        had_settings = parts.topics.remove(topic) is not None
        queues, offsets = 0, self._forget_offsets(topic)
        if any(known == topic for known, _ in self._known_queues()):
            # So that little of the log before the deletion's offset can be lost.
            self._flusher.flush()
            # In a thread of its own: Ctrl-C must not end it between two steps.
            queues = run_in_thread(lambda: self._delete_queues(topic)).result()
            self._persistence.flush_derived()
            self._forget_offsets(topic)
        return DeletedTopic(topic, queues, offsets, had_settings)

    def _forget_offsets(self, topic: str) -> int:
        count = len(self._parts.consumer_offsets.delete(topic=topic))
        self._persistence.persist_state()
        return count

    def _known_queues(self) -> list[tuple[str, int]]:
        self._parts.dispatcher.catch_up(self._parts.commit_log.visible_offset)
        return self._parts.consume_queues.queues()

    def _delete_queues(self, topic: str) -> int:
        """Steps 3 and 4."""
        parts = self._parts

        def delete(end_offset: int) -> int:
            _remember(parts.settings_file, topic, end_offset, parts.commit_log.min_offset)
            return parts.consume_queues.delete_topic(topic, end_offset)

        return parts.commit_log.delete_queues(lambda queue: queue[0] == topic, delete)

    def delete_unused_topics(self) -> list[DeletedTopic]:
        """Delete the queues of topics that have no settings, system topics excepted."""
        with self._lock:
            return [self._delete_topic(topic) for topic in self.unused_topics()]

    def unused_topics(self) -> list[str]:
        """The topics that have queues and no settings, by name."""
        topics = sorted({topic for topic, _ in self._known_queues()})
        return [each for each in topics if each not in self._parts.topics and not is_system_topic(each)]

    # -- queues ---------------------------------------------------------------------------------------

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Delete the queues of which no message is in the log any more; returns (topic, queue id) of each.

        The next message of such a queue is number 0, so the offsets of its groups are set to 0: RocketMQ
        leaves them, and the groups miss what comes. Queues of system topics stay.
        """
        with self._lock:
            expired = self.expired_queues(self._parts.commit_log.min_offset)
            if expired:
                # First: at 0 a group misses nothing, in the old queue or in the new one.
                self._move_to_start(expired)
                self._persistence.persist_state()
                run_in_thread(lambda: self._delete_if_expired(expired)).result()
                self._persistence.flush_derived()
            return expired

    def expired_queues(self, min_physical_offset: int) -> list[tuple[str, int]]:
        """The queues that would go if the log began at an offset."""
        candidates = [queue for queue in self._known_queues() if not is_system_topic(queue[0])]
        return [queue for queue in candidates if self._is_expired(*queue, min_physical_offset)]

    def _move_to_start(self, queues: list[tuple[str, int]]) -> None:
        for row in list(self._parts.consumer_offsets):
            if (row.topic, row.queue_id) in queues:
                self._parts.consumer_offsets.move(row._replace(offset=0))

    def _is_expired(self, topic: str, queue_id: int, min_physical_offset: int) -> bool:
        """Whether every message that the queue ever had is gone from a log that begins at an offset."""
        parts = self._parts
        queue = parts.consume_queues.find(topic, queue_id)
        if queue is None or not 0 < queue.max_offset == parts.commit_log.next_queue_offset(topic, queue_id):
            return False
        return 0 <= queue.max_physical_offset <= min_physical_offset

    def _delete_if_expired(self, queues: list[tuple[str, int]]) -> None:
        def delete(_: int) -> None:
            # Between two appends: what was put meanwhile is seen.
            min_offset = self._parts.commit_log.min_offset
            queues[:] = [queue for queue in queues if self._is_expired(*queue, min_offset)]
            for queue in queues:
                self._parts.consume_queues.delete_queue(*queue)

        self._parts.commit_log.delete_queues(lambda queue: queue in queues, delete)

    # -- groups and offsets ---------------------------------------------------------------------------

    def delete_group(self, group: str, *, clean_offset: bool) -> bool:
        """Delete the group's settings, and its offsets if asked; False when it had none of them."""
        with self._lock:
            found = self._parts.subscription_groups.remove(group) is not None
            if clean_offset and self._parts.consumer_offsets.delete(group=group):
                found = True
                self._persistence.persist_state()
            return found

    def reset_offset(
        self, group: str, topic: str, queue_id: int | None, offset: int | None, timestamp_ms: int | None
    ) -> dict[int, int]:
        """Move the group; returns the new offset by queue id.

        To `offset` of one queue, else to where the queues stood at `timestamp_ms`, else to their ends.
        """
        config = self._parts.topics.get(topic)
        if config is None:
            raise TopicNotExist(topic)
        if self._parts.subscription_groups.get(group) is None:
            raise SubscriptionGroupNotExist(group)
        if queue_id is not None:
            refuse_queue(config, queue_id)
        queue_ids = range(config.read_queue_nums) if queue_id is None else [queue_id]
        if offset is not None:
            moved = {each: self._within(topic, each, offset) for each in queue_ids}
        else:
            moved = {each: self._place(topic, each, timestamp_ms) for each in queue_ids}
        for each, place in moved.items():
            self._parts.consumer_offsets.reset(group, topic, each, place)
        self._persistence.persist_state()
        return moved

    def _within(self, topic: str, queue_id: int, offset: int) -> int:
        """`offset`, if it is an entry of the queue or its end. Raises QueueIllegal."""
        self._known_queues()
        queue = self._parts.consume_queues.find(topic, queue_id)
        least, end = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
        if not least <= offset <= end:
            raise QueueIllegal(
                f"offset {offset} is not in queue {queue_id} of topic {topic!r}, which has {least} to {end}",
                value=offset,
                limit=(least, end),
            )
        return offset

    def _place(self, topic: str, queue_id: int, timestamp_ms: int | None) -> int:
        if timestamp_ms is not None:
            return self._offset_by_time(topic, queue_id, timestamp_ms)
        self._known_queues()
        queue = self._parts.consume_queues.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def __repr__(self) -> str:
        return f"<Administration of {str(self._parts.layout.root)!r}>"


def _remember(file: DirectorySettingsFile, topic: str, end_offset: int, min_offset: int) -> None:
    """Step 3; deletions of topics without a record left are dropped from the file."""
    settings = file.settings
    assert settings is not None, "a writer that has not remembered its settings"
    deleted = {known: end for known, end in settings.deleted_topics.items() if end > min_offset}
    file.save(msgspec.structs.replace(settings, deleted_topics=deleted | {topic: end_offset}))
