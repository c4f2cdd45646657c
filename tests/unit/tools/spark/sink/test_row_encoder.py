"""Goal: a row is the message that a put of it would be, but for its key; what cannot be stored is found here.

Method: the same columns put by `put_columns` and by blocks that were encoded before, into stores in memory.
"""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore import Message, MessageStore, StoreConfig, StoredMessage
from mqstore.store.errors import MessageIllegal, MessageTooLarge, PropertiesIllegal, QueueIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.sink.row_encoder import EncodingRules, RowEncoder
from mqstore.tools.spark.sink.row_keys import number_rows, row_key_prefix
from mqstore.verify import verify
from support.imports.killed_commit import RULES

PREFIX = row_key_prefix("app", 1)
TOPICS = ("orders", "payments", "%RETRY%group")

texts = st.text(st.characters(min_codepoint=32, max_codepoint=300), min_size=1, max_size=8)
properties = st.one_of(
    st.none(),
    st.dictionaries(
        st.one_of(texts, st.sampled_from(["UNIQ_KEY", "TAGS", "KEYS", "WAIT"])), texts, max_size=4
    ),
)
rows = st.lists(
    st.tuples(
        st.sampled_from(TOPICS),
        st.binary(max_size=40),
        st.one_of(st.none(), texts),
        st.one_of(st.none(), texts),
        properties,
        st.integers(0, 20),
        st.integers(-(2**31), 2**31 - 1),
    ),
    min_size=1,
    max_size=12,
)
Row = tuple[str, bytes, str | None, str | None, dict[str, str] | None, int, int]


def opened() -> MessageStore:
    store = MessageStore.open(Path("/store"), small(), file_system=MemoryFileSystem(), start=False)
    for topic in TOPICS:
        store.topics.ensure(topic, 1)
    return store


def small() -> StoreConfig:
    return StoreConfig(mapped_file_size_commit_log=1 << 20, max_message_size=1_000)


def table_of(drawn: list[Row]) -> pa.Table:
    def stored(pairs: dict[str, str] | None) -> str | None:
        return None if pairs is None else "".join(f"{name}\x01{text}\x02" for name, text in pairs.items())

    topics, bodies, tags, keys, pairs, levels, flags = zip(*drawn, strict=True)
    return pa.table(
        {
            "topic": list(topics),
            "body": pa.array(bodies, pa.binary()),
            "tags": pa.array(tags, pa.string()),
            "keys": pa.array(keys, pa.string()),
            "properties": pa.array(map(stored, pairs), pa.string()),
            "delay_level": pa.array(levels, pa.int32()),
            "flag": pa.array(flags, pa.int32()),
        }
    )


def messages(store: MessageStore) -> Iterator[StoredMessage]:
    offset = 0
    while offset < store.max_offset:
        message = store.look_message_by_offset(offset)
        assert message is not None
        yield message
        offset += message.store_size


def told(message: StoredMessage) -> tuple[object, ...]:
    others = [(name, text) for name, text in message.properties.items() if name != "UNIQ_KEY"]
    of_place = (message.topic, message.queue_id, message.queue_offset)
    return (*of_place, bytes(message.body), message.tags, message.keys, message.flag, others)


@given(rows)
def test_a_row_is_what_a_put_of_it_would_be(drawn: list[Row]) -> None:
    """Delay, tags, keys and properties; its own key in place of one that it brings."""
    table = table_of(drawn)
    with opened() as wanted, opened() as store:
        wanted.put_columns(table)
        encoded = RowEncoder(EncodingRules.of(store)).encode(table)
        number_rows(encoded.block, PREFIX, 5)
        assert store.put_block(encoded.block) == store.max_offset
        assert [told(message) for message in messages(store)] == [
            told(message) for message in messages(wanted)
        ]
        found = [message.properties["UNIQ_KEY"] for message in messages(store)]
        assert found == [f"{PREFIX}{number:016X}" for number in range(5, 5 + len(drawn))]
        for queue in ((message.topic, message.queue_id) for message in messages(store)):
            assert store.get_max_offset_in_queue(*queue) == wanted.get_max_offset_in_queue(*queue)


