"""The store as its users meet it: every public method, every refusal, and what a refusal leaves behind.

On both file systems where files are touched, with services off and the clock in hand, so that each test
says itself when time passes and when something is flushed.
"""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mqstore import (
    Disposition,
    GetMessageStatus,
    Message,
    MessageStore,
    PutMessageResult,
    PutMessageStatus,
    StoreConfig,
    StoredMessage,
)
from mqstore.put.arrivals import Arrival
from mqstore.store.errors import (
    ConfigIllegal,
    CorruptRecord,
    DelayLevelIllegal,
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    PropertiesIllegal,
    QueueIllegal,
    SegmentSizeMismatch,
    StateFileCorrupt,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreNotFound,
    StorePoisoned,
    StoreReadOnly,
    TopicIllegal,
    TopicNotExist,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.java_hash import string_hash
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from mqstore.store.state.checkpoint_format import decode_checkpoint
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, WINDOW_BYTES, small_config
from support.stores.small_store import SmallStore, kill, messages_of


@pytest.fixture
def small(file_system: FileSystem, root: Path, clock: ManualClock) -> SmallStore:
    return SmallStore(file_system, root / "store", clock=clock)


def bodies(store: MessageStore, topic: str, queue_id: int = 0, tags: str = "*") -> list[bytes]:
    return [message.body for message in messages_of(store, topic, queue_id, tags)]


# -- putting and getting ------------------------------------------------------------------------------


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_put_is_got_at_once(small: SmallStore, flush_disk_type: str) -> None:
    """By offset in the queue, by place in the log, by key: no service need have run."""
    with small.open(flush_disk_type=flush_disk_type) as store:
        for index in range(5):
            put = store.put_message(Message("orders", b"%d" % index, tags="created", keys=(f"o-{index}",)))
            assert (put.status, put.topic, put.queue_id, put.queue_offset) == (
                PutMessageStatus.PUT_OK,
                "orders",
                0,
                index,
            )
            result = store.get_message("billing", "orders", 0, index)
            assert result.status is GetMessageStatus.FOUND
            assert [message.body for message in result.messages] == [b"%d" % index]
            assert (result.next_begin_offset, result.min_offset, result.max_offset) == (
                index + 1,
                0,
                index + 1,
            )
            looked = store.look_message_by_offset(put.physical_offset)
            assert looked is not None
            assert (looked.body, looked.msg_id, looked.store_size) == (
                b"%d" % index,
                put.msg_id,
                put.store_size,
            )
            assert [found.body for found in store.query_message("orders", f"o-{index}")] == [b"%d" % index]


def test_the_result_says_what_is_durable(small: SmallStore) -> None:
    """In SYNC_FLUSH all of it; in ASYNC_FLUSH what the flusher has reached."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        assert store.put_message(Message("orders", b"x")).durable
        assert not store.put_message(Message("orders", b"x", wait_store_msg_ok=False)).durable
    with small.open(flush_disk_type="ASYNC_FLUSH") as store:
        put = store.put_message(Message("orders", b"x"))
        assert not put.durable
        store.flush()
        assert store.commit_log.flushed_offset == put.physical_offset + put.store_size


def test_put_messages_stores_all_in_order(small: SmallStore) -> None:
    """Of one queue or many; nothing for nothing."""
    with small.open() as store:
        puts = store.put_messages(
            [Message("orders", b"%d" % index, queue_id=index % 3) for index in range(9)]
        )
        assert [(put.queue_id, put.queue_offset) for put in puts] == [(i % 3, i // 3) for i in range(9)]
        assert bodies(store, "orders", 1) == [b"1", b"4", b"7"]
        assert store.put_messages([]) == []


def test_put_messages_takes_messages_as_they_are_made(small: SmallStore) -> None:
    """A generator is gone through once, and its topic is created as for a list."""
    with small.open() as store:
        store.put_messages(Message("made", body) for body in (b"a", b"b"))  # type: ignore[arg-type]
        assert "made" in store.topics
        assert bodies(store, "made") == [b"a", b"b"]


@pytest.mark.parametrize(
    ("offset", "status", "next_begin_offset"),
    [
        (-1, GetMessageStatus.OFFSET_TOO_SMALL, 0),
        (0, GetMessageStatus.FOUND, 3),
        (2, GetMessageStatus.FOUND, 3),
        (3, GetMessageStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
def test_a_pull_says_what_to_ask_for_next(
    small: SmallStore, offset: int, status: GetMessageStatus, next_begin_offset: int
) -> None:
    """For every offset inside and outside the queue."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x")] * 3)
        result = store.get_message("billing", "orders", 0, offset)
        assert (result.status, result.next_begin_offset) == (status, next_begin_offset)


def test_a_queue_that_never_was_has_nothing(small: SmallStore) -> None:
    """And is not created by asking."""
    with small.open() as store:
        for topic, queue_id in (("nothing", 0), ("orders", 1)):
            store.put_message(Message("orders", b"x"))
            assert store.get_message("billing", topic, queue_id, 0).messages == []
            assert (
                store.get_max_offset_in_queue(topic, queue_id)
                == store.get_min_offset_in_queue(topic, queue_id)
                == 0
            )
            assert store.get_offset_in_queue_by_time(topic, queue_id, 0) == 0
        assert store.consume_queues.queues() == [("orders", 0)]


def test_a_pull_filters_by_tags(small: SmallStore) -> None:
    """One tag, several, none of them, all; two tags of the same hash are told apart."""
    tags = ["Aa", "BB", "created", None, "Aa"]
    with small.open() as store:
        store.put_messages([Message("orders", b"%d" % index, tags=tag) for index, tag in enumerate(tags)])
        assert bodies(store, "orders", tags="*") == [b"0", b"1", b"2", b"3", b"4"]
        assert bodies(store, "orders", tags="Aa") == [b"0", b"4"]
        assert bodies(store, "orders", tags="BB || created") == [b"1", b"2"]
        result = store.get_message("billing", "orders", 0, 0, tags="none")
        assert (result.status, result.next_begin_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 5)


