"""Columns as text: a time or a body reads back as it was, whatever it was."""

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.tools.export.text_columns import text_columns

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def times(*epoch_ms: int) -> list[str]:
    column = pa.array(epoch_ms, pa.int64()).view(pa.timestamp("ms", tz="UTC"))
    batch = pa.RecordBatch.from_arrays([column], names=["born_timestamp"])
    shown: list[str] = text_columns(batch, all_base64=False)["born_timestamp"].to_pylist()
    return shown


def bodies(*values: bytes, all_base64: bool = False) -> list[tuple[str | None, str | None]]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["body"])
    shown = text_columns(batch, all_base64=all_base64)
    assert shown.schema.names == ["body", "body_base64"]
    return list(zip(shown["body"].to_pylist(), shown["body_base64"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("epoch_ms", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_795_225_047_656, "2026-11-21T01:37:27.656Z"),
        (FIRST_MS, "0001-01-01T00:00:00.000Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
        (FIRST_MS - 1, str(FIRST_MS - 1)),
        (LAST_MS + 1, str(LAST_MS + 1)),
        (2**63 - 1, str(2**63 - 1)),
        (-(2**63), str(-(2**63))),
    ],
)
def test_a_time_is_a_date_of_the_calendar_or_a_number(epoch_ms: int, shown: str) -> None:
    """Alone, and among others."""
    assert times(epoch_ms) == [shown]
    assert times(5, epoch_ms, 2**62) == ["1970-01-01T00:00:00.005Z", shown, str(2**62)]


@given(st.lists(st.binary(max_size=20) | st.text(max_size=9).map(str.encode), max_size=6), st.booleans())
def test_a_body_has_one_of_two_forms(values: list[bytes], all_base64: bool) -> None:
    """Text or base64, never both, and either gives the body back; text has no null character."""
    for value, (text, encoded) in zip(values, bodies(*values, all_base64=all_base64), strict=True):
        if text is None:
            assert encoded is not None
            assert base64.b64decode(encoded, validate=True) == value
        else:
            assert encoded is None
            assert not all_base64
            assert text.encode() == value
            assert "\0" not in text


@pytest.mark.parametrize("value", [b"\xff", b"a\0b", b"\xed\xa0\x80", b"\xc0\x80", b"\0"])
def test_bodies_that_are_no_texts(value: bytes) -> None:
    """They take no other body with them."""
    assert bodies(b"text", value, b"") == [
        ("text", None),
        (None, base64.b64encode(value).decode()),
        ("", None),
    ]
