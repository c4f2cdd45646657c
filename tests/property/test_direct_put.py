"""The compiled put makes the log, the results and the errors of the interpreted one, byte for byte.

Goal: the direct put is only faster. Method: messages with all that is odd about them go into two stores: one
puts directly, in the other every step is interpreted. Then logs, results, errors and the next queue offsets
are compared: of single messages, of lists, and of copies that are sent back. The checksum is compared with
zlib's.

These run where the direct put was built: .ci/wheel runs them on an installed wheel.
"""

import contextlib
import importlib
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from mqstore import Message, MessageStore, PutMessageResult
from mqstore.store.direct.machine_code import MACHINE_CODE
from mqstore.store.errors import StoreError
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import NO_PROPERTIES
from mqstore.store.record.host import Host
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.odd_messages import MESSAGES, TEXTS
from support.stores.small_store import SmallStore

needs_machine_code = pytest.mark.skipif(
    MACHINE_CODE is None, reason="the direct put was not built here: .ci/wheel asks an installed wheel"
)
pytestmark = needs_machine_code
MEANT_NAMES = st.sampled_from(
    ["DELAY", "REAL_TOPIC", "REAL_QID", "KEYS", "TAGS", "WAIT", "UNIQ_KEY", "__CRC32#", "TIMER_DELAY_SEC"]
)
LEVELS = st.sampled_from(["0", "1", "007", "18", "19", "999999999", "2147483648", "-1", "+3", "٣", " 3", ""])
HOSTS = st.sampled_from(
    [
        Host.parse("1.2.3.4:5"),
        Host.parse("[2001:db8::1]:65535"),
        Host(b"1234", 2**32 - 1),
        Host(b"1234", 2**32),
        Host(b"1234", -1),
        Host(b"1234", True),
        Host(b"12345", 1),
        Host(b"", 1),
        Host(bytearray(b"1234"), 1),  # type: ignore[arg-type]
        (b"1234", 5),
    ]
)
ORDINARY = st.builds(
    Message,
    topic=st.sampled_from(["orders", "others", "orders", "others", "%RETRY%" + "g" * 140]),
    body=st.binary(max_size=300)
    | st.sampled_from([b"x" * 5_120, b"x" * 5_121, b"x" * 17_000])
    | st.sampled_from([memoryview(b"view"), memoryview(b"every second")[::2], memoryview(b"y" * 5_121)]),
    tags=st.none() | TEXTS,
    keys=st.just(()) | TEXTS | st.lists(TEXTS, max_size=3),
    properties=st.dictionaries(TEXTS, TEXTS | st.just("v" * 2_000), max_size=3)
    | st.dictionaries(TEXTS | MEANT_NAMES, LEVELS | TEXTS, max_size=5),
    queue_id=st.integers(0, 4),
    delay_level=st.sampled_from([0, 0, 0, 1, 17, 18, 19, 2**31 - 1, 2**31, 1 << 70, -1, True, 1.0]),
    born_timestamp=st.none() | st.sampled_from([0, 5, 2**63 - 1]),
    born_host=st.none() | HOSTS,
    flag=st.sampled_from([0, 0, 1, -1, 2**31 - 1, 2**31, 1 << 70]),
    sys_flag=st.sampled_from([0, 0, 1, 2, 4, 8, 12, 0x30, 0x80, 0x301, -256, -(2**31), 2**31]),
    reconsume_times=st.sampled_from([0, 0, 1, 2**31 - 1, 2**31, -1, True]),
)
# Of these all are put directly, but for the first of a queue.
PLAIN = st.builds(
    Message,
    topic=st.sampled_from(["orders", "others"]),
    body=st.binary(max_size=300),
    tags=st.none() | st.sampled_from(["", "created"]),
    keys=st.sampled_from([(), "a b", ("a", "b")]),
    properties=st.dictionaries(
        st.sampled_from(["region", "UNIQ_KEY", "WAIT", "REAL_QID", "REAL_TOPIC"]), st.just("text"), max_size=3
    ),
    queue_id=st.integers(0, 1),
    delay_level=st.sampled_from([0, 0, 1, 2, 99]),
    born_host=st.none() | st.sampled_from([Host.parse("1.2.3.4:5"), Host.parse("[2001:db8::1]:5")]),
)
# Lists of messages that differ in their bodies only, which are prepared once.
BODIES = st.binary(max_size=300) | st.sampled_from(
    [memoryview(b"view"), memoryview(b"every second")[::2], b"x" * 5_120, b"x" * 5_121, bytearray(b"x"), None]
)
ALIKE = st.builds(
    lambda message, bodies: [msgspec.structs.replace(message, body=body) for body in bodies],
    PLAIN | ORDINARY | MESSAGES,
    st.lists(BODIES, min_size=1, max_size=6),
)
MANY = [Message("orders", b"body %d" % number, tags="created", queue_id=1) for number in range(257)]
CONFIGS = pytest.mark.parametrize(
    "config",
    [
        {},
        {"enabled_append_prop_crc": False},
        {"store_host": Host.parse("[2001:db8::1]:10911")},
        {"flush_disk_type": "SYNC_FLUSH"},
        {"message_delay_level": "2h"},
    ],
    ids=["plain", "no crc", "IPv6", "SYNC_FLUSH", "one level"],
)
DISKS = pytest.mark.parametrize("disk", [MemoryFileSystem, SimulatedDisk], ids=["mapped", "called"])


