"""The due block: what the compiled loop delivers is, byte for byte, what `restore` and the encoder deliver.

Method: two stores get the same messages, of every kind that a producer or a broker can leave waiting; one
delivers in blocks and the other message by message; then their logs must be equal.
"""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import DELAY, REAL_QID, REAL_TOPIC
from support.manual_clock import ManualClock
from support.stores.delayed_store import DelayedStore

START_MS = 1_700_000_000_000
text = st.text(
    st.characters(exclude_characters="\x00\x01\x02 ", exclude_categories=["Cs"]), min_size=1, max_size=12
)
messages = st.fixed_dictionaries(
    {"topic": st.sampled_from(["orders", "billing", "t" * 127]), "body": st.binary(max_size=60)},
    optional={
        "queue_id": st.integers(0, 2),
        "tags": text,
        "keys": st.lists(text, max_size=2).map(tuple),
        "properties": st.dictionaries(text.map("user-{}".format), text, max_size=3),
        "flag": st.integers(-(2**31), 2**31 - 1),
        "sys_flag": st.sampled_from([0, 1]),
        "born_timestamp": st.integers(0, 2**62),
        "born_host": st.sampled_from([Host.parse("10.0.0.1:7"), Host.parse("[2001:db8::1]:7")]),
        "reconsume_times": st.integers(0, 16),
        "prepared_transaction_offset": st.integers(0, 2**40),
    },
)


def store(*, in_blocks: bool, **settings: Any) -> DelayedStore:
    return DelayedStore(clock=ManualClock(START_MS), in_blocks=in_blocks, **settings)


def delivered_log(puts: list[Message], *, in_blocks: bool, **settings: Any) -> tuple[bytes, list[int]]:
    """The log after all was delivered, and the sizes of the batches."""
    delayed = store(in_blocks=in_blocks, **settings)
    for message in puts:
        delayed.put(message)
    delayed.deliver_after(1_000)
    assert not delayed.delivery.pending()
    return delayed.log_bytes, delayed.delivered_batches


@pytest.mark.slow
@given(
    st.lists(messages, min_size=1, max_size=12),
    st.booleans(),
    st.sampled_from(["127.0.0.1:10911", "[2001:db8::2]:10911"]),
)
@settings(deadline=None)
def test_a_block_delivers_what_restoring_delivers(
    rows: list[dict[str, Any]], append_crc: bool, store_host: str
) -> None:
    """Any message, with record CRC or without, in stores of either kind of host."""
    puts = [Message(**fields, delay_level=1) for fields in rows * 8]
    options = {"enabled_append_prop_crc": append_crc, "store_host": Host.parse(store_host)}
    in_blocks, _ = delivered_log(puts, in_blocks=True, **options)
    one_by_one, _ = delivered_log(puts, in_blocks=False, **options)
    assert in_blocks == one_by_one


def test_ordinary_messages_go_in_one_block() -> None:
    """Else the comparison above would compare a way with itself."""
    puts = [
        Message("orders", b"%d" % number, delay_level=1, tags="a", queue_id=number % 3)
        for number in range(50)
    ]
    assert delivered_log(puts, in_blocks=True)[1] == [50]


