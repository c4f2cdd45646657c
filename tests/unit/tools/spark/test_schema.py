"""Goal: a schema may choose columns but not invent or retype them.

Method: check schemas; no Spark is started.
"""

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mqstore.tools.spark.schema import SCHEMA, SchemaIllegal, check_schema


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
    check_schema(SCHEMA)
    check_schema(StructType([StructField("keys", StringType()), StructField("topic", StringType())]))


def test_an_unknown_column_is_named() -> None:
    """With the nearest one that there is."""
    with pytest.raises(SchemaIllegal, match="no column 'queueOfset': did you mean 'queueOffset'"):
        check_schema(StructType([StructField("queueOfset", LongType())]))


def test_another_type_is_refused() -> None:
    """Casting is Spark's business."""
    with pytest.raises(SchemaIllegal, match="'queueId' is int, not bigint"):
        check_schema(StructType([StructField("queueId", LongType())]))