@contextlib.contextmanager
def store_of(disk: FileSystem, *, is_direct: bool, **config: Any) -> Iterator[MessageStore]:
    small = SmallStore(disk, Path("/store"), clock=ManualClock())
    with small.open(key_index_enable=False, **config) as store:
        if not is_direct:
            make_interpreted(store)
        # A queue that is left to the store is the same in both.
        store._puts._choice.seed(0)
        store._send_back._choice.seed(0)
        # Its first message goes the interpreted way.
        for topic in ("orders", "others"):
            store.put_message(Message(topic, b"first"))
        yield store


def make_interpreted(store: MessageStore) -> None:
    """Undo what PutPath does when the direct put was built."""
    del vars(store._puts)["put"]
    store._puts._direct = None


def outcome_of(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a put, or its error."""
    try:
        return call(*arguments)
    except (StoreError, TypeError, AttributeError) as error:
        return type(error), str(error)


def log_of(store: MessageStore) -> bytes:
    return b"".join(bytes(file.view) for file in store.commit_log.files.files)


def assert_same(direct: MessageStore, interpreted: MessageStore) -> None:
    """Their logs, and the offset that each queue gives next."""
    assert log_of(direct) == log_of(interpreted)
    counters = [store.commit_log._appender._queue_offsets for store in (direct, interpreted)]
    assert counters[0] == counters[1]


@DISKS
@CONFIGS
@settings(max_examples=100, deadline=None)
@given(messages=st.lists(MESSAGES | ORDINARY, min_size=1, max_size=8))
@example(messages=[Message("orders", b"", properties={"x__CRC32#": "0123456789"}, keys=("a",))])
@example(
    messages=[Message("orders", b"x", queue_id=1 << 70), Message("orders", b"x", born_timestamp=1 << 70)]
)
@example(messages=[Message("orders", b"x", keys=("a b",)), Message("orders", b"x", keys=["a", "b"])])
def test_the_direct_put_is_the_interpreted_one(
    messages: list[Message], config: dict[str, Any], disk: Callable[[], FileSystem]
) -> None:
    """Into a mapping, and into a file that is written by calls."""
    with (
        store_of(disk(), is_direct=True, **config) as direct,
        store_of(disk(), is_direct=False, **config) as interpreted,
    ):
        for message in messages * 2:
            assert outcome_of(direct.put_message, message) == outcome_of(interpreted.put_message, message)
        assert_same(direct, interpreted)


@DISKS
@CONFIGS
@settings(max_examples=40, deadline=None)
@given(messages=st.lists(MESSAGES | ORDINARY | PLAIN, min_size=1, max_size=8))
def test_puts_that_do_not_wait_are_the_interpreted_ones(
    messages: list[Message], config: dict[str, Any], disk: Callable[[], FileSystem]
) -> None:
    """Their futures are not waited for, but all that was appended is compared."""
    with (
        store_of(disk(), is_direct=True, **config) as direct,
        store_of(disk(), is_direct=False, **config) as interpreted,
    ):
        for message in messages * 2:
            put = outcome_of(direct.put_message_async, message)
            expected = outcome_of(interpreted.put_message_async, message)
            assert isinstance(put, tuple) == isinstance(expected, tuple)
            assert not isinstance(put, tuple) or put == expected
        assert_same(direct, interpreted)


@DISKS
@CONFIGS
@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(MESSAGES | ORDINARY | PLAIN, min_size=1, max_size=6),
    queue_id=st.integers(-1, 2) | st.sampled_from([True, 1 << 70]),
    unique_key=st.just("7F00000104D2018B4AAC2E6F0A3C0001")
    | TEXTS
    | st.sampled_from(["", "\x01", "v" * 2_048]),
)
def test_a_sent_message_is_put_as_one_with_its_key_and_queue(
    messages: list[Message],
    queue_id: int,
    unique_key: str,
    config: dict[str, Any],
    disk: Callable[[], FileSystem],
) -> None:
    """What `put_sent` stores, `put_message` stores of a message with the queue and the property."""
    with (
        store_of(disk(), is_direct=True, **config) as direct,
        store_of(disk(), is_direct=False, **config) as interpreted,
    ):
        sent_puts = direct.sent_puts()
        assert sent_puts is not None
        for message in messages * 2:
            given_ = msgspec.structs.replace(message, properties=NO_PROPERTIES)
            before = log_of(direct), direct.commit_log.max_offset
            put = outcome_of(sent_puts.put, given_, given_.topic, given_.body, queue_id, unique_key)
            if put is None:
                assert (log_of(direct), direct.commit_log.max_offset) == before
                # So that the stores stay equal.
                assert outcome_of(direct.put_message, message) == outcome_of(interpreted.put_message, message)
            else:
                changes: dict[str, Any] = {"queue_id": queue_id, "properties": {"UNIQ_KEY": unique_key}}
                sent = msgspec.structs.replace(given_, **changes)
                assert put == outcome_of(interpreted.put_message, sent)
            assert_same(direct, interpreted)


def test_sent_messages_go_the_direct_way() -> None:
    """With all that producers usually set, but for properties."""
    with store_of(MemoryFileSystem(), is_direct=True) as store:
        sent_puts = store.sent_puts()
        assert sent_puts is not None
        for change in ({}, {"tags": "created", "keys": "order-1"}, {"queue_id": 77}, {"queue_id": -1}):
            message = msgspec.structs.replace(Message("orders", b"body"), **change)
            assert sent_puts.put(message, "orders", b"body", 0, "7F00") is not None, change
        wrong: list[tuple[Any, ...]] = [
            *((None, "orders", b"body", 0, "7F00"), (message, None, b"body", 0, "7F00")),
            *((message, "orders", None, 0, "7F00"), (message, "orders", b"body", None, "7F00")),
            *((message, "orders", b"body", 0, None), (message, "orders", b"body", 0, 7)),
        ]
        for arguments in wrong:
            assert sent_puts.put(*arguments) is None, arguments
        sent_puts.close()
        assert sent_puts.put(message, "orders", b"body", 0, "7F00") is None


@DISKS
@CONFIGS
@settings(max_examples=60, deadline=None)
@given(
    lists=st.lists(
        st.lists(PLAIN, max_size=12)
        | st.lists(MESSAGES | ORDINARY | PLAIN, max_size=4)
        | st.lists(ALIKE, max_size=3).map(lambda lists: [*chain.from_iterable(lists)]),
        min_size=1,
        max_size=3,
    )
)
@example(lists=[[Message("orders", b"x" * 5_000, born_timestamp=5)] * 11] * 2)
@example(lists=[[Message("orders", b"x"), Message("others", b"x", queue_id=1)]] * 2)
@example(lists=[[Message("orders", b"x"), Message("others", b"y", delay_level=2)] * 12] * 2)
@example(lists=[[Message("others", b"y", delay_level=1, born_host=Host.parse("1.2.3.4:5"))] * 23] * 2)
@example(lists=[MANY[:100], MANY[:256], MANY])
@example(
    lists=[[*MANY[:50], Message("others", b"x"), *MANY[:50]], [*MANY[:99], Message("orders", b"", "\x01")]]
)
@example(lists=[[Message("orders", b"x", keys="k" * 1_900)] * 200])
@example(lists=[[Message("orders", b"x", keys="k" * 1_900 + str(number)) for number in range(200)]])
@example(lists=[[msgspec.structs.replace(MANY[0], body=memoryview(b"x" * 5_000))] * 120])
def test_lists_are_put_as_the_interpreted_way_puts_them(
    lists: list[list[Message]], config: dict[str, Any], disk: Callable[[], FileSystem]
) -> None:
    """All or none. They cross the ends of segments, too."""
    with (
        store_of(disk(), is_direct=True, **config) as direct,
        store_of(disk(), is_direct=False, **config) as interpreted,
    ):
        for messages in lists * 2:
            put = outcome_of(direct.put_messages, messages)
            expected = outcome_of(interpreted.put_messages, messages)
            assert list(put) == list(expected)
            assert_same(direct, interpreted)


@pytest.mark.parametrize("field", sorted({*Message.__struct_fields__} - {"body"}))
def test_a_list_sees_the_field_in_which_a_message_differs(field: str) -> None:
    """Messages that share all other fields with those before and behind them in the list."""
    whole = Message(
        *("orders", b"body", "created", "order-1"),
        properties={"region": "eu"},
        born_timestamp=5,
        born_host=Host.parse("1.2.3.4:5"),
    )
    others: dict[str, Any] = {
        "topic": "others",
        "tags": "paid",
        "keys": ("order-1", "o"),
        "queue_id": 1,
        "delay_level": 2,
        "properties": {"region": "us"},
        "flag": 7,
        "sys_flag": 1,
        "born_timestamp": None,
        "born_host": Host.parse("[2001:db8::1]:5"),
        "reconsume_times": 2,
        "prepared_transaction_offset": 1,
        "wait_store_msg_ok": False,
    }
    different = msgspec.structs.replace(whole, **{field: others[field]})
    with (
        store_of(MemoryFileSystem(), is_direct=True) as direct,
        store_of(MemoryFileSystem(), is_direct=False) as interpreted,
    ):
        for messages in ([whole, whole, different, different, whole], [different, whole]) * 2:
            put = outcome_of(direct.put_messages, messages)
            assert list(put) == list(outcome_of(interpreted.put_messages, messages))
            assert_same(direct, interpreted)


@DISKS
@CONFIGS
@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(PLAIN | ORDINARY, min_size=1, max_size=4),
    levels=st.lists(st.sampled_from([0, 0, 1, 3, 18, 19, -1]), min_size=1, max_size=4),
)
def test_copies_are_sent_back_as_the_interpreted_way_sends_them(
    messages: list[Message], levels: list[int], config: dict[str, Any], disk: Callable[[], FileSystem]
) -> None:
    """Copies of copies, too, which have the properties of an earlier delay."""
    with (
        store_of(disk(), is_direct=True, **config) as direct,
        store_of(disk(), is_direct=False, **config) as interpreted,
    ):
        for message in messages:
            outcome = outcome_of(direct.put_message, message)
            assert outcome == outcome_of(interpreted.put_message, message)
            for level in [*levels, *levels]:
                offset = getattr(outcome, "physical_offset", 0)
                arguments = "billing", offset, level
                outcome = outcome_of(direct.consumer_send_msg_back, *arguments)
                assert outcome == outcome_of(interpreted.consumer_send_msg_back, *arguments)
                outcome = getattr(outcome, "put", None)
        assert_same(direct, interpreted)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=700), start=st.integers(0, 2**32 - 1), repeat=st.integers(1, 9))
def test_the_checksum_is_that_of_zlib(data: bytes, start: int, repeat: int) -> None:
    """Also when it goes on from another."""
    assert MACHINE_CODE is not None
    assert MACHINE_CODE.checksum(data * repeat, start) == zlib.crc32(data * repeat, start)


def test_a_put_empties_the_wide_registers(tmp_path: Path) -> None:
    """They slow this thread down as long as they are full, and ISA-L's checksums leave them full."""
    module = importlib.import_module("mqstore.store.direct.put_machine_code")
    if module.wide_registers_are_full() is None:
        pytest.skip("this processor does not tell")
    with MessageStore.open(tmp_path) as store:
        store.put("orders", b"the first message of a queue is put in the interpreted way")
        isal_zlib.crc32(b"x" * 300)
        before = module.wide_registers_are_full()
        store.put("orders", b"body")
        assert not module.wide_registers_are_full()
        # Else nothing was shown: another way to sum, or another processor.
        if not before:
            pytest.skip("ISA-L leaves them empty here")


def test_ordinary_messages_go_the_direct_way() -> None:
    """All that producers usually set. Else the tests above would compare the interpreted way with itself."""
    ordinary = Message("orders", b"body")
    # In one window: where room has to be reserved, the interpreted way does it.
    room: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 22, "reserve_window_commit_log": 1 << 22}
    with store_of(MemoryFileSystem(), is_direct=True, **room) as store:
        direct = store._puts._direct
        assert direct is not None
        for change in (
            {},
            {"tags": "created"},
            {"tags": ""},
            {"keys": "order-1"},
            {"keys": ("order-1", "é")},
            {"keys": ["order-1"]},
            {"properties": {"region": "eu", "UNIQ_KEY": "7F00"}},
            {"born_timestamp": 5},
            {"born_host": Host.parse("1.2.3.4:5")},
            {"born_host": Host.parse("[2001:db8::1]:5")},
            {"flag": 7, "sys_flag": 1, "reconsume_times": 2},
            {"body": memoryview(b"body")},
            # As a client of a server sends them.
            {"properties": {"KEYS": "order-1", "TAGS": "created", "WAIT": "true", "DELAY": "0"}},
            {"tags": "created", "keys": ("order-1",), "properties": {"region": "eu"}, "body": b"x" * 5_120},
        ):
            message = msgspec.structs.replace(ordinary, **change)
            assert direct.append(message) is not None, change
            assert direct.append_all([message, ordinary] * 11) is not None, change
            assert direct.append_all([message, *[ordinary] * 10, message, message]) is not None, change


