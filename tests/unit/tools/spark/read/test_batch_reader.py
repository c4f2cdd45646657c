"""Goal: every column of every record is what its bytes say; a read ends where the log ends, and only there.

Method: segments built by hand, by hypothesis and by RocketMQ, read as Spark's worker reads them (without
Spark), against the plain-Python twin in tests/support/twins/plain_records.py and RocketMQ's manifests.
"""

import pickle
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import lz4.frame
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.errors import CorruptBody, CorruptRecord
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.schema import SCHEMA
from mqstore.tools.spark.segments.segment_files import SegmentFile, SegmentMissing
from mqstore.tools.spark.segments.segment_reader import SegmentScan, read_range
from support.golden.manifest import GOLDEN_NAMES, manifest_rows
from support.golden.zstd import zstd_compress
from support.twins.plain_records import V2, Row, host_bytes, read_rows, record, write_segment

SIZE = 64 * 1024


def _read(reader: MqstoreReader) -> list[Row]:
    rows: list[Row] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            batch.validate(full=True)
            rows += batch.to_pylist()
    return [_plain(row) for row in rows]


def _plain(row: Row) -> Row:
    """With the values that the twin gives: maps as dictionaries, times as epoch ms."""
    if "properties" in row:
        row["properties"] = dict(row["properties"])
    return {name: _epoch_ms(value) if isinstance(value, datetime) else value for name, value in row.items()}


def _epoch_ms(time: datetime) -> int:
    return round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _columns(*names: str) -> StructType:
    return StructType([SCHEMA[name] for name in names])


def _reader(store: Path, *names: str, **options: str) -> MqstoreReader:
    return MqstoreReader(
        _columns(*names or SCHEMA.fieldNames()), ReadOptions.parse({"path": str(store), **options})
    )


def _rows(store: Path, *names: str, **options: str) -> list[Row]:
    return _read(_reader(store, *names, **options))


def _log(*parts: dict[str, object]) -> bytes:
    """Records one behind the other, from physical offset 0."""
    data = b""
    for part in parts:
        data += record(len(data), **part)  # type: ignore[arg-type]
    return data


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_golden_directories_equal_the_twin(name: str, golden_directory: Callable[[str], Path]) -> None:
    """All columns of all 1,995 records that RocketMQ wrote."""
    store = golden_directory(name)
    expected = [row for path in sorted((store / "commitlog").iterdir()) for row in read_rows(path)]
    assert len(expected) == 1995
    assert _rows(store, decompress="false") == expected


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_golden_directories_equal_their_manifests(name: str, golden_directory: Callable[[str], Path]) -> None:
    """What RocketMQ itself said of each single put."""
    rows = {row["physicalOffset"]: row for row in _rows(golden_directory(name), decompress="false")}
    singles = [put for put in manifest_rows(name) if put["kind"] == "single"]
    assert len(singles) > 1800
    for put in singles:
        row = rows[put["phy"]]
        assert (row["queueId"], row["queueOffset"]) == (put["queue"], put["qoff"])
        assert (row["topic"], row["storeSize"], len(row["body"])) == (
            put["topic"],
            put["size"],
            put["body_len"],
        )
        assert (row["sysFlag"], row["flag"]) == (put["sysflag"], put["flag"])
        assert (row["bornTimestamp"], row["storeTimestamp"]) == (put["born"], put["store_ts"])
        assert (row["tags"] or "", row["keys"]) == (put["tags"] or "", put["keys"])


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
HOSTS = st.sampled_from(
    [host_bytes("10.1.2.3", 4), host_bytes("2001:db8::1", 65535), host_bytes("255.0.0.1", 0)]
)
INTS = st.integers(-(2**31), 2**31 - 1)
TIMES = st.integers(0, 4_000_000_000_000)
RECORDS = st.fixed_dictionaries(
    {
        "topic": st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30),
        "body": st.binary(max_size=300),
        "properties": st.one_of(
            st.binary(max_size=0),
            st.lists(
                st.sampled_from(["A", "KEYS", "TAGS", "\x01", "\x02", "\x01\x02", "é"]), max_size=20
            ).map(lambda parts: "".join(parts).encode()),
            st.dictionaries(TEXT, TEXT).map(
                lambda pairs: "".join(f"{k}\x01{v}\x02" for k, v in pairs.items()).encode()
            ),
        ),
        "queue_id": INTS,
        "queue_offset": st.integers(-(2**63), 2**63 - 1),
        "flag": INTS,
        "sys_flag": st.sampled_from([0, 1, 4, 8, 12, 0x101]),
        "born_timestamp": TIMES,
        "store_timestamp": TIMES,
        "born_host": HOSTS,
        "store_host": HOSTS,
        "reconsume_times": INTS,
        "magic": st.sampled_from([0xDAA320A7, V2]),
    }
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(RECORDS, max_size=12))
def test_any_record_equals_the_twin(parts: list[dict[str, object]], tmp_path: Path) -> None:
    """Both versions, both kinds of hosts, any numbers, any properties string."""
    path = write_segment(tmp_path, 0, _log(*parts), SIZE)
    assert _rows(tmp_path, decompress="false") == read_rows(path)


