"""Cancelled delays: what is cancelled is not delivered, everything else is, and a power cut changes neither.

Method: a log and its queues in memory, a clock that stands still, power cuts that keep the flushed log.
"""

import pytest

from mqstore.schedule.delivery.cancelled_delays import CancelledDelay, CancelledDelays, cancelling
from mqstore.store.errors import DelayNotWaiting, MessageNotFound
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import CANCELLED_DELAYS_TOPIC
from mqstore.store.record.record_format import BODY_LENGTH_POSITION
from support.stores.delayed_store import DelayedStore


def cancel(store: DelayedStore, physical_offset: int) -> None:
    store.delivery.cancel(physical_offset, store.flush)


@pytest.mark.parametrize("in_blocks", [True, False])
@pytest.mark.parametrize("gone", [(0,), (2,), (0, 1), (1, 3), (4,), (0, 2, 4), (0, 1, 2, 3, 4)], ids=str)
def test_what_is_cancelled_is_not_delivered_and_all_else_is(gone: tuple[int, ...], in_blocks: bool) -> None:
    """At the head of the level, in its midst and at its end; by the compiled loop and one by one."""
    store = DelayedStore(in_blocks=in_blocks)
    puts = store.delay(2, b"0", b"1", b"2", b"3", b"4")
    for index in gone:
        cancel(store, puts[index].physical_offset)
    store.deliver_after(5_000)
    assert store.bodies() == [b"%d" % index for index in range(5) if index not in gone]
    assert store.delivery.pending() == {}


def test_other_levels_have_the_same_offsets_and_are_not_cancelled() -> None:
    """A cancelling names its level."""
    store = DelayedStore()
    (short,) = store.delay(1, b"short")
    store.delay(2, b"long")
    cancel(store, short.physical_offset)
    store.deliver_after(5_000)
    assert store.bodies() == [b"long"]


def test_the_waiting_record_stays_as_it_was() -> None:
    """An acknowledged record is not changed."""
    store = DelayedStore()
    (put,) = store.delay(2, b"0")
    before = store.waiting(2)[0].record.tobytes()
    cancel(store, put.physical_offset)
    assert store.waiting(2)[0].record.tobytes() == before


@pytest.mark.parametrize("is_due_before", [True, False])
def test_a_cancelling_survives_a_power_cut(is_due_before: bool) -> None:
    """Whether the level had passed the message or not; delayOffset.json was never saved."""
    store = DelayedStore()
    puts = store.delay(2, b"0", b"1")
    cancel(store, puts[0].physical_offset)
    if is_due_before:
        store.deliver_after(5_000)
    after = store.power_cut()
    assert [each.is_cancelled for each in after.delivery.waiting()] == [True, False]
    after.deliver_after(5_000)
    assert after.bodies() == [b"1"]


def test_a_cancelling_that_was_not_synced_is_lost_as_a_whole() -> None:
    """The call raised, so nothing was promised; the message is delivered."""
    store = DelayedStore()
    (put,) = store.delay(2, b"0")
    store.flush()

    def fail() -> None:
        raise OSError("the disk")

    with pytest.raises(OSError, match="the disk"):
        store.delivery.cancel(put.physical_offset, fail)
    after = store.power_cut()
    after.deliver_after(5_000)
    assert after.bodies() == [b"0"]


def test_what_does_not_wait_cannot_be_cancelled() -> None:
    """Delivered, cancelled, of another topic, or not there: each is said, and nothing is stored."""
    store = DelayedStore()
    delivered, cancelled = store.delay(1, b"0", b"1")
    cancel(store, cancelled.physical_offset)
    with pytest.raises(DelayNotWaiting, match="cancelled already"):
        cancel(store, cancelled.physical_offset)
    store.deliver_after(1_000)
    end = store.log.max_offset
    for put in (delivered, cancelled):
        with pytest.raises(DelayNotWaiting, match="delivered, or passed over"):
            cancel(store, put.physical_offset)
    with pytest.raises(DelayNotWaiting, match="a message of topic 'orders'"):
        cancel(store, store.messages("orders")[0].physical_offset)
    with pytest.raises(MessageNotFound):
        cancel(store, end + 8)
    assert store.log.max_offset == end


def test_a_blocked_level_goes_on_once_its_message_is_cancelled() -> None:
    """The operator need not skip it as well."""
    store = DelayedStore()
    (bad,) = store.delay(1, b"bad", topic="nowhere")
    store.delay(1, b"good")
    store.put_errors["nowhere"] = OSError("no room")
    store.deliver_after(1_000)
    assert "no room" in str(store.delivery.status()[0].error)
    cancel(store, bad.physical_offset)
    store.deliver_after(0)
    assert (store.bodies(), store.delivery.status()[0].error) == ([b"good"], None)


@pytest.mark.parametrize("body", [b"", b"2,0", b"2,0,x", b"2,0,8", b"9,0,0", b"-1,0,0", b"2,1,0"])
def test_a_record_that_cancels_nothing_has_no_effect(body: bytes) -> None:
    """Garbage, another level, another entry, or another record at this entry."""
    store = DelayedStore()
    store.delay(2, b"0")
    store.put_as_it_is([Message(CANCELLED_DELAYS_TOPIC, body, queue_id=0)])
    assert [each.is_cancelled for each in store.delivery.waiting()] == [False]
    store.deliver_after(5_000)
    assert store.bodies() == [b"0"]


def test_a_damaged_record_keeps_no_store_from_opening() -> None:
    """Its lengths do not add up: it has no effect, and what it cancelled is delivered."""
    store = DelayedStore()
    (put,) = store.delay(2, b"0")
    cancel(store, put.physical_offset)
    (record,) = store.messages(CANCELLED_DELAYS_TOPIC)
    segment = store.log.files.files[0]
    segment.write(record.physical_offset + BODY_LENGTH_POSITION, b"\x7f\xff\xff\xff")
    again = CancelledDelays(store.queues, store.log)
    again.catch_up()
    assert not again.has_any(2)


def test_what_a_level_has_passed_is_forgotten() -> None:
    """So that memory does not grow with what was ever cancelled."""
    store = DelayedStore()
    cancelled = CancelledDelays(store.queues, store.log)
    places = [CancelledDelay(1, offset, 100 * offset) for offset in range(3)]
    store.put_as_it_is([cancelling(place) for place in places])
    cancelled.catch_up()
    cancelled.forget_below(1, 2)
    assert [cancelled.has(place) for place in places] == [False, False, True]
    assert cancelled.has_any(1)
    cancelled.forget_below(1, 3)
    assert (cancelled.has_any(1), repr(cancelled)) == (False, "<CancelledDelays: 0>")


def test_waiting_messages_are_listed_in_the_order_of_their_delivery() -> None:
    """Level by level, with when and where to."""
    store = DelayedStore()
    store.delay(2, b"second")
    store.delay(1, b"first", topic="bills")
    now_ms = store.clock.now_ms()
    listed = [(each.level, each.due_ms - now_ms, each.real_topic) for each in store.delivery.waiting()]
    assert listed == [(1, 1_000, "bills"), (2, 5_000, "orders")]
    assert [each.message.body for each in store.delivery.waiting(2)] == [b"second"]
    store.deliver_after(1_000)
    assert [each.level for each in store.delivery.waiting()] == [2]
