"""From a row to a message: every option of the mapping, and values of every kind."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mqstore.tools.ingest.row_mapping import FieldMissing, RowMapping

ROW = {
    "id": 7,
    "name": "x",
    "none": None,
    "empty": "",
    "blob": b"\x00\x01",
    "when": datetime(2026, 7, 18, tzinfo=UTC),
    "q": 3,
}


def message(**mapping: Any) -> Any:
    return RowMapping(**({"topic": "orders"} | mapping)).message(ROW, 1)


def test_the_whole_row_is_the_body() -> None:
    """Without a body field, as JSON; bytes in it become base64, times ISO."""
    row = {"id": 7, "when": datetime(2026, 7, 18, tzinfo=UTC)}
    assert RowMapping(topic="t").message(row, 0).body == b'{"id":7,"when":"2026-07-18T00:00:00Z"}'


@pytest.mark.parametrize(
    ("field", "body"), [("name", b"x"), ("blob", b"\x00\x01"), ("id", b"7"), ("none", b"null")]
)
def test_one_field_is_the_body(field: str, body: bytes) -> None:
    """Text as UTF-8, bytes as they are, all else as JSON."""
    assert message(body_field=field).body == body


def test_keys_and_tags_are_text() -> None:
    """Numbers become text; missing and empty values are no key and no tag."""
    assert message(key_fields=("id", "name", "none", "empty")).keys == ("7", "x")
    assert message(tag_field="id").tags == "7"
    assert message(tag_field="none").tags is None


def test_topic_and_queue_from_fields() -> None:
    """They win over what is given."""
    found = message(topic=None, topic_field="name", queue_field="q")
    assert (found.topic, found.queue_id) == ("x", 3)


def test_a_field_that_is_not_there() -> None:
    """The error names it and those that are."""
    with pytest.raises(FieldMissing, match=r"no field 'no'.*'id', 'name'"):
        message(tag_field="no")


@pytest.mark.parametrize("field", ["name", "none", "blob"])
def test_a_queue_that_is_no_number(field: str) -> None:
    """Refused with the value."""
    with pytest.raises(ValueError, match="a queue is a whole number"):
        message(queue_field=field)
