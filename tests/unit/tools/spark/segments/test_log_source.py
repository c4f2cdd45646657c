"""Goal: an archive, and a store with its archive, are read as the store itself would be, row by row.

Method: a store of small segments is archived, to a directory and to a server of S3's protocol, and read as
Spark's workers read it (without Spark). The yardsticks are the records of the segments, by the plain twin;
the same read of a store that was restored from the archive; and `get_message`.
"""

import json
import pickle
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import CorruptRecord
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive import (
    ArchiveDamaged,
    ArchiveRefused,
    archive,
    archive_address,
    read_manifest,
    restore,
)
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import ArchivedSegment, decode_signed, encode_signed, entry_name
from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.read.offset_bounds import OffsetsMissing
from mqstore.tools.spark.read.partitions import LogPartition, QueuePartition
from mqstore.tools.spark.schema import schema_of
from mqstore.tools.spark.segments import segment_bytes
from mqstore.tools.spark.segments.log_source import source_of
from mqstore.tools.spark.segments.open_segment import open_segment
from mqstore.tools.spark.segments.segment_files import SegmentMissing
from support.archives.counted_place import CountedPlace
from support.archives.s3_server import S3Server
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.stores.small_store import messages_of
from support.twins.plain_records import read_rows

Row = dict[str, Any]
ALL = (
    "topic, queueId, queueOffset, physicalOffset, tags, keys, body, properties, flag, sysFlag, bornHost, "
    "bornTimestamp, storeTimestamp, bornTimestampMs, storeTimestampMs, storeHost, reconsumeTimes, storeSize, "
    "bodySize"
)
TOPICS = ["orders", "payments", "audit"]


def plan(path: str, **options: str) -> tuple[MqstoreReader, list[LogPartition | QueuePartition]]:
    parsed = ReadOptions.parse({"path": path} | options)
    reader = MqstoreReader(schema_of(parsed), parsed)
    planned = [one for one in reader.partitions() if isinstance(one, LogPartition | QueuePartition)]
    return reader, pickle.loads(pickle.dumps(planned))


def read(reader: MqstoreReader, planned: list[LogPartition | QueuePartition]) -> list[Row]:
    return [row for one in planned for batch in reader.read(one) for row in batch.to_pylist()]


def rows(path: str, **options: str) -> list[Row]:
    """In the order of the log; none comes twice."""
    found = read(*plan(path, **{"columns": ALL} | options))
    assert len({row["physicalOffset"] for row in found}) == len(found)
    return sorted(found, key=lambda row: row["physicalOffset"])


def offsets(path: str, **options: str) -> list[int]:
    return [row["physicalOffset"] for row in rows(path, columns="physicalOffset", **options)]


