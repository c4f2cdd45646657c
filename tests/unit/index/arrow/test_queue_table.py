"""The queue table: each row says what the message at that place of the queue says, and no row is missing.

Method: queues of any messages, over several segments and queue files, read as a table and pulled one by one
by the reader that tests/unit/index/pull/test_message_reader.py holds to RocketMQ's rules.
"""

import threading
import zlib
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.arrow import column_kernels, record_columns, sent_bodies
from mqstore.index.arrow.queue_table import _records, queue_batches, queue_table, table_schema
from mqstore.index.arrow.record_columns import SCHEMA, build_columns
from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.store.errors import BodyTooLarge, ConfigIllegal, CorruptBody, CorruptRecord
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.compressed_body import MAX_BODY_BYTES
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from support.golden.zstd import zstd_compress
from support.stores.filled_queues import FilledQueues
from support.stores.small_store import SmallStore, messages_of

text = st.text(st.characters(exclude_characters="\x00\x01\x02 ", exclude_categories=["Cs"]), min_size=1)
COMPRESSORS = {0x1: zlib.compress, 0x101: lz4.frame.compress, 0x201: zstd_compress, 0x301: zlib.compress}
messages = st.fixed_dictionaries(
    {"body": st.binary(max_size=40)},
    optional={
        "tags": text,
        "keys": st.lists(text, max_size=2).map(tuple),
        "properties": st.dictionaries(text.map("user-{}".format), text, max_size=3),
        "flag": st.integers(-(2**31), 2**31 - 1),
        "sys_flag": st.sampled_from([0, 4, 8, *COMPRESSORS]),
        "born_timestamp": st.integers(0, 2**62),
        "born_host": st.sampled_from([Host.parse("10.0.0.1:7"), Host.parse("[2001:db8::1]:7")]),
        "reconsume_times": st.integers(0, 16),
    },
)


def table(
    filled: FilledQueues, begin: int = 0, end: int = 2**62, *columns: str, lend: bool = False
) -> pa.Table:
    queue = filled.queues.find_or_create("orders", 0)
    found = queue_table(filled.log, queue, begin, end, table_schema(columns or None, lend_bodies=lend))
    found.validate(full=True)
    return found


def row(message: StoredMessage) -> dict[str, Any]:
    """What a table should say of a message."""
    values = {name: getattr(message, name) for name in SCHEMA.names}
    values["keys"] = message.properties.get("KEYS")
    values["properties"] = list(message.properties.items())
    return values | {name: str(values[name]) for name in ("born_host", "store_host")}


def rows(found: pa.Table) -> list[dict[str, Any]]:
    """The rows, times as epoch ms."""
    for name in ("born_timestamp", "store_timestamp"):
        found = found.set_column(found.schema.get_field_index(name), name, found[name].cast(pa.int64()))
    return found.to_pylist()


def pulled(filled: FilledQueues) -> list[StoredMessage]:
    result, found = filled.get(), []
    while result.messages:
        found += result.messages
        result = filled.get(result.next_begin_offset)
    return found


@pytest.fixture
def filled(file_system: FileSystem, root: Path) -> FilledQueues:
    return FilledQueues(file_system, root)


@pytest.mark.slow
@given(st.lists(messages, max_size=8), st.booleans())
@settings(deadline=None)
def test_a_table_says_what_the_messages_say(puts: list[dict[str, Any]], lend: bool) -> None:
    """Every column, of any message; bodies copied or lent."""
    filled = FilledQueues(MemoryFileSystem(), Path("/store"))
    for fields in puts:
        compress = COMPRESSORS.get(fields.get("sys_flag", 0), bytes)
        filled.put(**fields | {"body": compress(fields["body"])})
    assert rows(table(filled, lend=lend)) == [row(message) for message in pulled(filled)]


