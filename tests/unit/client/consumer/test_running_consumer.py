"""The parts of a running consumer together: what is periodic, and steps of a close that fail or hang.

A scripted broker; periodic work is called by hand.
"""

import threading

import pytest

from mqstore.broker.broker import ConsumerData, MessageModel
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.consume_hooks import ConsumeHooks
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus, RegisteredConcurrentListener
from mqstore.client.consumer.running_consumer import RunningConsumer
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.client.rebalance.queue_allocation import allocate_averagely
from mqstore.store.errors import StoreError, TopicNotExist
from mqstore.store.threads.duty_cycle import DutyCycle
from support.clients.manual_timer import ManualTimer
from support.clients.scripted_broker import BROKER, ScriptedBroker, found
from support.clients.stored_messages import stored_messages
from support.manual_clock import ManualClock

GROUP, CLIENT = "billing", "a"


class Consumer:
    """A running consumer and what is around it; its timer is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = ScriptedBroker()
        self.broker.add_topic("orders")
        self.timer = ManualTimer()
        self.timer.stop = lambda timeout_s: True  # type: ignore[attr-defined]
        self.offsets = BrokerOffsetStore({BROKER: self.broker}, GROUP)
        self.consumed = threading.Event()
        module = "mqstore.client.consumer.running_consumer"
        monkeypatch.setattr(f"{module}.TimerThread", lambda name: self.timer)
        self.running = RunningConsumer(
            Brokers(self.broker, "it"),
            GROUP,
            CLIENT,
            ConsumerSettings(),
            RegisteredConcurrentListener(self.listen, ConsumeConcurrentlyStatus.CONSUME_SUCCESS),
            ConsumeHooks(),
            self.offsets,
            ManualClock(),
            lambda: {"orders": "*"},
            allocate_averagely,
        )
        self.running._pulls._tell_duty_cycle = DutyCycle(self.timer.now_s)
        data = ConsumerData(MessageModel.CLUSTERING, {"orders": "*"})
        self.broker.register_consumer(GROUP, CLIENT, data, self.running.rebalance.soon)

    def listen(self, *_: object) -> None:
        self.consumed.set()


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    return Consumer(monkeypatch)


def test_offsets_are_persisted_every_5_s(consumer: Consumer) -> None:
    """The first time after 10 s (section 1); each owned queue, also one that has not moved."""
    consumer.running.start()
    try:
        consumer.timer.advance(0)
        (pulled,) = consumer.running.assigned
        consumer.offsets.update(pulled.queue, 7, increase_only=True)
        consumer.timer.advance(9_999)
        assert consumer.broker.commits == [(GROUP, "orders", 0, 7)]
        for count in (2, 3):
            consumer.timer.advance(1)
            assert consumer.broker.commits == [(GROUP, "orders", 0, 7)] * count
            consumer.timer.advance(4_999)
    finally:
        consumer.running.close()


def test_what_has_moved_is_told_soon(consumer: Consumer) -> None:
    """Within 200 ms, once, and not what a pull has told: a kill repeats what is not told."""
    consumer.running.start()
    try:
        consumer.timer.advance(0)
        (pulled,) = consumer.running.assigned
        for offset in (7, 8):
            consumer.offsets.update(pulled.queue, offset, increase_only=True)
            consumer.timer.advance(200)
            assert consumer.broker.commits[-1] == (GROUP, "orders", 0, offset)
            consumer.timer.advance(600)
        assert len(consumer.broker.commits) == 2
        consumer.offsets.update(pulled.queue, 9, increase_only=True)
        pulled.told_offset = 9
        consumer.timer.advance(600)
        assert len(consumer.broker.commits) == 2
    finally:
        consumer.running.close()


def test_a_queue_that_was_taken_away_is_not_told_of(consumer: Consumer) -> None:
    """Another member has it, or an operator has moved it."""
    consumer.running.start()
    try:
        consumer.timer.advance(0)
        (pulled,) = consumer.running.assigned
        consumer.offsets.update(pulled.queue, 7, increase_only=True)
        pulled.process_queue.dropped = True
        consumer.timer.advance(600)
        assert consumer.broker.commits == []
        pulled.process_queue.dropped = False
    finally:
        consumer.running.close()


def test_a_broker_that_is_away_is_not_told_ten_times_a_second(consumer: Consumer) -> None:
    """After an error the next try is that of all offsets, or the one 5 s later."""
    consumer.running.start()
    try:
        consumer.timer.advance(0)
        (pulled,) = consumer.running.assigned
        consumer.offsets.update(pulled.queue, 7, increase_only=True)
        consumer.broker.commit_errors["orders"] = TopicNotExist("orders")
        consumer.timer.advance(200)
        consumer.broker.commit_errors.clear()
        consumer.timer.advance(4_999)
        assert consumer.broker.commits == []
        consumer.timer.advance(1)
        assert consumer.broker.commits == [(GROUP, "orders", 0, 7)]
    finally:
        consumer.running.close()


def persist_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """A pull may fail as well, and says so elsewhere."""
    return [message for message in caplog.messages if "cannot persist its offsets" in message]


def test_a_persist_that_fails_is_logged_once(consumer: Consumer, caplog: pytest.LogCaptureFixture) -> None:
    """And tried again; the next error of another kind is logged too."""
    consumer.running.start()
    try:
        consumer.timer.advance(0)
        (pulled,) = consumer.running.assigned
        consumer.offsets.update(pulled.queue, 7, increase_only=True)
        consumer.broker.commit_errors["orders"] = TopicNotExist("orders")
        consumer.timer.advance(20_000)
        assert len(persist_warnings(caplog)) == 1
        consumer.broker.commit_errors["orders"] = StoreError("another")
        consumer.timer.advance(10_000)
        assert len(persist_warnings(caplog)) == 2
    finally:
        consumer.broker.commit_errors.clear()
        consumer.running.close()


def test_expired_messages_are_looked_for_every_consume_timeout(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cleanExpiredMsg: every 15 minutes, for each queue."""
    looked = []
    monkeypatch.setattr(consumer.running._consuming, "clean_expired", looked.append)
    consumer.running.start()
    try:
        consumer.timer.advance(15 * 60_000 - 1)
        assert looked == []
        consumer.timer.advance(1)
        assert looked == list(consumer.running.assigned)
        consumer.timer.advance(15 * 60_000)
        assert len(looked) == 2
    finally:
        consumer.running.close()


