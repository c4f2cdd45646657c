"""The compiled read gives the messages and the fields that the interpreted one gives.

Goal: the direct read is only faster. Method: records with all that is odd about them lie in a log of small
segments. What compiled code finds of them is compared with what the plain twins find: a look at any offset,
a key of a record, the messages of queue entries that may hold anything, and each field of each message.

These run where the direct read was built: .ci/wheel runs them on an installed wheel. How the search in runs
of keys is held to its twin: tests/unit/index/keys/test_run_table.py.
"""

import copy
import gc
import itertools
import pickle
import platform
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore import Message, MessageStore
from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.index.keys.key_index import has_key
from mqstore.index.keys.key_kernels import has_key as has_key_in
from mqstore.index.pull.found_messages import make_messages
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY
from mqstore.store.errors import RecordIllegal, StoreError
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.log_reader import LogReader
from mqstore.store.message.compiled_read import READS
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.record.sys_flag import COMPRESSED, INNER_BATCH
from support.manual_clock import ManualClock
from support.odd_messages import MESSAGES
from support.stores.small_store import SmallStore

pytestmark = pytest.mark.skipif(
    READS is None, reason="the direct read was not built here: .ci/wheel asks an installed wheel"
)
WORDS = st.sampled_from(["a", "b", "ab", "a b", "é", "KEYS", "x" * 40])
TOPICS = ["orders", "others", "t" * 127, "%RETRY%" + "g" * 121]
FOUND = st.builds(
    Message,
    topic=st.sampled_from(TOPICS),
    body=st.binary(max_size=60) | st.just(b"x" * 3_000),
    tags=st.none() | WORDS,
    keys=st.just(()) | st.lists(WORDS.filter(lambda word: " " not in word), max_size=3).map(tuple),
    properties=st.dictionaries(st.sampled_from(["UNIQ_KEY", "KEYSX", "KEY", "other"]), WORDS, max_size=3),
    queue_id=st.integers(0, 1),
    sys_flag=st.sampled_from([0, 0, 0, COMPRESSED, 2]),
    born_host=st.none() | st.just(Host.parse("[2001:db8::1]:5")),
)
WITH_BOTH = Message("orders", b"", properties={"UNIQ_KEY": "a"}, keys=("b",))
SETTINGS = settings(max_examples=100, deadline=None)
# prefetcht0, of an address in a register with or without a distance.
_PREFETCHES = re.compile(rb"\x0f\x18[\x08-\x0f\x48-\x4f\x88-\x8f]")


@contextmanager
def store_with(messages: list[Message], **config: Any) -> Iterator[tuple[MessageStore, list[int]]]:
    """A store of small segments, and the physical offsets of these messages."""
    small = SmallStore(MemoryFileSystem(), Path("/store"), clock=ManualClock())
    with small.open(key_index_enable=False, **config) as store:
        offsets = []
        for message in messages:
            offsets.append(store.put_message(message).physical_offset)
            small.clock.advance(1)
        yield store, offsets


def interpreted(store: MessageStore, physical_offset: int) -> StoredMessage | None:
    return LogReader.look_message_by_offset(store.commit_log._reader, physical_offset)


def fields_of(message: StoredMessage | None) -> object:
    """Where it lies, and what is read of it."""
    if message is None:
        return None
    compressed = message.stored_sys_flag & COMPRESSED
    return (
        bytes(message.record),
        bytes(message.stored_body_view),
        compressed or (message.body, bytes(message.body_view)),
        (message.queue_id, message.queue_offset, message.physical_offset, message.topic, message.properties),
    )


CONFIGS = pytest.mark.parametrize(
    "config",
    [{}, {"store_host": Host.parse("[2001:db8::1]:10911")}, {"flush_disk_type": "SYNC_FLUSH"}],
    ids=["plain", "IPv6", "SYNC_FLUSH"],
)


@CONFIGS
@SETTINGS
@given(
    messages=st.lists(FOUND | MESSAGES.filter(lambda m: len(m.body) < 9_000), min_size=1, max_size=6),
    beside=st.integers(-9, 9),
)
def test_a_look_finds_what_the_interpreted_one_finds(
    messages: list[Message], beside: int, config: dict[str, Any]
) -> None:
    """At each record, and beside it."""
    with store_with([m for m in messages if is_put(m)], **config) as (store, offsets):
        for offset in [*offsets, *(offset + beside for offset in offsets), store.commit_log.max_offset]:
            found = store.commit_log.look_message_by_offset(offset)
            assert fields_of(found) == fields_of(interpreted(store, offset))