def test_chosen_columns_come_in_the_chosen_order(tmp_path: Path) -> None:
    """A schema prunes, one column alone too."""
    write_segment(tmp_path, 0, _log({"body": b"x", "queue_id": 7}), SIZE)
    for names in [("queueId", "topic"), *((name,) for name in SCHEMA.fieldNames())]:
        (row,) = _rows(tmp_path, *names)
        assert tuple(row) == names


def test_of_equal_properties_the_last_counts(tmp_path: Path) -> None:
    """As in RocketMQ; what is no pair is dropped."""
    stored = b"A\x01x\x02TAGS\x01old\x02A\x01y\x01z\x02\x01q\x02TAGS\x01new\x02B\x02C\x01"
    write_segment(tmp_path, 0, _log({"properties": stored}), SIZE)
    assert _rows(tmp_path, "tags", "keys", "properties") == [
        {"tags": "new", "keys": None, "properties": {"A": "y\x01z", "TAGS": "new"}}
    ]


@pytest.mark.parametrize("chunk_bytes", [91, 100, 128, 1000, 4096])
def test_records_on_the_border_of_a_piece_are_whole(tmp_path: Path, chunk_bytes: int) -> None:
    """Wherever a piece ends, and when a record is larger than a piece."""
    bodies = [bytes([n]) * (n * 37 % 900) for n in range(100)]
    path = write_segment(tmp_path, 0, _log(*({"body": body} for body in bodies)), SIZE, blank=True)
    pieces = read_range(SegmentFile(str(path), 0, SIZE), 0, SIZE, chunk_bytes=chunk_bytes)
    sizes = [size for piece in pieces for size in piece.layout[1].tolist()]
    assert sizes == [91 + len("orders") + len(body) for body in bodies]


@pytest.mark.parametrize("claimed_size", [5_000, 60_000])
def test_a_size_that_lies_gets_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claimed_size: int
) -> None:
    """A flipped bit may claim a gigabyte; what is before it is read, and the damage has its place."""
    log = bytearray(_log({"body": b"a"}, {"body": b"b" * 100}, {"body": b"c"}))
    second = len(_log({"body": b"a"}))
    log[second : second + 4] = claimed_size.to_bytes(4, "big")
    path = write_segment(tmp_path, 0, bytes(log), SIZE)
    allocated: list[int] = []
    allocate = SegmentScan._allocate

    def note(scan: SegmentScan, size_bytes: int) -> None:
        allocated.append(size_bytes)
        allocate(scan, size_bytes)

    monkeypatch.setattr(SegmentScan, "_allocate", note)
    pieces = read_range(SegmentFile(str(path), 0, SIZE), 0, SIZE, chunk_bytes=1_000)
    assert next(pieces).layout[1].tolist() == [second]
    with pytest.raises(CorruptRecord) as caught:
        next(pieces)
    assert (caught.value.position, allocated) == (second, [1_000])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": "a"}, [0, 3]),
        ({"subscribe": "b,c"}, [1, 2]),
        ({"topic": "nowhere"}, []),
        ({"subscribePattern": "[ab]"}, [0, 1, 3]),
        ({"startingTimestamp": "20"}, [1, 2, 3]),
        ({"startingTimestamp": "20", "endingTimestamp": "40"}, [1, 2]),
        ({"topic": "a", "endingTimestamp": "40"}, [0]),
    ],
)
def test_options_select_records(tmp_path: Path, options: dict[str, str], expected: list[int]) -> None:
    """By topic, by pattern, and by store time from the first, inclusive, to the second, exclusive."""
    records = [
        {"topic": topic, "store_timestamp": 10 * n + 10, "queue_id": n} for n, topic in enumerate("abca")
    ]
    write_segment(tmp_path, 0, _log(*records), SIZE)
    assert [row["queueId"] for row in _rows(tmp_path, "queueId", **options)] == expected