@pytest.mark.parametrize("append_crc", [False, True])
def test_records_are_whole_with_and_without_a_crc(tmp_path: Path, append_crc: bool) -> None:
    """The CRC of a record is that of the key which it gets at last."""
    config = replace(small(), enabled_append_prop_crc=append_crc)
    with MessageStore.open(tmp_path, config, start=False) as store:
        encoded = RowEncoder(EncodingRules.of(store)).encode(pa.table({"topic": ["t"], "body": ["x"]}))
        number_rows(encoded.block, PREFIX, 0)
        store.topics.ensure("t", 8)
        store.put_block(encoded.block)
    assert verify(tmp_path).is_sound
    (segment,) = StoreLayout(tmp_path).commit_log.iterdir()
    assert (b"__CRC32#" in segment.read_bytes()) == append_crc


def test_a_queue_is_chosen_among_those_to_write_to() -> None:
    """Of the topic as it is, or as it will be made."""
    with opened() as store:
        store.topics.create("few", read_queue_nums=4, write_queue_nums=2)
        encoder = RowEncoder(EncodingRules.of(store))
        to_be = store.topics.queue_nums_to_be
        for topic, count in (("few", 2), ("new", to_be("new")), ("%RETRY%new", to_be("%RETRY%new"))):
            ids = pa.array([-1] * 400, pa.int32())
            table = pa.table({"topic": [topic] * 400, "body": ["x"] * 400, "queue_id": ids})
            encoded = encoder.encode(table)
            assert {queue_id for _, queue_id in encoded.block.queues} == set(range(count))
            assert encoded.queues == {topic: count - 1}


def test_a_topic_that_has_no_queue_to_write_to() -> None:
    """As in a put."""
    rules = EncodingRules(
        config=RULES.config,
        write_queue_nums={"closed": 0},
        new_topic_queue_nums=8,
        new_retry_queue_nums=1,
        never_retried=frozenset(),
    )
    ids = pa.array([0, -1], pa.int32())
    with pytest.raises(QueueIllegal, match="queue_id of row 1"):
        RowEncoder(rules).encode(pa.table({"topic": ["closed"] * 2, "body": ["x"] * 2, "queue_id": ids}))


def test_rows_that_may_be_dead_letters_are_refused() -> None:
    """Those that say how often they failed, and those of a group that tries nothing again."""
    with opened() as store:
        store.subscription_groups.create("never", retry_max_times=-1)
        rules = EncodingRules.of(store)
    failed = pa.table({"topic": ["%RETRY%g"], "body": ["x"], "properties": ["RECONSUME_TIME\x0117\x02"]})
    for table in (failed, pa.table({"topic": ["%RETRY%never"], "body": ["x"]})):
        with pytest.raises(MessageIllegal, match="put them with put_messages"):
            RowEncoder(rules).encode(table)


def test_rows_that_are_too_large() -> None:
    """The body, and the properties with what is still to come: the key and the CRC."""
    with pytest.raises(MessageTooLarge):
        RowEncoder(RULES).encode(pa.table({"topic": ["t"], "body": ["x" * 60_001]}))
    for length, fits in ((32_767 - 42 - 20, True), (32_768 - 42 - 20, False)):
        table = pa.table(
            {"topic": ["t"], "body": ["x"], "properties": ["a\x01" + "b" * (length - 3) + "\x02"]}
        )
        if fits:
            RowEncoder(RULES).encode(table)
        else:
            with pytest.raises(PropertiesIllegal, match="row 0"):
                RowEncoder(RULES).encode(table)


def test_rules_are_sent_to_tasks() -> None:
    """As Spark sends them."""
    with opened() as store:
        rules = EncodingRules.of(store)
    assert pickle.loads(pickle.dumps(rules)) == rules


def test_a_put_beside_is_an_ordinary_one() -> None:
    """A block does not disturb the numbers of the queue."""
    with opened() as store:
        encoded = RowEncoder(EncodingRules.of(store)).encode(
            pa.table({"topic": ["orders"] * 3, "body": ["x"] * 3})
        )
        number_rows(encoded.block, PREFIX, 0)
        store.put_message(Message("orders", b"before", queue_id=0))
        store.put_block(encoded.block)
        assert store.put_message(Message("orders", b"behind", queue_id=0)).queue_offset == 4
