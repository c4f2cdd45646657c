"""Goal: a stream reads each message once, in batches as large as was said, wherever it began and stopped.

Method: the reader is driven as Spark's engine drives it (offsets through JSON, partitions pickled, the log of
offsets written before a batch is read), over stores that mqstore wrote with small segments; rows are compared
with the log by the twin. No Spark is started.
"""

import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from mqstore import Message, MessageStore
from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal
from mqstore.tools.spark.read.offset_bounds import OffsetsMissing
from mqstore.tools.spark.read.partitions import QueuePartition
from mqstore.tools.spark.schema import schema_of
from mqstore.tools.spark.stream.store_identity import OtherStore
from mqstore.tools.spark.stream.stream_log import LogCutBack, OffsetExpired
from mqstore.tools.spark.stream.stream_offset import StreamOffset, StreamOffsetIllegal
from mqstore.tools.spark.stream.stream_reader import MqstoreStreamReader
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.twins.plain_records import read_rows

Row = dict[str, Any]
EARLIEST = {"startingOffsets": "earliest"}
TOPICS = ["orders", "payments", "audit"]


class Query:
    """What Spark's engine does with a reader. `offsets` is its log of offsets, which outlives a restart."""

    def __init__(self, store: Path, clock: ManualClock | None = None, **options: str) -> None:
        self.store, self.clock, self.options = store, clock or ManualClock(), options
        self.offsets: list[dict[str, Any]] = []
        self.rows: list[Row] = []
        self.restart()

    def restart(self, **options: str) -> None:
        """As a new process, with the offsets of the old one, and perhaps with other options."""
        self.options |= options
        parsed = ReadOptions.parse(
            {"path": str(self.store), "columns": "physicalOffset, topic"} | self.options
        )
        self.reader = MqstoreStreamReader(schema_of(parsed), parsed.for_stream(), self.clock)
        if not self.offsets:
            self.offsets.append(_json(self.reader.initialOffset()))

    def plan(self) -> bool:
        """Write the end of the next batch into the log of offsets; whether there is a batch."""
        limit = self.reader.getDefaultReadLimit()
        latest = _json(self.reader.latestOffset(self.offsets[-1], limit))
        if latest == self.offsets[-1]:
            return False
        self.offsets.append(latest)
        return True

    def read(self) -> list[Row]:
        """The rows of the batch that was planned last."""
        planned = self.reader.partitions(self.offsets[-2], self.offsets[-1])
        reader = pickle.loads(pickle.dumps(self.reader))
        parts = pickle.loads(pickle.dumps(planned))
        return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

    def run(self) -> list[list[int]]:
        """Batches until nothing is left: the physical offsets of each."""
        batches = []
        while self.plan():
            rows = self.read()
            self.rows += rows
            batches.append(sorted(row["physicalOffset"] for row in rows))
        return batches