def test_delayed_messages_go_the_direct_way() -> None:
    """But for the first one of a level."""
    with store_of(MemoryFileSystem(), is_direct=True) as store:
        direct = store._puts._direct
        assert direct is not None
        delayed = Message("orders", b"body", tags="created", delay_level=3)
        assert direct.append(delayed) is None
        store.put_message(delayed)
        for change in (
            {},
            {"delay_level": 0, "properties": {"DELAY": "3"}},
            {"properties": {"REAL_TOPIC": "another", "REAL_QID": "8", "DELAY": "5"}},
        ):
            put = direct.append(msgspec.structs.replace(delayed, **change))
            assert put is not None, change
            assert (put.topic, put.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)


def test_copies_that_are_sent_back_go_the_direct_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first one of a level, and of the dead letters."""
    with store_of(MemoryFileSystem(), is_direct=True) as store:
        put = store.put_message(Message("orders", b"body", keys="order-1"))
        for level in (3, -1):
            store.consumer_send_msg_back("billing", put.physical_offset, level)
        monkeypatch.setattr(store._puts, "put_internal", None)
        for level in (3, -1):
            assert store.consumer_send_msg_back("billing", put.physical_offset, level).put is not None


def test_a_list_that_cannot_be_written_gives_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, or an interrupt, while the list is written: the next message of each queue gets its place."""
    disk = SimulatedDisk()
    with store_of(disk, is_direct=True) as store:
        direct = store._puts._direct
        assert direct is not None
        current = store.commit_log._appender._offsets.current
        assert current is not None
        before = log_of(store), store.commit_log.max_offset
        messages = [Message("orders", b"x"), Message("others", b"x"), Message("orders", b"x")]
        with monkeypatch.context() as patch:
            patch.setattr(current, "publish", interrupt)
            with pytest.raises(KeyboardInterrupt):
                direct.append_all(messages)
        assert (log_of(store), store.commit_log.max_offset) == before
        assert [put.queue_offset for put in store.put_messages(messages)] == [1, 1, 2]


