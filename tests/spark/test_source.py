"""Goal: a user's Spark reads a store as documented: columns, options, filters, errors, the demo's report.

Method: one real session on this machine for all tests, on RocketMQ's golden directories and on stores
written here. Without Java these tests fail with the words of JavaNotFound. What needs no Spark is tested
in tests/unit/tools/spark.
"""

import json
import zipfile
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from mqstore.tools.spark.jobs.flights_report import run_report
from mqstore.tools.spark.schema import SCHEMA
from support.twins.plain_records import read_rows, record, write_segment

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


# The records of the golden directories say of random bodies that they are compressed.
AS_STORED = {"decompress": "false"}


def _load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("mqstore").options(**options).load(str(path))


def test_all_columns_reach_spark(spark: SparkSession, golden: Path) -> None:
    """With the documented schema, and the values of the bytes."""
    frame = _load(spark, golden, **AS_STORED)
    assert frame.schema == SCHEMA
    columns = ["topic", "queueOffset", "tags", "keys", "body", "properties", "bornHost", "flag", "storeSize"]
    expected = [row for path in sorted((golden / "commitlog").iterdir()) for row in read_rows(path)]
    found = frame.selectExpr("*", "unix_millis(bornTimestamp) born").orderBy("physicalOffset").collect()
    assert len(found) == 1995
    for row, values in zip(found, expected, strict=True):
        assert [row[name] for name in columns] == [values[name] for name in columns]
        assert row.born == values["bornTimestamp"]


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_a_frame_is_filtered_in_several_ways(spark: SparkSession, golden: Path, enabled: str) -> None:
    """Whatever the switch says. Spark 4.3 would keep what a pushed filter left for the next query on it."""
    spark.conf.set(PUSHDOWN, enabled)
    try:
        frame = _load(spark, golden, **AS_STORED)
        some = frame.where("topic in ('TopicA', 'TopicB') and tags = 'TagA'")
        others = frame.where("topic = 'TopicA'")
        assert (some.count(), frame.count()) == (96, 1995)
        assert others.count() == 451
        assert some.union(others).count() == 96 + 451
        assert frame.count() == 1995
    finally:
        spark.conf.unset(PUSHDOWN)


def _twin_rows(store: Path, topic: str) -> list[dict[str, object]]:
    rows = [row for path in sorted((store / "commitlog").iterdir()) for row in read_rows(path)]
    return [row for row in rows if row["topic"] == topic]


def test_a_schema_and_options_choose(spark: SparkSession, golden: Path) -> None:
    """Columns by schema, messages by topic; SQL works too."""
    frame = (
        spark.read.format("mqstore")
        .schema("body BINARY, topic STRING")
        .options(topic="TopicA", **AS_STORED)
        .load(str(golden))
    )
    assert frame.columns == ["body", "topic"]
    # Without half messages and rolled-back ones, which are in no queue.
    listed = [row for row in _twin_rows(golden, "TopicA") if row["sysFlag"] & 0xC not in (0x4, 0xC)]
    assert len(listed) < len(_twin_rows(golden, "TopicA")) == 451
    assert {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()} == {
        "TopicA": len(listed)
    }
    assert _load(spark, golden, topic="TopicA", queueScan="false", **AS_STORED).count() == 451
    spark.sql(
        "CREATE TEMPORARY VIEW retries USING mqstore "
        f"OPTIONS (path '{golden}', subscribePattern '%RETRY%.*', decompress 'false', queueScan 'false')"
    )
    assert spark.sql("SELECT count(*), count(DISTINCT topic) FROM retries").first() == (378, 2)


def test_a_live_store_shows_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """Each load sees what is there by then; an empty store has no rows."""
    path = write_segment(tmp_path, 0, b"", 4096)
    assert _load(spark, tmp_path).count() == 0
    path.write_bytes(record(0, topic="a").ljust(4096, b"\0"))
    assert [row.topic for row in _load(spark, tmp_path).collect()] == ["a"]


def test_nothing_in_the_directory_is_changed(spark: SparkSession, golden: Path) -> None:
    """No file is made, written or touched, and no lock is taken."""
    before = {path: path.stat().st_mtime_ns for path in golden.rglob("*")}
    _load(spark, golden, **AS_STORED).count()
    assert {path: path.stat().st_mtime_ns for path in golden.rglob("*")} == before


def test_two_actions_on_one_frame_see_one_state(spark: SparkSession, tmp_path: Path) -> None:
    """Beside a writer, too: what came in between is there at the next load."""
    log = record(0, topic="a")
    path = write_segment(tmp_path, 0, log, 4096)
    frame = _load(spark, tmp_path)
    assert frame.count() == 1
    path.write_bytes((log + record(len(log), topic="b")).ljust(4096, b"\0"))
    assert frame.count() == 1
    assert frame.join(frame.select("physicalOffset"), "physicalOffset").count() == 1
    assert _load(spark, tmp_path).count() == 2


