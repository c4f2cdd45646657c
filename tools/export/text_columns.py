"""Columns as text, for JSON lines and CSV: nothing is lost, whatever the bytes.

    times        2026-11-21T01:37:27.656Z; one that no calendar has (calendar_times.py) is its epoch ms
    body         the text of a body that is UTF-8 without the character U+0000; null for others
    body_base64  the other bodies, in base64 (RFC 4648, section 4); null for those that are texts

A row has exactly one of `body` and `body_base64`. The null character counts as binary because most readers
of CSV, and some of JSON, stop at it.
Pure: no I/O. Imported when an export begins, since it imports pyarrow.
"""

from binascii import b2a_base64
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mqstore.tools.export.calendar_times import has_date

__all__ = ["BODY_BASE64", "text_columns"]

BODY_BASE64: Final = "body_base64"

_DATE_CHARACTERS: Final = 10


def text_columns(batch: pa.RecordBatch, *, all_base64: bool) -> pa.RecordBatch:
    """The batch with its times and bodies as texts; the other columns are unchanged.

    all_base64: no body is shown as text.
    """
    columns: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == "body":
            columns[name], columns[BODY_BASE64] = _bodies(column, all_base64=all_base64)
        else:
            columns[name] = _times(column) if pa.types.is_timestamp(column.type) else column
    return pa.RecordBatch.from_pydict(columns)


def _times(times: pa.Array) -> pa.Array:
    epoch_ms = times.view(pa.int64())
    is_date = has_date(epoch_ms)
    dates = pc.if_else(is_date, epoch_ms, 0).view(pa.timestamp("ms")).cast(pa.string())
    with_t = pc.binary_replace_slice(dates, _DATE_CHARACTERS, _DATE_CHARACTERS + 1, "T")
    return pc.if_else(is_date, pc.binary_join_element_wise(with_t, "Z", ""), epoch_ms.cast(pa.string()))


def _bodies(bodies: pa.Array, *, all_base64: bool) -> tuple[pa.Array, pa.Array]:
    """(the texts, the others in base64)."""
    if not all_base64 and (all_texts := _if_all_are_texts(bodies)) is not None:
        return all_texts, pa.nulls(len(bodies), pa.string())
    values = bodies.to_pylist()
    texts = [None if all_base64 else _text(value) for value in values]
    encoded = [
        None if text is not None else b2a_base64(value, newline=False).decode()
        for text, value in zip(texts, values, strict=True)
    ]
    return pa.array(texts, pa.string()), pa.array(encoded, pa.string())


def _if_all_are_texts(bodies: pa.Array) -> pa.Array | None:
    try:
        texts = bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    return None if pc.any(pc.match_substring(texts, "\0")).as_py() else texts


def _text(body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
