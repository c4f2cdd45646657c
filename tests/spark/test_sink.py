"""Goal: rows of DataFrames and streams are put into a store, each once, as documented.

Method: one real session. Kills of the commit: tests/unit/tools/spark/sink/test_sink_commit.py.
"""

import os
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from mqstore import MessageStore
from mqstore.store_layout import StoreLayout

pytestmark = pytest.mark.spark


def _orders(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr(
        "'orders' as topic",
        "concat('order ', id) as body",
        "'created' as tags",
        "array(concat('o-', id), 'all') as keys",
        "map('number', cast(id as string)) as properties",
        "cast(id % 3 as int) as queueId",
    )


def _write(frame: DataFrame, store: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("mqstore").mode(mode).options(**options).save(str(store))


def _rows(spark: SparkSession, store: Path) -> list[tuple[str, str, str, str, str, int]]:
    rows = spark.read.format("mqstore").load(str(store)).collect()
    return sorted(
        (row.topic, row.body.decode(), row.tags, row.keys, row.properties["number"], row.queueId)
        for row in rows
    )


def test_rows_are_messages(spark: SparkSession, tmp_path: Path) -> None:
    """The store is made; the same version is written once; a store is copied by reading and writing it."""
    for _ in range(2):
        _write(_orders(spark, 500).repartition(4), tmp_path / "store", txnAppId="test", txnVersion="1")
    wanted = [("orders", f"order {n}", "created", f"o-{n} all", str(n), n % 3) for n in range(500)]
    assert _rows(spark, tmp_path / "store") == sorted(wanted)
    _write(spark.read.format("mqstore").load(str(tmp_path / "store")), tmp_path / "copy")
    assert _rows(spark, tmp_path / "copy") == sorted(wanted)
    with MessageStore.open(tmp_path / "copy", read_only=True) as store:
        (found,) = store.query_message("orders", "o-77")
        assert bytes(found.body) == b"order 77"


def test_what_is_refused_before_a_task_runs(spark: SparkSession, tmp_path: Path) -> None:
    """By name, and with the way out."""
    frame = _orders(spark, 10)
    _write(frame, tmp_path / "store")
    for words, mode, options in (
        ("would delete a log", "overwrite", {}),
        ("the topic is given twice", "append", {"topic": "orders"}),
        ("needs 'txnVersion'", "append", {"txnAppId": "a"}),
    ):
        with pytest.raises(PySparkException, match=words):
            _write(frame, tmp_path / "store", mode, **options)
    with (
        MessageStore.open(tmp_path / "store"),
        pytest.raises(PySparkException, match=f"LockTimeout.*process {os.getpid()}"),
    ):
        _write(frame, tmp_path / "store", lockTimeout="0s")


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Neither messages nor staged rows, whatever the other tasks have staged."""
    wrong = (
        _orders(spark, 100).repartition(4).withColumn("topic", _from_row("if(queueId = 2, 'no topic', 'a')"))
    )
    with pytest.raises(PySparkException, match="no topic"):
        _write(wrong, tmp_path / "store")
    assert spark.read.format("mqstore").load(str(tmp_path / "store")).count() == 0
    imports = StoreLayout(tmp_path / "store").imports
    assert not imports.exists() or not list(imports.glob("*/*"))


def _from_row(text: str):  # type: ignore[no-untyped-def]
    from pyspark.sql.functions import expr

    return expr(text)


def _stream(spark: SparkSession, source: Path, target: Path) -> StreamingQuery:
    frame = spark.readStream.format("mqstore").options(startingOffsets="earliest", maxBytesPerTrigger="20k")
    query = (
        frame.load(str(source))
        .writeStream.format("mqstore")
        .option("checkpointLocation", str(target.with_name("checkpoint")))
        .trigger(availableNow=True)
        .start(str(target))
    )
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return query


def test_a_stream_puts_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    """A batch whose commit Spark has not noted is run again, and put no second time."""
    _write(_orders(spark, 300), tmp_path / "source")
    _stream(spark, tmp_path / "source", tmp_path / "target")
    commits = tmp_path / "checkpoint" / "commits"
    numbers = sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert len(numbers) > 1
    for name in (f"{numbers[-1]}", f".{numbers[-1]}.crc"):
        (commits / name).unlink()
    _stream(spark, tmp_path / "source", tmp_path / "target")
    assert _rows(spark, tmp_path / "target") == _rows(spark, tmp_path / "source")
    _write(_orders(spark, 20), tmp_path / "source")
    _stream(spark, tmp_path / "source", tmp_path / "target")
    assert _rows(spark, tmp_path / "target") == _rows(spark, tmp_path / "source")