@pytest.mark.parametrize(
    ("topic", "properties", "sys_flag"),
    [
        ("orders", {REAL_TOPIC: "billing", REAL_QID: "1", "user": "\u00fc"}, 0),
        ("orders", {REAL_TOPIC: TRANS_HALF_TOPIC, REAL_QID: "0"}, 0),
        ("orders", {REAL_TOPIC: "billing", REAL_QID: "+1"}, 0),
    ],
)
def test_what_is_out_of_the_ordinary_ends_the_block_before_it(
    topic: str, properties: dict[str, str], sys_flag: int
) -> None:
    """Those before it go in a block, it and those behind it follow; all as without blocks."""
    ordinary = [Message("orders", b"%d" % number, delay_level=1) for number in range(20)]
    odd = Message(SCHEDULE_TOPIC, b"odd", properties={DELAY: "1"} | properties, sys_flag=sys_flag)
    logs = []
    for in_blocks in (True, False):
        delayed = store(in_blocks=in_blocks)
        for message in ordinary:
            delayed.put(message)
        delayed.put_as_it_is([odd])
        for message in ordinary:
            delayed.put(message)
        delayed.deliver_after(1_000)
        assert not delayed.delivery.pending()
        logs.append(delayed.log_bytes)
        if in_blocks:
            assert delayed.delivered_batches[0] == 20
    assert logs[0] == logs[1]


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("delay", [{}, {DELAY: "1"}])
def test_a_message_is_not_delivered_to_where_it_waits(delay: dict[str, str], *, in_blocks: bool) -> None:
    """It would be due again at once, and one pass would fill the disk: it blocks its level instead."""
    delayed = store(in_blocks=in_blocks)
    delayed.delay(1, b"first", b"second")
    home = {REAL_TOPIC: SCHEDULE_TOPIC, REAL_QID: "0"}
    delayed.put_as_it_is([Message(SCHEDULE_TOPIC, b"odd", properties=delay | home)])
    assert delayed.deliver_after(1_000) == 2
    assert "REAL_TOPIC = 'SCHEDULE_TOPIC_XXXX'" in str(delayed.delivery.status()[0].error)
    delayed.delivery.skip(1)
    assert delayed.deliver_after(1_000) == 0
    assert not delayed.delivery.pending()


@pytest.mark.parametrize("position", [0, 4, 8, 12, 20, 28, 36, 60, 84, 90, 100, 120, -1])
def test_a_damaged_record_is_not_delivered(position: int) -> None:
    """The block ends before it; the level is then blocked with the error of the one way."""
    delayed = store(in_blocks=True)
    puts = delayed.delay(1, *[b"%d" % number for number in range(20)])
    damaged = puts[12]
    at = damaged.physical_offset + (position if position >= 0 else damaged.store_size + position)
    segment = delayed.log.files.files[0]
    segment.write(at, bytes([segment.view[at] ^ 0x10]))
    assert delayed.deliver_after(1_000) == 12
    assert delayed.delivery.status()[0].error is not None


def test_entries_of_another_queue_are_refused() -> None:
    """A record is delivered for its own entry only."""
    delayed = store(in_blocks=True)
    delayed.delay(1, *[b"%d" % number for number in range(10)])
    queue = delayed.queues.find(SCHEDULE_TOPIC, 0)
    assert queue is not None
    entries = queue.entries_from(0, 10)
    blocks = DueBlocks(delayed.config, delayed.log)
    assert blocks.restore(entries, 0, 0) is not None
    assert blocks.restore(entries, 1, 0) is None
    assert blocks.restore(entries, 0, 1) is None


@pytest.mark.parametrize("size", [-(2**31), -40_000, -1, 0, 91, 2**31 - 1])
@pytest.mark.parametrize("physical_offset", [None, 2**63 - 4, 2**63 - 200, -(2**63)])
def test_a_damaged_entry_ends_the_block_whatever_its_numbers(physical_offset: int | None, size: int) -> None:
    """Nothing is read outside the segment, and the block has room for the records before the entry."""
    delayed = store(in_blocks=True)
    delayed.delay(1, *[b"%0200d" % number for number in range(50)])
    queue = delayed.queues.find(SCHEDULE_TOPIC, 0)
    assert queue is not None
    entries = queue.entries_from(0, 50).copy()
    entries["size"][49] = size
    if physical_offset is not None:
        entries["physical_offset"][49] = physical_offset
    if size == 2**31 - 1:
        entries = entries[48:]
    block = DueBlocks(delayed.config, delayed.log).restore(entries, 0, 50 - len(entries))
    assert block is not None
    assert len(block) == len(entries) - 1
    assert block.starts[-1] <= len(block.buffer)


def test_the_restored_record_stands_for_itself() -> None:
    """A look at the bytes: queue id, topic and properties of the copy."""
    delayed = store(in_blocks=True)
    delayed.delay(2, *[b"body %d" % number for number in range(10)])
    delayed.deliver_after(5_000)
    first = delayed.messages("orders")[0]
    assert struct.unpack_from(">i", first.record, 12) == (0,)
    assert (first.topic, first.body, first.properties) == (
        "orders",
        b"body 0",
        {DELAY: "2", REAL_TOPIC: "orders", REAL_QID: "0"},
    )
