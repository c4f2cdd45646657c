"""A message as one line of a page: where it is, what it is called, and the beginning of its body.

Unlike the rows of the command (tools/cli/messages/message_row.py) it reads no whole body: a page of bodies of
4 MB each would need more memory than a page may take.
Threads: any. A value of its own: it keeps no segment mapped.
"""

from typing import NamedTuple, Self

from mqstore.store.errors import RecordIllegal
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.cli.ui.shown_text import excerpt

__all__ = ["MessageLine", "lines_of"]


class MessageLine(NamedTuple):
    """Names and times as in StoredMessage; `body` is an excerpt."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp: int
    store_size: int
    tags: str | None
    keys: str
    reconsume_times: int
    body: str

    @classmethod
    def of(cls, message: StoredMessage) -> Self:
        """The line of a message. Raises RecordIllegal."""
        return cls(
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            physical_offset=message.physical_offset,
            store_timestamp=message.store_timestamp,
            store_size=message.store_size,
            tags=message.tags,
            keys=" ".join(message.keys),
            reconsume_times=message.reconsume_times,
            body=excerpt(message),
        )


def lines_of(messages: list[StoredMessage]) -> list[MessageLine]:
    """Their lines. Bytes that are no record are left out: `mqstore verify` tells of them."""
    lines = []
    for message in messages:
        try:
            lines.append(MessageLine.of(message))
        except RecordIllegal:
            continue
    return lines
