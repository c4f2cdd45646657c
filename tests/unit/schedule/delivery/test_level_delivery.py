"""The delivery of one level: in order, whatever the batches, and what blocks it, for how long.

Over the same store in memory as test_delivery_service.py (support/stores/delayed_store.py): one level driven
by hand, then the service with messages of one level.
"""

import numpy as np
import pytest

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY_DTYPE
from mqstore.schedule.delivery import level_delivery
from mqstore.schedule.delivery.cancelled_delays import CancelledDelays
from mqstore.schedule.delivery.level_delivery import LevelDelivery, Puts, clamped
from mqstore.store.errors import MessageIllegal, StoreFull
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.status import PutMessageStatus
from support.stores.delayed_store import DelayedStore


def level_of(store: DelayedStore, level: int) -> LevelDelivery:
    """A level of its own over the store's log and queues; it restores message by message."""
    delay_ms = store.levels.delay_ms(level)
    puts = Puts(store.put_restored)
    cancelled = CancelledDelays(store.queues, store.log)
    return LevelDelivery(level, delay_ms, store.queues, store.log, store.delay_offsets, puts, cancelled)


def test_a_turn_says_whether_there_may_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch a turn; the last turn moves nothing."""
    monkeypatch.setattr(level_delivery, "MAX_BATCH_MESSAGES", 2)
    store = DelayedStore()
    store.delay(1, b"a", b"b", b"c")
    level = level_of(store, 1)
    now_ms = store.clock.now_ms() + 1_000
    assert [level.take_turn(now_ms) for _ in range(3)] == [True, True, False]
    assert (store.delivered_batches, level.delivered, level.pending()) == ([2, 1], 3, 0)
    assert repr(level) == "<LevelDelivery of level 1, error None, pending 0>"


def test_an_error_ends_the_turn_and_stays() -> None:
    """No error escapes; the status has it, with the time of the first turn that met it."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.put_errors["orders"] = StoreFull(store.log.path, 1, "no room")
    level = level_of(store, 1)
    first_ms = store.clock.now_ms() + 1_000
    assert not level.take_turn(first_ms)
    assert not level.take_turn(first_ms + 5)
    status = level.status(first_ms + 5)
    assert status.error == level.error
    assert (status.blocked_since_ms, status.pending, status.lateness_ms) == (first_ms, 1, 5)


def test_the_durable_offset_follows_the_flush_of_the_copies() -> None:
    """Not the delivery, and not the flush of what waits."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.flush()
    level = level_of(store, 1)
    level.take_turn(store.clock.now_ms() + 1_000)
    assert level.status(0).next_offset == 1
    assert level.durable_offset(store.log.flushed_offset) == 0
    store.flush()
    assert level.durable_offset(store.log.flushed_offset) == 1


def test_an_offset_is_clamped_to_the_queue() -> None:
    """Nothing below its first entry and nothing behind its last; a queue that does not exist starts at 0."""
    store = DelayedStore()
    store.delay(1, b"a", b"b")
    queue = store.queues.find(SCHEDULE_TOPIC, 0)
    assert [clamped(queue, offset) for offset in (-1, 0, 1, 2, 3)] == [0, 0, 1, 2, 2]
    assert clamped(None, 7) == 0
    assert level_of(store, 2).entry_from(0) is None


def test_a_level_is_delivered_in_order_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a batch, more than a queue file (100 entries here), bodies that fill the byte limit."""
    monkeypatch.setattr(level_delivery, "MAX_BATCH_MESSAGES", 64)
    monkeypatch.setattr(level_delivery, "MAX_BATCH_BYTES", 9_000)
    store = DelayedStore()
    bodies = [b"%d-" % number + b"x" * (number % 7 * 100) for number in range(250)]
    bodies[17] = b"y" * 20_000
    store.delay(1, *bodies)
    assert store.deliver_after(1_000) == 250
    assert store.bodies() == bodies
    assert 1 in store.delivered_batches, "a record above the byte limit goes alone"
    assert max(store.delivered_batches) <= 64