def test_messages_are_found_by_key_and_time(small: SmallStore) -> None:
    """The newest few, oldest first, within the times; the unique key too."""
    with small.open() as store:
        for index in range(6):
            store.put_message(
                Message("orders", b"%d" % index, keys="k", properties={"UNIQ_KEY": f"u-{index}"})
            )
            small.clock.advance(1_000)
        start = small.clock.now_ms() - 6_000
        assert [m.body for m in store.query_message("orders", "k")] == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert [m.body for m in store.query_message("orders", "k", max_num=2)] == [b"4", b"5"]
        found = store.query_message("orders", "k", start + 1_000, start + 3_000)
        assert [m.body for m in found] == [b"1", b"2", b"3"]
        assert [m.body for m in store.query_message("orders", "u-3")] == [b"3"]
        assert store.query_message("others", "k") == store.query_message("orders", "K") == []


def test_a_queue_is_searched_by_time(small: SmallStore) -> None:
    """Times t1 t1 t1 t3 t3: the example of RocketMQ's rules."""
    with small.open() as store:
        t1 = small.clock.now_ms()
        store.put_messages([Message("orders", b"x")] * 3)
        small.clock.advance(2_000)
        store.put_messages([Message("orders", b"x")] * 2)
        for time, lower, upper in ((t1 - 1, 0, 0), (t1, 0, 2), (t1 + 1_000, 3, 2), (t1 + 2_001, 5, 4)):
            assert store.get_offset_in_queue_by_time("orders", 0, time) == lower
            assert store.get_offset_in_queue_by_time("orders", 0, time, "UPPER") == upper


def test_key_index_can_be_left_out(small: SmallStore) -> None:
    """Then nothing is found by key, and nothing else changes."""
    with small.open(key_index_enable=False) as store:
        store.put_message(Message("orders", b"x", keys="k"))
        assert store.query_message("orders", "k") == []
        assert bodies(store, "orders") == [b"x"]
        assert store.stats().key_index_behind_bytes is None


# -- delayed and failed messages ----------------------------------------------------------------------


def test_a_delayed_message_comes_when_it_is_due(small: SmallStore) -> None:
    """Not a millisecond earlier, and once."""
    with small.open() as store:
        put = store.put_message(Message("orders", b"later", tags="t", queue_id=2, delay_level=1))
        assert (put.topic, put.queue_id) == ("SCHEDULE_TOPIC_XXXX", 0)
        small.clock.advance(999)
        assert (store.deliver_due(), bodies(store, "orders", 2)) == (0, [])
        small.clock.advance(1)
        assert (store.deliver_due(), store.deliver_due()) == (1, 0)
        (message,) = messages_of(store, "orders", 2)
        assert (message.body, message.tags, message.properties["DELAY"]) == (b"later", "t", "1")


def test_a_failed_message_returns_and_becomes_a_dead_letter(small: SmallStore) -> None:
    """Three attempts: the message, two retries, then the dead letters; each a record of its own."""
    with small.open(message_delay_level="1s 2s 3s 4s 5s 6s") as store:
        put = store.put_message(Message("orders", b"bad", keys="o-1"))
        offset, path = put.physical_offset, []
        for _ in range(3):
            result = store.consumer_send_msg_back("billing", offset, max_reconsume_times=2)
            path.append(result.disposition)
            if result.disposition is Disposition.DEAD_LETTER:
                break
            small.clock.advance(10_000)
            assert store.deliver_due() == 1
            offset = messages_of(store, "%RETRY%billing")[-1].physical_offset
        assert path == [Disposition.RETRY, Disposition.RETRY, Disposition.DEAD_LETTER]
        assert [m.reconsume_times for m in messages_of(store, "%RETRY%billing")] == [1, 2]
        (dead,) = messages_of(store, "%DLQ%billing")
        assert (dead.body, dead.reconsume_times, dead.keys) == (b"bad", 3, ("o-1",))
        assert dead.properties["ORIGIN_MESSAGE_ID"] == put.msg_id
        assert dead.properties["RETRY_TOPIC"] == "orders"


# -- bad input ----------------------------------------------------------------------------------------

PROPERTY_BYTES = {"n": "x" * 32_767}
BAD_MESSAGES: list[tuple[Message, type[StoreError], str]] = [
    (Message("", b"x"), TopicIllegal, "topic is empty: give 1 to 127 characters"),
    (Message("x" * 128, b"x"), TopicIllegal, "has 128 characters: at most 127"),
    (Message("a b", b"x"), TopicIllegal, "has ' ' at position 1"),
    (Message("orders", None), MessageIllegal, "the body is a NoneType"),  # type: ignore[arg-type]
    (Message("orders", "text"), MessageIllegal, "the body is a str"),  # type: ignore[arg-type]
    (Message("orders", bytes(60_001)), MessageTooLarge, "60001 bytes, more than max_message_size = 60000"),
    (Message("orders", b"x", properties=PROPERTY_BYTES), PropertiesIllegal, "more than 32767"),
    (Message("orders", b"x", properties={"a": "b\x01"}), PropertiesIllegal, "separator"),
    (Message("orders", b"x", tags="a\x02"), PropertiesIllegal, "separator"),
    (Message("orders", b"x", keys=("\x01",)), PropertiesIllegal, "separator"),
    (Message("orders", b"x", queue_id=8), QueueIllegal, "queue_id is 8, but topic 'orders' has 8 queues"),
    (Message("orders", b"x", queue_id="1"), QueueIllegal, "queue_id is '1'"),  # type: ignore[arg-type]
    (Message("orders", b"x", flag=2**31), MessageIllegal, "flag is 2147483648"),
    (Message("orders", b"x", properties={"DELAY": "soon"}), MessageIllegal, "property DELAY is 'soon'"),
    (Message("SCHEDULE_TOPIC_XXXX", b"x"), NoPermission, "does not allow to put"),
    (Message(["orders"], b"x"), TopicIllegal, r"topic \['orders'\] is a list"),  # type: ignore[arg-type]
    (Message("orders", b"x", tags=["a"]), MessageIllegal, r"tags is \['a'\]"),  # type: ignore[arg-type]
    (Message("orders", b"x", keys=5), MessageIllegal, "keys is 5"),  # type: ignore[arg-type]
    (Message("orders", b"x", keys=[5]), MessageIllegal, "keys has an element that is 5"),  # type: ignore[list-item]
    (Message("orders", b"x", properties=None), MessageIllegal, "properties is None"),  # type: ignore[arg-type]
    (Message("orders", b"x", properties={"DELAY": 3}), MessageIllegal, "property DELAY is 3"),  # type: ignore[dict-item]
    (Message("orders", b"x", delay_level="3"), MessageIllegal, "delay_level is '3'"),  # type: ignore[arg-type]
    (Message("orders", b"x", sys_flag="1"), MessageIllegal, "sys_flag is '1'"),  # type: ignore[arg-type]
    (Message("orders", b"x", born_host=5), MessageIllegal, "born_host is 5"),  # type: ignore[arg-type]
    ("x", MessageIllegal, r"'x' is a str, but must be a Message"),  # type: ignore[list-item]
    (Message("orders", bytes(60_001), delay_level=3), MessageTooLarge, "60001 bytes"),
    (Message("orders", b"x", queue_id=9, delay_level=3), QueueIllegal, "has 8 queues"),
]


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "new topic"])
@pytest.mark.parametrize(("message", "kind", "words"), BAD_MESSAGES)
def test_a_bad_message_is_refused_and_leaves_nothing(
    message: Message, kind: type[StoreError], words: str, known: bool
) -> None:
    """By each way to put: the error names value and limit; no record, no topic, no queue offset is used."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open() as store:
        if known:
            store.put_message(Message("orders", b"first"))
        before = (store.max_offset, len(store.topics), store.consume_queues.queues())
        good = Message("others", b"good")
        for put in (
            lambda: store.put_message(message),
            lambda: store.put_messages([message]),
            lambda: store.put_messages([good, message]),
            lambda: store.put_messages([message, good]),
            lambda: store.put_message_async(message),
        ):
            with pytest.raises(kind, match=words):
                put()
            assert (store.max_offset, len(store.topics), store.consume_queues.queues()) == before
        assert store.put_message(Message("orders", b"next")).queue_offset == known


def test_a_topic_that_is_not_there_is_created_only_where_allowed(small: SmallStore) -> None:
    """TopicNotExist says how to create it."""
    with small.open(auto_create_topic_enable=False) as store:
        with pytest.raises(TopicNotExist, match=r"create it with store\.topics\.create") as caught:
            store.put_message(Message("orders", b"x"))
        assert caught.value.topic == "orders"
        assert store.max_offset == 0
        store.topics.create("orders", 2)
        assert store.put_message(Message("orders", b"x", queue_id=1)).queue_offset == 0
        with pytest.raises(QueueIllegal, match="has 2 queues"):
            store.put_message(Message("orders", b"x", queue_id=2))


def test_a_topic_without_write_permission_takes_nothing(small: SmallStore) -> None:
    """Reading goes on."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.topics.create("orders", 8, perm=4)
        with pytest.raises(NoPermission, match="has perm 4"):
            store.put_message(Message("orders", b"y"))
        assert bodies(store, "orders") == [b"x"]


