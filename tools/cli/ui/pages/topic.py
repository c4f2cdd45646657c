"""The page of a topic: its queues, and its messages by offset, time, key or tag.

    nothing asked     the newest messages of its queues together
    queue, offset     a page of one queue from an offset on, with the pages before and behind it
    time              the first messages that were stored at or after it
    key               what the key index finds
    tags              as elsewhere an expression; of the newest it looks at so many entries of each queue

However long a topic is, a page reads a bounded number of messages.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from mqstore.message_store import MessageStore
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.cli.administration.topics import QueueRow, queue_rows
from mqstore.tools.cli.messages.queue_reader import next_offset_and_messages
from mqstore.tools.cli.ui.pages.asked import Asked, PageProblem
from mqstore.tools.cli.ui.pages.message_line import lines_of

__all__ = ["PAGE_MESSAGES", "topic"]

PAGE_MESSAGES = 50
"""Messages of a page."""
_MOST_QUEUES_SHOWN = 500
_MOST_QUEUES_READ = 16
_FILTERED_ENTRIES = 1_000
_MOST_PULLS = 200


class _Found(NamedTuple):
    """Messages of a page, and what is told of them. next_offset: of one queue, where the next page begins."""

    messages: list[StoredMessage]
    told: str
    next_offset: int | None = None


def topic(store: MessageStore, asked: Asked) -> dict[str, Any]:
    """What the template needs. Raises PageProblem for a topic that is not there."""
    name, tags = asked.name("name"), asked.text("tags")
    queues = [row for row in queue_rows(store) if row.topic == name]
    config = store.topics.get(name)
    if not queues and config is None:
        raise PageProblem(f"there is no topic {name!r}")
    queue_id, offset, time_ms = asked.number("queue"), asked.number("offset"), asked.time_ms("time")
    key = asked.text("key")
    chosen = [row for row in queues if queue_id in (None, row.queue_id)]
    if queue_id is not None and not chosen:
        raise PageProblem(f"queue {queue_id} of topic {name!r} holds no message")
    if key:
        found = _Found(store.query_message(name, key, max_num=PAGE_MESSAGES), f"with the key {key}")
    elif time_ms is not None:
        found = _from_time(store, chosen, time_ms, tags)
    elif queue_id is not None:
        found = _of_queue(store, chosen[0], offset, tags)
    else:
        found = _newest(store, chosen, tags)
    return {
        "name": name,
        "config": config,
        "queues": queues[:_MOST_QUEUES_SHOWN],
        "more_queues": max(0, len(queues) - _MOST_QUEUES_SHOWN),
        "messages": sum(row.messages for row in queues),
        "asked": {"queue": queue_id, "offset": offset, "time": asked.text("time"), "key": key, "tags": tags},
        "lines": lines_of(found.messages),
        "told": found.told,
        "older": _older(chosen[0], found) if queue_id is not None and not key else None,
        "newer": found.next_offset,
    }


def _of_queue(store: MessageStore, row: QueueRow, offset: int | None, tags: str) -> _Found:
    begin = max(row.min_offset, row.max_offset - PAGE_MESSAGES) if offset is None else offset
    begin = max(begin, row.min_offset)
    messages, following = _pulled(store, row, begin, row.max_offset, tags)
    told = f"of queue {row.queue_id} from offset {begin:,} on"
    return _Found(messages, told, following if following < row.max_offset else None)


def _older(row: QueueRow, found: _Found) -> int | None:
    """Where the page before this one begins; None on the first."""
    if not found.messages:
        return None
    first = found.messages[0].queue_offset
    return max(row.min_offset, first - PAGE_MESSAGES) if first > row.min_offset else None


def _newest(store: MessageStore, rows: list[QueueRow], tags: str) -> _Found:
    entries = _FILTERED_ENTRIES if tags else PAGE_MESSAGES
    read = sorted(rows, key=lambda row: -row.newest_timestamp)[:_MOST_QUEUES_READ]
    found: list[StoredMessage] = []
    for row in read:
        begin = max(row.min_offset, row.max_offset - entries)
        # The newest of a queue are the last of a pull that may find more than a page holds.
        found += list(_each(store, row, begin, row.max_offset, tags))[-PAGE_MESSAGES:]
    found.sort(key=lambda message: (message.store_timestamp, message.physical_offset), reverse=True)
    of = "" if len(read) == len(rows) else f" of the {len(read)} queues that were written last"
    told = f"the newest{of}, newest first"
    if tags:
        told += f", among the last {_FILTERED_ENTRIES:,} entries of each queue"
    return _Found(found[:PAGE_MESSAGES], told)


def _from_time(store: MessageStore, rows: list[QueueRow], time_ms: int, tags: str) -> _Found:
    found: list[StoredMessage] = []
    read = sorted(rows, key=lambda row: -row.newest_timestamp)[:_MOST_QUEUES_READ]
    for row in read:
        begin = store.get_offset_in_queue_by_time(row.topic, row.queue_id, time_ms)
        found += _pulled(store, row, begin, row.max_offset, tags)[0]
    found.sort(key=lambda message: (message.store_timestamp, message.physical_offset))
    return _Found(found[:PAGE_MESSAGES], "stored at or after that time, oldest first")


def _pulled(
    store: MessageStore, row: QueueRow, begin: int, end: int, tags: str
) -> tuple[list[StoredMessage], int]:
    """At most a page of messages from `begin` on, and where the next page begins."""
    messages: list[StoredMessage] = []
    offset = begin
    for _ in range(_MOST_PULLS):
        wanted = PAGE_MESSAGES - len(messages)
        if not wanted or offset >= end:
            break
        following, pulled = next_offset_and_messages(
            store, row.topic, row.queue_id, offset, tags or "*", wanted
        )
        messages += pulled
        if following <= offset:
            break
        offset = following
    return messages, offset


def _each(store: MessageStore, row: QueueRow, begin: int, end: int, tags: str) -> Iterator[StoredMessage]:
    while begin < end:
        messages, following = _pulled(store, row, begin, end, tags)
        yield from messages
        if following <= begin:
            return
        begin = following
