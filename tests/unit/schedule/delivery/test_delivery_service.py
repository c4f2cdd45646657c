"""The delivery service: never early, never skipped, one level's trouble its own, nothing lost in a power cut.

A real log and real queues in memory, with a clock moved by hand and puts that fail on demand
(support/stores/delayed_store.py). Time passes only where a test says so.
"""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.schedule.delivery import delivery_service
from mqstore.store.errors import MessageIllegal
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import TRANS_HALF_TOPIC
from support.disks.interrupts import interrupted_at
from support.stores.delayed_store import DelayedStore


def delay_offset_text(*offsets: tuple[int, int]) -> bytes:
    table = ",".join(f"{level}:{offset}" for level, offset in offsets)
    return b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},"offsetTable":{%s}}' % table.encode()


# -- when -----------------------------------------------------------------------------------------------


def test_a_message_is_delivered_when_due_and_not_a_millisecond_before() -> None:
    """10 s after it was stored, once."""
    store = DelayedStore()
    store.delay(3, b"body")
    assert store.deliver_after(9_999) == 0
    assert store.bodies() == []
    assert store.deliver_after(1) == 1
    assert store.bodies() == [b"body"]
    assert store.deliver_after(3_600_000) == 0


def test_the_delivered_record_keeps_its_properties_string() -> None:
    """Row 4 of the checklist: only topic, queue, offsets and store time differ from the waiting one."""
    store = DelayedStore()
    store.put(Message("orders", b"body", tags="TagA", keys=("k1",), queue_id=2, delay_level=3, flag=5))
    store.deliver_after(10_000)
    (waiting,), (delivered,) = store.waiting(3), store.messages("orders", 2)
    assert waiting.properties == delivered.properties
    assert list(waiting.properties) == list(delivered.properties)
    assert (
        delivered.properties | {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "2"} == delivered.properties
    )
    assert (delivered.tags, delivered.keys, delivered.flag) == ("TagA", ("k1",), 5)
    assert delivered.born_timestamp == waiting.born_timestamp
    assert delivered.store_timestamp == waiting.store_timestamp + 10_000


def test_levels_do_not_wait_for_each_other() -> None:
    """A short delay passes a long one that was put earlier."""
    store = DelayedStore()
    store.delay(3, b"long")
    store.delay(1, b"short")
    assert store.deliver_after(1_000) == 1
    assert store.bodies() == [b"short"]


def test_a_shorter_level_table_delivers_old_messages_at_once() -> None:
    """Row 11 of the checklist: what was stored for 10 s is due when its level now means 1 s."""
    old = DelayedStore(levels="10s")
    old.delay(1, b"body")
    store = DelayedStore(levels="1s", clock=old.clock, log_bytes=old.log_bytes)
    # The queue was not rebuilt: its entry keeps the time that the old table gave it.
    store.replace_entry(1, 0, old.entry(1, 0))
    assert store.deliver_after(0) == 1


def test_a_level_that_left_the_table_is_still_delivered() -> None:
    """Its messages keep their time; RocketMQ would leave them lying. Row 12 of the checklist."""
    old = DelayedStore(levels="1s 5s 10s")
    old.delay(3, b"body")
    old.flush()
    store = DelayedStore(levels="1s", clock=old.clock, log_bytes=old.log_bytes)
    levels = [(status.level, status.delay_ms) for status in store.delivery.status()]
    assert levels == [(1, 1_000), (3, None)]
    # Rebuilt queues use the current table: a missing level waits 1 s.
    assert store.deliver_after(999) == 0
    assert store.deliver_after(1) == 1
    assert store.bodies() == [b"body"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-400, 4_000)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_every_message_is_delivered_once_in_order_and_not_early(steps: list[tuple[int, int]]) -> None:
    """For any mix of puts, passes and steps of the clock, also backwards.

    Early means: before the delay has passed since the put, as an observer sees who adds up only the time that
    goes forward.
    """
    store = DelayedStore()
    elapsed_ms = 0
    put_at: dict[bytes, int] = {}
    expected: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
    for number, (level, duration_ms) in enumerate(steps):
        if level:
            body = b"%d" % number
            store.delay(level, body, topic=f"level{level}")
            put_at[body] = elapsed_ms
            expected[level].append(body)
        known = {each: len(store.bodies(f"level{each}")) for each in expected}
        elapsed_ms += max(0, duration_ms)
        store.deliver_after(duration_ms)
        for known_level, count in known.items():
            for body in store.bodies(f"level{known_level}")[count:]:
                assert elapsed_ms - put_at[body] >= store.levels.delay_ms(known_level)
    for _ in range(4):
        store.deliver_after(20_000)
    assert {level: store.bodies(f"level{level}") for level in expected} == expected


