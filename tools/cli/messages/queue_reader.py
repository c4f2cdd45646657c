"""Reading a queue from any offset, for `get` and `tail`: no group, nothing committed.

It walks with `get_message` and follows next_begin_offset, so that gaps of removed or filtered messages
are skipped. Safe on a live store.
"""

from collections.abc import Iterator, Sequence

from mqstore.message_store import MessageStore
from mqstore.metadata.topic_hints import nearest_topic
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import GetMessageStatus
from mqstore.tools.cli.exit_codes import ToolProblem

__all__ = ["READER_GROUP", "next_offset_and_messages", "queue_ids", "read_queue"]

READER_GROUP = "TOOLS_CONSUMER"
"""RocketMQ's own name for the group of its tools."""

_PULL_COUNT = 32
_NOTHING_THERE = frozenset({GetMessageStatus.NO_MESSAGE_IN_QUEUE, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE})


def queue_ids(store: MessageStore, topic: str, queue: int | None) -> list[int]:
    """The one queue asked for, or all that hold messages. Raises ToolProblem for a topic without any."""
    found = sorted(queue_id for name, queue_id in store.consume_queues.queues() if name == topic)
    if queue is not None and (queue in found or store.topics.get(topic) is not None):
        return [queue]
    if queue is None and (found or store.topics.get(topic) is not None):
        return found
    what = f"topic {topic!r}" if not found else f"queue {queue} of topic {topic!r}"
    near = nearest_topic(topic, store.topics)
    hint = f"did you mean {near!r}?" if near else f"see `mqstore topics {store.path}`"
    raise ToolProblem(f"{store.path} has no {what}: {hint}")


def next_offset_and_messages(
    store: MessageStore, topic: str, queue_id: int, offset: int, tags: str, count: int = _PULL_COUNT
) -> tuple[int, Sequence[StoredMessage]]:
    """One pull: the next offset, and the messages before it."""
    result = store.get_message(READER_GROUP, topic, queue_id, offset, min(count, _PULL_COUNT), tags)
    is_empty = result.status in _NOTHING_THERE
    return (offset if is_empty else result.next_begin_offset), result.messages


def read_queue(
    store: MessageStore, topic: str, queue_id: int, offset: int, count: int, tags: str = "*"
) -> Iterator[StoredMessage]:
    """Up to `count` messages from `offset` on, to the end of the queue as it is now."""
    end_offset = store.get_max_offset_in_queue(topic, queue_id)
    while offset < end_offset and count > 0:
        next_offset, messages = next_offset_and_messages(store, topic, queue_id, offset, tags, count)
        yield from messages
        count -= len(messages)
        if next_offset <= offset:
            return
        offset = next_offset
