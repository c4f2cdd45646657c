"""The columns of the data source: their names, order and Spark types.

Option `columns` ("topic, body") and a schema given by the user (`.schema("topic STRING, body BINARY")`) may
name any of them in any order, and only those are made: Spark hands no projection to a Python data source.

Names come from the RocketMQ and Kafka connectors. `keys` is the raw KEYS property (blank-separated),
`body` is the body as it was sent unless option `decompress` is false (`sysFlag` says which), times are UTC.
Only on request: `bodySize` is the size of the body as stored; `bornTimestampMs` and `storeTimestampMs` are
exact where a timestamp is the nearest that Python's calendar has; `store` is the directory; `_corrupt_record`
tells of damage in mode PERMISSIVE.
"""

import difflib
import re

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqstore.store.errors import ConfigIllegal
from mqstore.tools.spark.options import ReadMode, ReadOptions

__all__ = ["CORRUPT_RECORD", "FIELDS", "SCHEMA", "STORE", "SchemaIllegal", "check_schema", "schema_of"]

SCHEMA = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("queueId", IntegerType(), nullable=False),
        StructField("queueOffset", LongType(), nullable=False),
        StructField("physicalOffset", LongType(), nullable=False),
        StructField("tags", StringType(), nullable=True),
        StructField("keys", StringType(), nullable=True),
        StructField("body", BinaryType(), nullable=False),
        StructField("properties", MapType(StringType(), StringType()), nullable=False),
        StructField("flag", IntegerType(), nullable=False),
        StructField("sysFlag", IntegerType(), nullable=False),
        StructField("bornTimestamp", TimestampType(), nullable=False),
        StructField("storeTimestamp", TimestampType(), nullable=False),
        StructField("bornHost", StringType(), nullable=False),
        StructField("storeHost", StringType(), nullable=False),
        StructField("reconsumeTimes", IntegerType(), nullable=False),
        StructField("storeSize", IntegerType(), nullable=False),
    ]
)


STORE = "store"
CORRUPT_RECORD = "_corrupt_record"

_FURTHER = StructType(
    [
        StructField("bodySize", IntegerType(), nullable=False),
        StructField("bornTimestampMs", LongType(), nullable=False),
        StructField("storeTimestampMs", LongType(), nullable=False),
        StructField(STORE, StringType(), nullable=False),
        StructField(CORRUPT_RECORD, StringType(), nullable=True),
    ]
)
_ALL = StructType(SCHEMA.fields + _FURTHER.fields)

FIELDS = {name: re.sub("(?=[A-Z])", "_", name).lower() for name in _ALL.fieldNames()}
"""What index/arrow/record_columns.py calls each column: Spark's `queueId` is `queue_id`."""


class SchemaIllegal(ConfigIllegal):
    """The schema asks for an unknown column, or for another type than a column has."""


def schema_of(options: ReadOptions) -> StructType:
    """The columns that the options ask for. Raises SchemaIllegal.

    Without `columns` these are the columns of SCHEMA, and `store` if there are several stores, and
    `_corrupt_record` in mode PERMISSIVE, where all may be null, in the rows that tell of damage.
    """
    is_permissive = options.mode is ReadMode.PERMISSIVE
    names = list(options.columns or SCHEMA.fieldNames())
    if options.columns is None:
        names += [STORE] * options.has_several_stores + [CORRUPT_RECORD] * is_permissive
    for name in names:
        _refuse_unknown(name)
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise SchemaIllegal(
            f"columns name {repeated[0]!r} twice: name it once", key="columns", value=repeated[0]
        )
    fields = [_ALL[name] for name in names]
    if is_permissive:
        fields = [StructField(field.name, field.dataType, nullable=True) for field in fields]
    return StructType(fields)


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raise SchemaIllegal unless there are fields, and every one is one of ours with our type."""
    if not schema.fields:
        raise SchemaIllegal("a schema without columns has no rows: name one, such as queueId", key="schema")
    for field in schema.fields:
        _check_field(field)
        if options.mode is ReadMode.PERMISSIVE and not field.nullable:
            raise SchemaIllegal(
                f"column {field.name!r} must be nullable in mode PERMISSIVE: rows that tell of damage have "
                "nulls",
                key=field.name,
            )


def _refuse_unknown(name: str) -> None:
    if name not in _ALL.fieldNames():
        close = difflib.get_close_matches(name, _ALL.fieldNames(), n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(_ALL.fieldNames())}"
        raise SchemaIllegal(f"the data source has no column {name!r}: {hint}", key=name)


def _check_field(field: StructField) -> None:
    _refuse_unknown(field.name)
    ours = _ALL[field.name].dataType
    if not _same_type(field.dataType, ours):
        raise SchemaIllegal(
            f"column {field.name!r} is {ours.simpleString()}, not {field.dataType.simpleString()}: "
            "read it with its own type and cast() afterwards",
            key=field.name,
            value=field.dataType.simpleString(),
        )


def _same_type(wanted: DataType, ours: DataType) -> bool:
    return wanted.simpleString() == ours.simpleString()