def is_put(message: Message) -> bool:
    """Whether a store takes it; what it refuses is asked elsewhere."""
    with store_with([]) as (store, _):
        try:
            store.put_message(message)
        except (StoreError, TypeError):
            return False
    return True


@pytest.mark.parametrize("offset", [-1, 1 << 62, 2**63 - 1, 1 << 70, -(1 << 70), True])
def test_any_number_may_be_asked_for(offset: int) -> None:
    """Beyond what a log can have, too."""
    with store_with([Message("orders", b"x")] * 2) as (store, _):
        assert fields_of(store.commit_log.look_message_by_offset(offset)) == fields_of(
            interpreted(store, offset)
        )


@CONFIGS
@SETTINGS
@given(
    messages=st.lists(FOUND, min_size=1, max_size=5),
    key=WORDS | st.just(""),
    topic=st.sampled_from([*TOPICS, "order", "t" * 126]),
    times=st.tuples(st.integers(-1, 6), st.integers(-1, 6)),
)
@example(messages=[WITH_BOTH], key="a", topic="orders", times=(-1, 6))
@example(messages=[WITH_BOTH], key="b", topic="orders", times=(0, 0))
def test_a_record_has_the_keys_of_its_message(
    messages: list[Message], key: str, topic: str, times: tuple[int, int], config: dict[str, Any]
) -> None:
    """Its topic and the bounds of time included. What is not ordinary is left to the interpreted way."""
    with store_with(messages, **config) as (store, offsets):
        begin_ms, end_ms = (ManualClock().now_ms() + ms for ms in times)
        for offset in offsets:
            message = interpreted(store, offset)
            assert message is not None
            found = store.commit_log.direct_reader.message_with_key(  # type: ignore[union-attr]
                offset, f"{topic}#{key}".encode(), len(topic.encode()), begin_ms, end_ms
            )
            is_wanted = (
                begin_ms <= message.store_timestamp <= end_ms
                and message.topic == topic
                and has_key(message, key)
            )
            if found is False:
                assert len(message.topic) > 127 or message.body_start < 0 or message.stored_sys_flag & 0x30
            else:
                assert (found is not None) == is_wanted
                assert not is_wanted or fields_of(found) == fields_of(message)


ODD_ENTRIES = st.tuples(
    st.integers(0, 9),
    st.sampled_from(
        [
            (0, BLANK_SIZE, 0),
            (-5, 100, 0),
            (2**62, 100, 0),
            (-(2**63), 2**31 - 1, 0),
            (3, 120, 0),
            (0, 0, 0),
            (0, 91, 0),
        ]
    ),
)


@CONFIGS
@SETTINGS
@given(
    messages=st.lists(FOUND, min_size=1, max_size=10),
    odd=st.lists(ODD_ENTRIES, max_size=2),
    max_count=st.integers(-1, 12) | st.just(100),
    max_bytes=st.integers(0, 900) | st.just(1 << 40),
)
def test_entries_lead_to_the_messages_of_the_interpreted_way(
    messages: list[Message],
    odd: list[tuple[int, tuple[int, int, int]]],
    max_count: int,
    max_bytes: int,
    config: dict[str, Any],
) -> None:
    """In their order, up to a limit or the first that is not ordinary; of one segment."""
    with store_with(messages, **config) as (store, offsets):
        log = store.commit_log
        stored = [interpreted(store, offset) for offset in offsets]
        entries = [(m.physical_offset, m.store_size, 0) for m in stored if m is not None]
        for at, entry in odd:
            entries[at % len(entries)] = entry
        packed = memoryview(b"".join(ENTRY.pack(*entry) for entry in entries))
        found, total_bytes = log.direct_reader.messages_of(packed, max_count, max_bytes)  # type: ignore[union-attr]
        expected: list[StoredMessage] = []
        room = max_bytes
        segment = log.files.file_for(entries[0][0])
        for offset, size, _ in entries:
            message = interpreted(store, offset)
            if (
                len(expected) >= max_count
                or message is None
                or message.store_size != size
                or (expected and size > room)
                or log.files.file_for(offset) is not segment
                or message.body_start < 0
                or message.stored_sys_flag & (0x30 | INNER_BATCH)
                or len(message.topic.encode()) > 127
            ):
                break
            expected.append(message)
            room -= size
        assert list(map(fields_of, found)) == list(map(fields_of, expected))
        assert total_bytes == sum(message.store_size for message in expected)


