"""Goal: however a read is planned, it has exactly the messages of the store, and reads little besides them.

Method: random stores that mqstore wrote, with small segments, read as Spark's workers read them (without
Spark), against `look_message_by_offset`, `get_message`, and each other; seeds are printed by hypothesis.
"""

import pickle
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore import Message, MessageStore
from mqstore.store.errors import CorruptRecord, StoreNotFound
from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.read.offset_bounds import OffsetsMissing
from mqstore.tools.spark.read.partitions import LogPartition, QueuePartition
from mqstore.tools.spark.read.queue_reader import EntriesMissing
from mqstore.tools.spark.schema import schema_of
from mqstore.tools.spark.segments.segment_files import SegmentMissing
from mqstore.tools.spark.segments.segment_reader import ForgedBoundary
from support.golden.manifest import GOLDEN_NAMES
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.stores.small_store import messages_of
from support.twins.plain_records import BLANK, read_rows, record, write_segment

Row = dict[str, Any]
Partition = LogPartition | QueuePartition
NAMES = (
    "topic, queueId, queueOffset, physicalOffset, tags, keys, body, properties, storeTimestampMs, storeSize"
)
TOPICS = ["orders", "payments", "audit"]


def _plan(store: Path, **options: str) -> tuple[MqstoreReader, list[Partition]]:
    parsed = ReadOptions.parse({"path": str(store)} | options)
    reader = MqstoreReader(schema_of(parsed), parsed)
    planned = [one for one in reader.partitions() if isinstance(one, LogPartition | QueuePartition)]
    return reader, pickle.loads(pickle.dumps(planned))


def _rows(store: Path, **options: str) -> list[Row]:
    reader, planned = _plan(store, **{"columns": NAMES} | options)
    return [row for partition in planned for batch in reader.read(partition) for row in batch.to_pylist()]


def _offsets(store: Path, **options: str) -> list[int]:
    """The physical offsets read, sorted; none comes twice."""
    found = [row["physicalOffset"] for row in _rows(store, **{"columns": "physicalOffset"} | options)]
    assert len(set(found)) == len(found)
    return sorted(found)


