"""`mqstore tail`: the newest messages of a topic, and with -f those that come. Safe on a live store.

    $ mqstore tail data orders -n 3 -f

Asks each queue again, five times a second while nothing comes; Ctrl-C ends it with exit code 130.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.messages.message_row import MESSAGE_COLUMNS, message_row
from mqstore.tools.cli.messages.queue_reader import next_offset_and_messages, queue_ids, read_queue
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, raw_option, store_argument, tags_option, topic_argument
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.parameter_types import AMOUNT_OR_NONE

__all__ = ["Follower", "tail"]

_PAUSE_SECONDS = 0.2
_FURTHER_BACK = 8


@click.command(cls=Command)
@store_argument
@topic_argument
@click.option("-n", "--count", type=AMOUNT_OR_NONE, default=10, help="So many of the newest messages.")
@click.option("-f", "--follow", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--queue", type=int, help="One queue; otherwise all.")
@tags_option
@raw_option
@json_option
def tail(
    store: Path,
    topic: str,
    count: int,
    follow: bool,
    queue: int | None,
    tags: str,
    raw: bool,
    json: bool,
) -> None:
    """Show the newest messages of a topic in the order of the log.

    Example: mqstore tail data orders -n 3 -f
    """
    output = Output(is_json=json)
    with open_for_reading(store) as opened:
        follower = Follower(opened, topic, queue_ids(opened, topic, queue), is_one_queue=queue is not None)
        _show(output, follower.newest(count, tags), is_raw=raw)
        pause = threading.Event()
        while follow:
            _show(output, follower.poll(tags), is_raw=raw)
            if not follower.has_moved:
                pause.wait(_PAUSE_SECONDS)


def _show(output: Output, messages: Sequence[StoredMessage], *, is_raw: bool) -> None:
    if messages:
        rows = (message_row(message, is_raw=is_raw, note=output.note) for message in messages)
        output.listing(rows, MESSAGE_COLUMNS)


class Follower:
    """Remembers how far each queue of a topic has been shown."""

    def __init__(self, store: MessageStore, topic: str, queues: list[int], *, is_one_queue: bool) -> None:
        self._store = store
        self._topic = topic
        self._is_one_queue = is_one_queue
        self._next_offsets = {queue_id: store.get_max_offset_in_queue(topic, queue_id) for queue_id in queues}
        self.has_moved = False
        """Whether the last poll found anything, so that there may be more."""

    def newest(self, count: int, tags: str = "*") -> list[StoredMessage]:
        """The last `count` messages up to where the follower began, in the order of the log."""
        found: list[StoredMessage] = []
        for queue_id, end_offset in self._next_offsets.items():
            found += self._newest_in_queue(queue_id, end_offset, count, tags)
        return sorted(found, key=_physical_offset)[max(0, len(found) - count) :]

    def _newest_in_queue(self, queue_id: int, end_offset: int, count: int, tags: str) -> list[StoredMessage]:
        """Pull from further and further back until enough messages have the tags."""
        min_offset = self._store.get_min_offset_in_queue(self._topic, queue_id)
        span = count
        while True:
            first = max(end_offset - span, min_offset)
            messages = read_queue(self._store, self._topic, queue_id, first, span, tags)
            found = [message for message in messages if message.queue_offset < end_offset]
            if len(found) >= count or first == min_offset:
                return found
            span *= _FURTHER_BACK

    def poll(self, tags: str = "*") -> list[StoredMessage]:
        """The messages that arrived since, in the order of the log."""
        self._store.refresh()
        if not self._is_one_queue:
            for queue_id in queue_ids(self._store, self._topic, None):
                self._next_offsets.setdefault(queue_id, 0)
        found: list[StoredMessage] = []
        before = dict(self._next_offsets)
        for queue_id, offset in before.items():
            next_offset, messages = next_offset_and_messages(self._store, self._topic, queue_id, offset, tags)
            self._next_offsets[queue_id] = next_offset
            found.extend(messages)
        self.has_moved = self._next_offsets != before
        return sorted(found, key=_physical_offset)


def _physical_offset(message: StoredMessage) -> int:
    return message.physical_offset