def test_an_empty_store_reads_as_nothing(tmp_path: Path) -> None:
    """Spark turns an empty list of partitions into one without value."""
    (tmp_path / "commitlog").mkdir()
    reader = MqstoreReader(SCHEMA, ReadOptions.parse({"path": str(tmp_path)}))
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_a_record_is_seen_when_its_first_eight_bytes_are(tmp_path: Path) -> None:
    """Until then the log ends before it, whatever stands behind them."""
    whole = _log({"body": b"1"}, {"body": b"2"})
    first = len(whole) // 2
    path = write_segment(tmp_path, 0, whole[:first] + bytes(8) + whole[first + 8 :], SIZE)
    assert [row["body"] for row in _rows(tmp_path, "body")] == [b"1"]
    path.write_bytes(whole.ljust(SIZE, b"\0"))
    assert [row["body"] for row in _rows(tmp_path, "body")] == [b"1", b"2"]


@pytest.mark.parametrize("keep", [8, 40, 60, 90])
def test_a_torn_tail_ends_the_log(tmp_path: Path, keep: int) -> None:
    """A last record of which only the beginning was written is not read, and is no error."""
    whole = _log({"body": b"1"}, {"body": b"2" * 50})
    first = len(_log({"body": b"1"}))
    write_segment(tmp_path, 0, whole[: first + keep], SIZE)
    assert [row["body"] for row in _rows(tmp_path, "body")] == [b"1"]


def test_a_record_at_another_offset_than_its_own_ends_the_log(tmp_path: Path) -> None:
    """Such bytes are left over from an older use of the file."""
    write_segment(tmp_path, 0, _log({"body": b"1"}) + record(9999), SIZE)
    assert [row["body"] for row in _rows(tmp_path, "body")] == [b"1"]


POSITIONS = {"size": 3, "magic": 5, "physical offset": 35, "body length": 87, "topic length": 89}


@pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS.keys())
def test_damage_in_the_last_segment_is_an_error_where_records_follow(tmp_path: Path, position: int) -> None:
    """It names the file and the byte; with failOnDataLoss=false the read goes on behind it."""
    data = bytearray(_log({"body": b"1"}, {"body": b"2"}, {"body": b"3"}))
    second = len(data) // 3
    data[second + position] ^= 0x55
    path = write_segment(tmp_path, 0, bytes(data), SIZE)
    with pytest.raises(CorruptRecord, match=f"{path} is damaged at byte {second}") as caught:
        _rows(tmp_path)
    assert caught.value.position == second
    assert "failOnDataLoss" in caught.value.__notes__[0]
    assert [row["body"] for row in _rows(tmp_path, "body", failOnDataLoss="false")] == [b"1", b"3"]


@pytest.mark.parametrize("ending", [b"", b"garbage", record(0)], ids=["zeros", "garbage", "foreign record"])
def test_a_segment_before_the_last_must_be_whole(tmp_path: Path, ending: bytes) -> None:
    """It ends in a BLANK or at the end of the file; else it was damaged, as the log goes on behind it."""
    head = _log({"body": b"1"})
    path = write_segment(tmp_path, 0, head + ending, 256)
    write_segment(tmp_path, 256, record(256, body=b"2"), 256, blank=True)
    with pytest.raises(CorruptRecord, match=f"{path} is damaged at byte {len(head)}"):
        _rows(tmp_path)
    assert [row["body"] for row in _rows(tmp_path, "body", failOnDataLoss="false")] == [b"1", b"2"]


def test_a_segment_may_be_full_to_the_last_byte(tmp_path: Path) -> None:
    """Then there is no BLANK."""
    body = bytes(256 - 91 - len("orders"))
    write_segment(tmp_path, 0, record(0, body=body), 256)
    write_segment(tmp_path, 256, record(256), 256, blank=True)
    assert len(_rows(tmp_path)) == 2


def test_a_segment_deleted_since_the_plan_is_an_error(tmp_path: Path) -> None:
    """Retention may take it away while a long query runs."""
    path = write_segment(tmp_path, 0, record(0), 256)
    for fails in ("true", "false"):
        reader = _reader(tmp_path, failOnDataLoss=fails)
        (partition,) = reader.partitions()
        data = path.read_bytes()
        path.unlink()
        if fails == "true":
            with pytest.raises(SegmentMissing):
                list(reader.read(partition))
        else:
            assert list(reader.read(partition)) == []
        path.write_bytes(data)


