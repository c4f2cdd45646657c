"""Turning a row into a message: which field is the topic, the tag, a key, the queue, the body.

Pure: no I/O. Where a string is needed, values of other types become their JSON text.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from mqstore.store.message.message import Message

__all__ = ["FieldMissing", "RowMapping"]

_ENCODER = msgspec.json.Encoder(decimal_format="number")


class FieldMissing(ValueError):
    """A row lacks a field that the message needs."""

    def __init__(self, field: str, row: dict[str, Any]) -> None:
        super().__init__(f"has no field {field!r}: it has {', '.join(map(repr, row))}")
        self.field = field


@dataclass(frozen=True, kw_only=True)
class RowMapping:
    """Where the parts of a message are found in a row.

    topic or topic_field must be given. A row without a value in tag_field or a key_field gets no tag or
    no such key; without body_field the whole row as JSON is the body.
    """

    topic: str | None = None
    topic_field: str | None = None
    key_fields: tuple[str, ...] = ()
    tag_field: str | None = None
    queue_field: str | None = None
    body_field: str | None = None

    def message(self, row: dict[str, Any], queue_id: int) -> Message:
        """The message of `row`; `queue_id` is used where no field gives it. Raises ValueError, TypeError."""
        return Message(
            self.topic_of(row),
            self._body(row),
            tags=None if self.tag_field is None else _text(row, self.tag_field),
            keys=tuple(key for field in self.key_fields if (key := _text(row, field))),
            queue_id=queue_id if self.queue_field is None else _whole_number(row, self.queue_field),
        )

    def topic_of(self, row: dict[str, Any]) -> str:
        """The topic of `row`; empty where the row has none. Raises FieldMissing."""
        if self.topic_field is None:
            return self.topic or ""
        return _text(row, self.topic_field) or ""

    def _body(self, row: dict[str, Any]) -> bytes:
        if self.body_field is None:
            return _ENCODER.encode(row)
        value = _value(row, self.body_field)
        if isinstance(value, bytes):
            return value
        return value.encode() if isinstance(value, str) else _ENCODER.encode(value)


def _value(row: dict[str, Any], field: str) -> Any:
    if field not in row:
        raise FieldMissing(field, row)
    return row[field]


def _text(row: dict[str, Any], field: str) -> str | None:
    value = _value(row, field)
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().strip('"')


def _whole_number(row: dict[str, Any], field: str) -> int:
    value = _value(row, field)
    if isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"field {field!r} is {value!r}, but a queue is a whole number")