@SETTINGS
@given(
    messages=st.lists(FOUND, min_size=5, max_size=40),
    max_msg_nums=st.integers(1, 40),
    offset=st.integers(0, 30),
)
def test_a_pull_answers_as_the_interpreted_one(
    messages: list[Message], max_msg_nums: int, offset: int
) -> None:
    """Status, next offset, bytes and messages; across segments, too, and if messages are made later."""
    with store_with(messages) as (store, _):
        direct_reader = store.commit_log.direct_reader
        for topic in TOPICS[:2]:
            answers = []
            for direct, lazily in (
                (direct_reader, False),
                (direct_reader, True),
                (None, False),
                (None, True),
            ):
                store._reader._collect.__self__._direct = direct  # type: ignore[attr-defined]
                got = store.get_message("billing", topic, 0, offset, max_msg_nums, lazily=lazily)
                answers.append(
                    (
                        *(got.status, got.next_begin_offset, got.min_offset, got.max_offset),
                        got.buffer_total_size,
                        list(map(fields_of, got.messages)),
                    )
                )
            assert answers == [answers[2]] * 4


# -- bytes that somebody has changed -------------------------------------------------------------------

NUMBERS = st.sampled_from(
    [0, 1, 3, 87, 88, 90, 91, 92, 127, 128, 255, 256, 1 << 16, 2**31 - 1, -1, -91, -(2**31)]
) | st.integers(-(2**31), 2**31 - 1)
CHANGES = st.lists(
    # Of which record or entry, where in it, and what is written there.
    st.tuples(
        st.integers(0, 9),
        st.sampled_from([0, 4, 8, 20, 28, 32, 36, 56, 60, 84, 88, 89]) | st.integers(0, 250),
        NUMBERS.map(lambda number: number.to_bytes(4, "big", signed=True))
        | st.binary(min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=3,
)


def change(mapped_file: MappedFile, position: int, data: bytes) -> None:
    """Overwrite bytes of a file, as far as they lie in it."""
    if position < mapped_file.size_bytes:
        mapped_file.region.write(position, data[: mapped_file.size_bytes - position])


def outcome_of(ask: Callable[..., object], *arguments: Any) -> object:
    """What it answers, or its error."""
    try:
        return ask(*arguments)
    except (StoreError, RecordIllegal) as error:
        return type(error), str(error)


def pulled(store: MessageStore) -> list[Any]:
    """The answers of pulls, with what is read of the messages."""

    def answer(topic: str, queue_id: int, offset: int, max_msg_nums: int) -> object:
        got = store.get_message("billing", topic, queue_id, offset, max_msg_nums)
        places = got.status, got.next_begin_offset, got.min_offset, got.max_offset, got.buffer_total_size
        return places, [outcome_of(fields_of, message) for message in got.messages]

    asked = itertools.product(TOPICS[:2], (0, 1), (0, 2), (2, 32))
    return [outcome_of(answer, *each) for each in asked]


@CONFIGS
@SETTINGS
@given(
    messages=st.lists(FOUND, min_size=1, max_size=10) | st.just([Message("orders", b"x", keys=("a",))] * 90),
    records=CHANGES,
    entries=CHANGES | st.just([]),
    key=WORDS,
)
def test_hostile_bytes_are_read_alike(
    messages: list[Message],
    records: list[tuple[int, int, bytes]],
    entries: list[tuple[int, int, bytes]],
    key: str,
    config: dict[str, Any],
) -> None:
    """Forged lengths, magics, flags, offsets and times, in records and in queues: the same answer or error.

    Where times go back, a search may end elsewhere, but in the queue.
    """
    with store_with(messages, **config) as (store, offsets):
        log, reader = store.commit_log, store._reader._collect.__self__  # type: ignore[attr-defined]
        assert log.direct_reader is not None
        store.get_message("billing", "orders", 0, 0)
        queue = store._parts.consume_queues.find("orders", 0)
        for number, position, data in records:
            offset = offsets[number % len(offsets)]
            segment = log.files.file_for(offset)
            assert segment is not None
            change(segment, offset - segment.start_offset + position, data)
        if queue is not None and queue.files:
            for number, position, data in entries:
                change(queue.files[0], number % queue.max_offset * ENTRY.size + position % ENTRY.size, data)
        text, any_time = f"orders#{key}".encode(), (-(2**63), 2**63 - 1)
        for offset in offsets:
            found, expected = log.look_message_by_offset(offset), interpreted(store, offset)
            assert outcome_of(fields_of, found) == outcome_of(fields_of, expected)
            keyed = log.direct_reader.message_with_key(offset, text, len("orders"), *any_time)
            if keyed is not False:
                assert expected is not None
                where = np.frombuffer(expected.data, np.uint8), expected.start, expected.stop
                is_wanted = has_key_in(*where, np.frombuffer(text, np.uint8), len("orders"), *any_time)
                assert (keyed is not None) == is_wanted
        direct = pulled(store)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reader, "_direct", None)
            assert pulled(store) == direct
        begin_ms, end = ManualClock().now_ms(), store.get_max_offset_in_queue("orders", 0)
        for ms in (begin_ms, begin_ms + len(messages) // 2, begin_ms + 200, 0, 2**63 - 1):
            assert 0 <= store.get_offset_in_queue_by_time("orders", 0, ms) <= end


def test_places_become_messages() -> None:
    """As many as there are; rows need not lie one behind the other."""
    data = memoryview(bytes(100))
    places = np.arange(40, dtype=np.int64).reshape(4, 10)
    for part in (places, places[:, :3], places[:, ::2], places[:, :0], np.asfortranarray(places)):
        made = make_messages(data, part)
        assert [(m.start, m.stop, m.body_start, m.body_stop) for m in made] == [
            tuple(row) for row in part.T.tolist()
        ]
        assert all(type(m) is StoredMessage and m.data is data for m in made)
    for wrong in (places[0], places.astype(np.int32), places[:3]):
        with pytest.raises((ValueError, BufferError, TypeError)):
            READS.messages_at(StoredMessage, data, wrong, 1)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="11 messages"):
        READS.messages_at(StoredMessage, data, places, 11)  # type: ignore[union-attr]


@SETTINGS
@given(data=st.binary(max_size=60), starts=st.lists(st.integers(0, 59), max_size=9), value=st.integers(0, 3))
def test_a_byte_of_each_record(data: bytes, starts: list[int], value: int) -> None:
    """Found at a position of any record; what lies behind the bytes is not there."""
    places = np.zeros((4, len(starts)), np.int64)
    places[0] = starts
    there = [data[start + 2] for start in starts if start + 2 < len(data)]
    assert READS.has_byte(memoryview(data), places, 2, value) == (value in there)  # type: ignore[union-attr]


@pytest.mark.parametrize("start", [-1, 100, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("position", [-1, 0, 2**62])
def test_a_byte_outside_is_not_there(start: int, position: int) -> None:
    """Wherever a place points to."""
    places = np.full((4, 3), start, np.int64)
    assert not READS.has_byte(memoryview(bytes(100)), places, position, 0)  # type: ignore[union-attr]


def test_a_pull_has_no_more_places_than_were_given() -> None:
    """At most 64, at most as many as there is room for, and only in an array that fits."""
    with store_with([Message("orders", b"x", queue_id=0)] * 70) as (store, offsets):
        reader = store.commit_log.direct_reader
        assert reader is not None
        records = [store.look_message_by_offset(offset) for offset in offsets]
        entries = b"".join(ENTRY.pack(one.physical_offset, one.store_size, 0) for one in records if one)
        for room, expected in ((0, 0), (3, 3), (64, 64), (70, 64)):
            places = np.full((4, room + 1), -1, np.int64)
            view, count, total_bytes = reader.places_of(memoryview(entries), places[:, :room], 1 << 20)
            assert count <= expected
            assert places[:, count:].tolist() == [[-1] * (room + 1 - count)] * 4
            made = make_messages(view, places[:, :count]) if count else []
            assert list(map(fields_of, made)) == list(map(fields_of, records[:count]))
            assert total_bytes == sum(message.store_size for message in made)
        for wrong in (places[0], places.astype(np.int32), places[:3], memoryview(bytes(96))):
            with pytest.raises((ValueError, BufferError, TypeError)):
                reader.places_of(memoryview(entries), wrong, 1 << 20)


# -- what keeps the interpreter alive -------------------------------------------------------------------


@pytest.mark.parametrize(
    "places",
    [
        (0, 0, 10**6, 2 * 10**6),
        (0, 5, -7, 3),
        (90, 5, 99, 400),
        (-(2**62),) * 4,
        (2**63 - 1, 0, 5, 7),
        (2**63 - 20, 0, 5, 7),
    ],
)
def test_places_outside_the_bytes_are_harmless(places: tuple[int, int, int, int]) -> None:
    """A body ends where its bytes end; a field that is not there is an error."""
    message = StoredMessage(memoryview(bytes(100)), *places)
    if message.body_start >= 0:
        assert message.body == bytes(max(0, min(places[3], 100) - places[2]))
        assert bytes(message.body_view) == message.body
    for name in ("queue_id", "queue_offset", "physical_offset"):
        with suppress(IndexError, RecordIllegal):
            assert getattr(message, name) == 0


def test_a_released_view_is_an_error() -> None:
    """Not a look at memory that is gone."""
    view = memoryview(bytearray(200))
    message = StoredMessage(view, 0, 100, 88, 95)
    view.release()
    for name in ("body", "body_view", "queue_id", "queue_offset", "physical_offset"):
        with pytest.raises(ValueError, match="released"):
            getattr(message, name)


def test_a_view_that_is_released_while_the_store_reads_is_an_error() -> None:
    """Of a store's own segment: each read says so."""
    with store_with([Message("orders", b"x")] * 5) as (store, offsets):
        message = store.commit_log.look_message_by_offset(offsets[0])
        assert message is not None
        copied = memoryview(bytes(message.data))
        copied.release()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store.commit_log.files.files[0], "_view", copied)
            with pytest.raises(ValueError, match="released"):
                store.commit_log.look_message_by_offset(offsets[0])


def test_messages_in_cycles_are_collected() -> None:
    """A list that holds itself, and messages: the collector takes all apart while they are garbage."""

    class Marked(list[Any]):
        """A list to which a weak reference may lead."""

    marked = Marked()
    marked.append(marked)
    marked += make_messages(memoryview(bytearray(1_000)), np.zeros((4, 50), np.int64))
    gone = weakref.ref(marked)
    del marked
    gc.collect()
    assert gone() is None


def test_a_received_message_counts_how_often_it_came_from_memory() -> None:
    """Compiled, too: its class has a field more. A copy has the same count."""
    received = ReceivedMessage.of(memoryview(bytes(200)))
    assert received.local_reconsume_times == 0
    twice = ReceivedMessage.again(ReceivedMessage.again(received))
    assert (twice.local_reconsume_times, copy.copy(twice).local_reconsume_times) == (2, 2)
    assert (received.local_reconsume_times, twice.detached().local_reconsume_times) == (0, 2)


def test_a_message_has_no_room_for_more() -> None:
    """It is made by the thousand."""
    message = StoredMessage(memoryview(bytes(100)), 0, 100)
    assert not hasattr(message, "__dict__")
    assert not gc.is_tracked(message)
    with pytest.raises(AttributeError):
        message.more = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_messages(copied: Any) -> None:
    """Equal in what is read of them, whatever was read before."""
    with store_with([Message("orders", b"body", tags="t", keys=("k",))]) as (store, offsets):
        message = store.commit_log.look_message_by_offset(offsets[0])
        assert message is not None
        for _ in range(2):
            found = copied(message)
            assert type(found) is StoredMessage
            assert (found.body, found.topic, found.tags, found.keys) == (
                b"body",
                "orders",
                "t",
                ("k",),
            )
            assert (str(found), repr(found)) == (str(message), repr(message))


# -- times ----------------------------------------------------------------------------------------------


@CONFIGS
@SETTINGS
@given(
    messages=st.lists(FOUND, min_size=1, max_size=12),
    steps=st.lists(st.integers(-3, 40), max_size=12),
    asked=st.lists(st.integers(-50, 400), min_size=1, max_size=6),
    boundary=st.sampled_from(["LOWER", "UPPER"]),
    repeats=st.sampled_from([1, 1, 9]),
)
def test_a_time_leads_to_an_entry_where_times_pass_it(
    messages: list[Message],
    steps: list[int],
    asked: list[int],
    boundary: Any,
    repeats: int,
    config: dict[str, Any],
) -> None:
    """The same one as the interpreted way gives, where times ascend; across segments, in long queues, too."""
    ascends = all(step >= 0 for step in steps)
    small = SmallStore(MemoryFileSystem(), Path("/store"), clock=ManualClock())
    with small.open(key_index_enable=False, **config) as store:
        begin_ms = small.clock.now_ms()
        for index, message in enumerate(messages * repeats):
            store.put_message(msgspec.structs.replace(message, topic="orders", queue_id=0))
            small.clock.advance(steps[index % len(steps)] if steps else 0)
        end = store.get_max_offset_in_queue("orders", 0)
        for ms in asked:
            found = store.get_offset_in_queue_by_time("orders", 0, begin_ms + ms, boundary)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(store.commit_log._reader, "direct", None)
                expected = store.get_offset_in_queue_by_time("orders", 0, begin_ms + ms, boundary)
            assert found == expected or not ascends
            assert 0 <= found <= end


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="prefetcht0, which is looked for, is an instruction of x86-64"
)
def test_records_are_fetched_ahead() -> None:
    """A compiler may take a function that does nothing else for one without effect, and leave it out."""
    assert READS is not None
    file = Path(sys.modules[READS.messages_at.__module__].__file__ or "")
    assert len(_PREFETCHES.findall(file.read_bytes())) >= 3
