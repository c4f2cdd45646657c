"""Bulk puts store what single puts store: the same bytes in the log, in every form that they take.

Goal: `put_messages` and `put_columns` are only faster. Method: the same drawn messages go into stores under a
clock that stands still, one by one into the first, in bulk into the others; logs, queues, topics and answers
are compared. Where a message is drawn that cannot be stored, both refuse it and keep nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore import Host, Message, MessageStore
from mqstore.store.errors import MessageIllegal, StoreError
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore, messages_of
from support.twins.message_rows import MESSAGES, as_arrow, as_buffers, as_values

HOSTS = st.sampled_from(["127.0.0.1:10911", "[2001:db8::7]:4711"])
# A long list goes another way than a short one.
BATCHES = st.one_of(st.lists(MESSAGES, min_size=1, max_size=15), st.lists(MESSAGES, min_size=48, max_size=60))
FORMS: dict[str, Callable[[list[Message]], Any]] = {
    "buffers": as_buffers,
    "values": as_values,
    "arrow": as_arrow,
    "arrow in chunks": lambda messages: as_arrow(messages, chunks=3),
    "a batch": lambda messages: as_arrow(messages).combine_chunks().to_batches()[0],
}
Places = list[tuple[int, int, int]]


def places_of_single_puts(store: MessageStore, messages: list[Message]) -> Places:
    puts = [store.put_message(message) for message in messages]
    return [(put.queue_offset, put.physical_offset, put.store_size) for put in puts]


def places_in_bulk(store: MessageStore, messages: list[Message]) -> Places:
    puts = store.put_messages(messages)
    return [(put.queue_offset, put.physical_offset, put.store_size) for put in puts]


def places_of_columns(store: MessageStore, columns: Any) -> Places:
    put = store.put_columns(columns)
    return list(
        zip(put.queue_offsets.tolist(), put.physical_offsets.tolist(), put.store_sizes.tolist(), strict=True)
    )


def stored(put: Callable[[MessageStore], Places], config: dict[str, Any]) -> tuple[Places, dict[str, bytes]]:
    """What the put answered, and all files of the log and of the queues."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open(**config) as store:
        places = put(store)
    return places, {
        name: data
        for name, data in small.content.items()
        if name.startswith(("commitlog", "consumequeue", "config/topics"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=60, deadline=None)
@given(messages=BATCHES, host=HOSTS, has_crc=st.booleans())
def test_columns_are_single_puts(form: str, messages: list[Message], host: str, has_crc: bool) -> None:
    """Byte by byte, over segments and queues, delayed messages included, with and without the record CRC."""
    config = {"store_host": Host.parse(host), "enabled_append_prop_crc": has_crc}
    try:
        singly = stored(lambda store: places_of_single_puts(store, messages), config)
    except MessageIllegal as error:
        with pytest.raises(type(error)):
            stored(lambda store: places_of_columns(store, FORMS[form](messages)), config)
        return
    assert stored(lambda store: places_of_columns(store, FORMS[form](messages)), config) == singly


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    messages=BATCHES,
    host=HOSTS,
    has_crc=st.booleans(),
    born=st.sampled_from([None, 0, 1_726_000_000_123]),
    born_host=st.sampled_from([None, Host.parse("10.0.0.9:1"), Host.parse("[2001:db8::9]:2")]),
    sys_flag=st.sampled_from([0, 0, 1, 4, 8, 12]),
)
def test_lists_are_single_puts(
    messages: list[Message],
    host: str,
    has_crc: bool,
    born: int | None,
    born_host: Host | None,
    sys_flag: int,
) -> None:
    """All that a `Message` can say, transactions and foreign hosts included."""
    config = {"store_host": Host.parse(host), "enabled_append_prop_crc": has_crc}
    messages = [
        msgspec.structs.replace(message, born_timestamp=born, born_host=born_host, sys_flag=sys_flag)
        if at % 2
        else message
        for at, message in enumerate(messages)
    ]
    try:
        singly = stored(lambda store: places_of_single_puts(store, messages), config)
    except MessageIllegal as error:
        with pytest.raises(type(error)):
            stored(lambda store: places_in_bulk(store, messages), config)
        return
    assert stored(lambda store: places_in_bulk(store, messages), config) == singly


@pytest.mark.parametrize("columns", [{"topic": "a", "body": []}, {"topic": [], "body": []}, as_arrow([])])
def test_no_rows(columns: Any) -> None:
    """Nothing happens, and no topic comes to be."""
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        put = store.put_columns(columns)
        assert (len(put), put.durable, store.max_offset, "a" in store.topics) == (0, True, 0, False)
        assert store.put_messages([]) == []


def test_a_list_is_stored_in_bulk() -> None:
    """A long list of ordinary messages goes past the single puts, and a short one does not.

    Where puts are compiled, a short list has a way of its own (test_direct_put.py), which is shut here.
    """
    with (
        SmallStore(MemoryFileSystem(), Path("/store")).open() as store,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setattr(store._puts, "_direct", None)
        patched.setattr(store._puts, "_prepare", None)
        assert (
            len(store.put_messages([Message("orders", b"", keys=("a", "b"), properties={"c": "d"})] * 48))
            == 48
        )
        with pytest.raises(TypeError):
            store.put_messages([Message("orders", b"")])


def test_in_a_long_list_some_messages_have_keys() -> None:
    """Those that have none are stored without, and the list is taken."""
    messages = [Message("orders", b"", keys=("a", "b") if at % 2 else ()) for at in range(48)]
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        store.put_messages(messages)
        assert [message.keys for message in messages_of(store, "orders")] == [
            ("a", "b") if at % 2 else () for at in range(48)
        ]


@pytest.mark.parametrize("count", [2, 60])
@pytest.mark.parametrize(
    "fields",
    [
        {"queue_id": 2**32},
        {"flag": 2**31},
        {"flag": -(2**31) - 1},
        {"tags": 5},
        {"tags": b"a"},
        {"keys": 5},
        {"keys": (1,)},
        {"keys": "\x02"},
        {"keys": ("",)},
        {"body": "text"},
    ],
    ids=str,
)
def test_a_list_with_an_illegal_message_stores_nothing(fields: dict[str, Any], count: int) -> None:
    """As a single put refuses it, however long the list is; the log and the topics stay as they were."""
    illegal = msgspec.structs.replace(Message("new", b"good"), **fields)
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        with pytest.raises(StoreError) as single:
            store.put_message(illegal)
        with pytest.raises(type(single.value)):
            store.put_messages([*[Message("new", b"good")] * (count - 1), illegal])
        assert (store.max_offset, "new" in store.topics) == (0, False)


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_columns_are_announced_and_durable(flush_disk_type: str) -> None:
    """Each row, in order; in SYNC_FLUSH all is durable then, and visible."""
    arrived: list[tuple[str, int, int]] = []
    with SmallStore(MemoryFileSystem(), Path("/store")).open(flush_disk_type=flush_disk_type) as store:
        store.add_arrival_listener(
            lambda arrival: arrived.append((arrival.topic, arrival.queue_id, arrival.next_offset))
        )
        rows = {"topic": "orders", "body": [b"a", b"b", b"c"], "queue_id": [0, 1, 0]}
        put = store.put_columns(rows)
        assert put.durable is (flush_disk_type == "SYNC_FLUSH")
        assert arrived == [("orders", 0, 1), ("orders", 1, 1), ("orders", 0, 2)]
        assert [message.body for message in messages_of(store, "orders")] == [b"a", b"c"]


ILLEGAL: dict[str, Message] = {
    "a body too large": Message("orders", bytes(4_097)),
    "an illegal topic": Message("or ders", b""),
    "an empty topic": Message("", b""),
    "no such queue": Message("orders", b"", queue_id=8),
    "a topic of the store's own": Message("SCHEDULE_TOPIC_XXXX", b""),
    "a separator in the tags": Message("orders", b"", tags="a\x01"),
    "a separator in the keys": Message("orders", b"", keys="\x02"),
    "an empty value": Message("orders", b"", properties={"a": ""}),
    "an empty name": Message("orders", b"", properties={"": "a"}),
    "a value with a separator": Message("orders", b"", properties={"a": "b\x01c"}),
    "properties too large": Message("orders", b"", properties={"a": "b" * 32_767}),
    "properties and tags too large": Message("orders", b"", properties={"a": "b" * 32_000}, tags="c" * 800),
    "no number for DELAY": Message("orders", b"", properties={"DELAY": "soon"}),
    "a DELAY beyond 32 bits": Message("orders", b"", properties={"DELAY": "3000000000"}),
    "a flag beyond 32 bits": Message("orders", b"", flag=2**31),
}


@pytest.mark.parametrize("form", ["buffers", "values", "arrow"])
@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_row_stores_nothing(name: str, form: str) -> None:
    """The error is of the kind that a single put raises, names the row, and the log stays as it was."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open(max_message_size=4_096) as store:
        store.put_message(Message("orders", b"first"))
        with pytest.raises(StoreError) as single:
            store.put_message(ILLEGAL[name])
        end, topics = store.max_offset, sorted(topic.topic_name for topic in store.topics)
        rows = [*[Message("new", b"good")] * 20, ILLEGAL[name], Message("orders", b"good")]
        with pytest.raises(StoreError) as bulk:
            store.put_columns(FORMS[form](rows))
        assert type(bulk.value) is type(single.value), bulk.value
        if isinstance(bulk.value, MessageIllegal) and "topic" not in name:
            assert bulk.value.row == 20, bulk.value
        assert (store.max_offset, sorted(topic.topic_name for topic in store.topics)) == (end, topics)
        assert store.put_message(Message("orders", b"next")).queue_offset == 1