def test_a_close_goes_through_all_steps(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A pull that hangs and an interrupt (Ctrl-C) while listeners are waited for: the rest is done."""
    consumer.broker.answers.append(found(stored_messages(0)))
    consumer.running.start()
    consumer.timer.advance(0)
    assert consumer.consumed.wait(10)
    stop_pulls = consumer.running._pulls.service.stop
    monkeypatch.setattr(
        consumer.running._pulls.service, "stop", lambda timeout_s: stop_pulls(timeout_s) and False
    )
    stop = consumer.running._consuming.stop

    def interrupt(timeout_s: float) -> None:
        stop(timeout_s)
        if timeout_s:
            raise KeyboardInterrupt

    monkeypatch.setattr(consumer.running._consuming, "stop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        consumer.running.close()
    assert "a pull has not ended" in caplog.text
    assert consumer.broker.commits == [(GROUP, "orders", 0, 1)]
    assert (consumer.broker.members, consumer.broker.held) == ({}, [])


def test_a_broker_that_cannot_be_left(consumer: Consumer, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the close succeeds."""

    def refuse(group: str, client_id: str) -> None:
        raise StoreError("no")

    consumer.broker.unregister_consumer = refuse  # type: ignore[method-assign]
    consumer.running.start()
    consumer.running.close()
    assert "cannot be left" in caplog.text