def test_a_directory_that_another_store_holds_is_refused(small: SmallStore) -> None:
    """In the same process as well; the first one does not notice, and its files do not change."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
        store.flush()
        before = small.content
        with pytest.raises(StoreLocked, match="stop that writer, or open with read_only=True"):
            small.open()
        assert small.content == before
        store.put_message(Message("orders", b"y"))
    with small.open() as store:
        assert bodies(store, "orders") == [b"x", b"y"]


HOLDER = """
import sys
from mqstore import Message, MessageStore, StoreConfig
config = StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=60_000)
with MessageStore.open(sys.argv[1], config) as store:
    store.put_message(Message("orders", b"x"))
    store.flush()
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_directory_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    """The error names that process; a reader is let in."""
    config = small_config(mapped_file_size_consume_queue=6_000_000)
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreLocked, match=f"is locked by process {holder.pid}") as caught:
            MessageStore.open(tmp_path, config)
        assert (caught.value.path, caught.value.holder_pid) == (tmp_path / "lock", holder.pid)
        with MessageStore.open(tmp_path, config, read_only=True) as reader:
            assert bodies(reader, "orders") == [b"x"]
        holder.communicate("", timeout=60)
    with MessageStore.open(tmp_path, config) as store:
        assert bodies(store, "orders") == [b"x"]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"mapped_file_size_commit_log": 2 * SEGMENT_BYTES}, "mapped_file_size_commit_log"),
        ({"mapped_file_size_consume_queue": 4_000}, "mapped_file_size_consume_queue"),
    ],
)
def test_another_segment_size_is_refused(small: SmallStore, settings: dict[str, Any], key: str) -> None:
    """The error names the file, both sizes and the setting; nothing is changed, the right size opens it."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
    before = small.content
    with (
        pytest.raises(SegmentSizeMismatch, match=f"open the directory with the {key}") as caught,
        small.open(**settings) as store,
    ):
        messages_of(store, "orders")
    assert caught.value.expected_bytes == settings[key]
    assert small.content == before
    with small.open() as store:
        assert bodies(store, "orders") == [b"x"]


@pytest.mark.parametrize("table", ["", "1", "1s  5s", "1s 5x", "s", "-1s", "1s 5.5s"])
def test_a_delay_table_that_does_not_parse_is_refused(small: SmallStore, table: str) -> None:
    """Before anything is created."""
    with pytest.raises(DelayLevelIllegal, match="message_delay_level") as caught:
        small.open(message_delay_level=table)
    assert isinstance(caught.value, ConfigIllegal)
    assert not small.file_system.exists(small.path)


def test_an_unknown_setting_is_refused(small: SmallStore) -> None:
    """With the name that was meant."""
    with pytest.raises(ConfigIllegal, match="did you mean 'flush_disk_type'"):
        small.open(StoreConfig.from_mapping({"flush_disc_type": "SYNC_FLUSH"}))


STATE_FILES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def fill_state(small: SmallStore) -> None:
    """Make all four state files say something, twice, so that each has a `.bak`."""
    with small.open() as store:
        for index in range(2):
            store.put_message(Message(f"orders-{index}", b"x", delay_level=1))
            small.clock.advance(1_000)
            store.deliver_due()
            store.subscription_groups.create(f"group-{index}")
            store.consumer_offsets.commit("group-0", f"orders-{index}", 0, 1)
            store.flush()


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"{", b"[]", b"\xff\xfe"])
@pytest.mark.parametrize("name", STATE_FILES)
def test_a_garbage_state_file_is_replaced_by_its_backup(small: SmallStore, name: str, garbage: bytes) -> None:
    """What the backup says is there, and it outlives the next save."""
    fill_state(small)
    path = small.path / "config" / name
    assert small.file_system.exists(path.with_name(name + ".bak"))
    small.file_system.write(path, garbage)
    with small.open() as store:
        assert store.topics.get("orders-0") is not None
        assert store.subscription_groups.get("group-0") is not None
        assert store.consumer_offsets.query("group-0", "orders-0", 0) == 1
        store.deliver_due()
        assert set(bodies(store, "orders-0")) == {b"x"}
    assert small.file_system.read(path) != garbage


@pytest.mark.parametrize("name", STATE_FILES)
def test_a_garbage_state_file_with_a_bad_backup_is_refused(small: SmallStore, name: str) -> None:
    """Never an empty start: the error names file and backup; nothing is changed, and the lock is free."""
    fill_state(small)
    path = small.path / "config" / name
    backup = path.with_name(name + ".bak")
    good = small.file_system.read(path)
    small.file_system.write(path, b"garbage")
    small.file_system.write(backup, b"{")
    before = small.content
    for read_only in (False, True):
        with pytest.raises(StateFileCorrupt, match=rf"{name} and its .bak cannot be read") as caught:
            small.open(read_only=read_only)
        assert caught.value.path == path
        assert small.content == before
    small.file_system.write(path, good)
    small.open().close()


def test_damage_is_refused_and_nothing_is_changed(small: SmallStore) -> None:
    """CorruptRecord with file, position, expected and found; reading only shows what is whole before it."""
    with small.killed() as store:
        places = [store.put_message(Message("orders", b"%d" % index * 20)) for index in range(4)]
        store.flush()
    segment = small.path / "commitlog" / f"{0:020d}"
    data = bytearray(small.file_system.read(segment))
    data[places[2].physical_offset + 95] ^= 1
    small.file_system.write(segment, bytes(data))
    recovery_point = small.path / "mqstore" / "recovery-point"
    small.file_system.delete(recovery_point)
    before = small.content
    with pytest.raises(CorruptRecord, match="expected body CRC") as caught:
        small.open()
    assert (caught.value.path, caught.value.position) == (segment, places[2].physical_offset)
    assert small.content == before
    with small.open(read_only=True) as store:
        assert store.recovery.damage is not None
        assert store.max_offset == places[2].physical_offset
        assert store.look_message_by_offset(places[1].physical_offset) is not None
        assert store.look_message_by_offset(places[3].physical_offset) is None
    assert small.content == before


def test_damage_in_a_cleanly_closed_store_changes_nothing_either(small: SmallStore) -> None:
    """Not even the mark that a writer is at work."""
    with small.open() as store:
        put, _ = store.put_messages([Message("orders", b"x" * 20)] * 2)
    segment = small.path / "commitlog" / f"{0:020d}"
    data = bytearray(small.file_system.read(segment))
    data[put.physical_offset + 95] ^= 1
    small.file_system.write(segment, bytes(data))
    small.file_system.delete(small.path / "mqstore" / "recovery-point")
    before = small.content
    with pytest.raises(CorruptRecord):
        small.open()
    assert small.content == before


# -- a disk that fails --------------------------------------------------------------------------------


def test_a_full_disk_refuses_puts_until_there_is_room(clock: ManualClock) -> None:
    """Reads go on, puts resume by themselves, no offset is lost."""
    memory = MemoryFileSystem(free_bytes=WINDOW_BYTES + 50_000)
    small = SmallStore(memory, Path("/store"), clock=clock)
    with small.open() as store:
        stored = 0
        with contextlib.suppress(StoreFull):
            while True:
                store.put_message(Message("orders", bytes(5_000)))
                stored += 1
        with pytest.raises(StoreFull):
            store.put_messages([Message("orders", bytes(50_000))] * 3)
        assert "cannot reserve" in (store.stats().refusal or "")
        with pytest.raises(StoreFull):
            store.commit_log.reserve_ahead()
        memory.free_bytes = 2**30
        store.commit_log.reserve_ahead()
        assert store.stats().refusal is None, "as the service finds out by itself"
        assert len(messages_of(store, "orders")) == stored
        assert store.put_message(Message("orders", b"next")).queue_offset == stored
        assert len(messages_of(store, "orders")) == stored + 1


class BrokenDisk:
    """Syncs of log segments fail from now on."""

    def __init__(self, watched: WatchedFileSystem) -> None:
        self.tried = 0
        watched.before = self._before

    def _before(self, step: str, path: Path) -> None:
        if step == "sync" and path.parent.name == "commitlog":
            self.tried += 1
            raise OSError(5, "Input/output error")


def test_a_failed_sync_stops_all_writing(file_system: FileSystem, root: Path, clock: ManualClock) -> None:
    """The put gets the error, later ones too, the sync is never repeated; reads go on; opening recovers."""
    watched = WatchedFileSystem(file_system)
    small = SmallStore(watched, root / "store", clock=clock)
    store = small.open(flush_disk_type="SYNC_FLUSH", key_index_enable=False)
    store.put_message(Message("orders", b"durable"))
    disk = BrokenDisk(watched)
    waiting = store.put_message_async(Message("orders", b"waiting"))
    for attempt in (
        lambda: store.put_message(Message("orders", b"lost")),
        lambda: store.put_message(Message("orders", b"refused")),
        lambda: store.put_messages([Message("orders", b"refused")]),
        store.flush,
    ):
        with pytest.raises(StorePoisoned, match="Input/output error"):
            attempt()
    assert disk.tried == 1
    assert isinstance(waiting.exception(0), StorePoisoned)
    assert bodies(store, "orders") == [b"durable"]
    assert "Input/output error" in (store.stats().refusal or "")
    store.close()
    assert disk.tried == 1
    assert watched.exists(small.path / "abort")
    watched.before = lambda step, path: None
    with small.open(flush_disk_type="SYNC_FLUSH", key_index_enable=False) as store:
        assert bodies(store, "orders")[0] == b"durable"
        assert store.put_message(Message("orders", b"again")).durable


# -- opening and closing ------------------------------------------------------------------------------


def test_everything_is_there_after_closing_and_opening(small: SmallStore) -> None:
    """Messages, offsets, keys, topics, groups, consumer positions, delayed messages."""
    with small.open() as store:
        for index in range(300):
            store.put_message(
                Message("orders", bytes([index % 256]) * 1_000, keys=f"k{index % 7}", queue_id=index % 2)
            )
        store.put_message(Message("orders", b"later", delay_level=2))
        store.subscription_groups.create("billing", retry_max_times=3)
        store.consumer_offsets.commit("billing", "orders", 0, 17)
        before = [bodies(store, "orders", queue_id) for queue_id in (0, 1)]
        keys = [
            [m.physical_offset for m in store.query_message("orders", f"k{k}", max_num=99)] for k in range(7)
        ]
    assert not small.file_system.exists(small.path / "abort")
    with small.open() as store:
        assert store.recovery.records == 0
        assert [bodies(store, "orders", queue_id) for queue_id in (0, 1)] == before
        assert [
            [m.physical_offset for m in store.query_message("orders", f"k{k}", max_num=99)] for k in range(7)
        ] == keys
        assert store.consumer_offsets.query("billing", "orders", 0) == 17
        group = store.subscription_groups.get("billing")
        assert group is not None
        assert group.retry_max_times == 3
        assert store.put_message(Message("orders", b"next")).queue_offset == 150
        small.clock.advance(5_000)
        assert store.deliver_due() == 1


def test_everything_acknowledged_is_there_after_a_kill(small: SmallStore) -> None:
    """The kernel has the pages: nothing is lost, and no offset is given twice."""
    with small.killed() as store:
        puts = [
            store.put_message(Message("orders", b"%d" % index, keys="k", queue_id=index % 3))
            for index in range(100)
        ]
    assert small.file_system.exists(small.path / "abort")
    with small.open() as store:
        for index, put in enumerate(puts):
            (message,) = store.get_message("test", "orders", put.queue_id, put.queue_offset, 1).messages
            assert (message.physical_offset, message.body) == (put.physical_offset, b"%d" % index)
        assert len(store.query_message("orders", "k", max_num=1_000)) == 100
        assert store.put_message(Message("orders", b"next")).queue_offset == 34


def test_a_topic_keeps_its_queues_through_a_kill(small: SmallStore) -> None:
    """One that came to be by itself has them all again, though nothing had written them down.

    A retry topic has its one.
    """
    with small.killed() as store:
        put = store.put_message(Message("orders", b"x", queue_id=1))
        store.consumer_send_msg_back("billing", put.physical_offset, -1)
    with small.open() as store:
        assert store.put_message(Message("orders", b"y", queue_id=7)).queue_offset == 0
        dead = store.topics.get("%DLQ%billing")
        assert dead is not None
        assert (dead.read_queue_nums, dead.write_queue_nums) == (1, 1)


@pytest.mark.parametrize("gone", ["consumequeue", "mqstore", "checkpoint", "config"])
@pytest.mark.parametrize("closed", [True, False])
def test_what_is_derived_can_be_deleted(file_system: FileSystem, root: Path, gone: str, closed: bool) -> None:
    """Queues, our own files, the checkpoint, even the state files: messages and keys are the same."""
    small = SmallStore(file_system, root / "store")
    store = small.open()
    for index in range(250):
        store.put_message(
            Message(f"topic-{index % 3}", b"%d" % index, tags=f"t{index % 5}", keys=f"k{index % 7}")
        )
        small.clock.advance(10)
    answers = [bodies(store, f"topic-{number}", tags=tag) for number in range(3) for tag in ("*", "t1")]
    keys = [[m.body for m in store.query_message("topic-0", f"k{k}", max_num=99)] for k in range(7)]
    store.flush()
    queues = {name: data for name, data in small.content.items() if name.startswith("consumequeue")}
    if closed:
        store.close()
    else:
        kill(store)
    remove(file_system, small.path / gone)
    with small.open() as store:
        assert [
            bodies(store, f"topic-{number}", tags=tag) for number in range(3) for tag in ("*", "t1")
        ] == answers
        assert [
            [m.body for m in store.query_message("topic-0", f"k{k}", max_num=99)] for k in range(7)
        ] == keys
    assert {name: data for name, data in small.content.items() if name.startswith("consumequeue")} == queues


def remove(file_system: FileSystem, path: Path) -> None:
    """Delete a file, or a directory with all that is in it."""
    (entry,) = (entry for entry in file_system.list(path.parent) if entry.name == path.name)
    if not entry.is_directory:
        file_system.delete(path)
        return
    for child in file_system.list(path):
        remove(file_system, path / child.name)
    file_system.delete_directory(path)


def test_the_checkpoint_never_goes_back(small: SmallStore) -> None:
    """A store that is only opened and closed leaves the times of its last messages."""
    with small.open() as store:
        store.put_message(Message("orders", b"x"))
    written = decode_checkpoint(small.file_system.read(small.path / "checkpoint"))
    assert written.physic_msg_timestamp == written.logics_msg_timestamp == small.clock.now_ms()
    small.clock.advance(1_000)
    small.open().close()
    assert decode_checkpoint(small.file_system.read(small.path / "checkpoint")) == written


def test_consumers_never_stand_beyond_the_end(small: SmallStore) -> None:
    """What the disk says is bounded by the durable log, and memory keeps what the consumer said."""
    with small.killed() as store:
        store.put_message(Message("orders", b"x"))
        store.consumer_offsets.commit("billing", "orders", 0, 40)
        assert store.consumer_offsets.query("billing", "orders", 0) == 40
        store.flush()
    with small.open() as store:
        assert store.consumer_offsets.query("billing", "orders", 0) == 1


def test_closing_twice_is_no_error(small: SmallStore) -> None:
    """Nor is closing inside `with`."""
    with small.open() as store:
        store.close()
    store.close()
    small.open().close()


def test_after_closing_everything_is_refused(small: SmallStore) -> None:
    """With StoreClosed; only looking at it is still possible."""
    store = small.open()
    put = store.put_message(Message("orders", b"x"))
    store.close()
    for use in (
        lambda: store.put_message(Message("orders", b"y")),
        lambda: store.put_messages([Message("orders", b"y")]),
        lambda: store.put_message_async(Message("orders", b"y")),
        lambda: store.get_message("billing", "orders", 0, 0),
        lambda: store.look_message_by_offset(put.physical_offset),
        lambda: store.query_message("orders", "k"),
        lambda: store.get_max_offset_in_queue("orders", 0),
        lambda: store.get_min_offset_in_queue("orders", 0),
        lambda: store.get_offset_in_queue_by_time("orders", 0, 0),
        lambda: store.wait_for_messages("orders", 0, 0, 1_000),
        lambda: store.consumer_send_msg_back("billing", put.physical_offset),
        store.deliver_due,
        store.flush,
        lambda: store.topics.create("late"),
        store.topics.persist,
        lambda: store.subscription_groups.create("late"),
        lambda: store.consumer_offsets.commit("billing", "orders", 0, 1),
        lambda: store.consumer_offsets.reset("billing", "orders", 0, 1),
        lambda: store.consumer_offsets.persist(lambda topic, queue_id: 1),
    ):
        with pytest.raises(StoreClosed, match="is closed: open it again"):
            use()
    with small.open() as again:
        assert again.topics.get("late") is again.subscription_groups.get("late") is None
        assert again.consumer_offsets.query("billing", "orders", 0) == -1
    assert repr(store) == f"MessageStore({str(small.path)!r}, closed, max_offset={put.store_size})"


def test_messages_outlive_the_store(small: SmallStore) -> None:
    """What was lent stays readable."""
    with small.open() as store:
        store.put_message(Message("orders", b"kept", keys="k"))
        (message,) = messages_of(store, "orders")
    assert (message.body, message.keys) == (b"kept", ("k",))


def test_stats_tell_how_it_is_doing(small: SmallStore) -> None:
    """Offsets, lags, counts, and what is wrong: nothing."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x", queue_id=index) for index in range(3)])
        stats = store.stats()
        assert (stats.min_offset, stats.max_offset, stats.flushed_offset) == (0, store.max_offset, 0)
        assert (
            stats.flush_behind_bytes
            == stats.dispatch_behind_bytes
            == stats.storage_size_bytes
            == store.max_offset
        )
        store.flush()
        stats = store.stats()
        assert (stats.flush_behind_bytes, stats.dispatch_behind_bytes) == (0, 0)
        assert (stats.segments, stats.queues, stats.messages) == (1, 3, 3)
        assert (stats.refusal, stats.errors, stats.read_only) == (None, {}, False)