def _json(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def _fill(store: MessageStore, clock: ManualClock, seed: int, count: int) -> None:
    choice = random.Random(seed)
    for number in range(count):
        clock.advance(1)
        topic = choice.choices(TOPICS, [20, 3, 1])[0]
        size = choice.choice([0, 10, 500, 3_000, 20_000 if choice.random() < 0.1 else 1])
        queue_id = choice.randrange(3)
        store.put_message(Message(topic, choice.randbytes(size), keys=f"k{number}", queue_id=queue_id))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several segments, closed."""
    path = tmp_path_factory.mktemp("filled") / "store"
    clock = ManualClock()
    with MessageStore.open(path, small_config(), clock=clock, start=False) as store:
        _fill(store, clock, 1, 300)
    assert len(list((path / "commitlog").iterdir())) > 3
    return path


def _log_rows(path: Path) -> list[Row]:
    return [row for segment in sorted((path / "commitlog").iterdir()) for row in read_rows(segment)]


def _log_offsets(path: Path, wanted: Callable[[Row], bool] = lambda row: True) -> list[int]:
    return [row["physicalOffset"] for row in _log_rows(path) if wanted(row)]


def _sum(batches: list[list[int]]) -> list[int]:
    return [one for batch in batches for one in batch]


def _end(path: Path, batch: list[int]) -> int:
    """Physical offset behind the last record of a batch; what fills up its segment does not count."""
    sizes = {row["physicalOffset"]: row["storeSize"] for row in _log_rows(path)}
    return max((one + int(sizes[one]) for one in batch), default=0)


# -- each message once ------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), limit=st.integers(1, 3 * SEGMENT_BYTES))
def test_beside_a_writer_with_crashes_each_message_comes_once(tmp_path: Path, seed: int, limit: int) -> None:
    """A batch that was planned before a crash has the same rows after it, whatever was put meanwhile."""
    path, clock, choice = tmp_path / f"{seed}-{limit}", ManualClock(), random.Random(seed)
    with MessageStore.open(path, small_config(), clock=clock, start=False) as store:
        query = Query(path, maxBytesPerTrigger=str(limit), **EARLIEST)
        seen: list[int] = []
        for step in range(8):
            _fill(store, clock, seed + step, 15)
            if not query.plan():
                continue
            lost = query.read() if choice.random() < 0.5 else None
            if lost is not None or choice.random() < 0.5:
                _fill(store, clock, seed - step, 3)
                query.restart()
            rows = query.read()
            assert lost is None or rows == lost
            seen += [row["physicalOffset"] for row in rows]
        query.restart()
        seen += _sum(query.run())
        assert seen == _log_offsets(path)


def test_a_topic_of_a_small_share_is_read_through_its_queues(tmp_path: Path) -> None:
    """By the same plan as in a batch read, between the two offsets alone."""
    with MessageStore.open(tmp_path, small_config(), start=False) as store:
        for number in range(300):
            store.put_message(Message("audit" if number % 15 == 0 else "orders", bytes(2_000)))
    query = Query(tmp_path, topic="audit", maxBytesPerTrigger="200k", **EARLIEST)
    kinds = set()
    batches = []
    while query.plan():
        kinds |= {type(one) for one in query.reader.partitions(*query.offsets[-2:])}
        batches.append([row["physicalOffset"] for row in query.read()])
    assert QueuePartition in kinds
    assert _sum(batches) == _log_offsets(tmp_path, lambda row: row["topic"] == "audit")
    assert len(batches) > 2


def test_new_topics_appear_by_themselves(tmp_path: Path) -> None:
    """Those that a pattern wants."""
    with MessageStore.open(tmp_path, small_config(), start=False) as store:
        store.put_message(Message("a-1", b""))
        query = Query(tmp_path, subscribePattern="a-.*", **EARLIEST)
        assert len(_sum(query.run())) == 1
        store.put_message(Message("b-1", b""))
        store.put_message(Message("a-2", b""))
        assert [row["topic"] for row in (query.run(), query.rows)[1]] == ["a-1", "a-2"]


# -- where it begins --------------------------------------------------------------------------------------


def test_without_a_beginning_a_stream_has_what_comes(tmp_path: Path) -> None:
    """As Kafka's source; `latest` says the same. An empty store is no error."""
    with MessageStore.open(tmp_path, small_config(), start=False) as store:
        empty = Query(tmp_path)
        put = store.put_message(Message("a", b""))
        queries = [Query(tmp_path), Query(tmp_path, startingOffsets="latest")]
        later = store.put_message(Message("a", b"")).physical_offset
        assert [query.run() for query in queries] == [[[later]], [[later]]]
        assert _sum(empty.run()) == [put.physical_offset, later]


def test_a_time_begins_at_its_first_message(filled: Path) -> None:
    """No earlier message comes, and the bytes before it are not read in empty batches."""
    times = [row["storeTimestamp"] for row in _log_rows(filled)]
    since = times[200]
    query = Query(filled, startingTimestamp=str(since), maxOffsetsPerTrigger="1000")
    assert query.run() == [_log_offsets(filled, lambda row: row["storeTimestamp"] >= since)]
    assert Query(filled, startingTimestamp=str(times[-1] + 1)).run() == []


def _numbers(path: Path, text: Callable[[int, int], int]) -> str:
    """JSON of a number for each queue, made of its id and its length."""
    lengths: dict[str, dict[str, int]] = {}
    for row in _log_rows(path):
        of_topic = lengths.setdefault(row["topic"], {})
        of_topic[str(row["queueId"])] = of_topic.get(str(row["queueId"]), 0) + 1
    return json.dumps(
        {
            topic: {one: text(int(one), count) for one, count in queues.items()}
            for topic, queues in lengths.items()
        }
    )


@pytest.mark.parametrize("limit", ["30k", "10m"])
def test_each_queue_begins_where_it_is_told(filled: Path, limit: str) -> None:
    """At an offset, its first message (-2), or its end (-1); and the beginning is passed at today's end."""
    begins = _numbers(filled, lambda queue_id, count: [count // 2, -2, -1][queue_id])
    query = Query(filled, startingOffsets=begins, maxBytesPerTrigger=limit)
    lengths = json.loads(_numbers(filled, lambda _, count: count))

    def is_wanted(row: Row) -> bool:
        count = lengths[row["topic"]][str(row["queueId"])]
        return bool(row["queueOffset"] >= [count // 2, 0, count][row["queueId"]])

    assert _sum(query.run()) == _log_offsets(filled, is_wanted)
    assert "begin" in query.offsets[0]
    assert set(query.offsets[-1]) == {"phy", "store"}


def test_beginnings_by_time_and_what_comes_behind_them(tmp_path: Path) -> None:
    """New queues are read whole, and a restart with other options does not begin anew."""
    clock = ManualClock()
    with MessageStore.open(tmp_path, small_config(), clock=clock, start=False) as store:
        for _ in range(10):
            clock.advance(1_000)
            store.put_message(Message("a", b"", queue_id=0))
        half = clock.now_ms() - 4_000
        query = Query(tmp_path, topic="a", startingOffsetsByTimestamp=f'{{"a": {{"0": {half}}}}}')
        assert len(_sum(query.run())) == 5
        store.put_message(Message("a", b"", queue_id=3))
        query.restart(startingOffsetsByTimestamp=f'{{"a": {{"0": {half - 4_000}}}}}')
        assert len(_sum(query.run())) == 1


def test_assigned_queues_alone(filled: Path) -> None:
    """Whatever the beginning."""
    wanted = _log_offsets(filled, lambda row: row["topic"] == "orders" and row["queueId"] in (0, 2))
    assert _sum(Query(filled, assign='{"orders": [0, 2]}', **EARLIEST).run()) == wanted
    begins = '{"orders": {"0": -2, "2": -2}}'
    assert _sum(Query(filled, assign='{"orders": [0, 2]}', startingOffsets=begins).run()) == wanted


def test_beginnings_that_do_not_fit_are_refused(filled: Path) -> None:
    """As in a batch read."""
    with pytest.raises(SparkOptionIllegal, match="exactly the queues"):
        Query(filled, topic="orders", startingOffsets='{"orders": {"0": 1}}')
    with pytest.raises(SparkOptionIllegal, match="ends at"):
        Query(filled, assign='{"orders": [0]}', startingOffsets='{"orders": {"0": 100000}}')


# -- how much a batch has ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_batch_has_no_more_bytes_than_the_limit(filled: Path) -> None:
    """But one record at least; and it is not much smaller either."""
    for limit in (5_000, 50_000, 3 * SEGMENT_BYTES):
        query = Query(filled, maxBytesPerTrigger=str(limit), **EARLIEST)
        assert isinstance(query.reader.getDefaultReadLimit(), ReadMaxBytes)
        batches = query.run()
        assert _sum(batches) == _log_offsets(filled)
        places = [offset["phy"] for offset in query.offsets]
        for begin, batch in zip(places, batches, strict=False):
            assert _end(filled, batch) - begin <= limit or len(batch) <= 1
        if limit >= 50_000:
            assert len(batches) <= 2 * (places[-1] // limit + 1)


def test_a_batch_has_as_many_wanted_messages_as_the_limit(filled: Path) -> None:
    """All but the last have exactly so many, of the topic that was asked for."""
    wanted = _log_offsets(filled, lambda row: row["topic"] == "payments")
    query = Query(filled, topic="payments", maxOffsetsPerTrigger="7", **EARLIEST)
    assert isinstance(query.reader.getDefaultReadLimit(), ReadMaxRows)
    batches = query.run()
    assert _sum(batches) == wanted
    assert {len(batch) for batch in batches[:-1]} == {7}


@pytest.mark.slow
def test_of_two_limits_the_nearer_one_counts(filled: Path) -> None:
    """Spark hands over one; the options say both."""
    query = Query(filled, maxOffsetsPerTrigger="9", maxBytesPerTrigger="10k", **EARLIEST)
    batches = query.run()
    assert _sum(batches) == _log_offsets(filled)
    assert max(map(len, batches)) == 9
    places = [offset["phy"] for offset in query.offsets]
    spans = [_end(filled, batch) - begin for begin, batch in zip(places, batches, strict=False)]
    assert all(span <= 10 << 10 or len(batch) == 1 for span, batch in zip(spans, batches, strict=True))
    assert any(len(batch) < 9 for batch in batches[:-1])


def test_a_trigger_without_limits_gets_all(filled: Path) -> None:
    """Trigger.Once asks for everything, whatever the options say."""
    query = Query(filled, maxBytesPerTrigger="1k", **EARLIEST)
    latest = query.reader.latestOffset(query.offsets[0], ReadAllAvailable())
    assert latest["phy"] == Query(filled).offsets[0]["phy"]


def test_few_messages_wait_for_more_but_not_for_ever(tmp_path: Path) -> None:
    """The first batch does not wait; later ones until there are enough, or the time is up."""
    with MessageStore.open(tmp_path, small_config(), start=False) as store:
        query = Query(tmp_path, minOffsetsPerTrigger="3", maxTriggerDelay="10s", **EARLIEST)
        assert isinstance(query.reader.getDefaultReadLimit(), ReadMinRows)
        sizes = []
        for _ in range(4):
            store.put_message(Message("a", b""))
            sizes.append([len(batch) for batch in query.run()])
        assert sizes == [[1], [], [], [3]]
        store.put_message(Message("a", b""))
        query.clock.advance(9_999)
        assert query.run() == []
        query.clock.advance(1)
        assert [len(batch) for batch in query.run()] == [1]


def test_available_now_ends_where_the_log_ended(tmp_path: Path) -> None:
    """In batches of the limit, waiting for nothing; the next run has the rest."""
    with MessageStore.open(tmp_path, small_config(), start=False) as store:
        for _ in range(5):
            store.put_message(Message("a", b""))
        query = Query(tmp_path, maxOffsetsPerTrigger="2", minOffsetsPerTrigger="2", **EARLIEST)
        query.reader.prepareForTriggerAvailableNow()
        store.put_message(Message("a", b""))
        assert [len(batch) for batch in query.run()] == [2, 2, 1]
        query.restart()
        query.reader.prepareForTriggerAvailableNow()
        assert [len(batch) for batch in query.run()] == [1]


def test_the_backlog_is_reported(filled: Path) -> None:
    """How many bytes of the log lie behind the next batch."""
    query = Query(filled, maxBytesPerTrigger="50k", **EARLIEST)
    assert query.reader.reportLatestOffset() is None
    end = Query(filled).offsets[0]["phy"]
    while query.plan():
        report = query.reader.reportLatestOffset()
        assert report is not None
        assert (report["phy"], report["backlogBytes"]) == (end, end - query.offsets[-1]["phy"])
    assert query.offsets[-1]["phy"] == end


# -- what does not fit ------------------------------------------------------------------------------------


def _expire(path: Path, count: int = 2) -> list[int]:
    """Delete the first segments, as retention does; what the log has then."""
    for segment in sorted((path / "commitlog").iterdir())[:count]:
        segment.unlink()
    return _log_offsets(path)


@pytest.mark.slow
def test_what_retention_has_deleted_unread_is_a_loss(filled: Path, tmp_path: Path) -> None:
    """Told with both offsets; failOnDataLoss=false goes on with what is there."""
    path = tmp_path / "copy"
    shutil.copytree(filled, path)
    query = Query(path, maxBytesPerTrigger="10k", **EARLIEST)
    query.plan()
    read = [row["physicalOffset"] for row in query.read()]
    query.plan()
    left = _expire(path)
    for again in (query.plan, query.read):
        with pytest.raises(OffsetExpired, match="failOnDataLoss to false") as caught:
            again()
        assert caught.value.min_offset == 2 * SEGMENT_BYTES
    query.restart(failOnDataLoss="false")
    assert query.read() == []
    assert _sum(query.run()) == left
    assert not set(read) & set(left)


def test_a_beginning_that_expired_is_refused(filled: Path, tmp_path: Path) -> None:
    """As in a batch read."""
    path = tmp_path / "copy"
    shutil.copytree(filled, path)
    begins = _numbers(path, lambda _, count: 0)
    _expire(path)
    with pytest.raises(OffsetsMissing):
        Query(path, startingOffsets=begins)


@pytest.mark.slow
def test_the_checkpoint_of_another_store_is_refused(filled: Path, tmp_path: Path) -> None:
    """And that of a directory that was made anew under the same path."""
    path = tmp_path / "store"
    for _ in range(2):
        with MessageStore.open(path, small_config(), start=False) as store:
            _fill(store, ManualClock(), 5, 300)
        if path.with_name("query").exists():
            break
        query = Query(path, **EARLIEST)
        query.run()
        path.with_name("query").touch()
        shutil.rmtree(path)
    for store_path in (path, filled):
        query.store = store_path
        query.restart()
        with pytest.raises(OtherStore, match="a new checkpoint"):
            query.plan()
        with pytest.raises(OtherStore):
            query.reader.partitions(query.offsets[0], query.offsets[1])


def test_a_log_that_lost_its_end_is_told(filled: Path, tmp_path: Path) -> None:
    """By a restart, before anything is read or skipped."""
    path = tmp_path / "copy"
    shutil.copytree(filled, path)
    query = Query(path, **EARLIEST)
    query.plan()
    last = max((one for one in (path / "commitlog").iterdir() if read_rows(one)), key=lambda one: one.name)
    last.write_bytes(bytes(last.stat().st_size))
    query.restart()
    with pytest.raises(LogCutBack, match="new checkpoint"):
        query.plan()
    with pytest.raises(LogCutBack):
        query.read()


@pytest.mark.parametrize("given", [{}, {"phy": "0", "store": "x"}, {"phy": -1, "store": "x"}, {"phy": 0}])
def test_what_is_no_offset_is_refused(filled: Path, given: dict[str, Any]) -> None:
    """As of the checkpoint of another source."""
    with pytest.raises(StreamOffsetIllegal):
        Query(filled).reader.latestOffset(given, ReadAllAvailable())


def test_offsets_survive_a_checkpoint() -> None:
    """All that can be in one."""
    offset = StreamOffset(phy=5, store="s", since_ms=7, begins=(("a", ((0, 3), (10, 4))),), until=9)
    assert StreamOffset.parse(_json(offset.as_json())) == offset
    assert offset.moved_to(9, "s") == StreamOffset(phy=9, store="s", since_ms=7)