def fill(store: MessageStore, clock: ManualClock, segments: int, seed: int = 1) -> None:
    choice = random.Random(seed)
    wanted = (store.max_offset // SEGMENT_BYTES + segments) * SEGMENT_BYTES
    number = 0
    while store.max_offset <= wanted:
        clock.advance(choice.choice([0, 1, 50]))
        number += 1
        store.put_message(
            Message(
                choice.choices(TOPICS, [10, 3, 1])[0],
                choice.randbytes(choice.choice([0, 10, 500, 3_000, 20_000])),
                tags=choice.choice(["", "a", "b"]),
                keys=f"k{number}" if choice.random() < 0.5 else "",
                properties={"n": str(number)},
                queue_id=choice.randrange(3),
                delay_level=choice.choice([0] * 9 + [1]),
            )
        )
    store.flush()


def replace_object(url: str, start_offset: int) -> None:
    """What an archiver and a sweep do: another object of a segment is entered, and the old one goes."""
    place = ArchivePlace(url)
    entry = decode_signed(place.read(entry_name(start_offset)), ArchivedSegment)
    again = f"{entry.name[:-8]}00000000"
    place.write(again, [place.read(entry.name)])
    place.write(entry_name(start_offset), [encode_signed(msgspec.structs.replace(entry, name=again))])
    place.delete(entry.name)


class Case:
    """A store with ten sealed segments and one that is written to, its archive, and a restored store."""

    def __init__(self, root: Path, url: str) -> None:
        self.path, self.url, self.clock = root / "store", url, ManualClock()
        with MessageStore.open(self.path, small_config(), clock=self.clock, start=False) as store:
            fill(store, self.clock, 10)
            self.end = archive(store, url).end_offset
        self.restored = root / "restored"
        restore(url, self.restored)

    def delete(self, count: int) -> list[Path]:
        """What retention does: the first segments go."""
        segments = sorted((self.path / "commitlog").iterdir())[:count]
        for segment in segments:
            segment.unlink()
        return segments

    def plain_rows(self) -> list[Row]:
        """All records of the restored log, by the twin."""
        return [row for one in sorted((self.restored / "commitlog").iterdir()) for row in read_rows(one)]


@pytest.fixture(params=["directory", "s3"], scope="module")
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Not changed by a test."""
    root = tmp_path_factory.mktemp("archived")
    if request.param == "directory":
        return Case(root, str(root / "archive"))
    server: S3Server = request.getfixturevalue("s3")
    return Case(root, server.url())


@pytest.fixture
def own(tmp_path: Path) -> Case:
    """A test's own, in a directory."""
    return Case(tmp_path, str(tmp_path / "archive"))


# -- an archive alone -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("split", [70_000, 10**9])
def test_every_row_and_column_equals_the_store(case: Case, split: int) -> None:
    check_rows(case, split)


@pytest.mark.slow
@pytest.mark.parametrize("split", [1, 5_000])
def test_rows_are_equal_in_the_smallest_partitions_too(own: Case, split: int) -> None:
    check_rows(own, split)


def check_rows(case: Case, split: int) -> None:
    """An archive that is read in partitions of `split` bytes has what the restored store has."""
    found = rows(case.url, maxPartitionBytes=str(split))
    assert [row["physicalOffset"] for row in found] == [row["physicalOffset"] for row in case.plain_rows()]
    assert found == rows(str(case.restored))
    with MessageStore.open(case.restored, read_only=True) as store:
        for topic in TOPICS:
            expected = {
                (queue_id, each.queue_offset, each.body)
                for queue_id in range(3)
                for each in messages_of(store, topic, queue_id)
            }
            chosen = rows(case.url, topic=topic, maxPartitionBytes=str(split))
            assert {(row["queueId"], row["queueOffset"], row["body"]) for row in chosen} == expected


def _options(case: Case) -> list[dict[str, str]]:
    """Of each kind; times and offsets in the middle of the log."""
    all_rows = rows(str(case.restored))
    middle = all_rows[len(all_rows) // 2]["storeTimestampMs"]
    early = all_rows[len(all_rows) // 4]["storeTimestampMs"]
    ends = {
        str(queue_id): max(
            row["queueOffset"] for row in all_rows if row["topic"] == "orders" and row["queueId"] == queue_id
        )
        for queue_id in range(3)
    }
    halves = json.dumps({"orders": {queue_id: end // 2 for queue_id, end in ends.items()}})
    at_time = json.dumps({"orders": dict.fromkeys(ends, early)})
    to_time = json.dumps({"orders": dict.fromkeys(ends, middle)})
    return [
        {"startingTimestamp": str(early), "endingTimestamp": str(middle)},
        {"startingTimestamp": str(middle), "topic": "audit"},
        {"topic": "payments", "subExpression": "a || b"},
        {"subscribePattern": "o.*|a.*"},
        {"assign": '{"orders": [0, 2], "audit": [1]}'},
        {"topic": "orders", "startingOffsets": halves},
        {"topic": "orders", "endingOffsets": halves},
        {"topic": "orders", "startingOffsetsByTimestamp": at_time, "endingOffsetsByTimestamp": to_time},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"topic": "none"},
        {"queueScan": "true"},
        {"minPartitions": "9"},
    ]


@pytest.mark.slow
def test_options_choose_what_they_choose_in_a_store(case: Case) -> None:
    for options in _options(case):
        expected = rows(str(case.restored), **options)
        assert rows(case.url, **options) == expected, options
        assert bool(expected) == (options != {"topic": "none"})


def test_offsets_that_are_wrong_are_refused_as_in_a_store(case: Case) -> None:
    far = json.dumps({"audit": {"0": 10**6, "1": 0, "2": 0}})
    for options in (
        {"topic": "audit", "startingOffsets": far},
        {"topic": "audit", "startingOffsets": '{"audit": {"0": 0}}'},
        {"assign": '{"audit": [7]}'},
    ):
        with pytest.raises(SparkOptionIllegal) as of_store:
            plan(str(case.restored), **options)
        with pytest.raises(SparkOptionIllegal) as of_archive:
            plan(case.url, **options)
        assert of_archive.value.key == of_store.value.key


def test_the_column_store_shows_no_secret(case: Case) -> None:
    (shown,) = {row["store"] for row in rows(case.url, columns="store, physicalOffset")}
    assert "testing" not in shown
    assert shown == read_manifest(case.url).place
    assert "testing" not in repr(ReadOptions.parse({"path": case.url}))


def test_storage_options_reach_the_server(tmp_path: Path, s3: S3Server) -> None:
    case = Case(tmp_path, s3.url())
    plain = read_manifest(case.url).place
    for given in (
        {"access_key": "testing", "secret_key": "testing", "scheme": "http", "region": "us-east-1"}
        | {"endpoint_override": f"127.0.0.1:{s3.port}"},
        {"key": "testing", "secret": "testing", "endpoint_url": f"http://127.0.0.1:{s3.port}"}
        | {"region": "us-east-1"},
    ):
        assert offsets(plain, storageOptions=json.dumps(given)) == offsets(str(case.restored))
        nested = json.dumps(given | {"default_metadata": {"Content-Type": "x/y"}})
        assert offsets(plain, storageOptions=nested) == offsets(str(case.restored))
    with pytest.raises(ArchiveRefused, match="is no place for an archive") as refused:
        plan(plain, storageOptions='{"acess_key": "hidden"}')
    assert "hidden" not in str(refused.value)
    with pytest.raises(SparkOptionIllegal, match="a JSON object"):
        plan(plain, storageOptions="hidden")


# -- how much is read -----------------------------------------------------------------------------------


@pytest.fixture
def counted(own: Case, monkeypatch: pytest.MonkeyPatch) -> CountedPlace:
    """The archive's directory as another file system, which counts what is read of each object."""
    place = CountedPlace(Path(own.url))
    monkeypatch.setattr(archive_address, "_place", lambda *_: ArchivePlace("", place.file_system))
    return place


def test_a_time_range_reads_its_own_bytes(own: Case, counted: CountedPlace) -> None:
    all_rows = rows(str(own.restored))
    first = all_rows[len(all_rows) * 45 // 100]["storeTimestampMs"]
    last = all_rows[len(all_rows) * 55 // 100]["storeTimestampMs"]
    options = {"startingTimestamp": str(first), "endingTimestamp": str(last)}
    reader, planned = plan("any://place", columns=ALL, **options)
    assert counted.read_bytes("commitlog") == 0
    assert read(reader, planned) == rows(str(own.restored), **options)
    assert counted.read_bytes("commitlog") <= 3 * SEGMENT_BYTES
    planned_bytes = sum(one.size_bytes for each in planned for one in each.ranges)  # type: ignore[union-attr]
    assert counted.read_bytes("commitlog") == planned_bytes


def test_only_parts_with_the_topic_are_read(own: Case, counted: CountedPlace) -> None:
    with MessageStore.open(own.path, small_config(), clock=own.clock, start=False) as store:
        store.put("rare", b"one")
        fill(store, own.clock, 1)
        archive(store, own.url)
    assert [row["topic"] for row in rows("any://place", topic="rare")] == ["rare"]
    assert counted.read_bytes("commitlog") <= SEGMENT_BYTES // 2 + 25_000


def test_ranges_are_large_and_read_ahead(
    own: Case, counted: CountedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_bytes, "RANGE_BYTES", 40_000)
    found = rows("any://place", maxPartitionBytes="1g")
    assert found == rows(str(own.restored))
    sizes = [length for name, _, length in counted.reads if name.startswith("commitlog")]
    assert max(sizes) == 40_000
    # Each byte once.
    assert sum(sizes) == sum(part.size_bytes for one in read_manifest(own.url).segments for part in one.parts)


def test_an_entry_of_version_1_is_read(own: Case) -> None:
    place = ArchivePlace(own.url)
    for start in range(0, own.end, SEGMENT_BYTES):
        entry = decode_signed(place.read(entry_name(start)), ArchivedSegment)
        assert entry.version == 2
        old = msgspec.to_builtins(entry)
        del old["parts"], old["version"]
        place.write(entry_name(start), [encode_signed(msgspec.convert(old, ArchivedSegment))])
    assert not read_manifest(own.url).segments[0].parts
    for split in ("5000", "1g"):
        assert rows(own.url, maxPartitionBytes=split) == rows(str(own.restored))
    for options in _options(own):
        assert rows(own.url, **options) == rows(str(own.restored), **options)


def test_an_entry_of_a_later_version_is_refused(own: Case) -> None:
    place = ArchivePlace(own.url)
    entry = decode_signed(place.read(entry_name(0)), ArchivedSegment)
    place.write(entry_name(0), [encode_signed(msgspec.structs.replace(entry, version=3))])
    with pytest.raises(ArchiveRefused, match="has version 3"):
        plan(own.url)


# -- a store and its archive ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [0, 1, 6, 10])
def test_store_and_archive_are_one_log(own: Case, deleted: int) -> None:
    expected = rows(str(own.path))
    chosen = [(options, rows(str(own.path), **options)) for options in _options(own)]
    own.delete(deleted)
    assert rows(str(own.path), archive=own.url) == expected
    for options, found in chosen:
        if options != {"topic": "none"}:
            assert rows(str(own.path), archive=own.url, **options) == found, options


def test_retention_between_plan_and_task_loses_nothing(own: Case) -> None:
    expected = rows(str(own.path))
    own.delete(3)
    reader, planned = plan(str(own.path), archive=own.url, columns=ALL, maxPartitionBytes="20000")
    own.delete(4)
    assert sorted(read(reader, planned), key=lambda row: row["physicalOffset"]) == expected


def test_a_segment_that_is_archived_after_the_plan_may_go(own: Case) -> None:
    with MessageStore.open(own.path, small_config(), clock=own.clock, start=False) as store:
        fill(store, own.clock, 2, seed=2)
        expected = rows(str(own.path))
        reader, planned = plan(str(own.path), archive=own.url, columns=ALL)
        archive(store, own.url)
    own.delete(11)
    assert sorted(read(reader, planned), key=lambda row: row["physicalOffset"]) == expected


def test_an_offset_before_both_is_a_loss(own: Case) -> None:
    own.delete(6)
    for name in ("commitlog", "manifest"):
        for each in sorted((Path(own.url) / name).iterdir())[:2]:
            each.unlink()
    starting = json.dumps({"orders": {"0": 0, "1": 0, "2": 0}})
    with pytest.raises(OffsetsMissing):
        plan(str(own.path), archive=own.url, topic="orders", startingOffsets=starting)


def test_the_archive_of_another_store_is_refused(own: Case, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Case(tmp_path / "other", str(tmp_path / "other-archive"))
    with pytest.raises(ArchiveRefused, match="give the archive of that store"):
        plan(str(own.path), archive=other.url)
    for options in ({"path": "s3://bucket/x"}, {"paths": '["a", "b"]'}):
        with pytest.raises(SparkOptionIllegal, match="the archive of one store"):
            ReadOptions.parse({"archive": own.url} | options)


def test_a_file_is_not_replaced_by_a_segment_of_another_store(own: Case, tmp_path: Path) -> None:
    """A part of the log that is in the store is planned without a look at the manifest."""
    (tmp_path / "other").mkdir()
    other = Case(tmp_path / "other", str(tmp_path / "other-archive"))
    options = ReadOptions.parse({"path": str(own.path), "archive": other.url})
    first = source_of(str(own.path), options).listed(options, 0).segments[0]
    own.delete(1)
    with pytest.raises(ArchiveRefused, match="give the archive of that store"):
        open_segment(first)


def test_without_an_identity_an_archive_is_refused(own: Case) -> None:
    StoreLayout(own.path).identity.unlink()
    with pytest.raises(ArchiveRefused, match="has no mqstore/identity"):
        plan(str(own.path), archive=own.url)


# -- what goes wrong ------------------------------------------------------------------------------------


def test_a_gap_is_an_error_or_left_out(own: Case) -> None:
    sorted((Path(own.url) / "manifest").iterdir())[4].unlink()
    with pytest.raises(SegmentMissing):
        plan(own.url)
    found = offsets(own.url, failOnDataLoss="false")
    lost = range(4 * SEGMENT_BYTES, 5 * SEGMENT_BYTES)
    assert found == [one for one in offsets(str(own.restored)) if one not in lost]


def test_a_missing_object_is_an_error_or_told(own: Case) -> None:
    sorted((Path(own.url) / "commitlog").iterdir())[4].unlink()
    with pytest.raises(SegmentMissing):
        rows(own.url)
    lost = range(4 * SEGMENT_BYTES, 5 * SEGMENT_BYTES)
    expected = [one for one in offsets(str(own.restored)) if one not in lost]
    assert offsets(own.url, failOnDataLoss="false") == expected
    told = rows(own.url, failOnDataLoss="false", mode="PERMISSIVE", columns="physicalOffset, _corrupt_record")
    assert [row["physicalOffset"] for row in told if row["_corrupt_record"] is None] == expected
    assert {row["physicalOffset"] // SEGMENT_BYTES for row in told if row["_corrupt_record"]} == {4}


def test_a_missing_object_on_s3_is_an_error(tmp_path: Path, s3: S3Server) -> None:
    case = Case(tmp_path, s3.url())
    reader, planned = plan(case.url)
    ArchivePlace(case.url).delete(read_manifest(case.url).segments[3].name)
    with pytest.raises(SegmentMissing):
        read(reader, planned)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_an_object_that_goes_while_it_is_read(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """It is looked for by its entry; without one that names another object it is missing."""
    monkeypatch.setattr(segment_bytes, "RANGE_BYTES", 8_000)
    case = Case(tmp_path, s3.url())
    options = ReadOptions.parse({"path": case.url})
    segment = source_of(case.url, options).listed(options).segments[1]
    expected = (case.restored / "commitlog" / f"{SEGMENT_BYTES:020d}").read_bytes()
    place = ArchivePlace(case.url)
    opened = open_segment(segment, (0, segment.size_bytes))
    try:
        assert opened.read(1_000, 0) == expected[:1_000]
        if is_replaced:
            replace_object(case.url, SEGMENT_BYTES)
        else:
            place.delete(str(segment.object_name))
            with pytest.raises(SegmentMissing):
                opened.read(1_000, 100_000)
            return
        assert opened.read(60_000, 50_000) == expected[50_000:110_000]
    finally:
        opened.close()


def test_damage_is_found_as_in_a_store(own: Case) -> None:
    """The same bytes are changed in an object and in a file."""
    records = own.plain_rows()
    damaged = next(row for row in records if row["physicalOffset"] > 2 * SEGMENT_BYTES)
    position = damaged["physicalOffset"] % SEGMENT_BYTES + 60
    for segment in (
        sorted((Path(own.url) / "commitlog").iterdir())[2],
        own.restored / "commitlog" / f"{2 * SEGMENT_BYTES:020d}",
    ):
        changed = bytearray(segment.read_bytes())
        changed[position] ^= 1
        segment.write_bytes(changed)
    for path in (own.url, str(own.restored)):
        with pytest.raises(CorruptRecord):
            rows(path)
    options = {"mode": "PERMISSIVE", "columns": f"{ALL}, _corrupt_record"}
    for found, of_store in zip(rows(own.url, **options), rows(str(own.restored), **options), strict=True):
        assert bool(found.pop("_corrupt_record")) == bool(of_store.pop("_corrupt_record"))
        assert found == of_store
    assert offsets(own.url, checkCRC="false") == [row["physicalOffset"] for row in records]


def test_an_object_that_was_cut_off_is_an_error(own: Case, counted: CountedPlace) -> None:
    segment = sorted((Path(own.url) / "commitlog").iterdir())[2]
    segment.write_bytes(segment.read_bytes()[: SEGMENT_BYTES // 2])
    for path in (own.url, "any://place"):
        with pytest.raises(CorruptRecord):
            rows(path)


def test_a_read_that_is_interrupted_is_tried_again(own: Case, counted: CountedPlace) -> None:
    counted.failures = 2
    assert rows("any://place") == rows(str(own.restored))
    assert counted.failures == 0
    counted.failures = 10**6
    with pytest.raises(OSError, match="the connection is gone"):
        rows("any://place")


def test_a_manifest_that_changes_meanwhile(own: Case) -> None:
    """Another archiver has sent a segment again, and swept the object that the plan names."""
    reader, planned = plan(own.url, columns=ALL)
    replace_object(own.url, 0)
    assert read(reader, planned) == rows(str(own.restored))


def test_a_damaged_entry_is_an_error_that_names_it(own: Case) -> None:
    entry = sorted((Path(own.url) / "manifest").iterdir())[1]
    entry.write_bytes(entry.read_bytes().replace(b'"records"', b'"recordz"'))
    with pytest.raises(ArchiveDamaged, match=entry.name):
        plan(own.url)


def test_no_archive_is_an_error_with_a_name(tmp_path: Path, s3: S3Server) -> None:
    with pytest.raises(ArchiveRefused, match="holds no archive"):
        plan(s3.url())
    with pytest.raises(ArchiveRefused, match="is no place for an archive"):
        plan("s3x://key:hidden@bucket/orders")
