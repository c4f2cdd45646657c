"""Goal: Spark itself reads an archive, and a store with its archive, as batch and as stream; no secret shows.

Method: a store of small segments, archived to a server of S3's protocol on the loopback; its first segments
are deleted then, as retention does it. The yardstick is the log before that. What needs no Spark is tested in
tests/unit/tools/spark/segments.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mqstore.tools.archive import archive, read_manifest
from support.archives.s3_server import CREDENTIALS, S3Server, s3_server
from support.archives.segmented_store import fill, open_store
from support.twins.plain_records import read_rows

pytestmark = pytest.mark.spark

SECRET = "the-secret-of-the-bucket"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """A server, for this module."""
    with s3_server() as server:
        yield server


class Archived:
    """A store of six segments whose first three are in the archive alone.

    address, options: of the archive. before: (physical offset, body) of all messages. in_archive: how many of
    them are in the archive.
    """

    def __init__(self, path: Path, s3: S3Server) -> None:
        self.path = path
        url = s3.url()
        with open_store(path) as store:
            fill(store, 5)
            end_offset = archive(store, url).end_offset
        rows = [row for one in sorted((path / "commitlog").iterdir()) for row in read_rows(one)]
        self.before = [(row["physicalOffset"], row["body"]) for row in rows]
        self.in_archive = sum(offset < end_offset for offset, _ in self.before)
        for segment in sorted((path / "commitlog").iterdir())[:3]:
            segment.unlink()
        self.address = read_manifest(url).place
        self.options = {
            "storageOptions": json.dumps(
                {
                    "key": CREDENTIALS["AWS_ACCESS_KEY_ID"],
                    "secret": SECRET,
                    "endpoint_url": f"http://127.0.0.1:{s3.port}",
                    "region": "us-east-1",
                }
            )
        }


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Archived:
    """Not changed by a test."""
    return Archived(tmp_path_factory.mktemp("archived") / "store", s3)


def _messages(frame: DataFrame) -> list[tuple[int, bytes]]:
    rows: list[Any] = frame.select("physicalOffset", "body").orderBy("physicalOffset").collect()
    return [(row.physicalOffset, bytes(row.body)) for row in rows]


def test_an_archive_alone(spark: SparkSession, archived: Archived) -> None:
    """By its address, several tasks; the column `store` has the address."""
    options = archived.options | {"maxPartitionBytes": "50000"}
    frame = spark.read.format("mqstore").options(**options).load(archived.address)
    assert _messages(frame) == archived.before[: archived.in_archive]
    assert frame.rdd.getNumPartitions() > 5


def test_a_store_and_its_archive(spark: SparkSession, archived: Archived) -> None:
    """One log: what is only in the archive, what is in both, and what is only in the store."""
    frame = (
        spark.read.format("mqstore")
        .option("archive", archived.address)
        .options(**archived.options)
        .load(str(archived.path))
    )
    assert _messages(frame) == archived.before
    assert len(archived.before) > archived.in_archive


def test_a_stream_begins_in_the_archive(spark: SparkSession, archived: Archived, tmp_path: Path) -> None:
    """And goes on in the store, in several batches."""
    stream = (
        spark.readStream.format("mqstore")
        .option("archive", archived.address)
        .options(**archived.options)
        .options(maxBytesPerTrigger="200000", startingOffsets="earliest")
        .load(str(archived.path))
    )
    query = (
        stream.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(path=str(tmp_path / "rows"), format="parquet")
    )
    query.awaitTermination()
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) > 2
    assert _messages(spark.read.parquet(str(tmp_path / "rows"))) == archived.before


def test_no_plan_and_no_error_shows_a_secret(
    spark: SparkSession, archived: Archived, capsys: pytest.CaptureFixture[str]
) -> None:
    """Explained, and refused by the server for want of a bucket."""
    reader = spark.read.format("mqstore").options(**archived.options)
    reader.load(archived.address).where("topic = 'orders'").explain("extended")
    shown = capsys.readouterr().out
    assert "mqstore" in shown
    with pytest.raises(Exception, match="no-such-bucket") as refused:
        reader.load("s3://no-such-bucket/orders").count()
    assert SECRET not in f"{shown} {refused.value}"