def test_a_read_is_of_one_state(tmp_path: Path) -> None:
    """What the writer adds after the plan is not read, by any action and any attempt of a task."""
    data = _log({"body": b"1"}, {"body": b"2"}, {"body": b"3"})
    first = len(data) // 3
    path = write_segment(tmp_path, 0, data[:first], SIZE)
    reader = _reader(tmp_path)
    (partition,) = reader.partitions()
    path.write_bytes(data.ljust(SIZE, b"\0"))
    for _ in range(2):
        assert [batch.num_rows for batch in reader.read(pickle.loads(pickle.dumps(partition)))] == [1]
    assert len(_rows(tmp_path)) == 3


def test_small_batches_come_together(tmp_path: Path) -> None:
    """The batches grow as the read goes on; the first rows wait for no others."""
    count = 18_000
    with MessageStore.open(tmp_path, StoreConfig(mapped_file_size_commit_log=128 << 20)) as store:
        store.topics.create("orders", 1)
        for _ in range(count):
            store.put_message(Message("orders", bytes(4000)))

    def row_counts(*names: str) -> list[int]:
        reader = _reader(tmp_path, *names, maxPartitionBytes="1g")
        (partition,) = reader.partitions()
        return [batch.num_rows for batch in reader.read(partition)]

    whole, narrow = row_counts("body"), row_counts("queueOffset")
    assert sum(whole) == sum(narrow) == count
    assert len(whole) > 15
    assert len(narrow) <= 6
    assert narrow[0] == whole[0]
    assert narrow[0] < narrow[1] < narrow[2]
    found = [row["queueOffset"] for row in _read(_reader(tmp_path, "queueOffset"))]
    assert found == list(range(count))


def test_times_that_spark_cannot_hold_are_its_limits(tmp_path: Path) -> None:
    """A born timestamp is whatever the producer sent; it must not wrap around."""
    write_segment(tmp_path, 0, _log({"born_timestamp": 2**63 - 1}, {"born_timestamp": -(2**63)}), SIZE)
    reader = MqstoreReader(_columns("bornTimestamp"), ReadOptions.parse({"path": str(tmp_path)}))
    (batch,) = reader.read(reader.partitions()[0])
    high, low = batch.column(0).cast("int64").to_pylist()
    assert (high, low) == (253_402_214_399_999_000, -62_135_510_400_000_000)
    assert [time.year for time in batch.column(0).to_pylist()] == [9999, 1]


def _write_compressed(store: Path) -> None:
    """Bodies as sent, compressed, and one that only says so."""
    write_segment(
        store,
        0,
        _log(
            {"body": b"plain"},
            {"body": zlib.compress(b"zlib"), "sys_flag": 0x1},
            {"body": lz4.frame.compress(b"lz4"), "sys_flag": 0x101},
            {"body": zstd_compress(b"zstd"), "sys_flag": 0x201},
            {"body": b"no frame", "sys_flag": 0x101, "topic": "broken"},
        ),
        SIZE,
    )


def test_compressed_bodies_are_read_as_they_were_sent(tmp_path: Path) -> None:
    """And the sys flag says so. What is not selected is not decompressed."""
    _write_compressed(tmp_path)
    rows = _rows(tmp_path, "body", "sysFlag", topic="orders")
    assert [tuple(row.values()) for row in rows] == [
        (b"plain", 0),
        (b"zlib", 0),
        (b"lz4", 0x100),
        (b"zstd", 0x200),
    ]


def test_bodies_as_stored_are_read_on_request(tmp_path: Path) -> None:
    """Option decompress=false."""
    _write_compressed(tmp_path)
    expected = [(row["body"], row["sysFlag"]) for row in read_rows(tmp_path / "commitlog" / f"{0:020d}")]
    rows = _rows(tmp_path, "body", "sysFlag", decompress="false")
    assert [tuple(row.values()) for row in rows] == expected


def test_a_body_that_cannot_be_decompressed_is_told(tmp_path: Path) -> None:
    """With what to do about it; failOnDataLoss=false reads it as stored, and the sys flag tells it apart."""
    _write_compressed(tmp_path)
    with pytest.raises(CorruptBody) as caught:
        _rows(tmp_path, "body")
    assert "decompress to false" in caught.value.__notes__[0]
    assert len(_rows(tmp_path, "queueId")) == 5
    rows = _rows(tmp_path, "body", "sysFlag", failOnDataLoss="false")
    assert tuple(rows[-1].values()) == (b"no frame", 0x101)
    assert [row["body"] for row in rows[:-1]] == [b"plain", b"zlib", b"lz4", b"zstd"]
