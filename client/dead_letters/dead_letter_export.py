"""The export of dead letters: one JSON object a line, with everything that a record holds.

    {"group":"billing","originalTopic":"orders",...,"body":"first","bodyEncoding":"utf-8",...}

Names are those of `mqstore get --json`. A body that is UTF-8 is text, any other is hex; it is shown as it
was sent, or as stored where it cannot be decompressed (then bodyCompression names the compression). A
placeholder, which a repair put in the place of a lost message, has a body of zeros (isPlaceholder says so).

Threads: any. It writes where the caller says, and syncs nothing.
"""

from typing import Literal, Protocol

import msgspec

from mqstore.client.dead_letters.dead_letter import Arrival, DeadLetter
from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.message.compressed_body import compression_of

__all__ = ["ByteStream", "ExportedLetter", "export_line", "exported_letter"]


class ByteStream(Protocol):
    """What takes bytes: a file opened in binary mode, sys.stdout.buffer, io.BytesIO."""

    def write(self, data: bytes, /) -> object: ...


class ExportedLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line."""

    group: str
    original_topic: str | None
    origin_message_id: str | None
    reconsume_times: int
    arrival: Arrival
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    message_id: str
    resent_message_id: str | None
    store_timestamp: int
    born_timestamp: int
    born_host: str
    store_host: str
    tags: str | None
    keys: tuple[str, ...]
    properties: dict[str, str]
    flag: int
    sys_flag: int
    body: str
    body_encoding: Literal["utf-8", "hex"]
    body_compression: str | None
    is_placeholder: bool


def exported_letter(letter: DeadLetter) -> ExportedLetter:
    """All of a dead letter, as text."""
    message = letter.message
    compression = None
    try:
        body, sys_flag = message.body, message.sys_flag
    except (CorruptBody, BodyTooLarge):
        body, sys_flag = message.stored_body, message.stored_sys_flag
        compression = compression_of(sys_flag)
    text, encoding = _text(body)
    return ExportedLetter(
        group=letter.group,
        original_topic=letter.original_topic,
        origin_message_id=letter.origin_message_id,
        reconsume_times=letter.reconsume_times,
        arrival=letter.arrival,
        topic=letter.topic,
        queue_id=letter.queue_id,
        queue_offset=letter.queue_offset,
        physical_offset=message.physical_offset,
        message_id=letter.message_id,
        resent_message_id=letter.resent_message_id,
        store_timestamp=letter.store_timestamp,
        born_timestamp=letter.born_timestamp,
        born_host=str(letter.born_host),
        store_host=str(message.store_host),
        tags=message.tags,
        keys=message.keys,
        properties=message.properties,
        flag=message.flag,
        sys_flag=sys_flag,
        body=text,
        body_encoding=encoding,
        body_compression=compression,
        is_placeholder=letter.is_placeholder,
    )


def export_line(letter: DeadLetter) -> bytes:
    """The line of a dead letter, with its line end."""
    return msgspec.json.encode(exported_letter(letter)) + b"\n"


def _text(body: bytes) -> tuple[str, Literal["utf-8", "hex"]]:
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return body.hex(), "hex"
