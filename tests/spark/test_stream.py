"""Goal: a user's streaming query writes each message once into Parquet, over stops and restarts, as
documented.

Method: one real session; queries with Trigger.AvailableNow over stores that are written in between. What
needs no Spark is tested in tests/unit/tools/spark/stream; kills of the whole driver by `make stream-kills`.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from mqstore import Message, MessageStore
from support.stores.small_log import SEGMENT_BYTES, small_config

pytestmark = pytest.mark.spark


def _put(store: Path, first: int, count: int) -> None:
    with MessageStore.open(store, small_config(), start=False) as opened:
        for number in range(first, first + count):
            opened.put_message(Message("orders", f"{number}".encode().ljust(1_000), queue_id=number % 3))


def _run(spark: SparkSession, store: Path, **options: str) -> StreamingQuery:
    """One run into `out` beside the store, to where the log ends now."""
    frame = spark.readStream.format("mqstore").options(startingOffsets="earliest", **options).load(str(store))
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(store.with_name("checkpoint")))
        .trigger(availableNow=True)
        .start(str(store.with_name("out")))
    )
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return query


def _numbers(spark: SparkSession, store: Path) -> list[int]:
    rows = spark.read.parquet(str(store.with_name("out"))).collect()
    return sorted(int(row.body) for row in rows)


def _sources(query: StreamingQuery) -> list[Any]:
    return [progress.sources[0] for progress in query.recentProgress]


def test_each_message_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    """In batches of the limit, with the backlog told; a later run goes on where the last one ended."""
    store = tmp_path / "store"
    _put(store, 0, 300)
    query = _run(spark, store, maxBytesPerTrigger="120k")
    assert _numbers(spark, store) == list(range(300))
    sources = [source for source in _sources(query) if source.numInputRows]
    assert len(sources) > 2
    assert all(source.numInputRows < 150 for source in sources)
    backlog = [int(str(source.latestOffset).split('"backlogBytes":')[1].strip(" }")) for source in sources]
    assert backlog == sorted(backlog, reverse=True)
    assert (backlog[0] > 100_000, backlog[-1]) == (True, 0)
    _put(store, 300, 50)
    _run(spark, store)
    assert _numbers(spark, store) == list(range(350))


def test_a_gap_and_another_store_stop_a_query(spark: SparkSession, tmp_path: Path) -> None:
    """With our sentence; failOnDataLoss=false goes on behind the gap, and nothing is there twice."""
    store = tmp_path / "store"
    _put(store, 0, 20)
    _run(spark, store)
    _put(store, 20, 400)
    (store / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(StreamingQueryException, match=f"begins at physical offset {SEGMENT_BYTES}"):
        _run(spark, store)
    _run(spark, store, failOnDataLoss="false")
    numbers = _numbers(spark, store)
    assert numbers == [*range(20), *range(numbers[20], 420)]
    assert 100 < numbers[20] < 140
    shutil.rmtree(store)
    _put(store, 0, 700)
    with pytest.raises(StreamingQueryException, match="the checkpoint was made on the store"):
        _run(spark, store)
