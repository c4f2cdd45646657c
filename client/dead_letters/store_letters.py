"""Dead letters in an open store, also one that is open for reading only.

Records are read by their place in the log, so a dead-letter topic without permission to read, as older
brokers make them, is read too. Threads: any. Durability: as the store's.
"""

from collections.abc import Iterator, Sequence

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import DLQ_GROUP_TOPIC_PREFIX

__all__ = ["StoreLetters"]

_COPIES = 64
"""So many messages with one key are looked at."""


class StoreLetters:
    """A `LetterSource` over a store, which it does not close."""

    batch = 64

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @property
    def has_keys(self) -> bool:
        """As the store is open."""
        return self._store.config.key_index_enable

    def topics(self) -> list[str]:
        """Those that have queues."""
        # Asking for an end brings all queues up to date.
        self._store.get_max_offset_in_queue(DLQ_GROUP_TOPIC_PREFIX, 0)
        return sorted({topic for topic, _ in self._store.consume_queues.queues()})

    def has_topic(self, topic: str) -> bool:
        """As `LetterSource`."""
        return topic in self._store.topics

    def queue_ids(self, topic: str) -> list[int]:
        """As `LetterSource`."""
        self._store.get_max_offset_in_queue(topic, 0)
        return sorted(queue_id for name, queue_id in self._store.consume_queues.queues() if name == topic)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """As `LetterSource`."""
        least = self._store.get_min_offset_in_queue(topic, queue_id)
        return least, max(least, self._store.get_max_offset_in_queue(topic, queue_id))

    def messages(self, topic: str, queue_id: int, begin: int, end: int) -> Iterator[StoredMessage]:
        """One record at a time."""
        for queue_offset in range(begin, end):
            physical_offset = self._store.get_commit_log_offset_in_queue(topic, queue_id, queue_offset)
            message = None if physical_offset < 0 else self._store.look_message_by_offset(physical_offset)
            if message is None or not message.is_whole:
                continue
            if (message.topic, message.queue_offset) == (topic, queue_offset):
                yield message

    def with_key(self, topic: str, key: str) -> Sequence[StoredMessage]:
        """As `LetterSource`."""
        return self._store.query_message(topic, key, max_num=_COPIES)

    def put(self, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        """As `put_messages`."""
        return self._store.put_messages(messages)

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """As `LetterSource`."""
        return self._store.consumer_offsets.query(group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """As `LetterSource`."""
        self._store.consumer_offsets.take_reset(group, topic, queue_id)
        self._store.consumer_offsets.commit(group, topic, queue_id, offset)

    def delete_topic(self, topic: str) -> None:
        """As the store's."""
        self._store.delete_topic(topic)

    def __repr__(self) -> str:
        return f"StoreLetters({self._store!r})"
