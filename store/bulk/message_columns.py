"""Messages as columns: what `put_columns` was given, read into texts and numbers.

One row is one message. `read_columns` takes a Table or RecordBatch of Arrow, or a mapping of numpy arrays and
plain values, and makes no Python object for a row. mqstore/put/put_columns.py checks whether topics and
queues exist, columns_encoder.py whether a row can be stored.
Pure functions: any thread.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from mqstore.store.bulk.text_column import (
    Ints,
    Longs,
    TextColumn,
    check_utf8,
    mistyped,
    read_ints,
    read_texts,
    wrong_count,
)
from mqstore.store.errors import MessageIllegal, QueueIllegal, TopicIllegal
from mqstore.store.record.properties_format import encode_properties

__all__ = ["COLUMN_NAMES", "MessageColumns", "read_columns"]

COLUMN_NAMES: Final = (
    "topic",
    "queue_id",
    "body",
    "tags",
    "keys",
    "properties",
    "delay_level",
    "flag",
    "born_timestamp",
)


class MessageColumns(msgspec.Struct, frozen=True, eq=False):
    """Messages, one a row, as `Message` has their fields.

    topics, topic_indices: for each row which of the topics. properties: in the stored form, so far unchecked.
    born_timestamps: None for the store time. overrides: properties that replace those of the same name, by
    name; an empty text leaves a row as it is, and one that begins at -1 takes the property out of it.
    """

    topics: list[str]
    topic_indices: Ints
    queue_ids: Ints
    bodies: TextColumn
    tags: TextColumn
    keys: TextColumn
    properties: TextColumn
    delay_levels: Longs
    flags: Ints
    born_timestamps: Longs | None
    overrides: tuple[tuple[str, TextColumn], ...] = ()

    def __len__(self) -> int:
        return self.bodies.row_count

    def topic_at(self, row: int) -> str:
        """The topic of one row."""
        return self.topics[int(self.topic_indices[row])]


def read_columns(table: object, topic: str | None = None, queue_id: int | None = None) -> MessageColumns:
    """The columns of `table`; topic, queue_id: of all rows, where it has no such column.

    Raises MessageIllegal, TopicIllegal, PropertiesIllegal: what cannot be read at all.
    """
    columns = dict(_columns_of(table))
    for name, value in (("topic", topic), ("queue_id", queue_id)):
        if value is not None and name in columns:
            raise MessageIllegal(f"{name} is given twice: as a column and for all rows", value=value)
        if value is not None:
            columns[name] = value
    _refuse_unknown(columns)
    arrow = _arrow_of(columns.values())
    for name, value in columns.items():
        if arrow is not None and arrow.is_arrow(value):
            columns[name] = _from_arrow(arrow, name, value)
    for name in ("body", "topic"):
        if columns.get(name) is None:
            raise MessageIllegal(f"there is no column {name!r}: each message needs one", limit=COLUMN_NAMES)
    bodies = _texts("body", columns["body"])
    count = bodies.row_count
    topics, topic_indices = _read_topics(columns["topic"], count)
    born = columns.get("born_timestamp")
    return MessageColumns(
        topics,
        topic_indices,
        _queue_ids(columns, count),
        bodies,
        _checked_texts(columns, "tags", count),
        _checked_texts(columns, "keys", count),
        _checked_texts(columns, "properties", count),
        _ints(columns, "delay_level", count, -(2**31), 2**31 - 1),
        _ints(columns, "flag", count, -(2**31), 2**31 - 1).astype(np.int32),
        None if born is None else read_ints("born_timestamp", born, count, -(2**63), 2**63 - 1),
    )


def _columns_of(table: object) -> Mapping[str, Any]:
    if isinstance(table, Mapping):
        return table
    arrow = _arrow_of([table])
    columns: Mapping[str, Any] | None = None if arrow is None else arrow.columns_of(table)
    if columns is None:
        raise mistyped("columns", table, "a Table or RecordBatch of Arrow, or a mapping of arrays by name")
    return columns


def _arrow_of(values: Any) -> ModuleType | None:
    """What reads Arrow's objects, if there are any; pyarrow is there then."""
    if any(type(value).__module__.startswith("pyarrow") for value in values):
        from mqstore.store.bulk import arrow_columns

        return arrow_columns
    return None