# -- reading only -------------------------------------------------------------------------------------


def test_a_reader_beside_a_writer_sees_what_it_adds(small: SmallStore) -> None:
    """After `refresh`; without a lock and without changing a byte."""
    with small.open() as writer:
        writer.put_message(Message("orders", b"first", keys="k"))
        writer.flush()
        before = small.content
        with small.open(read_only=True) as reader:
            assert bodies(reader, "orders") == [b"first"]
            assert [m.body for m in reader.query_message("orders", "k")] == [b"first"]
            assert small.content == before
            for index in range(200):
                writer.put_message(Message("orders", b"%d" % index * 500, keys="k"))
            writer.put_message(Message("others", b"new topic"))
            writer.flush()
            reader.refresh()
            assert bodies(reader, "orders") == bodies(writer, "orders")
            assert bodies(reader, "others") == [b"new topic"]
            assert len(reader.query_message("orders", "k", max_num=999)) == 201
            assert reader.max_offset == writer.max_offset


def test_a_reader_refuses_to_write(small: SmallStore) -> None:
    """With StoreReadOnly, whatever it is asked."""
    with small.open() as store:
        put = store.put_message(Message("orders", b"x"))
    with small.open(read_only=True) as reader:
        for use in (
            lambda: reader.put_message(Message("orders", b"y")),
            lambda: reader.put_message(Message("new", b"y")),
            lambda: reader.put_messages([Message("orders", b"y")]),
            lambda: reader.put_message_async(Message("orders", b"y")),
            lambda: reader.consumer_send_msg_back("billing", put.physical_offset),
            lambda: reader.topics.create("new"),
            lambda: reader.consumer_offsets.commit("billing", "orders", 0, 1),
            reader.deliver_due,
            reader.flush,
        ):
            with pytest.raises(StoreReadOnly, match=r"opened with read_only=True"):
                use()
        assert bodies(reader, "orders") == [b"x"]
        assert repr(reader) == f"MessageStore({str(small.path)!r}, read-only, max_offset={put.store_size})"