def test_several_stores_and_damage_in_one_frame(spark: SparkSession, tmp_path: Path) -> None:
    """By a list of paths; a row tells of the damage, and nothing behind it is lost."""
    for name in ("one", "two"):
        log = record(0, body=b"1") + record(len(record(0, body=b"1")), body=b"2")
        write_segment(tmp_path / name, 0, log, 4096)
    path = tmp_path / "two" / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[data.index(b"1", 80)] ^= 2
    path.write_bytes(data)
    reader = spark.read.format("mqstore").option("mode", "PERMISSIVE")
    rows = reader.load([str(tmp_path / "one"), str(tmp_path / "two")]).collect()
    assert sorted((Path(row.store).name, bytes(row.body)) for row in rows if row.body is not None) == [
        ("one", b"1"),
        ("one", b"2"),
        ("two", b"2"),
    ]
    (told,) = [row for row in rows if row.body is None]
    assert (told.store, told.physicalOffset) == (str(tmp_path / "two"), 0)
    assert "body CRC" in told._corrupt_record


def test_mistakes_are_named(spark: SparkSession, golden: Path, tmp_path: Path) -> None:
    """Our errors reach the user in Spark's."""
    with pytest.raises(AnalysisException, match=r"unknown option 'topics': did you mean 'topic'\?"):
        _load(spark, golden, topics="TopicA")
    with pytest.raises(PySparkException, match="no column 'queueid'"):
        spark.read.format("mqstore").schema("queueid INT").load(str(golden)).count()
    with pytest.raises(PySparkException, match="holds no store: there is no commitlog"):
        _load(spark, tmp_path).count()


def test_damage_is_an_error_and_not_a_shorter_answer(spark: SparkSession, tmp_path: Path) -> None:
    """It names the file and the place; the way out works."""
    path = write_segment(tmp_path, 0, record(0), 512)
    write_segment(tmp_path, 512, record(512), 512)
    with pytest.raises(PySparkException, match=rf"{path} is damaged at byte {len(record(0))}"):
        _load(spark, tmp_path).count()
    assert _load(spark, tmp_path, failOnDataLoss="false").count() == 2


def test_a_segment_that_is_deleted_while_a_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A query that has not come to it fails, or goes on and tells of it, as the options say."""

    def rows_around_a_deletion(**options: str) -> list[Row]:
        paths = [
            write_segment(tmp_path, at, record(at, topic=f"at{at}"), 512, blank=True)
            for at in range(0, 2048, 512)
        ]
        frame = _load(spark, tmp_path, minPartitions="4", **options)
        # A job for each partition, and none before its rows are asked for.
        following = frame.toLocalIterator(prefetchPartitions=False)
        first = next(following)
        paths[2].unlink()
        return [first, *following]

    with pytest.raises(Py4JJavaError, match=r"physical offsets 1024 to 1536 cannot be read"):
        rows_around_a_deletion()
    rows = rows_around_a_deletion(failOnDataLoss="false")
    assert [row.topic for row in rows] == ["at0", "at512", "at1536"]
    rows = rows_around_a_deletion(failOnDataLoss="false", mode="PERMISSIVE")
    assert [row.topic for row in rows] == ["at0", "at512", None, "at1536"]
    assert (rows[2].physicalOffset, rows[2]._corrupt_record.endswith("the segment is gone")) == (1024, True)


def test_the_flights_report_agrees_with_its_csv(tmp_path: Path, spark: SparkSession) -> None:
    """And finds the flight that was lost and the retry that came twice."""
    csv_path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(csv_path, "w") as archive:
        archive.writestr("flights.csv", "month,carrier,arr_delay\n1,UA,5\n1,UA,NA\n2,AA,NA\n2,AA,1\n")
    flights = [_flight(0, "UA", 1), _flight(1, "UA", 1), _flight(2, "AA", 2), _flight(3, "AA", 2)]
    missing = flights[1:3]
    good = [("flights", body, 0) for body in flights]
    good += [("%RETRY%arrivals", body, attempt) for body in missing for attempt in (1, 2, 3)]
    good += [("SCHEDULE_TOPIC_XXXX", body, attempt) for body in missing for attempt in (1, 2, 3)]
    good += [("%DLQ%arrivals", body, 3) for body in missing]
    steps: list[str] = []
    report = run_report(
        _store(tmp_path / "good", good), csv_path, tmp_path / "good.png", steps.append, spark=spark
    )
    assert (report.flights, report.retry_deliveries, report.dead_letters) == (4, 6, 2)
    assert report.matches_csv, report
    assert report.chart_path.exists()
    assert "reading the segments with Spark" in steps

    bad = [*good[1:], ("%RETRY%arrivals", flights[1], 2)]
    report = run_report(_store(tmp_path / "bad", bad), csv_path, tmp_path / "bad.png", spark=spark)
    assert (report.lost, report.duplicated, len(report.mismatches)) == (1, 1, 2)
    assert not report.matches_csv


def _flight(row: int, carrier: str, month: int) -> bytes:
    return json.dumps({"row": row, "carrier": carrier, "month": month, "arr_delay": None}).encode()


def _store(path: Path, messages: list[tuple[str, bytes, int]]) -> Path:
    data = b""
    for topic, body, attempt in messages:
        data += record(len(data), topic=topic, body=body, reconsume_times=attempt)
    write_segment(path, 0, data, 8192, blank=True)
    return path
