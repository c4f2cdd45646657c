"""Goal: a schema may choose columns but not invent or retype them.

Method: check schemas; no Spark is started.
"""

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.schema import SCHEMA, SchemaIllegal, check_schema, schema_of

PLAIN = ReadOptions.parse({"path": "/data"})


def test_columns_stand_in_their_order() -> None:
    """The order is part of the interface."""
    assert SCHEMA.simpleString() == (
        "struct<topic:string,queueId:int,queueOffset:bigint,physicalOffset:bigint,tags:string,keys:string,"
        "body:binary,properties:map<string,string>,flag:int,sysFlag:int,bornTimestamp:timestamp,"
        "storeTimestamp:timestamp,bornHost:string,storeHost:string,reconsumeTimes:int,storeSize:int>"
    )
    assert [field.name for field in SCHEMA if field.nullable] == ["tags", "keys"]


def test_any_choice_of_columns_is_legal() -> None:
    """In any order, nullable or not."""
    check_schema(SCHEMA, PLAIN)
    check_schema(StructType([StructField("keys", StringType()), StructField("topic", StringType())]), PLAIN)


def test_an_unknown_column_is_named() -> None:
    """With the nearest one that there is."""
    with pytest.raises(SchemaIllegal, match="no column 'queueOfset': did you mean 'queueOffset'"):
        check_schema(StructType([StructField("queueOfset", LongType())]), PLAIN)


def test_a_schema_without_columns_is_refused() -> None:
    """It would have no rows to count."""
    with pytest.raises(SchemaIllegal, match="without columns has no rows: name one"):
        check_schema(StructType([]), PLAIN)


def test_another_type_is_refused() -> None:
    """Casting is Spark's business."""
    with pytest.raises(SchemaIllegal, match="'queueId' is int, not bigint"):
        check_schema(StructType([StructField("queueId", LongType())]), PLAIN)


def test_options_choose_columns() -> None:
    """With further ones by name; `store` and `_corrupt_record` come where they tell something."""
    assert schema_of(PLAIN) == SCHEMA
    chosen = schema_of(ReadOptions.parse({"path": "/data", "columns": "bodySize, topic"}))
    assert chosen.simpleString() == "struct<bodySize:int,topic:string>"
    several = schema_of(ReadOptions.parse({"path": "/data/*"}))
    assert several.names == [*SCHEMA.names, "store"]
    permissive = schema_of(ReadOptions.parse({"path": "/data", "mode": "permissive"}))
    assert permissive.names == [*SCHEMA.names, "_corrupt_record"]
    assert all(field.nullable for field in permissive)


@pytest.mark.parametrize(
    ("columns", "says"),
    [("topic, bodysize", "did you mean 'bodySize'"), ("topic, topic", "'topic' twice")],
)
def test_a_wrong_choice_of_columns_is_named(columns: str, says: str) -> None:
    """Before anything is read."""
    with pytest.raises(SchemaIllegal, match=says):
        schema_of(ReadOptions.parse({"path": "/data", "columns": columns}))


def test_rows_that_tell_of_damage_need_nulls() -> None:
    """A schema of the user must allow them."""
    options = ReadOptions.parse({"path": "/data", "mode": "PERMISSIVE"})
    with pytest.raises(SchemaIllegal, match="must be nullable in mode PERMISSIVE"):
        check_schema(StructType([StructField("topic", StringType(), nullable=False)]), options)