def test_there_must_be_a_store_to_read(small: SmallStore) -> None:
    """A read-only open creates nothing."""
    with pytest.raises(StoreNotFound, match="holds no store"):
        small.open(read_only=True)
    assert not small.file_system.exists(small.path)


def test_a_store_without_a_message_can_be_read(small: SmallStore) -> None:
    """A consumer may come before the first producer."""
    with small.open() as writer, small.open(read_only=True) as reader:
        assert (reader.max_offset, messages_of(reader, "orders")) == (0, [])
        writer.put_message(Message("orders", b"x"))
        assert bodies(writer, "orders") == [b"x"]
        reader.refresh()
        assert bodies(reader, "orders") == [b"x"]


def test_a_reader_leaves_a_killed_store_as_it_is(small: SmallStore) -> None:
    """The next writer recovers; the reader shows what is there."""
    with small.killed() as store:
        store.put_message(Message("orders", b"x"))
        store.flush()
        store.put_message(Message("orders", b"y"))
    before = small.content
    with small.open(read_only=True) as reader:
        assert reader.max_offset > 0
        assert [m.body for m in messages_of(reader, "orders")][:1] == [b"x"]
    assert small.content == before


# -- waiting ------------------------------------------------------------------------------------------


def test_waiting_ends_when_a_message_is_there(small: SmallStore) -> None:
    """At once if it is, else when another thread puts it."""
    with small.open() as store:
        waited: Future[bool] = Future()
        thread = threading.Thread(
            target=lambda: waited.set_result(store.wait_for_messages("orders", 0, 0, 60_000))
        )
        thread.start()
        store.put_message(Message("orders", b"x"))
        assert waited.result(60)
        thread.join()
        assert store.wait_for_messages("orders", 0, 0, 0)
        assert not store.wait_for_messages("orders", 0, 1, 1)