@pytest.mark.parametrize("columns", [(), ("body",), ("queue_id", "body", "body"), ("tags",)])
def test_bodies_that_are_copied_beside_the_rest_are_the_same(
    filled: FilledQueues, columns: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a thread of their own where they are many."""
    for number in range(50):
        filled.put(b"%d" % number * number, tags="created")
    expected = table(filled, 0, 50, *columns)
    monkeypatch.setattr("mqstore.index.arrow.record_columns._BESIDE_BYTES", 0)
    assert table(filled, 0, 50, *columns).equals(expected)


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_an_error_in_either_thread_is_told(
    monkeypatch: pytest.MonkeyPatch, filled: FilledQueues, in_main_thread: bool
) -> None:
    """Whatever its kind: no column is left out in silence."""
    filled.put(b"body", tags="a")

    def build(name: str, *arguments: Any) -> pa.Array:
        if (threading.current_thread() is threading.main_thread()) == in_main_thread:
            raise IndexError("a column that cannot be")
        return build_column(name, *arguments)

    build_column = record_columns.build_column
    monkeypatch.setattr(record_columns, "_BESIDE_BYTES", 0)
    monkeypatch.setattr(record_columns, "build_column", build)
    # Either thread may be quicker, and take all.
    with pytest.raises(IndexError, match="a column that cannot be"):
        [table(filled) for _ in range(100)]


@pytest.mark.parametrize(
    ("begin", "end"), [(0, 250), (3, 4), (99, 101), (-5, 7), (240, 900), (250, 251), (7, 7), (9, 3)]
)
def test_a_range_is_that_of_the_queue(filled: FilledQueues, begin: int, end: int) -> None:
    """Also across queue files (100 entries) and segments; what lies outside the queue is passed over."""
    for number in range(250):
        filled.append(b"%d" % number + bytes(1_000))
        filled.append(topic="other")
    filled.dispatcher.catch_up(filled.log.max_offset)
    assert len(filled.log.files.files) > 1
    found = table(filled, begin, end, "queue_offset", "body")
    expected = list(range(max(begin, 0), min(end, 250)))
    assert found["queue_offset"].to_pylist() == expected
    assert [int(body[:-1000]) for body in found["body"].to_pylist()] == expected


@pytest.mark.parametrize("batch_bytes", [1, 5_000, 2**26])
def test_batches_are_the_table_piece_by_piece(filled: FilledQueues, batch_bytes: int) -> None:
    """However small they are, and never longer than asked for unless by one record; none is empty."""
    for number in range(150):
        filled.put(b"%d" % number + bytes(1_000))
    queue, schema = filled.queues.find_or_create("orders", 0), table_schema(None, lend_bodies=False)
    batches = list(queue_batches(filled.log, queue, 3, 149, schema, batch_bytes=batch_bytes))
    assert pa.Table.from_batches(batches, schema).equals(queue_table(filled.log, queue, 3, 149, schema))
    for batch in batches:
        assert batch.num_rows == 1 or sum(batch["store_size"].to_pylist()) <= batch_bytes


def test_a_batch_is_read_when_it_is_asked_for(filled: FilledQueues) -> None:
    """Damage in the second is no error of the first."""
    filled.put(b"first" + bytes(50_000))
    broken = filled.put(b"second" + bytes(50_000))
    segment = filled.log.files.file_for(broken.physical_offset)
    assert segment is not None
    segment.write(broken.physical_offset - segment.start_offset, bytes(4))
    queue, schema = filled.queues.find_or_create("orders", 0), table_schema(["body"], lend_bodies=False)
    batches = queue_batches(filled.log, queue, 0, 2, schema, batch_bytes=1)
    assert next(batches)["body"].to_pylist() == [b"first" + bytes(50_000)]
    with pytest.raises(CorruptRecord):
        next(batches)


def test_columns_come_in_the_order_asked_for(filled: FilledQueues) -> None:
    """Those and no others."""
    filled.put(b"first", tags="created")
    assert table(filled, 0, 9, "tags", "queue_id").to_pydict() == {"tags": ["created"], "queue_id": [0]}


def test_a_column_that_is_not_there_is_named(filled: FilledQueues) -> None:
    """With the one that was probably meant."""
    with pytest.raises(ConfigIllegal, match="no column 'queueOffset': did you mean 'queue_offset'"):
        table_schema(["queueOffset"], lend_bodies=False)


def test_messages_that_are_gone_have_no_row(filled: FilledQueues) -> None:
    """The queue still has entries of the segment that retention deleted."""
    first = filled.put(b"first")
    filled.small.fill_to(8)
    filled.put(b"second", topic="orders")
    filled.log.files.delete_first()
    assert first.physical_offset < filled.log.min_offset
    assert table(filled, 0, 9_999, "body")["body"].to_pylist() == [b"second"]


def test_a_reader_passes_over_what_the_writer_has_deleted_since(file_system: FileSystem, root: Path) -> None:
    """Segments that it knows of and has not mapped yet."""
    small = SmallStore(file_system, root)
    with small.open() as writer:
        for at in range(8):
            writer.put_message(Message("orders", b"%d" % at + bytes(50_000)))
    with small.open(read_only=True) as reader, small.open() as writer:
        assert reader.min_offset == 0
        writer.commit_log.files.delete_first()
        writer.commit_log.files.delete_first()
        left = [message.queue_offset for message in messages_of(writer, "orders")]
        assert 0 < len(left) < 8
        assert reader.to_arrow("orders", 0)["queue_offset"].to_pylist() == left


def test_messages_that_expire_meanwhile_take_no_others_along(
    filled: FilledQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the same file that are left have their rows."""
    puts = [filled.put() for _ in range(50)]
    queue = filled.queues.find_or_create("orders", 0)
    view_from = queue.view_from

    def expire_before_the_second(offset: int, count: int) -> memoryview:
        if offset:
            patched.undo()
            filled.queues.correct_min_offset(puts[15].physical_offset)
        return view_from(offset, count)

    monkeypatch.setattr("mqstore.index.arrow.queue_table._BATCH_RECORDS", 10)
    patched = pytest.MonkeyPatch()
    patched.setattr(queue, "view_from", expire_before_the_second)
    assert table(filled)["queue_offset"].to_pylist() == [*range(10), *range(15, 50)]


def test_lent_bodies_outlive_their_segment(filled: FilledQueues) -> None:
    """The table keeps the mapping alive."""
    filled.put(b"a body that does not fit into the view")
    found = table(filled, 0, 9, "body", lend=True)
    filled.log.files.destroy()
    assert found["body"].to_pylist() == [b"a body that does not fit into the view"]


@pytest.mark.parametrize("physical_offset", [2**63 - 4, 2**63 - 200, -(2**63), -(2**63) + 50])
@pytest.mark.parametrize("size", [-1, 0, 91, 2**31 - 1])
def test_an_entry_with_any_numbers_lays_out_nothing(physical_offset: int, size: int) -> None:
    """Offset and size together may exceed 63 bits: nothing is read outside the segment."""
    layout = np.empty((column_kernels.LAYOUT_FIELDS, 1), np.int32)
    offsets, sizes = np.array([physical_offset]), np.array([size], np.int32)
    for start_offset in (0, 2**31):
        segment = np.zeros(1_000, np.uint8)
        assert column_kernels.lay_out(segment, 1_000, start_offset, offsets, sizes, layout) == 0


@pytest.mark.parametrize(("shift", "longer"), [(1, 0), (0, 0), (0, -2), (-1, -1)])
def test_an_entry_that_points_elsewhere_is_an_error(filled: FilledQueues, shift: int, longer: int) -> None:
    """Nothing is made up from bytes that are not its record."""
    put = filled.put()
    filled.append(topic="other")
    queue = filled.queues.find_or_create("orders", 0)
    entry = ENTRY.pack(put.end_offset + shift, put.store_size + longer, 0)
    queue.append_entries(1, entry)
    with pytest.raises(CorruptRecord):
        queue_table(filled.log, queue, 0, 2, table_schema(None, lend_bodies=False))


@pytest.fixture
def compressed(filled: FilledQueues) -> FilledQueues:
    """A queue of bodies that were compressed, and of others between them."""
    for number in range(30):
        body = b"%d again and " % number * number
        sys_flag = [0, *COMPRESSORS][number % 5]
        filled.put(COMPRESSORS.get(sys_flag, bytes)(body), sys_flag=sys_flag)
    return filled


@pytest.mark.parametrize("lend", [False, True])
@pytest.mark.parametrize("batch_bytes", [1, 100, 2**20])
def test_compressed_bodies_are_shown_as_they_were_sent(
    compressed: FilledQueues, lend: bool, batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of few bytes, too; the sys flag says that they are no longer compressed."""
    monkeypatch.setattr(sent_bodies, "_BATCH_BYTES", batch_bytes)
    found = table(compressed, lend=lend)
    assert found["body"].to_pylist() == [b"%d again and " % number * number for number in range(30)]
    assert {flag & 0xFF for flag in found["sys_flag"].to_pylist()} == {0}
    assert found["queue_offset"].to_pylist() == list(range(30))
    assert len(found["body"].chunks) > 1 or batch_bytes > 100


def test_bodies_as_stored_can_be_asked_for(compressed: FilledQueues) -> None:
    """With the sys flag as stored."""
    queue = compressed.queues.find_or_create("orders", 0)
    schema = table_schema(["body", "sys_flag"], lend_bodies=False)
    found = queue_table(compressed.log, queue, 0, 30, schema, decompress=False).to_pylist()
    stored = [{"body": m.stored_body, "sys_flag": m.stored_sys_flag} for m in pulled(compressed)]
    assert found == stored


def test_without_bodies_none_is_decompressed(filled: FilledQueues) -> None:
    """So a body that cannot be does no harm; the sys flag is that of a decompressed one all the same."""
    filled.put(b"never compressed", sys_flag=0x101)
    assert table(filled, 0, 1, "sys_flag", "store_size")["sys_flag"].to_pylist() == [0x100]
    with pytest.raises(CorruptBody, match="physical offset 0"):
        table(filled, 0, 1, "body")


def test_a_bomb_is_told(filled: FilledQueues) -> None:
    """Before it takes the memory for itself."""
    filled.put(b"small")
    filled.put(zstd_compress(bytes(MAX_BODY_BYTES + 1)), sys_flag=0x201)
    with pytest.raises(BodyTooLarge) as caught:
        table(filled)
    assert caught.value.physical_offset == pulled(filled)[1].physical_offset


def test_broken_bodies_can_be_kept_as_stored(compressed: FilledQueues) -> None:
    """With their sys flag, by which they are told from the others."""
    compressed.put(b"never compressed", sys_flag=0x101)
    schema = table_schema(["body", "sys_flag"], lend_bodies=False)
    queue = compressed.queues.find_or_create("orders", 0)
    (stored,) = _records(compressed.log, queue, 0, 31, 2**20)
    (kept,) = sent_bodies.as_sent(stored, schema, keep_broken=True)
    found = pa.Table.from_arrays(build_columns(kept, schema), schema=schema).to_pylist()
    assert found[-1] == {"body": b"never compressed", "sys_flag": 0x101}
    assert found[:-1] == table(compressed, 0, 30, "body", "sys_flag").to_pylist()
