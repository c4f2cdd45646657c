"""The story of a message: its records in the log, from the first put over its retries to a dead letter.

A retry is a copy. Copies keep the unique key and the keys of their first record, and from the first retry on
they name its message id; so the key index finds them in the topics where copies can lie: the first topic, the
delayed messages, and the retry and dead-letter topics of the groups. A message without any key has only the
records that its properties name.
"""

from typing import NamedTuple

from mqstore.message_store import MessageStore
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import (
    DLQ_GROUP_TOPIC_PREFIX,
    RETRY_GROUP_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    is_dead_letter_topic,
    is_retry_topic,
)
from mqstore.store.record.message_id import decode_message_id
from mqstore.store.record.properties_format import ORIGIN_MESSAGE_ID, REAL_TOPIC, RETRY_TOPIC

__all__ = ["Chapter", "origin_of", "story_of"]

_MOST_KEYS = 4
_MOST_TOPICS = 130
_MOST_OF_A_KEY = 32


class Chapter(NamedTuple):
    """One record of the story. is_this: the one whose page it is."""

    store_timestamp: int
    what: str
    topic: str
    physical_offset: int
    reconsume_times: int
    is_this: bool


def origin_of(message: StoredMessage) -> int | None:
    """Physical offset of the first record, where a copy names it; None otherwise."""
    try:
        return decode_message_id(message.properties.get(ORIGIN_MESSAGE_ID, ""))[1]
    except ValueError:
        return None


def story_of(store: MessageStore, message: StoredMessage) -> list[Chapter]:
    """What is found of the message, oldest first; itself always."""
    origin = origin_of(message)
    root = message.physical_offset if origin is None else origin
    found = {message.physical_offset: message}
    first = None if origin is None else store.look_message_by_offset(origin)
    if first is not None and first.is_whole and first.topic == message.properties.get(RETRY_TOPIC):
        found[first.physical_offset] = first
    for topic in _topics(store, message):
        for key in _keys(message):
            for copy in store.query_message(topic, key, max_num=_MOST_OF_A_KEY):
                if origin_of(copy) == root or copy.physical_offset == root or _is_twin(copy, message):
                    found[copy.physical_offset] = copy
    ordered = sorted(found.values(), key=lambda each: (each.store_timestamp, each.physical_offset))
    return [_chapter(each, message.physical_offset) for each in ordered]


def _keys(message: StoredMessage) -> list[str]:
    unique = (message.unique_key,) if message.unique_key else ()
    return list(dict.fromkeys((*unique, *message.keys[:_MOST_KEYS])))


def _is_twin(copy: StoredMessage, message: StoredMessage) -> bool:
    """Whether the producer made both as one: a delayed message and what it was delivered as."""
    return message.unique_key is not None and copy.unique_key == message.unique_key


def _topics(store: MessageStore, message: StoredMessage) -> list[str]:
    """Where records of the message may lie, those first that its properties name."""
    named = (message.topic, message.properties.get(RETRY_TOPIC), message.properties.get(REAL_TOPIC))
    topics = {topic for topic, _ in store.consume_queues.queues()}
    copies = sorted(topic for topic in topics if is_retry_topic(topic) or is_dead_letter_topic(topic))
    wanted = (*(name for name in named if name), SCHEDULE_TOPIC, *copies)
    return [topic for topic in dict.fromkeys(wanted) if topic in topics][:_MOST_TOPICS]


def _chapter(message: StoredMessage, this: int) -> Chapter:
    return Chapter(
        store_timestamp=message.store_timestamp,
        what=_what(message),
        topic=message.topic,
        physical_offset=message.physical_offset,
        reconsume_times=message.reconsume_times,
        is_this=message.physical_offset == this,
    )


def _what(message: StoredMessage) -> str:
    topic, times = message.topic, message.reconsume_times
    if topic == SCHEDULE_TOPIC:
        target = message.properties.get(REAL_TOPIC, "")
        if is_retry_topic(target):
            group = target.removeprefix(RETRY_GROUP_TOPIC_PREFIX)
            return f"attempt {times} of group {group} failed; waits for the next"
        return f"waits for its delivery to {target}"
    if is_dead_letter_topic(topic):
        return f"dead letter of group {topic.removeprefix(DLQ_GROUP_TOPIC_PREFIX)} after {times} failures"
    if is_retry_topic(topic):
        return f"delivered again to group {topic.removeprefix(RETRY_GROUP_TOPIC_PREFIX)}"
    return "stored"
