"""`mqstore topics`: the topics of a store and how many messages their queues hold. Safe on a live store.

    $ mqstore topics data
    topic   kind    queues  messages  newest
    orders  normal       8         1  2026-07-18 12:30:00.123

Topics with settings but no message are listed, too.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from mqstore.message_store import MessageStore
from mqstore.store import names
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import JsonOption, StoreArgument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.queue_reader import READER_GROUP
from mqstore.tools.cli.times import local_time

__all__ = ["QueueRow", "TopicRow", "queue_rows", "topic_rows", "topics"]


class QueueRow(Row):
    """One queue."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    newest_timestamp: int


class TopicRow(Row):
    """One topic. `queues` is what its settings say, `messages` what its queues hold."""

    topic: str
    kind: str
    queues: int
    perm: int | None
    messages: int
    newest_timestamp: int


_TOPIC_COLUMNS = (
    Column[TopicRow]("topic", lambda row: row.topic),
    Column[TopicRow]("kind", lambda row: row.kind),
    Column[TopicRow]("queues", lambda row: row.queues, "right"),
    Column[TopicRow]("messages", lambda row: f"{row.messages:,}", "right"),
    Column[TopicRow]("newest", lambda row: local_time(row.newest_timestamp)),
)
_QUEUE_COLUMNS = (
    Column[QueueRow]("topic", lambda row: row.topic),
    Column[QueueRow]("queue", lambda row: row.queue_id, "right"),
    Column[QueueRow]("min offset", lambda row: row.min_offset, "right"),
    Column[QueueRow]("max offset", lambda row: row.max_offset, "right"),
    Column[QueueRow]("messages", lambda row: f"{row.messages:,}", "right"),
    Column[QueueRow]("newest", lambda row: local_time(row.newest_timestamp)),
)


def topics(
    store: StoreArgument,
    queues: Annotated[bool, typer.Option("--queues", help="One line for each queue.")] = False,
    json: JsonOption = False,
) -> None:
    """List the topics, with the messages in their queues.

    Example: mqstore topics data --queues
    """
    output = Output(is_json=json)
    with open_for_reading(store) as opened:
        if queues:
            output.listing(queue_rows(opened), _QUEUE_COLUMNS)
        else:
            output.listing(topic_rows(opened), _TOPIC_COLUMNS)


def queue_rows(store: MessageStore) -> Iterator[QueueRow]:
    """The queues that exist on disk, in the order of topic and number."""
    for topic, queue_id in sorted(store.consume_queues.queues()):
        min_offset = store.get_min_offset_in_queue(topic, queue_id)
        max_offset = store.get_max_offset_in_queue(topic, queue_id)
        yield QueueRow(
            topic=topic,
            queue_id=queue_id,
            min_offset=min_offset,
            max_offset=max_offset,
            messages=max_offset - min_offset,
            newest_timestamp=_newest_timestamp(store, topic, queue_id, min_offset, max_offset),
        )


def _newest_timestamp(
    store: MessageStore, topic: str, queue_id: int, min_offset: int, max_offset: int
) -> int:
    """Store time of the last message; -1 without one."""
    if max_offset <= min_offset:
        return -1
    messages = store.get_message(READER_GROUP, topic, queue_id, max_offset - 1, 1).messages
    return messages[0].store_timestamp if messages else -1


def topic_rows(store: MessageStore) -> Iterator[TopicRow]:
    """The topics that have settings or messages, by name."""
    queues = list(queue_rows(store))
    for topic in sorted({row.topic for row in queues} | {config.topic_name for config in store.topics}):
        mine = [row for row in queues if row.topic == topic]
        config = store.topics.get(topic)
        yield TopicRow(
            topic=topic,
            kind=_kind(topic),
            queues=config.read_queue_nums if config is not None else len(mine),
            perm=config.perm if config is not None else None,
            messages=sum(row.messages for row in mine),
            newest_timestamp=max((row.newest_timestamp for row in mine), default=-1),
        )


def _kind(topic: str) -> str:
    if topic == names.SCHEDULE_TOPIC:
        return "delayed"
    if names.is_retry_topic(topic):
        return "retry"
    if names.is_dead_letter_topic(topic):
        return "dead letters"
    return "system" if names.is_system_topic(topic) else "normal"
