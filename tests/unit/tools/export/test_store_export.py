"""Exports: every row says what the message says, in each format; and what goes wrong leaves nothing behind.

Method: random messages in a store, exported to a stream or a file and read again, JSON and CSV by the
standard library, then compared with the messages that a consumer pulls.
"""

import base64
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore import Message, MessageStore, StoredMessage
from mqstore.errors import ConfigIllegal, CorruptRecord, StoreClosed, TopicNotSupported
from mqstore.index.arrow.record_columns import SCHEMA
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.record.host import Host
from mqstore.tools.export import ExportRefused, TopicUnknown, export
from support.golden.zstd import zstd_compress
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore, messages_of

FORMATS = ("parquet", "jsonl", "csv")
COMPRESSORS = {0x1: zlib.compress, 0x101: lz4.frame.compress, 0x201: zstd_compress, 0x301: zlib.compress}
text = st.text(st.characters(exclude_characters="\x00\x01\x02 |", exclude_categories=["Cs"]), min_size=1)
bodies = st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
messages = st.fixed_dictionaries(
    {"body": bodies, "topic": st.sampled_from(["a", "b"]), "queue_id": st.integers(0, 2)},
    optional={
        "tags": text,
        "keys": st.lists(text, max_size=2).map(tuple),
        "properties": st.dictionaries(text.map("user-{}".format), text, max_size=3),
        "flag": st.integers(-(2**31), 2**31 - 1),
        "sys_flag": st.sampled_from([0, *COMPRESSORS]),
        "born_timestamp": st.integers(0, 2**62) | st.integers(0, 2**48),
        "born_host": st.sampled_from([Host.parse("10.0.0.1:7"), Host.parse("[2001:db8::1]:7")]),
    },
)
Rows = list[dict[str, Any]]


def put_all(store: MessageStore, puts: list[dict[str, Any]]) -> None:
    for fields in puts:
        compress = COMPRESSORS.get(fields.get("sys_flag", 0), bytes)
        store.put_message(Message(**fields | {"body": compress(fields["body"])}))


def pulled(store: MessageStore, *topics: str) -> list[StoredMessage]:
    """All messages in the order of an export."""
    return [
        message
        for topic in topics
        for queue_id in range(4)
        for message in messages_of(store, topic, queue_id)
    ]


def row_of(message: StoredMessage) -> dict[str, Any]:
    """What a row should say, times as epoch ms."""
    row = {name: getattr(message, name) for name in SCHEMA.names}
    row |= {name: str(row[name]) for name in ("born_host", "store_host")}
    return row | {"keys": message.properties.get("KEYS"), "properties": dict(message.properties)}


def rows_in(written: bytes, file_format: str) -> Rows:
    """The rows of a file, as `row_of` gives them."""
    if file_format == "parquet":
        table = pyarrow.parquet.read_table(io.BytesIO(written))
        for name in {"born_timestamp", "store_timestamp"} & set(table.schema.names):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table[name].cast(pa.int64()))
        return [
            row | {"properties": dict(row["properties"])} if "properties" in row else row
            for row in table.to_pylist()
        ]
    read = _rows_of_jsonl if file_format == "jsonl" else _rows_of_csv
    return [_with_values(row) for row in read(written.decode())]


def _rows_of_jsonl(written: str) -> Iterator[dict[str, Any]]:
    for line in written.split("\n")[:-1]:
        row = json.loads(line)
        assert (row["body"] is None) != (row["body_base64"] is None)
        yield row


def _rows_of_csv(written: str) -> Iterator[dict[str, Any]]:
    for row in csv.DictReader(io.StringIO(written, newline="")):
        row |= {name: row[name] or None for name in ("tags", "keys", "body_base64")}
        whole = {
            name: int(row[name]) for name in SCHEMA.names if pa.types.is_integer(SCHEMA.field(name).type)
        }
        yield row | whole | {"properties": json.loads(row["properties"])}


def _with_values(row: dict[str, Any]) -> dict[str, Any]:
    encoded = row.pop("body_base64")
    row["body"] = base64.b64decode(encoded, validate=True) if encoded else (row["body"] or "").encode()
    return row | {name: _epoch_ms(row[name]) for name in ("born_timestamp", "store_timestamp")}


def _epoch_ms(written: str) -> int:
    if written.isdigit():
        return int(written)
    assert written[-5] == "."
    return round(datetime.fromisoformat(written).timestamp() * 1000)


