"""The store as its users meet it: every public method, every refusal, and what a refusal leaves behind.

On both file systems where files are touched, with services off and the clock in hand, so that each test
says itself when time passes and when something is flushed.
"""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Disposition, GetMessageStatus, Message, MessageStore, PutMessageStatus, StoredMessage
from mqstore.store.direct.machine_code import MACHINE_CODE
from mqstore.store.errors import ConfigIllegal, StoreClosed, StoreFull, StorePoisoned, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import WINDOW_BYTES
from support.stores.small_store import SmallStore, bodies_of, messages_of

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


def test_batches_of_a_queue_end_where_it_ended_at_the_call(small: SmallStore) -> None:
    """What is put later is in none; a queue that is not there has no batch; a closed store gives no more."""
    with small.open() as store:
        store.put_message(Message("orders", b"first"))
        batches = store.to_arrow_batches("orders", 0, columns=["body"])
        store.put_message(Message("orders", b"second"))
        assert [batch["body"].to_pylist() for batch in batches] == [[b"first"]]
        assert list(store.to_arrow_batches("orders", 5)) == []
        batches = store.to_arrow_batches("orders", 0)
    with pytest.raises(StoreClosed):
        next(batches)


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_an_action_waits_until_all_that_was_put_is_visible(small: SmallStore, flush_disk_type: str) -> None:
    """In SYNC_FLUSH until the next sync, if a put has not waited for one; else it comes at once."""
    with small.open(flush_disk_type=flush_disk_type) as store:
        seen: list[int] = []

        def action() -> None:
            seen.append(store.get_max_offset_in_queue("orders", 0))

        store.when_visible(action)
        store.put_message(Message("orders", b"x"))
        store.when_visible(action)
        store.put_message_async(Message("orders", b"y"))
        store.when_visible(action)
        assert seen == ([0, 1] if flush_disk_type == "SYNC_FLUSH" else [0, 1, 2])
        store.flush()
        assert seen == [0, 1, 2]
    with pytest.raises(StoreClosed):
        store.when_visible(action)


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
        assert bodies_of(store, "orders", tags="*") == [b"0", b"1", b"2", b"3", b"4"]
        assert bodies_of(store, "orders", tags="Aa") == [b"0", b"4"]
        assert bodies_of(store, "orders", tags="BB || created") == [b"1", b"2"]
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
        assert bodies_of(store, "orders") == [b"x"]
        assert store.stats().key_index_behind_bytes is None


# -- delayed and failed messages ----------------------------------------------------------------------


def test_a_delayed_message_comes_when_it_is_due(small: SmallStore) -> None:
    """Not a millisecond earlier, and once."""
    with small.open() as store:
        put = store.put_message(Message("orders", b"later", tags="t", queue_id=2, delay_level=1))
        assert (put.topic, put.queue_id) == ("SCHEDULE_TOPIC_XXXX", 0)
        small.clock.advance(999)
        assert (store.deliver_due(), bodies_of(store, "orders", 2)) == (0, [])
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
    assert bodies_of(store, "orders") == [b"durable"]
    assert "Input/output error" in (store.stats().refusal or "")
    store.close()
    assert disk.tried == 1
    assert watched.exists(small.path / "abort")
    watched.before = lambda step, path: None
    with small.open(flush_disk_type="SYNC_FLUSH", key_index_enable=False) as store:
        assert bodies_of(store, "orders")[0] == b"durable"
        assert store.put_message(Message("orders", b"again")).durable


# -- reading only -------------------------------------------------------------------------------------


def test_a_reader_beside_a_writer_sees_what_it_adds(small: SmallStore) -> None:
    """After `refresh`; without a lock and without changing a byte."""
    with small.open() as writer:
        writer.put_message(Message("orders", b"first", keys="k"))
        writer.flush()
        before = small.content
        with small.open(read_only=True) as reader:
            assert bodies_of(reader, "orders") == [b"first"]
            assert [m.body for m in reader.query_message("orders", "k")] == [b"first"]
            assert small.content == before
            for index in range(200):
                writer.put_message(Message("orders", b"%d" % index * 500, keys="k"))
            writer.put_message(Message("others", b"new topic"))
            writer.flush()
            reader.refresh()
            assert bodies_of(reader, "orders") == bodies_of(writer, "orders")
            assert bodies_of(reader, "others") == [b"new topic"]
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
            lambda: reader.put_retry(Message("orders", b"y"), is_in_order=True),
            lambda: reader.check_message(Message("new", b"y")),
            lambda: reader.put_own([Message("orders", b"y")]),
            lambda: reader.consumer_send_msg_back("billing", put.physical_offset),
            lambda: reader.topics.create("new"),
            lambda: reader.consumer_offsets.commit("billing", "orders", 0, 1),
            reader.deliver_due,
            reader.flush,
        ):
            with pytest.raises(StoreReadOnly, match=r"opened with read_only=True"):
                use()
        assert bodies_of(reader, "orders") == [b"x"]
        assert repr(reader) == f"MessageStore({str(small.path)!r}, read-only, max_offset={put.store_size})"


def test_a_store_says_whether_its_puts_are_compiled(small: SmallStore) -> None:
    """As `mqstore --version` does: a slow store is the first thing that somebody asks about."""
    puts = "interpreted" if MACHINE_CODE is None else "compiled"
    with small.open() as store:
        assert repr(store) == f"MessageStore({str(small.path)!r}, open, max_offset=0, puts {puts})"


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


def test_a_topic_as_a_table_has_all_its_queues(small: SmallStore) -> None:
    """One queue after the other; offsets are of one queue, so they need its number."""
    with small.open() as store:
        for body, queue_id in ((b"a", 1), (b"b", 0), (b"c", 1)):
            store.put("orders", body, queue_id=queue_id)
        assert store.to_arrow("orders", columns=["body"])["body"].to_pylist() == [b"b", b"a", b"c"]
        batches = list(store.to_arrow_batches("orders", columns=["body"]))
        assert [batch.column(0).to_pylist() for batch in batches] == [[b"b"], [b"a", b"c"]]
        assert store.to_arrow("nowhere", columns=["body"]).num_rows == 0
        assert list(store.to_arrow_batches("nowhere")) == []
        for offsets, key in (((1, None), "begin_offset"), ((0, 1), "end_offset")):
            with pytest.raises(ConfigIllegal, match="give queue_id") as refused:
                store.to_arrow("orders", None, *offsets)
            assert refused.value.key == key
