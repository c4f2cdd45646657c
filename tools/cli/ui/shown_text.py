"""Text of a store as a page may show it: characters that are not printable become escapes, and it has an end.

Escaping for HTML is the templates' work (page_templates.py) and not done here. What is done here is what HTML
does not know of: a control character, or one that turns the direction of reading, could make a page show
another text than there is.
Pure; any thread.
"""

from typing import Literal, NamedTuple

import msgspec

from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.message.stored_message import StoredMessage

__all__ = ["SHOWN_BODY_BYTES", "SHOWN_HEX_BYTES", "ShownBody", "excerpt", "shown_body", "visible"]

SHOWN_BODY_BYTES = 64 << 10
"""So much of a body is shown; all of it can be downloaded."""
SHOWN_HEX_BYTES = 4 << 10
"""So much of a body that is no text is shown."""
_MOST_DECOMPRESSED_BYTES = 8 << 20
_MOST_DECOMPRESSED_FOR_EXCERPT = 256 << 10
_MOST_JSON_CHARACTERS = 4 * SHOWN_BODY_BYTES
_EXCERPT_CHARACTERS = 80
_HEX_ROW_BYTES = 16


class ShownBody(NamedTuple):
    r"""A body as text. size_bytes: of all of it.

    note: why it is shown as stored, or None.
    """

    kind: Literal["empty", "JSON", "text", "hex"]
    text: str
    size_bytes: int
    is_cut: bool
    note: str | None


def visible(text: str) -> str:
    r"""The text with escapes for what is not printable, except for ends of lines and tabs.

    >>> visible("one\ntwo\x07 \u202egnp.exe")
    'one\ntwo\\u0007 \\u202egnp.exe'
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def shown_body(message: StoredMessage) -> ShownBody:
    """The body as it was sent, or as stored where it cannot be decompressed."""
    note = None
    try:
        body = _sent_body(message, _MOST_DECOMPRESSED_BYTES)
    except (CorruptBody, BodyTooLarge) as error:
        body, note = message.stored_body_view, f"as stored: {error}"
    size_bytes = len(body)
    shown = bytes(body[:SHOWN_BODY_BYTES])
    is_cut = size_bytes > len(shown)
    if not shown:
        return ShownBody("empty", "", 0, False, note)
    text = _decoded(shown, is_cut=is_cut)
    if text is None:
        rows = hex_rows(shown[:SHOWN_HEX_BYTES])
        return ShownBody("hex", rows, size_bytes, size_bytes > SHOWN_HEX_BYTES, note)
    indented = None if is_cut else _indented(shown)
    if indented is not None:
        return ShownBody("JSON", indented, size_bytes, False, note)
    return ShownBody("text", text, size_bytes, is_cut, note)


def _sent_body(message: StoredMessage, max_bytes: int) -> memoryview:
    if message.is_compressed:
        return memoryview(message.decompressed_body(max_bytes=max_bytes))
    return message.body_view


def _decoded(data: bytes, *, is_cut: bool) -> str | None:
    """UTF-8 as text; None for what is none, or has zero bytes. A character that was cut is left out."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        is_last_cut = is_cut and error.start > len(data) - 4 and error.reason == "unexpected end of data"
        return data[: error.start].decode() if is_last_cut else None


def _indented(data: bytes) -> str | None:
    """JSON objects and arrays, line by line; None for anything else, and where that would be too long."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        text = msgspec.json.format(data, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return text if len(text) <= _MOST_JSON_CHARACTERS else None


def hex_rows(data: bytes) -> str:
    """Position, bytes and their ASCII, sixteen a line."""
    rows = []
    for at in range(0, len(data), _HEX_ROW_BYTES):
        row = data[at : at + _HEX_ROW_BYTES]
        ascii_text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"{at:06x}  {row.hex(' '):<{3 * _HEX_ROW_BYTES - 1}}  {ascii_text}")
    return "\n".join(rows)


def excerpt(message: StoredMessage) -> str:
    """The beginning of the body, in one line, for a table."""
    try:
        body = _sent_body(message, _MOST_DECOMPRESSED_FOR_EXCERPT)
    except (CorruptBody, BodyTooLarge):
        return f"({message.header.body_length:,} bytes, compressed)"
    is_cut = len(body) > 4 * _EXCERPT_CHARACTERS
    shown = bytes(body[: 4 * _EXCERPT_CHARACTERS])
    text = _decoded(shown, is_cut=is_cut)
    if text is None:
        text = "0x" + shown[:_EXCERPT_CHARACTERS].hex()
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT_CHARACTERS and not is_cut else line[:_EXCERPT_CHARACTERS] + "…"