@pytest.fixture
def store() -> Iterator[MessageStore]:
    """Five messages of `orders` in two queues, one of `%RETRY%billing`, one of the broker's own."""
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as opened:
        for number in range(5):
            body = b"%d" % number if number < 4 else b"\xff\x00"
            opened.put_message(Message("orders", body, tags="created", queue_id=number % 2))
        opened.put_message(Message("%RETRY%billing", b"again", queue_id=0))
        opened.put_message(Message("orders", b"later", delay_level=5))
        opened.topics.create("empty")
        yield opened


def calendar_ms(epoch_ms: int) -> int | None:
    """The time, unless it is behind the year 9999."""
    return epoch_ms if epoch_ms < 253_402_300_800_000 else None


@pytest.mark.slow
@pytest.mark.parametrize("file_format", FORMATS)
@given(puts=st.lists(messages, max_size=12))
@settings(max_examples=40)
def test_rows_say_what_the_messages_say(file_format: str, puts: list[dict[str, Any]]) -> None:
    """Every field of any message: bodies that are no UTF-8 or compressed, times that no calendar has."""
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        put_all(store, puts)
        written = io.BytesIO()
        report = export(store, written, file_format=file_format)
        expected = [row_of(each) for each in pulled(store, "a", "b")]
        if file_format == "parquet":
            expected = [row | {"born_timestamp": calendar_ms(row["born_timestamp"])} for row in expected]
        assert rows_in(written.getvalue(), file_format) == expected
        assert (report.rows, sum(report.topic_rows.values())) == (len(puts), len(puts))