# -- trouble --------------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_put_stops_its_level_only() -> None:
    """Those before it are delivered, those behind it wait, other levels go on, and the error is seen."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.delay(1, b"b", topic="refused")
    store.delay(1, b"c")
    store.delay(2, b"d")
    store.put_errors["refused"] = MessageIllegal("no such luck")
    assert store.deliver_after(5_000) == 2
    assert store.bodies() == [b"a", b"d"]
    first, second, third = store.delivery.status()
    assert first.error == "MessageIllegal: no such luck"
    assert (first.next_offset, first.pending, first.delivered) == (1, 2, 1)
    assert (first.blocked_since_ms, first.lateness_ms) == (store.clock.now_ms(), 4_000)
    assert (second.error, second.pending, second.lateness_ms, second.next_due_ms) == (None, 0, 0, None)
    assert third.error is None


def test_an_unforeseen_error_stops_only_its_level() -> None:
    """Even a bug in the put does not keep other levels from their deliveries."""
    store = DelayedStore()
    store.delay(1, b"a", topic="odd")
    store.delay(2, b"b")
    store.put_errors["odd"] = ZeroDivisionError("oops")
    assert store.deliver_after(5_000) == 1
    assert store.delivery.status()[0].error == "ZeroDivisionError: oops"


def test_a_record_that_is_gone_blocks_until_somebody_says_skip() -> None:
    """RocketMQ passes over it silently; here it takes a word, and the rest follows."""
    store = DelayedStore()
    store.delay(1, b"a", b"b")
    beyond = store.log.max_offset
    store.replace_entry(1, 0, (beyond, *store.entry(1, 0)[1:]))
    assert store.deliver_after(1_000) == 0
    assert f"MessageNotFound: no record begins at physical offset {beyond}" in str(
        store.delivery.status()[0].error
    )
    assert store.delivery.skip(1) == beyond
    assert store.deliver_after(0) == 1
    assert store.bodies() == [b"b"]
    assert store.delivery.status()[0].passed_over == 1


def test_only_a_blocked_level_can_be_skipped() -> None:
    """A slip of the level's number loses nothing."""
    store = DelayedStore()
    store.delay(1, b"a")
    for level in (0, 1, 2, 99):
        with pytest.raises(ValueError, match=f"delay level {level} is not blocked"):
            store.delivery.skip(level)


def test_a_stopped_service_delivers_nothing() -> None:
    """So that the log can be flushed for the last time."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.delivery.stop()
    assert store.deliver_after(1_000) == 0


def test_ctrl_c_while_it_is_stopped_lets_it_be_stopped_again() -> None:
    """Between any two lines, those of the standard library among them: an event's lock would stay taken."""
    line, was_interrupted = 0, True
    while was_interrupted:
        line += 1
        delivery = DelayedStore().delivery
        was_interrupted = interrupted_at(line, (threading, delivery_service), delivery.stop)
        stopper = threading.Thread(target=delivery.stop, daemon=True)
        stopper.start()
        stopper.join(10)
        assert not stopper.is_alive(), line


def test_questions_do_not_wait_for_a_delivery() -> None:
    """While a put hangs, status, pending and the pin answer."""
    store = DelayedStore()
    store.delay(1, b"a")
    entered, leave = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        leave.wait()

    store.before_put = hang
    store.clock.advance(1_000)
    runner = threading.Thread(target=store.delivery.run_once)
    runner.start()
    entered.wait()
    assert store.delivery.pending() == {1: 1}
    assert store.delivery.status()[0].lateness_ms == 0
    assert store.delivery.min_undelivered_physical_offset() == 0
    leave.set()
    runner.join()
    assert store.bodies() == [b"a"]


# -- what is kept ---------------------------------------------------------------------------------------


def test_delay_offsets_are_not_persisted_ahead_of_the_flushed_log() -> None:
    """The file follows the flush of the delivered copies, not the delivery."""
    store = DelayedStore()
    store.delay(1, b"a", b"b")
    store.flush()
    waiting_end = store.log.flushed_offset
    store.deliver_after(1_000)
    store.delivery.persist(waiting_end)
    assert b"1:2" not in store.delay_offset_text
    store.flush()
    store.delivery.persist(store.log.flushed_offset)
    assert b"1:2" in store.delay_offset_text


