"""Goal: the Spark jobs do on real stores what docs/spark.md says, in one session.

Method: one real session on this machine for all tests, on RocketMQ's golden directories and on stores
written here.
"""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mqstore.store.errors import StoreNotFound
from mqstore.tools.spark.jobs.job_errors import LogDamaged, TargetTaken
from mqstore.tools.spark.jobs.parquet_export import export_parquet
from mqstore.tools.spark.jobs.segment_check import check_segments
from support.twins.plain_records import read_rows, record, write_segment

pytestmark = pytest.mark.spark


# -- verify -----------------------------------------------------------------------------------------------


def test_a_check_counts_each_segment(spark: SparkSession, golden: Path) -> None:
    """Records and bytes of every file, as a plain walk counts them."""
    report = check_segments([golden], spark=spark, max_partition_bytes=1 << 18)
    files = sorted((golden / "commitlog").iterdir())
    expected = [(str(path), rows) for path in files if (rows := read_rows(path))]
    assert [(one.path, one.records, one.record_bytes) for one in report.segments] == [
        (path, len(rows), sum(row["storeSize"] for row in rows)) for path, rows in expected
    ]
    assert report.is_sound
    assert report.records == 1995


def test_a_check_tells_file_and_byte_of_damage(spark: SparkSession, tmp_path: Path) -> None:
    """In the store that has it; a segment that is missing and one that was cut off are damage, too."""
    for name in ("sound", "hurt"):
        for start in (0, 4096, 12288):
            if name == "hurt" or start < 8192:
                write_segment(tmp_path / name, start, record(start, body=b"1"), 4096, blank=start == 0)
    hurt = tmp_path / "hurt" / "commitlog"
    data = bytearray((hurt / f"{4096:020}").read_bytes())
    data[data.index(b"1", 80)] ^= 2
    (hurt / f"{4096:020}").write_bytes(data)
    last = hurt / f"{12288:020}"
    last.write_bytes(last.read_bytes()[:2048])
    report = check_segments([tmp_path / "*"], spark=spark)
    size = len(record(0, body=b"1"))
    assert [(Path(one.path).name, one.position, one.size_bytes) for one in report.damages] == [
        (f"{4096:020}", 0, 4096),
        (f"{8192:020}", 0, 4096),
        (f"{12288:020}", 2048, 2048),
    ]
    assert "body CRC" in report.damages[0].reason
    assert {one.store for one in report.damages} == {str(tmp_path / "hurt")}
    assert [(one.records, one.record_bytes, one.damages) for one in report.segments] == [
        *((1, size, 0), (0, 0, 1), (1, size, 0)),
        *((1, size, 0), (1, size, 0)),
    ]


def test_a_check_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """An empty log is sound; a path without a store is an error."""
    write_segment(tmp_path, 0, b"", 4096)
    assert check_segments([tmp_path], spark=spark).segments == ()
    with pytest.raises(StoreNotFound):
        check_segments([tmp_path / "missing"], spark=spark)


# -- export -----------------------------------------------------------------------------------------------

DAY_MS = 86_400_000
FIRST_MS = 20_780 * DAY_MS - 1
"""The last millisecond of 2026-11-22, UTC."""


def dated_log(path: Path) -> Path:
    """Six records of two topics, one a name for Hive to escape, on three days from 2026-11-22 UTC on."""
    data = b""
    for number in range(6):
        topic, at = ("%RETRY%billing", "0042")[number % 2], len(data)
        stored = FIRST_MS + number // 2 * DAY_MS
        data += record(at, topic=topic, body=b"%d" % number, queue_offset=number // 2, store_timestamp=stored)
    write_segment(path, 0, data, 8192)
    return path


def test_an_export_has_every_row_by_topic_and_date(spark: SparkSession, tmp_path: Path) -> None:
    """The files have the source's columns, and the day is UTC's in a session of any time zone."""
    store, target = dated_log(tmp_path / "store"), tmp_path / "lake"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    try:
        counts = export_parquet([store], str(target), spark=spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert counts == (("%RETRY%billing", 3), ("0042", 3))
    assert sorted(str(path.relative_to(target)) for path in target.glob("*/*")) == [
        f"topic={topic}/date={day}"
        for topic in ("%25RETRY%25billing", "0042")
        for day in ("2026-11-22", "2026-11-23", "2026-11-24")
    ]
    source = spark.read.format("mqstore").load(str(store))
    names = source.columns
    written = spark.read.schema("topic STRING, date DATE, " + _ddl(source)).parquet(str(target))
    assert _rows(written.select(names)) == _rows(source)


def _ddl(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema[1:])


def _rows(frame: DataFrame) -> list[object]:
    return sorted(frame.collect(), key=lambda row: int(row.physicalOffset))


def test_an_export_of_a_topic_and_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """The end is not included; an export is replaced on request, and what is none never."""
    store, target = dated_log(tmp_path / "store"), str(tmp_path / "lake")
    begin_ms = FIRST_MS + DAY_MS
    chosen = {"topics": ["0042"], "begin_ms": begin_ms, "end_ms": begin_ms + DAY_MS, "spark": spark}
    assert export_parquet([store], target, compression="snappy", **chosen) == (("0042", 1),)
    (file,) = (tmp_path / "lake").rglob("*.snappy.parquet")
    assert file.parent.name == "date=2026-11-23"
    with pytest.raises(TargetTaken, match="lake exists: give another path"):
        export_parquet([store], target, spark=spark)
    assert export_parquet([store], target, topics=["0042"], overwrite=True, spark=spark) == (("0042", 3),)
    with pytest.raises(TargetTaken, match="it holds 'commitlog', which no export wrote"):
        export_parquet([store], str(store), overwrite=True, spark=spark)


def test_an_export_of_damage_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """In one sentence that names file and byte."""
    path = write_segment(tmp_path / "store", 0, record(0), 512)
    write_segment(tmp_path / "store", 512, record(512), 512)
    with pytest.raises(
        LogDamaged, match=rf"^the Spark job ended: {path} is damaged at byte {len(record(0))}"
    ):
        export_parquet([tmp_path / "store"], str(tmp_path / "lake"), spark=spark)
