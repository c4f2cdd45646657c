"""The columns of the data source: their names, order and Spark types.

A user-given schema (`spark.read.schema("topic STRING, body BINARY")`) may name any of them in any order
and reads only those; it is the one way to prune columns, because Spark hands no projection to a Python
data source.

Names come from the RocketMQ and Kafka connectors. `keys` is the raw KEYS property (blank-separated),
`body` is the body as it was sent unless option `decompress` is false (`sysFlag` says which), times are UTC.
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

__all__ = ["FIELDS", "SCHEMA", "SchemaIllegal", "check_schema"]

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


FIELDS = {name: re.sub("(?=[A-Z])", "_", name).lower() for name in SCHEMA.fieldNames()}
"""What index/arrow/record_columns.py calls each column: Spark's `queueId` is `queue_id`."""


class SchemaIllegal(ConfigIllegal):
    """The schema asks for an unknown column, or for another type than a column has."""


def check_schema(schema: StructType) -> None:
    """Raise SchemaIllegal unless every field of `schema` is one of ours with our type."""
    for field in schema.fields:
        _check_field(field)


def _check_field(field: StructField) -> None:
    if field.name not in SCHEMA.fieldNames():
        close = difflib.get_close_matches(field.name, SCHEMA.fieldNames(), n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(SCHEMA.fieldNames())}"
        raise SchemaIllegal(f"the data source has no column {field.name!r}: {hint}", key=field.name)
    ours = SCHEMA[field.name].dataType
    if not _same_type(field.dataType, ours):
        raise SchemaIllegal(
            f"column {field.name!r} is {ours.simpleString()}, not {field.dataType.simpleString()}: "
            "read it with its own type and cast() afterwards",
            key=field.name,
            value=field.dataType.simpleString(),
        )


def _same_type(wanted: DataType, ours: DataType) -> bool:
    return wanted.simpleString() == ours.simpleString()