def test_waiting_ends_when_the_store_is_closed(small: SmallStore) -> None:
    """No thread is left behind."""
    store = small.open()
    entered = threading.Event()
    ended: Future[object] = Future()

    def wait() -> None:
        entered.set()
        try:
            ended.set_result(store.wait_for_messages("orders", 0, 0, 600_000))
        except StoreClosed as error:
            ended.set_result(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert entered.wait(60)
    store.close()
    assert ended.result(60) is False or isinstance(ended.result(60), StoreClosed)
    thread.join()


def test_listeners_are_told_of_each_message(small: SmallStore) -> None:
    """Topic, queue and next offset, after it can be got; a listener that fails fails nobody else."""
    with small.open() as store:
        told: list[tuple[str, int, int]] = []

        def broken(arrival: Arrival) -> None:
            raise RuntimeError("listener")

        def listener(arrival: Arrival) -> None:
            assert store.get_message(
                "test", arrival.topic, arrival.queue_id, arrival.next_offset - 1
            ).messages
            told.append((arrival.topic, arrival.queue_id, arrival.next_offset))

        store.add_arrival_listener(broken)
        store.add_arrival_listener(listener)
        store.put_message(Message("orders", b"x"))
        store.put_messages([Message("orders", b"x", queue_id=1), Message("orders", b"y")])
        store.put_message_async(Message("orders", b"z"))
        assert told == [("orders", 0, 1), ("orders", 1, 1), ("orders", 0, 2), ("orders", 0, 3)]


@pytest.mark.parametrize("way", ["put_message", "put_messages", "put_columns"])
def test_a_listener_gets_what_a_broker_asks_for(small: SmallStore, way: str) -> None:
    """The hash of the tags, the store time, the properties, and the message itself."""
    with small.open() as store:
        told: list[Arrival] = []
        store.add_arrival_listener(told.append)
        message = Message("orders", b"x", tags="created", keys="k", queue_id=1)
        if way == "put_message":
            store.put_message(message)
        elif way == "put_messages":
            store.put_messages([message] * 50)
        else:
            store.put_columns(
                {"topic": "orders", "body": [b"x"] * 50, "tags": "created", "keys": "k", "queue_id": 1}
            )
        assert [arrival.next_offset for arrival in told] == list(range(1, len(told) + 1))
        assert len(told) == (1 if way == "put_message" else 50)
        arrival = told[0]
        assert (arrival.topic, arrival.queue_id) == ("orders", 1)
        assert arrival.tags_code == string_hash("created")
        assert (
            arrival.store_timestamp == store.get_message("test", "orders", 1, 0).messages[0].store_timestamp
        )
        assert arrival.properties == {"KEYS": "k", "TAGS": "created"}
        assert arrival.message.body == b"x"
        store.put_message(Message("orders", b"y"))
        assert told[-1].tags_code == 0


def test_nobody_is_told_of_what_has_no_place_in_a_queue(small: SmallStore) -> None:
    """Half messages and rollbacks: no entry stands for them, so no consumer could get them."""
    with small.open() as store:
        told: list[tuple[int, int]] = []
        store.add_arrival_listener(
            lambda arrival: told.append((arrival.next_offset, arrival.message.sys_flag))
        )
        for sys_flag in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT):
            store.put_message(Message("orders", b"x", sys_flag=sys_flag))
            store.put_messages([Message("orders", b"x", sys_flag=sys_flag)] * 2)
        assert told == [(1, TRANSACTION_COMMIT), (2, TRANSACTION_COMMIT), (3, TRANSACTION_COMMIT)]


