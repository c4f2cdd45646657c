"""A message as a line of output, for `get`, `tail`, `query` and other lists of messages.

Bodies that are UTF-8 are shown as text, others as hex; JSON says which in bodyEncoding. Compressed
bodies are decompressed, unless the caller wants them as stored or that fails: then bodyCompression names the
compression.
"""

from collections.abc import Callable
from typing import Final, Literal

from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.message.compressed_body import compression_of
from mqstore.store.message.stored_message import StoredMessage
from mqstore.tools.cli.output import Column, Row
from mqstore.tools.cli.times import local_time

__all__ = ["FOUND_COLUMNS", "MESSAGE_COLUMNS", "MessageRow", "message_row", "shortened_body"]

_SHOWN_BODY_LENGTH = 80


class MessageRow(Row):
    """All fields of one message."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    store_timestamp: int
    born_timestamp: int
    tags: str | None
    keys: tuple[str, ...]
    body: str
    body_encoding: Literal["utf-8", "hex"]
    body_compression: str | None
    properties: dict[str, str]
    reconsume_times: int
    flag: int
    sys_flag: int
    born_host: str
    store_host: str
    msg_id: str


def message_row(
    message: StoredMessage, *, is_raw: bool = False, note: Callable[[str], None] = lambda line: None
) -> MessageRow:
    """The line for one message.

    is_raw: the body as stored. note: called if a body cannot be decompressed, and is shown as stored.
    """
    sent = None if is_raw else _sent_body(message, note)
    body, encoding = _body_text(message.stored_body if sent is None else sent)
    return MessageRow(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        store_size=message.store_size,
        store_timestamp=message.store_timestamp,
        born_timestamp=message.born_timestamp,
        tags=message.tags,
        keys=message.keys,
        body=body,
        body_encoding=encoding,
        body_compression=compression_of(message.stored_sys_flag) if sent is None else None,
        properties=message.properties,
        reconsume_times=message.reconsume_times,
        flag=message.flag,
        sys_flag=message.stored_sys_flag if sent is None else message.sys_flag,
        born_host=str(message.born_host),
        store_host=str(message.store_host),
        msg_id=message.msg_id,
    )


def _sent_body(message: StoredMessage, note: Callable[[str], None]) -> bytes | None:
    try:
        return message.body
    except (CorruptBody, BodyTooLarge) as error:
        note(str(error))
        return None


def _body_text(body: bytes) -> tuple[str, Literal["utf-8", "hex"]]:
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return body.hex(), "hex"


def shortened_body(row: MessageRow) -> str:
    """The body for a table."""
    body = row.body if row.body_encoding == "utf-8" else "0x" + row.body
    return body if len(body) <= _SHOWN_BODY_LENGTH else body[:_SHOWN_BODY_LENGTH] + "…"


MESSAGE_COLUMNS: Final = (
    Column[MessageRow]("queue", lambda row: row.queue_id, "right"),
    Column[MessageRow]("offset", lambda row: row.queue_offset, "right"),
    Column[MessageRow]("stored at", lambda row: local_time(row.store_timestamp)),
    Column[MessageRow]("tags", lambda row: row.tags),
    Column[MessageRow]("keys", lambda row: " ".join(row.keys)),
    Column[MessageRow]("retries", lambda row: row.reconsume_times, "right"),
    Column[MessageRow]("body", shortened_body),
)
"""For messages of one topic."""

FOUND_COLUMNS: Final = (
    Column[MessageRow]("topic", lambda row: row.topic),
    Column[MessageRow]("physical", lambda row: row.physical_offset, "right"),
    *MESSAGE_COLUMNS,
)
"""For messages from anywhere in the log."""
