"""`mqstore topics`: the topics of a store and how many messages their queues hold. Safe on a live store.

    $ mqstore topics data
    topic   kind    queues  messages  newest
    orders  normal       8         1  2026-07-18 12:30:00.123

Topics with settings but no message are listed, too. Deleting one acts only with --apply. `topics create` and
`topics update` are in topic_settings.py.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from mqstore.message_store import MessageStore
from mqstore.store.errors import TopicIllegal
from mqstore.store.message import topic_names
from mqstore.tools.cli.administration.applying import apply_option, end_of, open_to_apply
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode
from mqstore.tools.cli.messages.queue_reader import READER_GROUP
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, refuse_given, store_argument
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.times import local_time

__all__ = ["QueueRow", "TopicRow", "queue_rows", "topic_rows", "topics"]


class DeletedTopicRow(Row):
    """What a deletion removes; `groups` have offsets in the topic. `also` are retry topics of pops."""

    topic: str
    is_applied: bool
    has_settings: bool
    queues: int
    messages: int
    groups: int
    also: list[str]


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


@click.command(cls=Command)
@store_argument
@click.option("--queues", is_flag=True, help="One line for each queue.")
@click.option("--delete", metavar="TOPIC", help="Delete this topic: settings, queues, offsets.")
@apply_option
@json_option
def topics(store: Path, queues: bool, delete: str | None, apply: bool, json: bool) -> None:
    """List the topics, with the messages in their queues, or delete one.

    Its records stay in the log until they expire, and what waits for delivery is delivered all the same.
    Others: mqstore topics create, mqstore topics update. Exit code 1: not applied, or no such topic.

    Example: mqstore topics data --delete orders --apply
    """
    output = Output(is_json=json)
    if delete is not None:
        refuse_given("lists, and --delete does not", "queues")
        _delete(store, output, delete, apply=apply)
        return
    refuse_given("goes with --delete", "apply")
    with open_for_reading(store) as opened:
        if queues:
            output.listing(queue_rows(opened), _QUEUE_COLUMNS)
        else:
            output.listing(topic_rows(opened), _TOPIC_COLUMNS)


def _delete(path: Path, output: Output, topic: str, *, apply: bool) -> None:
    if topic_names.is_system_topic(topic):
        raise TopicIllegal(f"topic {topic!r} is a system topic, which is not deleted", value=topic)
    with open_to_apply(path, output, apply=apply) as opened:
        row = _deleted_row(opened, topic, is_applied=apply)
        if apply:
            deleted = opened.delete_topic(topic)
            row = msgspec.structs.replace(row, also=[each.topic for each in deleted[1:]])
    is_there = row.has_settings or bool(row.queues or row.groups)
    if output.is_json:
        output.facts(row)
    elif not is_there:
        output.text(f"no topic {topic}")
    else:
        done = "deleted" if apply else "would delete"
        output.text(
            f"{done} topic {topic}: {row.messages:,} messages in {row.queues:,} queues, "
            f"offsets of {row.groups:,} groups"
        )
    if not is_there:
        raise click.exceptions.Exit(ExitCode.PROBLEM)
    end_of(output, apply=apply, is_needed=True)


def _deleted_row(store: MessageStore, topic: str, *, is_applied: bool) -> DeletedTopicRow:
    mine = [row for row in queue_rows(store) if row.topic == topic]
    return DeletedTopicRow(
        topic=topic,
        is_applied=is_applied,
        has_settings=topic in store.topics,
        queues=len(mine),
        messages=sum(row.messages for row in mine),
        groups=len({row.group for row in store.consumer_offsets if row.topic == topic}),
        also=[],
    )


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
    if topic == topic_names.SCHEDULE_TOPIC:
        return "delayed"
    if topic_names.is_retry_topic(topic):
        return "retry"
    if topic_names.is_dead_letter_topic(topic):
        return "dead letters"
    return "system" if topic_names.is_system_topic(topic) else "normal"