def test_a_put_within_a_put_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a signal handler's: it would wait for ever for its own thread. All goes on behind it."""
    with store_of(SimulatedDisk(), is_direct=True) as store:
        direct = store._puts._direct
        assert direct is not None
        current = store.commit_log._appender._offsets.current
        assert current is not None
        publish, answers = current.publish, []
        message = Message("orders", b"x")
        asks: list[Callable[[], object]] = [
            lambda: direct.append(message),
            lambda: direct.append_all([message] * 3),
            lambda: store.put_message(msgspec.structs.replace(message, body=b"x" * 30_000)),
            lambda: store.put_messages([message] * 30),
        ]

        def publish_amid(record: bytes) -> int:
            for ask in asks:
                with pytest.raises(RuntimeError, match="within an append"):
                    ask()
                answers.append(ask)
            return publish(record)

        for put in asks:
            answers.clear()
            with monkeypatch.context() as patch:
                patch.setattr(current, "publish", publish_amid)
                put()
            assert answers == asks
        assert store.commit_log.next_queue_offset("orders", 0) == 1 + 1 + 3 + 1 + 30
        assert store.put_message(message).queue_offset == 36


def interrupt(_: bytes) -> None:
    raise KeyboardInterrupt


def test_threads_put_side_by_side() -> None:
    """Single messages, lists and delayed ones: each has a place of its own, and its own bytes there."""
    room: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 22, "reserve_window_commit_log": 1 << 22}
    with store_of(MemoryFileSystem(), is_direct=True, **room) as store:

        def put(number: int) -> list[tuple[bytes, PutMessageResult]]:
            done = []
            for turn in range(60):
                bodies = [b"%d %d %d" % (number, turn, index) for index in range(1 + turn % 9)]
                messages = [
                    Message(
                        "orders", body, keys="k" * turn, delay_level=(turn + number) % 3, queue_id=turn % 2
                    )
                    for body in bodies
                ]
                puts = store.put_messages(messages) if turn % 2 else [*map(store.put_message, messages)]
                done += zip(bodies, puts, strict=True)
            return done

        with ThreadPoolExecutor(4) as threads:
            done = [pair for pairs in threads.map(put, range(4)) for pair in pairs]
        for body, result in done:
            stored = store.look_message_by_offset(result.physical_offset)
            assert stored is not None
            assert (stored.body, stored.topic) == (body, result.topic)
            assert (stored.queue_id, stored.queue_offset) == (result.queue_id, result.queue_offset)
        places = {(result.topic, result.queue_id, result.queue_offset) for _, result in done}
        assert len(places) == len(done)


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "new"},
        {"queue_id": -1},
        {"queue_id": 10_000},
        {"queue_id": False},
        {"body": bytearray(b"body")},
        {"body": b"x" * 5_121},
        {"body": memoryview(b"x" * 5_121)},
        {"delay_level": -1},
        {"delay_level": True},
        {"delay_level": "1"},
        {"delay_level": 1 << 70},
        {"delay_level": 1, "properties": {"REAL_TOPIC": "\x01"}},
        {"delay_level": 1, "properties": {"TIMER_DELAY_SEC": "1"}},
        {"properties": {"DELAY": "-1"}},
        {"properties": {"DELAY": "1" * 10}},
        {"properties": {"DELAY": "\ud800"}},
        {"properties": {"TAGS": "a"}, "tags": "b"},
        {"properties": {"a": "\x01"}},
        {"born_host": tuple.__new__(Host, (b"1234",))},
        {"born_host": Host(b"1234", 1 << 32)},
        {"born_host": (b"1234", 5)},
        {"tags": "\ud800"},
        {"keys": None},
        {"keys": ("",)},
        {"wait_store_msg_ok": False},
        {"sys_flag": 4},
        {"sys_flag": 0x80},
        {"flag": 2**31},
        {"flag": False},
        {"reconsume_times": -(2**31) - 1},
    ],
)
def test_odd_messages_change_nothing(change: dict[str, Any]) -> None:
    """The direct put leaves them to the interpreted way, and the log as it was."""
    with store_of(MemoryFileSystem(), is_direct=True) as store:
        direct = store._puts._direct
        assert direct is not None
        before = log_of(store), store.commit_log.max_offset
        message = msgspec.structs.replace(Message("orders", b"body"), **change)
        assert direct.append(message) is None
        assert direct.append_all([Message("orders", b"body"), message]) is None
        assert (log_of(store), store.commit_log.max_offset) == before
        assert store.commit_log.next_queue_offset("orders", 0) == 1
        assert not store.commit_log._gate._lock.locked()  # type: ignore[attr-defined]


@needs_machine_code
@pytest.mark.parametrize(
    "member", [PutMessageResult.__dict__["topic"], int.__dict__["real"], Message.of_json]
)
@pytest.mark.parametrize(
    "name", ["mqstore.store.direct.put_machine_code", "mqstore.client.producer.sends.send_machine_code"]
)
def test_fields_that_are_kept_in_another_way_are_refused(member: object, name: str) -> None:
    """Of another class, without a place in the object, no field: the module cannot be imported then."""
    module = importlib.import_module(name)
    assert module._place_of(Message.__dict__["body"]) > 0
    with pytest.raises(ImportError, match="keeps the fields of a message in another way"):
        module._place_of(member)