def test_in_sync_flush_a_listener_hears_once_a_message_is_durable(small: SmallStore) -> None:
    """Before, nobody can get it: also when its put does not wait for the disk."""
    with small.open(flush_disk_type="SYNC_FLUSH", start=False) as store:
        told: list[int] = []

        def listener(arrival: Arrival) -> None:
            assert store.get_message("test", "orders", 0, arrival.next_offset - 1).messages
            told.append(arrival.next_offset)

        store.add_arrival_listener(listener)
        store.put_message(Message("orders", b"x", wait_store_msg_ok=False))
        store.put_message_async(Message("orders", b"y"))
        assert told == []
        store.flush()
        assert told == [1, 2]
        store.put_message(Message("orders", b"z"))
        assert told == [1, 2, 3]


@pytest.mark.parametrize("start", [True, False])
def test_an_async_put_is_done_once_it_is_durable(small: SmallStore, start: bool) -> None:
    """Its place is taken at once; the services, or `flush`, make it durable."""
    with small.open(flush_disk_type="SYNC_FLUSH", start=start) as store:
        futures = [store.put_message_async(Message("orders", b"%d" % index)) for index in range(50)]
        if not start:
            assert not any(future.done() for future in futures)
            store.flush()
        results: list[PutMessageResult] = [future.result(60) for future in futures]
        assert [result.queue_offset for result in results] == list(range(50))
        assert all(result.durable for result in results)
        assert bodies(store, "orders") == [b"%d" % index for index in range(50)]


def test_a_flush_dispatches_what_nobody_waits_for(small: SmallStore) -> None:
    """In SYNC_FLUSH the dispatcher sees what is durable: a put that does not wait is made so first."""
    with small.open(flush_disk_type="SYNC_FLUSH", start=False) as store:
        store.put_message_async(Message("orders", b"x"))
        store.put_message(Message("orders", b"y", wait_store_msg_ok=False))
        store.flush()
        assert store.stats().dispatch_behind_bytes == 0


def test_async_puts_are_done_when_the_store_is_closed(small: SmallStore) -> None:
    """Also those that nobody flushed before."""
    store = small.open(flush_disk_type="SYNC_FLUSH")
    future = store.put_message_async(Message("orders", b"x"))
    store.close()
    assert future.result(0).durable


def test_an_async_put_without_waiting_is_done_at_once(small: SmallStore) -> None:
    """In ASYNC_FLUSH, and in SYNC_FLUSH for a message that does not wait."""
    with small.open() as store:
        assert store.put_message_async(Message("orders", b"x")).result(0).queue_offset == 0
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        future = store.put_message_async(Message("orders", b"x", wait_store_msg_ok=False))
        assert future.result(0).queue_offset == 1


# -- what goes on by itself ---------------------------------------------------------------------------


def test_services_flush_dispatch_and_deliver_by_themselves(small: SmallStore) -> None:
    """Opened as usual, nothing has to be called."""
    settings = {"flush_interval_commit_log": 1, "flush_commit_log_least_pages": 0, "delivery_interval": 1}
    with small.open(start=True, flush_interval_consume_queue=1, dispatch_interval=1, **settings) as store:
        put = store.put_message(Message("orders", b"later", delay_level=1))
        small.clock.advance(1_000)
        assert store.wait_for_messages("orders", 0, 0, 60_000)
        deadline = threading.Event()
        for _ in range(60_000):
            if (
                store.commit_log.flushed_offset > put.physical_offset
                and store.stats().dispatch_behind_bytes == 0
            ):
                break
            deadline.wait(0.001)
        assert store.commit_log.flushed_offset > put.physical_offset
        assert store.stats().errors == {}


