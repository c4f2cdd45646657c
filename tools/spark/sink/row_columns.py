"""From the columns of a DataFrame to those of `put_columns`, which the encoder takes, too.

    body            binary or string; the one that must be there
    topic           string, or option `topic`
    tags            string
    keys            string, separated by blanks, or an array of strings
    properties      map of strings
    queueId, delayLevel, flag   whole numbers
    bornTimestamp   timestamp

Columns that a read of a store has besides, and that a put decides anew, are left out: a store is copied by
reading and writing it. A UNIQ_KEY among the properties is replaced by the row's own (row_encoder.py).
Pure functions: any thread.
"""

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from mqstore.store.bulk.arrow_columns import stored_properties_of
from mqstore.store.errors import MessageIllegal
from mqstore.store.record.properties_format import KEY_SEPARATOR
from mqstore.tools.spark.schema import FIELDS, SchemaIllegal

if TYPE_CHECKING:
    from mqstore.store.bulk.text_column import TextColumn

__all__ = ["check_row_schema", "message_table"]

_STRING = (StringType,)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "topic": _STRING,
    "body": (BinaryType, StringType),
    "tags": _STRING,
    "keys": (StringType, ArrayType),
    "properties": (MapType,),
    "queueId": _WHOLE,
    "delayLevel": _WHOLE,
    "flag": _WHOLE,
    "bornTimestamp": (TimestampType,),
}
_NAMES = {
    "queueId": "queue_id",
    "delayLevel": "delay_level",
    "bornTimestamp": "born_timestamp",
}
_DECIDED_ANEW = frozenset(FIELDS) - frozenset(_TYPES)
# The store chooses a queue.
_CHOSEN = -1
_TEXT = MapType(StringType(), StringType())


def check_row_schema(schema: StructType, topic: str | None) -> None:
    """Refuse rows that cannot be written. topic: of all rows, if it was given. Raises SchemaIllegal."""
    for field in schema.fields:
        if field.name in _DECIDED_ANEW:
            continue
        if field.name not in _TYPES:
            close = difflib.get_close_matches(field.name, _TYPES, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_TYPES)}"
            raise SchemaIllegal(f"a message has no column {field.name!r}: {hint}", key=field.name)
        if not _is_fitting(field.name, field.dataType):
            raise SchemaIllegal(
                f"column {field.name!r} is {field.dataType.simpleString()}, but must be "
                f"{_wanted(field.name)}: cast it",
                key=field.name,
                value=field.dataType.simpleString(),
            )
    names = schema.fieldNames()
    if "body" not in names:
        raise SchemaIllegal(
            f"there is no column 'body' among {', '.join(names)}: each message needs one", key="body"
        )
    if ("topic" in names) == (topic is not None):
        reason = "there is no column 'topic', and no option" if topic is None else "the topic is given twice"
        raise SchemaIllegal(f"{reason}: give a column 'topic' or option 'topic', one of them", key="topic")


def _is_fitting(name: str, kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return name == "keys" and isinstance(kind.elementType, StringType)
    if isinstance(kind, MapType):
        return name == "properties" and (kind.keyType, kind.valueType) == (_TEXT.keyType, _TEXT.valueType)
    return isinstance(kind, _TYPES[name])


def _wanted(name: str) -> str:
    kinds = {
        "body": "binary or string",
        "keys": "string or array<string>",
        "properties": "map<string,string>",
        "bornTimestamp": "timestamp",
    }
    return kinds.get(name, "a whole number" if _TYPES[name] is _WHOLE else "string")


def message_table(batch: pa.RecordBatch, topic: str | None) -> pa.Table:
    """The rows as columns for the encoder; properties are in the stored form. Raises PropertiesIllegal."""
    columns: dict[str, Any] = {}
    for name in batch.schema.names:
        if name not in _DECIDED_ANEW:
            columns[_NAMES.get(name, name)] = _converted(name, batch.column(name))
    if "queue_id" not in columns:
        columns["queue_id"] = pa.repeat(pa.scalar(_CHOSEN, pa.int32()), batch.num_rows)
    if topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows)
    return pa.table(columns)


def _converted(name: str, array: Any) -> Any:
    if name == "keys" and pa.types.is_list(array.type):
        return _joined(array)
    if name == "properties":
        return _array_of(stored_properties_of(name, array))
    if name in ("queueId", "delayLevel", "flag"):
        return pc.fill_null(array, _CHOSEN if name == "queueId" else 0)
    if name == "bornTimestamp":
        return array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    return array


def _joined(array: Any) -> Any:
    """A list of keys as one text."""
    joined = pc.binary_join(array.cast(pa.list_(pa.string())), KEY_SEPARATOR)
    if joined.null_count > array.null_count:
        row = pc.and_(joined.is_null(), array.is_valid()).index(True).as_py()
        raise MessageIllegal(
            f"keys of a row are {array[row].as_py()}: a key must not be null", value=array[row].as_py()
        )
    return joined


def _array_of(texts: "TextColumn") -> Any:
    """Texts that lie one behind the other, as an array of strings."""
    places = np.append(texts.starts, texts.stops[-1:]) if texts.row_count else np.zeros(1, np.int64)
    return pa.LargeStringArray.from_buffers(texts.row_count, pa.py_buffer(places), pa.py_buffer(texts.data))