def _refuse_unknown(columns: Mapping[str, object]) -> None:
    for name in columns:
        if name not in COLUMN_NAMES:
            close = difflib.get_close_matches(str(name), COLUMN_NAMES, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(COLUMN_NAMES)}"
            raise MessageIllegal(f"a message has no column {name!r}: {hint}", value=name, limit=COLUMN_NAMES)


def _from_arrow(arrow: ModuleType, name: str, array: Any) -> object:
    """An array of Arrow as what the readers below take."""
    if hasattr(array, "num_chunks"):
        array = array.combine_chunks()
    row = arrow.row_of_null(array)
    if row is not None and name not in ("tags", "keys", "properties"):
        raise MessageIllegal(f"{name} of row {row} is null: give a value", limit="no null", row=row)
    read: Callable[[str, Any], object] = {
        "topic": arrow.topics_of,
        "body": arrow.texts_of,
        "tags": arrow.texts_of,
        "keys": arrow.texts_of,
        "properties": arrow.stored_properties_of,
    }.get(name, arrow.numbers_of)
    try:
        return read(name, array)
    except MessageIllegal:
        raise
    except arrow.REFUSALS as error:
        # A time with a fraction of a millisecond, a topic that is no UTF-8, ...
        reason = str(error).partition("\n")[0]
        raise MessageIllegal(f"{name} of type {array.type} cannot be read: {reason}", value=name) from error


def _texts(name: str, value: object, count: int | None = None) -> TextColumn:
    if isinstance(value, TextColumn):
        if count is not None and value.row_count != count:
            raise wrong_count(name, value.row_count, count)
        return value
    return read_texts(name, value, count)


def _checked_texts(columns: Mapping[str, object], name: str, count: int) -> TextColumn:
    value = columns.get(name)
    if name == "properties" and isinstance(value, Mapping):
        value = encode_properties(value)
    texts = _texts(name, b"" if value is None else value, count)
    check_utf8(name, texts)
    return texts


def _queue_ids(columns: Mapping[str, object], count: int) -> Ints:
    """A negative number leaves the choice to the store."""
    value = columns.get("queue_id")
    ids = read_ints("queue_id", 0 if value is None else value, count, -(2**31), 2**31 - 1, error=QueueIllegal)
    return ids.astype(np.int32)


def _ints(columns: Mapping[str, object], name: str, count: int, least: int, greatest: int) -> Longs:
    value = columns.get(name)
    return read_ints(name, 0 if value is None else value, count, least, greatest)


def _read_topics(value: object, count: int) -> tuple[list[str], Ints]:
    """(topics, index of each row's)."""
    if isinstance(value, str):
        return [value][:count], np.zeros(count, np.int32)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], np.ndarray):
        topics = list(value[1])
        indices = read_ints("topic", value[0], len(value[0]), 0, len(topics) - 1).astype(np.int32)
    elif isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.dtype.kind in "UO"):
        topics, indices = _numbered(value)
    else:
        raise mistyped(
            "topic", value, "a str, a sequence of str, a pair (indices, topics), or a column of Arrow"
        )
    if len(indices) != count:
        raise wrong_count("topic", len(indices), count)
    topics, indices = _used(topics, indices)
    for topic in topics:
        if not isinstance(topic, str):
            raise TopicIllegal(f"topic {topic!r} is a {type(topic).__name__}: give a str", value=topic)
    return topics, indices


def _used(topics: list[Any], indices: Ints) -> tuple[list[Any], Ints]:
    """Without the topics that no row has: a dictionary of Arrow may name others."""
    is_used = np.bincount(indices, minlength=len(topics)) > 0
    if is_used.all():
        return topics, indices
    numbers = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return [topic for topic, used in zip(topics, is_used, strict=True) if used], numbers[indices]


def _numbered(values: "Sequence[object] | npt.NDArray[Any]") -> tuple[list[Any], Ints]:
    numbers: dict[object, int] = {}
    try:
        indices = [numbers.setdefault(value, len(numbers)) for value in values]
    except TypeError as error:  # something that has no hash, so no str
        raise mistyped("topic", values, "a sequence of str") from error
    return [str(topic) if isinstance(topic, str) else topic for topic in numbers], np.array(indices, np.int32)