def _fill(store: MessageStore, clock: ManualClock, seed: int, count: int = 400) -> None:
    choice = random.Random(seed)
    for number in range(count):
        clock.advance(choice.choice([0, 1, 50]))
        topic = choice.choices(TOPICS, [10, 3, 1])[0]
        size = choice.choice([0, 10, 500, 3_000, 20_000 if choice.random() < 0.1 else 1])
        store.put_message(
            Message(
                topic,
                choice.randbytes(size),
                tags=choice.choice(["", "a", "b"]),
                keys=f"k{number}" if choice.random() < 0.5 else "",
                properties={"n": str(number)},
                queue_id=choice.randrange(3),
                delay_level=choice.choice([0] * 9 + [1]),
            )
        )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments, closed."""
    path = tmp_path_factory.mktemp("filled") / "store"
    clock = ManualClock()
    with MessageStore.open(path, small_config(), clock=clock, start=False) as store:
        _fill(store, clock, seed=1)
    assert len(list((path / "commitlog").iterdir())) > 3
    return path


def _log_rows(path: Path) -> list[Row]:
    """All records of the log, by the twin."""
    return [row for segment in sorted((path / "commitlog").iterdir()) for row in read_rows(segment)]


def _all_offsets(path: Path, wanted: Callable[[Row], bool] = lambda row: True) -> list[int]:
    return [row["physicalOffset"] for row in _log_rows(path) if wanted(row)]


# -- equal to the store -------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), split=st.integers(1, SEGMENT_BYTES), is_open=st.booleans())
def test_every_row_equals_what_the_store_has(tmp_path: Path, seed: int, split: int, is_open: bool) -> None:
    """By offset and by queue, beside a live writer or closed, whatever the size of a task."""
    path = tmp_path / f"{seed}-{split}-{is_open}"
    clock = ManualClock()
    with MessageStore.open(path, small_config(), clock=clock, start=False) as store:
        _fill(store, clock, seed, count=120)
        if not is_open:
            store.close()
        rows = _rows(path, maxPartitionBytes=str(split))
    with MessageStore.open(path, read_only=True) as store:
        assert sorted(row["physicalOffset"] for row in rows) == _all_offsets(path)
        for row in rows:
            message = store.look_message_by_offset(row["physicalOffset"])
            assert message is not None
            assert (row["topic"], row["queueId"], row["queueOffset"]) == (
                message.topic,
                message.queue_id,
                message.queue_offset,
            )
            assert (row["body"], dict(row["properties"])) == (message.body, dict(message.properties))
            assert (row["storeTimestampMs"], row["storeSize"]) == (
                message.store_timestamp,
                message.store_size,
            )
        for topic in TOPICS:
            expected = [
                (message.queue_id, message.queue_offset, message.body)
                for queue_id in range(3)
                for message in messages_of(store, topic, queue_id)
            ]
            for scan in ("true", "false"):
                found = _rows(path, topic=topic, queueScan=scan, maxPartitionBytes=str(split))
                assert sorted((r["queueId"], r["queueOffset"], r["body"]) for r in found) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_golden_directories_are_read_alike_in_each_way(
    name: str, golden_directory: Callable[[str], Path]
) -> None:
    """Of all versions of RocketMQ, in tasks from one record up, and through the queues."""
    path = golden_directory(name)
    whole = {"decompress": "false", "columns": "physicalOffset"}
    everything = _offsets(path, **whole)
    assert everything == _all_offsets(path)
    for split in ("1", "1k", "10k", "1m"):
        assert _offsets(path, maxPartitionBytes=split, **whole) == everything
    hidden = set(_all_offsets(path, lambda row: row["sysFlag"] & 0xC in (0x4, 0xC)))
    assert hidden
    for topic in ("TopicA", "TopicB"):
        of_topic = _all_offsets(path, lambda row, topic=topic: row["topic"] == topic)  # type: ignore[misc]
        assert _offsets(path, topic=topic, queueScan="false", **whole) == of_topic
        # Half messages and rolled-back ones are in no queue.
        expected = [offset for offset in of_topic if offset not in hidden]
        assert _offsets(path, topic=topic, queueScan="true", **whole) == expected
        assert _offsets(path, topic=topic, **whole) == expected


def test_a_topic_of_a_small_share_is_read_through_its_queues(filled: Path) -> None:
    """And one of a large share, and all of them, through the log."""
    assert {type(one) for one in _plan(filled, topic="audit")[1]} == {QueuePartition}
    assert {type(one) for one in _plan(filled, subscribePattern="aud.*")[1]} == {QueuePartition}
    assert {type(one) for one in _plan(filled, topic="orders")[1]} == {LogPartition}
    assert {type(one) for one in _plan(filled)[1]} == {LogPartition}
    assert _offsets(filled, topic="audit") == _all_offsets(filled, lambda row: row["topic"] == "audit")


def test_what_the_queues_lack_is_read_from_the_log(tmp_path: Path) -> None:
    """Of a writer that was killed before it dispatched, or that is about to."""
    clock = ManualClock()
    with MessageStore.open(tmp_path / "store", small_config(), clock=clock, start=False) as store:
        _fill(store, clock, seed=3, count=200)
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        assert {type(one) for one in _plan(tmp_path / "copy", topic="audit", queueScan="true")[1]} >= {
            LogPartition
        }
        expected = _all_offsets(tmp_path / "copy", lambda row: row["topic"] == "audit")
        assert _offsets(tmp_path / "copy", topic="audit", queueScan="true") == expected


def test_a_deleted_topic_is_read_from_the_log(tmp_path: Path) -> None:
    """Its messages are there until they expire; its queues are not."""
    clock = ManualClock()
    with MessageStore.open(tmp_path, small_config(), clock=clock, start=False) as store:
        _fill(store, clock, seed=4, count=100)
        store.delete_topic("audit")
        store.put_message(Message("audit", b"anew", queue_id=0))
    expected = _all_offsets(tmp_path, lambda row: row["topic"] == "audit")
    assert len(expected) > 1
    assert _offsets(tmp_path, topic="audit") == expected == _offsets(tmp_path, subscribePattern="aud.*")
    both = _all_offsets(tmp_path, lambda row: row["topic"] in ("audit", "payments"))
    assert _offsets(tmp_path, subscribePattern="audit|payments") == both


# -- damage -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_flip_in_any_byte_is_reported(tmp_path: Path) -> None:
    """With file, byte and what was expected; through the queues, too."""
    clock = ManualClock()
    with MessageStore.open(tmp_path / "store", small_config(), clock=clock, start=False) as store:
        put = [
            store.put_message(Message("orders", b"body %d" % n, tags="a", keys="k", queue_id=0))
            for n in range(4)
        ]
    path = tmp_path / "store" / "commitlog" / f"{0:020d}"
    whole = path.read_bytes()
    begin, end = put[1].physical_offset, put[2].physical_offset
    for position in range(begin, end):
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        path.write_bytes(data)
        with pytest.raises(CorruptRecord, match="expected a record with physical offset") as caught:
            _rows(tmp_path / "store")
        assert (caught.value.path, caught.value.position) == (path, begin)
        with pytest.raises(CorruptRecord) as caught:
            _rows(tmp_path / "store", topic="orders", queueScan="true")
        assert (caught.value.path, caught.value.position) == (path, begin)
        others = [one.physical_offset for one in put if one.physical_offset != begin]
        assert _offsets(tmp_path / "store", failOnDataLoss="false") == others
        assert _offsets(tmp_path / "store", mode="DROPMALFORMED", topic="orders", queueScan="true") == others


def test_a_permissive_read_tells_of_damage_in_a_row(tmp_path: Path) -> None:
    """And goes on behind it; the rest of the segment is not lost."""
    log, ends = b"", []
    for n in range(100):
        log += record(len(log), body=b"%d" % n)
        ends.append(len(log))
    path = write_segment(tmp_path, 0, log, 1 << 16)
    data = bytearray(path.read_bytes())
    data[ends[9] + 30] ^= 1  # its physical offset
    data[ends[49] - 10] ^= 1  # a body
    path.write_bytes(data)
    rows = _rows(tmp_path, mode="PERMISSIVE", columns="physicalOffset, body, _corrupt_record")
    told = [row for row in rows if row["_corrupt_record"] is not None]
    assert [row["body"] for row in rows if row["_corrupt_record"] is None] == [
        b"%d" % n for n in range(100) if n not in (10, 49)
    ]
    assert [row["physicalOffset"] for row in told] == [ends[9], ends[48]]
    assert told[0]["_corrupt_record"].startswith(
        f"{path}: {ends[10] - ends[9]} bytes from physical offset {ends[9]} on"
    )
    assert all(row["body"] is None for row in told)


def test_crcs_are_not_checked_on_request(tmp_path: Path) -> None:
    """checkCRC=false serves a body as its bytes are."""
    path = write_segment(tmp_path, 0, record(0, body=b"body") + record(len(record(0, body=b"body"))), 4096)
    data = bytearray(path.read_bytes())
    data[data.index(b"body")] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match="body CRC"):
        _rows(tmp_path)
    assert [row["body"] for row in _rows(tmp_path, checkCRC="false")] == [b"cody", b""]


def test_a_torn_last_record_is_left_out(tmp_path: Path) -> None:
    """Its lengths are whole, and one page of its body was never written."""
    first = record(0, body=b"first")
    torn = bytearray(record(len(first), body=b"x" * 9000))
    torn[4096:8192] = bytes(4096)
    write_segment(tmp_path, 0, first + torn, 1 << 16)
    assert [row["body"] for row in _rows(tmp_path)] == [b"first"]


@pytest.mark.parametrize("split", ["1", "300", "1k", "64k"])
def test_a_body_that_looks_like_records_makes_none(tmp_path: Path, split: str) -> None:
    """At its very place in the log, with right CRCs: each row comes once, or the read says what is wrong."""
    first = record(0, body=b"first")
    header = 88  # up to the body
    inner = b""
    while len(inner) < 2000:
        inner += record(len(first) + header + len(inner), body=b"forged")
    log = first + record(len(first), body=inner)
    log += record(len(log), body=b"last")
    write_segment(tmp_path, 0, log, 1 << 16)
    try:
        bodies = [row["body"] for row in _rows(tmp_path, maxPartitionBytes=split)]
    except ForgedBoundary as error:
        assert split != "64k"
        assert "maxPartitionBytes" in str(error)
    else:
        assert bodies == [b"first", inner, b"last"]


ORDERS = {"topic": "orders", "queueScan": "true"}


def _orders(path: Path, count: int, *, body: bytes = b"body") -> None:
    """One queue of one topic."""
    with MessageStore.open(path, small_config(), clock=ManualClock(), start=False) as store:
        for _ in range(count):
            store.put_message(Message("orders", body, queue_id=0))


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["zeros", "blank", "repeated", "far", "negative"])
@pytest.mark.parametrize("place", [0, 57, 99, 149])
def test_a_damaged_entry_is_reported_and_hides_no_other(tmp_path: Path, entry: str, place: int) -> None:
    """With the file and the byte of the queue; a read of the log does without queues."""
    _orders(tmp_path, 250)
    everything = _all_offsets(tmp_path)
    directory = tmp_path / "consumequeue" / "orders" / "0"
    path = directory / f"{place // 100 * 2000:020d}"
    data = bytearray(path.read_bytes())
    at = place % 100 * 20
    data[at : at + 20] = {
        "zeros": bytes(20),
        "blank": struct.pack(">qiq", 0, 2**31 - 1, 0),
        "repeated": (directory / f"{0:020d}").read_bytes()[:20],
        "far": struct.pack(">qiq", 1 << 60, 100, 0),
        "negative": struct.pack(">qiq", -5, 100, 0),
    }[entry]
    if data == path.read_bytes() or (place == 0 and entry in ("blank", "negative")):
        # The first entry itself; and a first entry of an expired message looks like that.
        return
    path.write_bytes(data)
    assert _offsets(tmp_path, topic="orders", queueScan="false") == everything
    found = _offsets(tmp_path, mode="DROPMALFORMED", **ORDERS)
    if len(found) == len(everything):
        # The damage lies where nothing is taken from the queue.
        return
    assert found == [offset for offset in everything if offset != everything[place]]
    with pytest.raises(CorruptRecord, match="queue offset"):
        _offsets(tmp_path, **ORDERS)
    rows = _rows(tmp_path, mode="PERMISSIVE", columns="_corrupt_record", **ORDERS)
    (told,) = [row["_corrupt_record"] for row in rows if row["_corrupt_record"]]
    assert told.startswith(f"{directory}: expected an entry of queue offset {place}")


@pytest.mark.parametrize("lost", ["1", "1/00000000000000000000", "1/last", "2/damaged"])
def test_queues_that_are_lost_are_not_read(tmp_path: Path, lost: str) -> None:
    """Unless that is asked for, the log is read then; nothing is missed without a word."""
    clock = ManualClock()
    with MessageStore.open(tmp_path, small_config(), clock=clock, start=False) as store:
        for number in range(900):
            store.put_message(Message("orders", b"", queue_id=number % 3))
        store.put_message(Message("big", bytes(60_000), queue_id=0))
        store.put_message(Message("big", bytes(60_000), queue_id=0))
        for _ in range(6):
            store.put_message(Message("big", bytes(60_000), queue_id=0))
    assert {type(one) for one in _plan(tmp_path, topic="orders")[1]} == {QueuePartition}
    directory = tmp_path / "consumequeue" / "orders"
    if lost == "1":
        shutil.rmtree(directory / "1")
    elif lost == "2/damaged":
        sorted((directory / "2").iterdir())[1].unlink()
    elif lost == "1/last":
        max((directory / "1").iterdir()).unlink()
    else:
        (directory / lost).unlink()
    assert _offsets(tmp_path, topic="orders") == _all_offsets(tmp_path, lambda row: row["topic"] == "orders")


def test_entries_that_expire_before_they_are_read_are_a_loss(tmp_path: Path) -> None:
    """With failOnDataLoss=false no other is lost with them."""
    _orders(tmp_path, 300, body=bytes(900))
    reader, planned = _plan(tmp_path, columns="queueOffset", failOnDataLoss="false", **ORDERS)
    strict, _ = _plan(tmp_path, columns="queueOffset", **ORDERS)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    rows = [row for part in planned for batch in reader.read(part) for row in batch.to_pylist()]
    fresh = _rows(tmp_path, columns="queueOffset", **ORDERS)
    assert rows == fresh
    assert 0 < len(rows) < 300
    with pytest.raises((EntriesMissing, SegmentMissing)):
        [list(strict.read(part)) for part in planned]


def test_a_segment_that_goes_during_a_queue_scan_is_a_loss(tmp_path: Path) -> None:
    """Which failOnDataLoss=false accepts."""
    _orders(tmp_path, 500, body=bytes(900))
    reader, planned = _plan(tmp_path, columns="queueOffset", failOnDataLoss="false", **ORDERS)
    batches = [batch for part in planned for batch in _unlinking(reader.read(part), tmp_path)]
    assert 100 < sum(batch.num_rows for batch in batches) < 500


def _unlinking(batches: Iterator[Any], store: Path) -> Iterator[Any]:
    yield next(batches)
    sorted((store / "commitlog").iterdir())[2].unlink()
    yield from batches


@pytest.mark.parametrize("number", [0, 40])
def test_a_header_of_zeros_before_whole_records_is_damage(tmp_path: Path, number: int) -> None:
    """The log does not end there: in the last segment, too, and at its beginning."""
    _orders(tmp_path, 200, body=bytes(900))
    offsets = _all_offsets(tmp_path)
    path = max((tmp_path / "commitlog").iterdir())
    place = [offset for offset in offsets if offset >= int(path.name)][number]
    data = bytearray(path.read_bytes())
    data[place - int(path.name) :][:8] = bytes(8)
    begin = place - int(path.name)
    data[begin : begin + 8] = bytes(8)
    path.write_bytes(data)
    for name in ("consumequeue", "mqstore", "checkpoint"):
        with pytest.raises(CorruptRecord) as caught:
            _offsets(tmp_path)
        assert (caught.value.path, caught.value.position) == (path, begin)
        assert _offsets(tmp_path, failOnDataLoss="false") == [one for one in offsets if one != place]
        target = tmp_path / name
        shutil.rmtree(target) if target.is_dir() else target.unlink()


def test_times_that_do_not_ascend_leave_no_segment_out(tmp_path: Path) -> None:
    """And a time is taken from a whole record alone."""
    start = 0
    for times in ([100, 200, 210], [60, 70, 220], [230]):
        data = b""
        for time in times:
            data += record(start + len(data), store_timestamp=time)
        write_segment(tmp_path, start, data, 512, blank=True)
        start += 512
    rows = _rows(tmp_path, startingTimestamp="150", columns="storeTimestampMs")
    assert [row["storeTimestampMs"] for row in rows] == [200, 210, 220, 230]


def test_a_damaged_time_hides_no_damage(tmp_path: Path) -> None:
    """A segment whose first record is damaged is read, whatever time it says."""
    for number in range(3):
        write_segment(
            tmp_path,
            number * 512,
            record(number * 512, body=b"b", store_timestamp=1000 * number),
            512,
            blank=True,
        )
    path = tmp_path / "commitlog" / f"{512:020d}"
    damaged = bytearray(path.read_bytes())
    damaged[56] = 0x7F  # the time
    damaged[88] ^= 1  # the body
    path.write_bytes(damaged)
    with pytest.raises(CorruptRecord):
        _rows(tmp_path, startingTimestamp="500", endingTimestamp="1500")


@pytest.mark.parametrize("split", ["300", "1k", "64k"])
def test_old_bytes_behind_the_last_record_of_a_segment_make_no_rows(tmp_path: Path, split: str) -> None:
    """As a broker leaves them that truncates without zeroing: no row of theirs, or the read says it."""
    live = b""
    while len(live) < 3000:
        live += record(len(live), body=b"live")
    ghosts = b""
    while len(live) + 8 + len(ghosts) < 15_000:
        ghosts += record(len(live) + 8 + len(ghosts), body=b"ghost")
    blank = struct.pack(">II", 16_384 - len(live), BLANK)
    write_segment(tmp_path, 0, live + blank + ghosts, 16_384)
    write_segment(tmp_path, 16_384, record(16_384, body=b"live"), 16_384)
    try:
        bodies = {row["body"] for row in _rows(tmp_path, maxPartitionBytes=split)}
    except ForgedBoundary:
        assert split != "64k"
    else:
        assert bodies == {b"live"}


def test_a_blank_ends_a_segment_only_if_it_fills_it(tmp_path: Path) -> None:
    """A record whose magic became that of a BLANK is damage."""
    first = record(0, body=b"first")
    data = bytearray(first + record(len(first), body=b"second") + record(2 * len(first) + 1, body=b"third"))
    data[len(first) + 4 : len(first) + 8] = struct.pack(">I", BLANK)
    path = write_segment(tmp_path, 0, bytes(data), 4096)
    with pytest.raises(CorruptRecord) as caught:
        _rows(tmp_path)
    assert (caught.value.path, caught.value.position) == (path, len(first))
    assert [row["body"] for row in _rows(tmp_path, mode="DROPMALFORMED")] == [b"first", b"third"]


# -- plans --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [1, 100, 5_000, 50_000, 200_000])
def test_tasks_are_as_large_as_the_options_say(filled: Path, split: int) -> None:
    """Never much larger, and every record is read."""
    _, planned = _plan(filled, maxPartitionBytes=str(split))
    sizes = [sum(one.size_bytes for one in part.ranges) for part in planned if isinstance(part, LogPartition)]
    assert max(sizes) <= split * 1.25 + 40_000
    assert _offsets(filled, maxPartitionBytes=str(split)) == _all_offsets(filled)


def test_small_segments_share_a_task(filled: Path) -> None:
    """Unless more tasks are wanted."""
    assert len(_plan(filled)[1]) == 1
    assert len(_plan(filled, minPartitions="7")[1]) in range(7, 10)


def test_segments_of_other_times_are_not_read(filled: Path) -> None:
    """And nothing that is wanted is left out."""
    times = sorted(row["storeTimestamp"] for row in _log_rows(filled))
    begin, end = times[len(times) * 6 // 10], times[len(times) * 7 // 10]
    expected = _all_offsets(filled, lambda row: begin <= row["storeTimestamp"] < end)
    options = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    assert _offsets(filled, **options) == expected
    read = [
        one for part in _plan(filled, **options)[1] if isinstance(part, LogPartition) for one in part.ranges
    ]
    assert sum(one.size_bytes for one in read) < 0.7 * _all_offsets(filled)[-1]


def test_a_clock_that_was_set_back_hides_nothing(tmp_path: Path) -> None:
    """Between two segments."""
    for number, time in enumerate([100, 50, 200]):
        write_segment(tmp_path, number * 256, record(number * 256, store_timestamp=time), 256, blank=True)
    assert _offsets(tmp_path, startingTimestamp="60", endingTimestamp="120") == [0]
    assert _offsets(tmp_path, startingTimestamp="40", endingTimestamp="60") == [256]


# -- offsets ------------------------------------------------------------------------------------------


def test_assigned_queues_alone_are_read(filled: Path) -> None:
    """From one offset to another, as JSON says."""
    rows = _rows(filled, assign='{"audit": [0, 2]}')
    assert {(row["topic"], row["queueId"]) for row in rows} == {("audit", 0), ("audit", 2)}
    rows = _rows(
        filled,
        assign='{"orders": [1]}',
        startingOffsets='{"orders": {"1": 3}}',
        endingOffsets='{"orders": {"1": 7}}',
    )
    assert [row["queueOffset"] for row in rows] == [3, 4, 5, 6]
    rows = _rows(
        filled,
        topic="audit",
        startingOffsets='{"audit": {"0": -2, "1": 1, "2": -2}}',
        endingOffsets='{"audit": {"0": 1, "1": -1, "2": 0}}',
    )
    assert {row["queueId"] for row in rows} == {0, 1}
    assert min(row["queueOffset"] for row in rows if row["queueId"] == 1) == 1


def test_offsets_by_time_begin_at_the_first_message_of_that_time(filled: Path) -> None:
    """startingTimestamp counts before them."""
    times = sorted(row["storeTimestamp"] for row in _log_rows(filled) if row["topic"] == "audit")
    middle = times[len(times) // 2]
    by_time = f'{{"audit": {{"0": {middle}, "1": {middle}, "2": {middle}}}}}'
    expected = _all_offsets(filled, lambda row: row["topic"] == "audit" and row["storeTimestamp"] >= middle)
    choice = {"topic": "audit", "startingOffsetsByTimestampStrategy": "latest"}
    assert _offsets(filled, startingOffsetsByTimestamp=by_time, **choice) == expected
    before = _all_offsets(filled, lambda row: row["topic"] == "audit" and row["storeTimestamp"] < middle)
    assert _offsets(filled, endingOffsetsByTimestamp=by_time, **choice) == before
    late = f'{{"audit": {{"0": {middle}, "1": {middle}, "2": {times[-1] + 1}}}}}'
    with pytest.raises(SparkOptionIllegal, match="Strategy to latest"):
        _rows(filled, topic="audit", startingOffsetsByTimestamp=late)
    assert _offsets(
        filled,
        startingTimestamp="0",
        endingTimestamp=str(times[-1] + 1),
        startingOffsetsByTimestamp=late,
        **choice,
    ) == _all_offsets(filled, lambda row: row["topic"] == "audit")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffsets": '{"audit": {"0": 0}}'}, "without audit/1, audit/2"),
        ({"startingOffsets": '{"audit": {"0": 0, "1": 0, "2": 0, "9": 0}}'}, "not read: audit/9"),
        ({"startingOffsets": '{"audit": {"0": 0, "1": 0, "2": 99999}}'}, "which ends at"),
        (
            {
                "startingOffsets": '{"audit": {"0": 2, "1": 0, "2": 0}}',
                "endingOffsets": '{"audit": {"0": 1, "1": 0, "2": 0}}',
            },
            "begin at offset 2 and end at 1",
        ),
    ],
)
def test_offsets_that_do_not_fit_are_refused(filled: Path, options: dict[str, str], says: str) -> None:
    """Nothing is read."""
    with pytest.raises(SparkOptionIllegal, match=says):
        _rows(filled, topic="audit", **options)


def test_assigned_queues_must_exist(filled: Path) -> None:
    """A queue that is not there is no empty one."""
    with pytest.raises(SparkOptionIllegal, match="no queue 7 of topic 'audit'"):
        _rows(filled, assign='{"audit": [0, 7]}')


def test_expired_offsets_are_a_loss(tmp_path: Path) -> None:
    """Which failOnDataLoss=false accepts."""
    clock = ManualClock()
    with MessageStore.open(tmp_path, small_config(), clock=clock, start=False) as store:
        _fill(store, clock, seed=5, count=300)
        (tmp_path / "commitlog" / f"{0:020d}").unlink()
    with MessageStore.open(tmp_path, read_only=True) as store:
        first = store.get_min_offset_in_queue("orders", 0)
    assert first > 0
    options = {"assign": '{"orders": [0]}', "startingOffsets": '{"orders": {"0": 0}}'}
    with pytest.raises(OffsetsMissing, match=f"begins at offset {first}"):
        _rows(tmp_path, **options)
    assert _rows(tmp_path, failOnDataLoss="false", **options)[0]["queueOffset"] == first


@pytest.mark.slow
def test_offsets_reach_into_what_the_queues_lack(tmp_path: Path) -> None:
    """A read may begin and end at messages whose entries are not there yet."""
    clock = ManualClock()
    with MessageStore.open(tmp_path / "store", small_config(), clock=clock, start=False) as store:
        times = []
        for _ in range(20):
            clock.advance(10)
            times.append(clock.now_ms())
            store.put_message(Message("orders", b"", queue_id=0))
        shutil.copytree(tmp_path / "store", tmp_path / "copy")

    def read(**options: str) -> list[int]:
        rows = _rows(tmp_path / "copy", assign='{"orders": [0]}', columns="queueOffset", **options)
        return [row["queueOffset"] for row in rows]

    for end in (0, 5, 10, 19, 20):
        assert read(endingOffsets=f'{{"orders": {{"0": {end}}}}}') == list(range(end))
        if end < 20:
            by_time = f'{{"orders": {{"0": {times[end]}}}}}'
            assert read(endingOffsetsByTimestamp=by_time) == list(range(end))
            assert read(startingOffsetsByTimestamp=by_time) == list(range(end, 20))
            assert read(startingOffsets=f'{{"orders": {{"0": {end}}}}}') == list(range(end, 20))


# -- several stores -----------------------------------------------------------------------------------


def test_several_stores_are_read_as_one(tmp_path: Path) -> None:
    """By list and by glob; the column `store` tells them apart."""
    for name in ("a", "b"):
        write_segment(tmp_path / name, 0, record(0, body=name.encode()), 4096)
    expected = [(str(tmp_path / name), name.encode()) for name in ("a", "b")]
    options = ReadOptions.parse({"paths": f'["{tmp_path}/a", "{tmp_path}/b"]'})
    assert "store" in schema_of(options).names
    for paths in ({"path": f"{tmp_path}/*"}, {"path": f"{tmp_path}/a", "paths": f'["{tmp_path}/b"]'}):
        rows = _rows(tmp_path, columns="store, body", **paths)
        assert [(row["store"], row["body"]) for row in rows] == expected
    (tmp_path / "d").symlink_to(tmp_path / "a")
    assert len(_rows(tmp_path / "*", columns="body")) == 2
    with pytest.raises(StoreNotFound):
        _rows(tmp_path / "c*")
    with pytest.raises(SparkOptionIllegal, match="offsets are those of one store, and 2 are read"):
        _rows(tmp_path / "*", assign='{"orders": [0]}')


def test_sizes_of_bodies_need_no_bodies(filled: Path) -> None:
    """bodySize is that of the stored body."""
    rows = _rows(filled, columns="bodySize, physicalOffset")
    assert {row["physicalOffset"]: row["bodySize"] for row in rows} == {
        row["physicalOffset"]: len(row["body"]) for row in _log_rows(filled)
    }