def test_a_power_cut_doubles_but_never_skips() -> None:
    """Delivered, not flushed, cut: delivered again. Delivered and flushed, cut: not again."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.flush()
    store.deliver_after(1_000)
    store.delivery.persist(store.log.flushed_offset)
    again = store.power_cut()
    assert again.bodies() == []
    assert again.deliver_after(1_000) == 1
    again.flush()
    again.delivery.persist(again.log.flushed_offset)
    once_more = again.power_cut()
    assert once_more.bodies() == [b"a"]
    assert once_more.deliver_after(10_000) == 0


def test_a_passed_over_entry_is_not_persisted_before_its_own_record_is_durable() -> None:
    """Else its number would be given again, and that message skipped."""
    store = DelayedStore()
    store.flush()
    store.delay(1, b"half", topic=TRANS_HALF_TOPIC)
    store.deliver_after(1_000)
    store.delivery.persist(store.log.flushed_offset)
    after = store.power_cut()
    after.delay(1, b"a")
    assert after.deliver_after(1_000) == 1


ACTIONS = ["put", "put", "deliver", "deliver", "flush", "persist", "cut"]


@given(st.lists(st.sampled_from(ACTIONS), max_size=30))
@settings(max_examples=120, deadline=None)
def test_no_order_of_events_loses_a_durable_message(actions: list[str]) -> None:
    """Whatever was durable before a power cut is delivered in the end, whenever the cut comes."""
    store = DelayedStore()
    unflushed: list[bytes] = []
    durable: set[bytes] = set()
    for number, action in enumerate(actions):
        if action == "put":
            unflushed.append(b"%d" % number)
            store.delay(number % 3 + 1, unflushed[-1])
        elif action == "deliver":
            store.deliver_after(5_000)
        elif action == "flush":
            store.flush()
            durable.update(unflushed)
            unflushed.clear()
        elif action == "persist":
            store.delivery.persist(store.log.flushed_offset)
        else:
            store = store.power_cut()
            unflushed.clear()
    store = store.power_cut()
    store.deliver_after(60_000)
    assert durable <= set(store.bodies())


@pytest.mark.parametrize(("stored_offset", "delivered"), [(0, 2), (1, 1), (2, 0), (50, 0)])
def test_loading_clamps_into_the_queue(stored_offset: int, delivered: int) -> None:
    """A level starts where the file says, but at the queue's end at most."""
    old = DelayedStore()
    old.delay(1, b"a", b"b")
    old.flush()
    store = DelayedStore(
        clock=old.clock,
        log_bytes=old.log_bytes,
        delay_offsets=delay_offset_text((1, stored_offset)),
    )
    assert store.deliver_after(1_000) == delivered


def test_an_offset_beyond_the_queue_is_lowered_on_disk_at_once() -> None:
    """Else the messages that fill the gap would be skipped after a crash."""
    store = DelayedStore(delay_offsets=delay_offset_text((1, 50), (2, 3)))
    assert b"1:0,2:0" in store.delay_offset_text
    store.delay(1, b"a")
    store.flush()
    assert store.power_cut().deliver_after(1_000) == 1


def test_loading_for_reading_only_changes_nothing() -> None:
    """A tool may look at a directory that is not its own."""
    text = delay_offset_text((1, 50))
    store = DelayedStore(delay_offsets=text)
    store.file_system.write(store.delay_offset_path, text)
    store.delivery.load(read_only=True)
    assert store.delay_offset_text == text
    assert store.delivery.pending() == {}


def test_a_missing_level_starts_at_its_queues_first_entry() -> None:
    """Row 10 of the checklist: old entries that are still there are delivered again."""
    old = DelayedStore()
    old.delay(1, b"a")
    old.delay(2, b"b")
    old.deliver_after(5_000)
    old.flush()
    store = DelayedStore(
        clock=old.clock,
        log_bytes=old.log_bytes,
        delay_offsets=delay_offset_text((2, 1)),
    )
    assert store.deliver_after(1_000) == 1
    assert store.bodies() == [b"a", b"b", b"a"]


def test_retention_is_pinned_by_what_a_power_cut_could_call_back() -> None:
    """Not by what was never put alone: a copy that is not durable still needs its waiting record."""
    store = DelayedStore()
    store.put(Message("orders", b"plain"))
    first, second = store.delay(1, b"a", b"b")
    (third,) = store.delay(2, b"c")
    pin = store.delivery.min_undelivered_physical_offset
    assert pin() == first.physical_offset
    store.deliver_after(1_000)
    assert pin() == first.physical_offset
    store.flush()
    assert pin() == third.physical_offset > second.physical_offset
    store.deliver_after(4_000)
    store.flush()
    assert pin() == store.log.max_offset


def test_pending_counts_by_level() -> None:
    """Levels without are left out, and the repr shows the same."""
    store = DelayedStore()
    store.delay(1, b"a", b"b")
    store.delay(3, b"c")
    assert store.delivery.pending() == {1: 2, 3: 1}
    assert repr(store.delivery) == "<DeliveryService of 3 levels, blocked [], pending {1: 2, 3: 1}>"
    store.deliver_after(1_000)
    assert store.delivery.pending() == {3: 1}