def test_retention_deletes_what_nobody_needs(file_system: FileSystem, root: Path, clock: ManualClock) -> None:
    """Old segments go, queues begin later, keys are forgotten; a waiting message keeps its segment."""
    watched = WatchedFileSystem(file_system)
    watched.used_percent = 80
    small = SmallStore(watched, root / "store", clock=clock)
    with small.open(file_reserved_time=1) as store:
        for index in range(10):
            store.put_message(Message("orders", bytes([index]) * 50_000, keys=f"k{index}"))
        store.put_message(Message("orders", b"later", delay_level=18))
        for index in range(10):
            store.put_message(Message("orders", bytes([index]) * 50_000))
        store.flush()
        for segment in store.commit_log.files.files:
            watched.ages[segment.path] = clock.now_ms() - 3_600_000
        store._services.retain()
        assert store.min_offset == 4 * SEGMENT_BYTES
        waiting = messages_of(store, "SCHEDULE_TOPIC_XXXX", 17)
        assert [message.body for message in waiting] == [b"later"]
        assert store.get_min_offset_in_queue("orders", 0) == 8
        result = store.get_message("test", "orders", 0, 3)
        assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 8)
        assert store.query_message("orders", "k3") == []
        clock.advance(7_200_000)
        assert store.deliver_due() == 1
        store.flush()
        store._services.retain()
        assert store.min_offset > 4 * SEGMENT_BYTES
    with small.open() as store:
        assert store.put_message(Message("orders", b"next")).queue_offset == 21
        assert store.get_min_offset_in_queue("orders", 0) > 8


def test_threads_put_and_get_at_once(small: SmallStore) -> None:
    """Four threads put in SYNC_FLUSH while one reads: no hole, nothing twice, nothing that is not durable."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        stop = threading.Event()
        seen: list[StoredMessage] = []

        def read() -> None:
            offset = 0
            while not stop.is_set() or offset < store.get_max_offset_in_queue("orders", 0):
                result = store.get_message("test", "orders", 0, offset)
                for message in result.messages:
                    assert message.physical_offset + message.store_size <= store.commit_log.flushed_offset
                    seen.append(message)
                offset = result.next_begin_offset

        def put(thread: int) -> None:
            for index in range(50):
                assert store.put_message(Message("orders", b"%d-%d" % (thread, index))).durable

        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        stop.set()
        reader.join()
        assert [message.queue_offset for message in seen] == list(range(200))
        assert len({message.body for message in seen}) == 200


def test_progress_of_opening_is_told(small: SmallStore) -> None:
    """What is being done, how far it is, of how much; and nothing once the store is open."""
    with small.killed() as store:
        for index in range(20):
            store.put_message(Message("orders", bytes([index]) * 20_000))
    told: list[tuple[str, int, int]] = []

    def on_progress(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    with MessageStore.open(
        small.path,
        small_config(),
        clock=small.clock,
        file_system=small.file_system,
        start=False,
        on_progress=on_progress,
    ) as store:
        assert {what for what, _, _ in told} == {"recover", "dispatch"}
        assert all(0 <= done <= total for _, done, total in told)
        calls = len(told)
        store.put_message(Message("orders", b"later"))
        store.flush()
        assert store.get_max_offset_in_queue("orders", 0) == 21
        assert len(told) == calls


def test_a_public_call_is_a_callable_with_documentation() -> None:
    """Everything that a user may call says what it does."""
    public: list[Callable[..., Any]] = [
        value for name, value in vars(MessageStore).items() if not name.startswith("_") and callable(value)
    ]
    assert len(public) > 15
    assert all(value.__doc__ for value in public)


def test_a_reader_ahead_of_its_view_of_the_log_skips_nothing(small: SmallStore) -> None:
    """Queues that were looked at after the log hold entries of records that the reader does not see yet."""
    with small.open() as writer:
        writer.put_message(Message("orders", b"seen"))
        writer.flush()
        with small.open(read_only=True) as reader:
            writer.put_message(Message("orders", b"not yet"))
            writer.flush()
            reader.consume_queues.load(reader.commit_log.min_offset)
            result = reader.get_message("g", "orders", 0, 1)
            assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_OVERFLOW_ONE, 1)
            assert reader.get_max_offset_in_queue("orders", 0) == 1
            reader.refresh()
            assert [message.body for message in reader.get_message("g", "orders", 0, 1).messages] == [
                b"not yet"
            ]


def test_a_close_that_was_interrupted_can_be_called_again(
    small: SmallStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the disk is waited for leaves the lock held, and the second close gives it back."""
    store = small.open()
    store.put_message(Message("orders", b"kept"))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store.commit_log.files, "delete_from", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    with pytest.raises(StoreLocked):
        small.open()
    store.close()
    with small.open() as again:
        assert again.get_max_offset_in_queue("orders", 0) == 1


@pytest.mark.parametrize(
    "step",
    [
        "mqstore.opening._Opening._agree_with_queues",
        "mqstore.services.Retention.__init__",
        "mqstore.message_store.DeliveryService.load",
        "threading.Thread.start",
    ],
)
def test_an_opening_that_fails_gives_everything_back(
    small: SmallStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Ctrl-C or an error in any step: the lock, and LMDB's files, can be had again in the same process."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with small.open() as store:
        store.put_message(Message("orders", b"kept", keys=("k",)))
    threads = threading.active_count()
    with monkeypatch.context() as patched:
        patched.setattr(step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            small.open(start=True)
    assert threading.active_count() == threads
    with small.open() as again:
        assert [message.body for message in again.query_message("orders", "k")] == [b"kept"]


def test_a_process_may_go_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was opened by a relative path stays where it is, as a daemon goes to the root."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for directory in (home, elsewhere):
        directory.mkdir()
    monkeypatch.chdir(home)
    with MessageStore.open("data", small_config(), start=False) as store:
        store.put_message(Message("before", b"", queue_id=0))
        monkeypatch.chdir(elsewhere)
        while store.max_offset < 2 * SEGMENT_BYTES:
            store.put_message(Message("after", b"x" * 1_000, queue_id=0))
    assert list(elsewhere.iterdir()) == []
    with MessageStore.open(home / "data", small_config(), read_only=True) as store:
        assert store.get_max_offset_in_queue("before", 0) == 1
        assert store.get_max_offset_in_queue("after", 0) > 1