def test_a_blocked_level_goes_on_when_the_cause_is_gone() -> None:
    """Nothing was skipped meanwhile, and nothing is doubled."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.delay(1, b"b", topic="refused")
    store.delay(1, b"c")
    store.put_errors["refused"] = MessageIllegal("no such luck")
    store.deliver_after(1_000)
    blocked_since_ms = store.clock.now_ms()
    assert store.deliver_after(100) == 0
    assert store.delivery.status()[0].blocked_since_ms == blocked_since_ms
    store.put_errors.clear()
    assert store.deliver_after(100) == 2
    assert (store.bodies(), store.bodies("refused")) == ([b"a", b"c"], [b"b"])
    status = store.delivery.status()[0]
    assert (status.error, status.blocked_since_ms, status.pending) == (None, None, 0)


def test_a_full_disk_delivers_nothing_of_the_batch_and_is_retried() -> None:
    """An error that is not the message's fault stops at the batch's first entry."""
    store = DelayedStore()
    store.delay(1, b"a", b"b")
    store.put_errors["orders"] = StoreFull(store.log.path, 1, "no room")
    assert store.deliver_after(1_000) == 0
    assert "StoreFull" in str(store.delivery.status()[0].error)
    store.put_errors.clear()
    assert store.deliver_after(100) == 2
    assert store.bodies() == [b"a", b"b"]


def test_a_damaged_record_is_not_delivered_under_a_new_checksum() -> None:
    """Its level stops with the CRC that was found; repaired, it goes on."""
    store = DelayedStore()
    (put,) = store.delay(1, b"body")
    store.delay(1, b"next")
    store.damage(put.physical_offset)
    assert store.deliver_after(1_000) == 0
    error = str(store.delivery.status()[0].error)
    assert f"{0:020d} is damaged at byte {put.physical_offset}: expected body CRC" in error
    store.damage(put.physical_offset)
    assert store.deliver_after(100) == 2
    assert store.bodies() == [b"body", b"next"]


def test_an_entry_that_is_gone_meanwhile_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the one that takes its place: nobody has said a word about that."""
    store = DelayedStore()
    (put,) = store.delay(1, b"body")
    store.damage(put.physical_offset)
    assert store.deliver_after(1_000) == 0
    monkeypatch.setattr(ConsumeQueue, "entries_from", lambda *_: np.empty(0, ENTRY_DTYPE))
    with pytest.raises(ValueError, match="the entry that blocked delay level 1 is gone"):
        store.delivery.skip(1)
    assert store.delivery.status()[0].passed_over == 0


def test_an_entry_of_another_record_is_not_delivered() -> None:
    """Queue and log must agree on which message it is."""
    store = DelayedStore()
    store.delay(1, b"a", b"b")
    store.replace_entry(1, 0, store.entry(1, 1))
    assert store.deliver_after(1_000) == 0
    error = str(store.delivery.status()[0].error)
    assert "CorruptRecord" in error
    assert "expected the record of queue entry ('SCHEDULE_TOPIC_XXXX', 0, 0, " in error


def test_an_unknown_real_queue_blocks() -> None:
    """A record of the schedule topic that says nothing about its target is shown, not dropped."""
    store = DelayedStore()
    store.put_as_it_is([Message(SCHEDULE_TOPIC, b"", properties={"DELAY": "1"})])
    assert store.deliver_after(1_000) == 0
    assert "REAL_TOPIC" in str(store.delivery.status()[0].error)


def test_half_messages_are_passed_over() -> None:
    """Between others, and alone; they are counted."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.delay(1, b"half", topic=TRANS_HALF_TOPIC)
    store.delay(1, b"b")
    store.delay(1, b"half", topic=TRANS_HALF_TOPIC)
    assert store.deliver_after(1_000) == 2
    assert (store.bodies(), store.bodies(TRANS_HALF_TOPIC)) == ([b"a", b"b"], [])
    status = store.delivery.status()[0]
    assert (status.passed_over, status.pending) == (2, 0)


def test_a_slow_disk_is_no_reason_to_double_a_message() -> None:
    """FLUSH_DISK_TIMEOUT leaves the copy in the log; RocketMQ would put it again."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.put_status = PutMessageStatus.FLUSH_DISK_TIMEOUT
    assert store.deliver_after(1_000) == 1
    assert store.deliver_after(1_000) == 0
    assert store.bodies() == [b"a"]


def test_a_put_that_stored_nothing_blocks_with_its_status() -> None:
    """Any status but those that leave the message in the log."""
    store = DelayedStore()
    store.delay(1, b"a")
    store.put_status = PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert store.deliver_after(1_000) == 0
    assert "SERVICE_NOT_AVAILABLE" in str(store.delivery.status()[0].error)


def test_blank_entries_are_passed_over_and_do_not_stand_for_their_neighbour() -> None:
    """A gap in a rebuilt queue names the record behind it, with deliver time 0; that one is not early."""
    store = DelayedStore()
    store.delay(1, b"a", b"b", b"c")
    store.replace_entry(1, 1, (store.entry(1, 2)[0], BLANK_SIZE, 0))
    assert store.deliver_after(0) == 0
    assert store.deliver_after(1_000) == 2
    assert store.bodies() == [b"a", b"c"]
    assert store.delivery.status()[0].passed_over == 1
