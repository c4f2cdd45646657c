"""Goal: rows of a DataFrame become the messages that their columns say, and a wrong column is named.

Method: batches of Arrow as Spark makes them, put into a store in memory.
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from mqstore import MessageStore
from mqstore.store.errors import MessageIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.tools.spark.schema import SCHEMA, SchemaIllegal
from mqstore.tools.spark.sink.row_columns import check_row_schema, message_table

BORN = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def test_every_column_reaches_its_message() -> None:
    """Nulls are what a missing value means."""
    batch = pa.record_batch(
        {
            "body": ["first", "second"],
            "tags": ["t", None],
            "keys": pa.array([["k1", "k2"], None], pa.list_(pa.string())),
            "properties": pa.array([[("a", "1"), ("b", "2")], None], pa.map_(pa.string(), pa.string())),
            "queueId": pa.array([2, None], pa.int32()),
            "flag": pa.array([7, None], pa.int32()),
            "bornTimestamp": pa.array([BORN, BORN], pa.timestamp("us", tz="UTC")),
            "physicalOffset": pa.array([99, 99], pa.int64()),
        }
    )
    table = message_table(batch, "orders")
    with MessageStore.open(Path("/store"), file_system=MemoryFileSystem(), start=False) as store:
        put = store.put_columns(table)
        first, second = (store.look_message_by_offset(int(offset)) for offset in put.physical_offsets)
    assert first is not None
    assert second is not None
    assert (first.topic, bytes(first.body), first.tags, first.keys) == ("orders", b"first", "t", ("k1", "k2"))
    assert {name: first.properties.get(name) for name in ("a", "b")} == {"a": "1", "b": "2"}
    assert (first.queue_id, first.flag, first.born_timestamp) == (2, 7, int(BORN.timestamp() * 1000))
    assert (second.tags, second.keys, second.flag) == (None, (), 0)


@pytest.mark.parametrize("begin", range(5))
def test_properties_of_a_slice(begin: int) -> None:
    """Spark's batches may be parts of others, and a row may have no properties."""
    maps = [[("a", "1"), ("UNIQ_KEY", "X")], None, [], [("UNIQ_KEY", "Y"), ("b", "2"), ("c", "3")], None]
    array = pa.array(maps, pa.map_(pa.string(), pa.string()))[begin:]
    batch = pa.record_batch({"body": ["x"] * len(array), "properties": array})
    texts = message_table(batch, "t")["properties"].to_pylist()
    pairs = [[tuple(pair.split("\x01")) for pair in (text or "").split("\x02") if pair] for text in texts]
    assert pairs == [each or [] for each in maps[begin:]]


def test_a_key_that_is_null_is_refused() -> None:
    """Rather than a message that has lost all of its keys."""
    keys = pa.array([["a"], None, ["b", None]], pa.list_(pa.string()))
    with pytest.raises(MessageIllegal, match="a key must not be null"):
        message_table(pa.record_batch({"body": ["x"] * 3, "keys": keys}), "t")


def test_a_read_of_a_store_can_be_written() -> None:
    """All of its columns, of which some are decided anew."""
    check_row_schema(SCHEMA, None)


BODY = StructType().add("body", BinaryType())


@pytest.mark.parametrize(
    ("schema", "topic", "words"),
    [
        (StructType().add("topic", StringType()), None, "there is no column 'body'"),
        (BODY, None, "give a column 'topic' or option 'topic'"),
        (
            StructType().add("body", StringType()).add("topic", StringType()),
            "orders",
            "the topic is given twice",
        ),
        (StructType().add("body", LongType()), "t", "'body' is bigint, but must be binary or string"),
        (StructType().add("body", StringType()).add("tag", StringType()), "t", "did you mean 'tags'"),
        (StructType().add("body", StringType()).add("zzzzzz", StringType()), "t", "there are topic, body"),
        (StructType().add("body", StringType()).add("queueId", StringType()), "t", "must be a whole number"),
        (
            StructType().add("body", StringType()).add("keys", ArrayType(IntegerType())),
            "t",
            "must be string or array",
        ),
        (
            StructType().add("body", StringType()).add("properties", MapType(StringType(), LongType())),
            "t",
            "must be map",
        ),
        (StructType().add("body", StringType()).add("bornTimestamp", LongType()), "t", "must be timestamp"),
        (StructType().add("body", TimestampType()), "t", "cast it"),
    ],
)
def test_columns_that_no_message_has(schema: StructType, topic: str | None, words: str) -> None:
    """Before any task runs."""
    with pytest.raises(SchemaIllegal, match=words):
        check_row_schema(schema, topic)