@pytest.mark.parametrize("name", ["o.parquet", "o.jsonl", "o.csv", "o.pq", "o.csv.gz", "o.jsonl.gz"])
def test_a_file_holds_what_a_stream_gets(store: MessageStore, tmp_path: Path, name: str) -> None:
    """Its name says the format, and whether it is packed. Nothing else is left beside it."""
    report = export(store, tmp_path / name, topics="orders")
    written = (tmp_path / name).read_bytes()
    stream = io.BytesIO()
    kind = report.file_format
    export(store, stream, file_format=kind, topics="orders", compression="gzip" if "gz" in name else None)
    assert written == stream.getvalue()
    assert not stream.closed
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    assert (report.rows, report.files, report.size_bytes) == (5, 1, len(written))
    plain = gzip.decompress(written) if "gz" in name else written
    assert [row["queue_offset"] for row in rows_in(plain, kind)] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_directory_is_partitioned_by_topic_and_date(tmp_path: Path, file_format: str) -> None:
    """Rows of a date lie together, queue by queue; the names read back as topic and date."""
    clock = ManualClock(1_726_740_000_000)
    with SmallStore(MemoryFileSystem(), Path("/store"), clock=clock).open() as store:
        for number in range(9):
            store.put_message(Message("%RETRY%g", b"%d" % number, queue_id=number % 3))
            clock.advance(8 * 3_600_000)
        report = export(store, tmp_path / "lake", file_format=file_format, columns=["topic", "body"])
    folders = {path.relative_to(tmp_path / "lake").parent.as_posix() for path in files_in(tmp_path / "lake")}
    days = ("2024-09-19", "2024-09-20", "2024-09-21", "2024-09-22")
    assert folders == {f"topic=%25RETRY%25g/date={day}" for day in days}
    assert report.files == 4
    format_of_arrow = {"parquet": "parquet", "jsonl": "json", "csv": "csv"}[file_format]
    read = pyarrow.dataset.dataset(
        tmp_path / "lake",
        format=format_of_arrow,
        partitioning=pyarrow.dataset.HivePartitioning(pa.schema({"topic": pa.string(), "date": pa.string()})),
    ).to_table(columns=["topic", "date", "body"])
    assert {(row["topic"], row["date"], int(row["body"])) for row in read.to_pylist()} == {
        ("%RETRY%g", days[(10 + 8 * number) // 24], number) for number in range(9)
    }


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_without_names_all_topics_are_meant_but_the_brokers_own(store: MessageStore) -> None:
    """Retries are messages of users; `all_topics` adds the others."""
    assert export(store, io.BytesIO()).topic_rows == {"%RETRY%billing": 1, "empty": 0, "orders": 5}
    everything = export(store, io.BytesIO(), all_topics=True).topic_rows
    assert everything["SCHEDULE_TOPIC_XXXX"] == 1
    named = export(store, io.BytesIO(), topics=["orders", "SCHEDULE_TOPIC_XXXX", "orders"])
    assert list(named.topic_rows.items()) == [("orders", 5), ("SCHEDULE_TOPIC_XXXX", 1)]


def test_an_unknown_topic_is_answered_with_the_nearest(store: MessageStore, tmp_path: Path) -> None:
    """Or with where to look; nothing is written."""
    with pytest.raises(TopicUnknown, match="no topic 'ordres': did you mean 'orders'") as caught:
        export(store, tmp_path / "o.csv", topics=["orders", "ordres"])
    assert (caught.value.topic, caught.value.nearest) == ("ordres", "orders")
    with pytest.raises(TopicUnknown, match="see `mqstore topics /store`"):
        export(store, tmp_path / "o.csv", topics="x")
    assert list(tmp_path.iterdir()) == []


def test_a_topic_with_queues_of_a_broker() -> None:
    """Named, it is an error; otherwise it is left out and reported."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open() as store:
        store.topics.create("batches")
        store.put_message(Message("orders", b"first"))
    path = small.path / "config" / "topics.json"
    before, name, behind = small.file_system.read(path).decode().partition('"batches":')
    kind = '"attributes":{"queue.type":"BatchCQ"}'
    small.file_system.write(path, (before + name + behind.replace('"attributes":{}', kind, 1)).encode())
    with small.open(read_only=True) as store:
        with pytest.raises(TopicNotSupported):
            export(store, io.BytesIO(), topics="batches")
        report = export(store, io.BytesIO())
    assert (report.left_out, report.topic_rows) == (("batches",), {"orders": 1})


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_topic_without_messages_gives_a_valid_file(
    store: MessageStore, tmp_path: Path, file_format: str
) -> None:
    """With the schema in Parquet, and a header in CSV."""
    path = tmp_path / f"empty.{file_format}"
    assert export(store, path, topics="empty", columns=["queue_id", "body"]).rows == 0
    if file_format == "parquet":
        assert pyarrow.parquet.read_schema(path).names == ["queue_id", "body"]
        assert pyarrow.parquet.read_table(path).num_rows == 0
    else:
        header = '"queue_id","body","body_base64"\n' if file_format == "csv" else ""
        assert path.read_text() == header


@pytest.mark.parametrize(
    ("begin", "end", "expected"), [(0, 9, [*range(9)]), (3, 6, [3, 4, 5]), (6, 6, []), (8, 99, [8])]
)
def test_times_bound_the_rows(tmp_path: Path, begin: int, end: int, expected: list[int]) -> None:
    """The end is not included, so that one day's export begins where the other's ended."""
    clock = ManualClock(1_000_000)
    with SmallStore(MemoryFileSystem(), Path("/store"), clock=clock).open() as store:
        for number in range(9):
            store.put_message(Message("orders", b"%d" % number, queue_id=number % 2))
            clock.advance(1_000)
        report = export(
            store, tmp_path / "o.parquet", begin_ms=1_000_000 + begin * 1_000, end_ms=1_000_000 + end * 1_000
        )
        found = pyarrow.parquet.read_table(tmp_path / "o.parquet")["body"].to_pylist()
    assert sorted(map(int, found)) == expected
    assert report.rows == len(expected)


def test_no_row_is_outside_of_the_times_though_the_clock_was_set_back() -> None:
    """Whichever place the search in the queue finds."""
    clock = ManualClock(0)
    times_ms = [1_000, 5_000, 2_000, 4_000, 3_000, 6_000, 1_500]
    with SmallStore(MemoryFileSystem(), Path("/store"), clock=clock).open() as store:
        for time_ms in times_ms:
            clock.advance(time_ms - clock.now_ms())
            store.put_message(Message("orders", b"%d" % time_ms))
        for begin_ms, end_ms in ((1_200, 4_500), (2_500, 5_500), (0, 2_000)):
            written = io.BytesIO()
            export(store, written, file_format="parquet", begin_ms=begin_ms, end_ms=end_ms)
            found = [int(row["body"]) for row in rows_in(written.getvalue(), "parquet")]
            assert all(begin_ms <= time_ms < end_ms for time_ms in found)


def test_bodies_as_stored_and_bodies_that_are_broken(caplog: pytest.LogCaptureFixture) -> None:
    """A broken body ends no export: it is given as stored, its sys flag says so, and a warning too."""
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        packed = zlib.compress(b"the order")
        store.put_message(Message("orders", packed, sys_flag=0x301))
        store.put_message(Message("orders", b"no frame", sys_flag=0x101))
        found = [_body_and_flag(store, decompress=decompress) for decompress in (True, False)]
    assert found[0] == [(b"the order", 0x300), (b"no frame", 0x101)]
    assert found[1] == [(packed, 0x301), (b"no frame", 0x101)]
    assert "cannot be decompressed" in caplog.text


def _body_and_flag(store: MessageStore, *, decompress: bool) -> list[tuple[bytes, int]]:
    written = io.BytesIO()
    export(store, written, file_format="jsonl", decompress=decompress)
    return [(row["body"], row["sys_flag"]) for row in rows_in(written.getvalue(), "jsonl")]


def test_all_bodies_in_base64_on_request(store: MessageStore) -> None:
    """Those that are texts, too."""
    written = io.BytesIO()
    export(store, written, file_format="jsonl", topics="orders", columns=["body"], base64=True)
    rows = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [row["body"] for row in rows] == [None] * 5
    assert base64.b64decode(rows[0]["body_base64"]) == b"0"


class Stop(Exception):
    """What a progress raises that wants no more."""


@pytest.mark.parametrize("target", ["o.parquet", "o.jsonl", "o.csv.gz", "lake"])
@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_an_export_that_is_interrupted_leaves_nothing(
    store: MessageStore, tmp_path: Path, target: str, stop_at: int
) -> None:
    """Neither a file of the final name, nor another; one that was to be replaced stays as it was."""
    calls: list[int] = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == stop_at:
            raise Stop

    with pytest.raises(Stop):
        export(store, tmp_path / target, on_progress=stop)
    assert list(tmp_path.iterdir()) == []
    calls.clear()
    export(store, tmp_path / target, topics="orders")
    before = {path: path.read_bytes() for path in files_in(tmp_path)}
    with pytest.raises(Stop):
        export(store, tmp_path / target, overwrite=True, on_progress=stop)
    assert {path: path.read_bytes() for path in files_in(tmp_path)} == before


def test_progress_ends_at_the_total(store: MessageStore) -> None:
    """It counts messages, and grows."""
    told: list[tuple[int, int]] = []
    export(store, io.BytesIO(), topics="orders", on_progress=lambda done, total: told.append((done, total)))
    assert told == [(3, 5), (5, 5)]


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"destination": "o.parquet", "base64": True}, ExportRefused, "bodies in Parquet are bytes"),
        ({"destination": "o.xyz"}, ExportRefused, "shows no format: give one of jsonl, csv, parquet"),
        ({"destination": "o.csv", "file_format": "avro"}, ConfigIllegal, "no format 'avro'"),
        ({"destination": "o.csv", "compression": "zstd"}, ConfigIllegal, "there are none, gzip"),
        ({"destination": "o.csv", "columns": ["queueOffset"]}, ConfigIllegal, "did you mean 'queue_offset'"),
        ({"destination": "lake", "columns": ["topic"]}, ConfigIllegal, "name another column"),
        ({"destination": "no/such/o.csv"}, ExportRefused, "there is no folder no/such for o.csv"),
    ],
)
def test_what_is_not_possible_is_said_before_anything_is_written(
    store: MessageStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    error: type[Exception],
    reason: str,
) -> None:
    """With the way out, and no file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=reason):
        export(store, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_store_is_not_exported_in_part(tmp_path: Path) -> None:
    """The log ends before damage that the opening found; the messages behind it would be missing unsaid."""
    small = SmallStore(OsFileSystem(), tmp_path / "store")
    with small.open() as store:
        offsets = [store.put_message(Message("orders", bytes(100))).physical_offset for _ in range(5)]
    (small.path / "mqstore" / "recovery-point").unlink()
    with (small.path / "commitlog" / f"{0:020}").open("r+b") as segment:
        segment.seek(offsets[2] + 90)
        segment.write(b"x")
    with small.open(read_only=True) as store, pytest.raises(CorruptRecord):
        export(store, tmp_path / "o.csv")
    assert not (tmp_path / "o.csv").exists()


def test_a_closed_store_is_not_exported(store: MessageStore, tmp_path: Path) -> None:
    """And no file is made."""
    store.close()
    with pytest.raises(StoreClosed):
        export(store, tmp_path / "o.csv")
    assert list(tmp_path.iterdir()) == []


def test_what_is_put_meanwhile_is_not_exported(store: MessageStore) -> None:
    """An export beside a writer ends."""
    written = io.BytesIO()
    report = export(
        store,
        written,
        topics="orders",
        on_progress=lambda done, total: store.put_messages([Message("orders", b"new", queue_id=1)]),
    )
    assert report.rows == 5
