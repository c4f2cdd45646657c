"""The push consumer as a whole: threads, an embedded broker, a store in memory whose clock the tests move.

Each test puts messages, waits until the listener has seen what it should, closes the consumer, and looks at
what is committed and where failed messages went. Rules of single parts are tested beside them; here is what
only the whole can show, and what a user can do wrong.
"""

import asyncio
import itertools
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mqstore.broker.broker import MessageModel, MessageQueue
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.consume_hooks import ConsumeMessageContext
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
)
from mqstore.client.consumer.orderly.orderly_listener import ConsumeOrderlyContext
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.running_consumer import RunningConsumer
from mqstore.client.errors import ConsumerClosed, ConsumerNotReady, ConsumerStarted, ListenerIllegal
from mqstore.client.offsets.consume_from_where import ConsumeFromWhere
from mqstore.client.rebalance.queue_allocation import Allocation, allocate_averagely
from mqstore.index.pull.message_reader import GetMessageResult
from mqstore.message_store import MessageStore
from mqstore.schedule.retry.send_back import SendBackResult
from mqstore.store.config import StoreConfig
from mqstore.store.errors import (
    CorruptRecord,
    GroupIllegal,
    MessageNotFound,
    SubscriptionGroupNotExist,
    SubscriptionIllegal,
    TopicIllegal,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import Disposition, ResponseCode
from support.manual_clock import ManualClock

GROUP = "billing"
RETRY = "%RETRY%billing"
DEAD = "%DLQ%billing"
SUCCESS, LATER = ConsumeConcurrentlyStatus.CONSUME_SUCCESS, ConsumeConcurrentlyStatus.RECONSUME_LATER
DONE, SUSPEND = ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
CONFIG = StoreConfig(
    mapped_file_size_commit_log=262_144,
    mapped_file_size_consume_queue=4_000,
    max_message_size=65_536,
    message_delay_level="1s 1s 1s 1s 1s",
    default_topic_queue_nums=2,
)
MINUTE_MS = 60_000
ORDERS, MORE_ORDERS = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
RETRIES = MessageQueue(RETRY, "broker-a", 0)


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MessageStore]:
    path = Path("/store")
    with MessageStore.open(path, CONFIG, clock=clock, file_system=MemoryFileSystem(), start=False) as opened:
        yield opened


@pytest.fixture
def broker(store: MessageStore) -> Iterator[EmbeddedBroker]:
    """To which no queue is young: a new group begins where its settings say."""
    with EmbeddedBroker(store, memory_bytes=0) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """After each test: a consumer that is closed has no thread."""
    yield
    assert threads() == []


def threads() -> list[threading.Thread]:
    names = ("mqstore pull", "mqstore timer", "mqstore consume")
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


Answer = Callable[[StoredMessage], ConsumeConcurrentlyStatus | None]


class Listener:
    """Answers what it is told for the first message of a batch, and notes what it saw."""

    def __init__(self, answer: Answer = lambda message: SUCCESS) -> None:
        self.answer = answer
        self.seen: list[tuple[str, int, bytes]] = []
        self.condition = threading.Condition()

    def __call__(
        self, messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus | None:
        with self.condition:
            self.seen.extend((message.topic, message.reconsume_times, message.body) for message in messages)
            self.condition.notify_all()
        return self.answer(messages[0])

    def wait_for(self, count: int) -> None:
        """Until it has seen so many messages."""
        with self.condition:
            assert self.condition.wait_for(lambda: len(self.seen) >= count, 10), self.seen

    @property
    def bodies(self) -> list[bytes]:
        return sorted(body for _, _, body in self.seen)


def until(condition: Callable[[], object]) -> None:
    """Wait for what no event tells of."""
    deadline_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.001)


def put(store: MessageStore, *bodies: bytes, tags: str | None = None, queue_id: int = 0) -> None:
    store.put_messages([Message("orders", body, tags=tags, queue_id=queue_id) for body in bodies])


def consumer(
    broker: EmbeddedBroker,
    listener: Listener,
    expression: str = "*",
    *,
    clock: ManualClock | None = None,
    allocate: Allocation = allocate_averagely,
    **settings: Any,
) -> PushConsumer:
    """A consumer that is not started."""
    settings.setdefault("consume_from_where", FIRST)
    subject = PushConsumer(broker, GROUP, ConsumerSettings(**settings), allocate=allocate, clock=clock)
    subject.subscribe("orders", expression)
    subject.register_message_listener(listener)
    return subject


def consume(broker: EmbeddedBroker, listener: Listener, count: int, *arguments: Any, **settings: Any) -> None:
    """Run a consumer until its listener has seen so many messages, and close it."""
    with consumer(broker, listener, *arguments, **settings) as subject:
        subject.start()
        listener.wait_for(count)


def running_of(subject: PushConsumer) -> RunningConsumer:
    assert subject._running is not None
    return subject._running


def committed(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> int:
    return store.consumer_offsets.query(GROUP, topic, queue_id)


def deliver(store: MessageStore, clock: ManualClock) -> int:
    """Let the delay of a retry pass."""
    clock.advance(1_001)
    return store.deliver_due()


# -- messages and offsets -------------------------------------------------------------------------


def test_all_queues_are_consumed_and_committed(store: MessageStore, broker: EmbeddedBroker) -> None:
    """What is there before the start and what comes after it, once; a close commits the ends."""
    put(store, b"a", b"b")
    listener = Listener()
    with consumer(broker, listener) as subject:
        subject.start()
        listener.wait_for(2)
        put(store, b"c", queue_id=1)
        listener.wait_for(3)
    assert listener.bodies == [b"a", b"b", b"c"]
    assert (committed(store), committed(store, queue_id=1)) == (2, 1)


def test_another_consumer_goes_on_where_the_first_ended(store: MessageStore, broker: EmbeddedBroker) -> None:
    """A committed offset wins over consume_from_where; nothing is handed out twice."""
    put(store, b"a")
    consume(broker, Listener(), 1)
    put(store, b"b")
    listener = Listener()
    consume(broker, listener, 1)
    assert listener.bodies == [b"b"]


def test_two_consumers_of_a_group_share_its_queues(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Each has its part, and each message is handed out once; when one leaves, the other has all."""
    store.topics.ensure("orders", 2)
    listeners = [Listener(), Listener()]
    both = [consumer(broker, listener) for listener in listeners]
    first, second = sorted(both, key=lambda subject: subject.client_id)
    with both[1], both[0]:
        for subject in both:
            subject.start()
        until(lambda: (first.queues, second.queues) == ([RETRIES, ORDERS], [MORE_ORDERS]))
        put(store, b"a")
        put(store, b"b", queue_id=1)
        for listener in listeners:
            listener.wait_for(1)
        both[0].close()
        put(store, b"c")
        put(store, b"d", queue_id=1)
        listeners[1].wait_for(3)
        assert both[1].queues == [RETRIES, ORDERS, MORE_ORDERS]
    assert sorted(listeners[0].bodies + listeners[1].bodies) == [b"a", b"b", b"c", b"d"]
    assert (committed(store), committed(store, queue_id=1)) == (2, 2)


@pytest.mark.slow
def test_a_queue_that_moves_goes_on_where_the_group_has_committed(
    store: MessageStore, broker: EmbeddedBroker
) -> None:
    """The former owner's messages in work come again at the new one, and its late answer commits nothing."""
    one_is_at_work, go_on = threading.Event(), threading.Event()

    def answer(message: StoredMessage) -> ConsumeConcurrentlyStatus:
        if message.body == b"b":
            one_is_at_work.set()
            go_on.wait(30)
        return SUCCESS

    one_sees, other_sees = Listener(answer), Listener()
    takes_over = {"allocate": last_member_has_all}
    one = consumer(broker, one_sees, consume_thread_min=1, instance_name="a", **takes_over)
    other = consumer(broker, other_sees, instance_name="b", **takes_over)
    with other, one:
        one.start()
        until(lambda: one.queues)
        put(store, b"a", b"b", b"c")
        assert one_is_at_work.wait(30)
        one.persist_consumer_offset()
        other.start()
        other_sees.wait_for(2)
        until(lambda: not one.queues)
        assert other_sees.bodies == [b"b", b"c"], "a was committed"
        other.persist_consumer_offset()
        assert committed(store) == 3
        go_on.set()
        one.close()
        assert committed(store) == 3


def last_member_has_all(
    client_id: str, members: Sequence[str], queues: Sequence[MessageQueue]
) -> Sequence[MessageQueue]:
    """An allocation: whoever came last takes over."""
    return queues if members[-1] == client_id else ()


def test_the_first_message_of_a_topic_that_comes_to_be_later(store: MessageStore) -> None:
    """The topic is made by that very message, and a new group begins at its end: it is seen all the same."""
    listener = Listener()
    settings = {"consume_from_where": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET}
    with EmbeddedBroker(store) as broker, consumer(broker, listener, **settings) as subject:
        subject.start()
        put(store, b"first")
        listener.wait_for(1)
    assert listener.bodies == [b"first"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (FIRST, [b"a", b"b", b"c"]),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, [b"c"]),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, [b"b", b"c"]),
    ],
    ids=lambda value: value.name if isinstance(value, ConsumeFromWhere) else "",
)
def test_where_a_new_group_begins(
    store: MessageStore,
    broker: EmbeddedBroker,
    clock: ManualClock,
    where: ConsumeFromWhere,
    expected: list[bytes],
) -> None:
    """First offset, last offset, and time: half an hour before the start where none is given."""
    put(store, b"a")
    clock.advance(20 * MINUTE_MS)
    put(store, b"b")
    clock.advance(15 * MINUTE_MS)
    listener = Listener()
    with consumer(broker, listener, clock=clock, consume_from_where=where) as subject:
        subject.start()
        listener.wait_for(len(expected) - 1)
        until(lambda: ORDERS in subject.queues)
        put(store, b"c")
        listener.wait_for(len(expected))
    assert listener.bodies == expected


def test_only_the_subscribed_tags_are_handed_out(store: MessageStore, broker: EmbeddedBroker) -> None:
    """The offset passes over what does not match."""
    for body, tags in ((b"a", "created"), (b"b", "paid"), (b"c", "shipped")):
        put(store, body, tags=tags)
    listener = Listener()
    consume(broker, listener, 2, "created || paid")
    assert listener.bodies == [b"a", b"b"]


def test_an_operators_reset_moves_the_consumer(store: MessageStore, broker: EmbeddedBroker) -> None:
    """It is followed by the next pull and ends with it; what was pulled with that one may come twice."""
    put(store, b"a", b"b")
    listener = Listener()
    with consumer(broker, listener) as subject:
        subject.start()
        listener.wait_for(2)
        store.consumer_offsets.reset(GROUP, "orders", 0, 1)
        put(store, b"c")
        until(lambda: subject._offsets.read(ORDERS) == 3)
    assert listener.bodies[:3] == [b"a", b"b", b"b"]
    assert set(listener.bodies[3:]) == {b"c"}
    assert committed(store) == 3


def test_an_offset_that_is_not_in_the_queue(store: MessageStore, broker: EmbeddedBroker) -> None:
    """OFFSET_ILLEGAL: the queue is begun again where the broker says, and that is committed."""
    put(store, b"a")
    store.consumer_offsets.commit(GROUP, "orders", 0, 9)
    listener = Listener()
    with consumer(broker, listener) as subject:
        subject.start()
        until(lambda: committed(store) == 1)
        put(store, b"b")
        listener.wait_for(1)
    assert listener.bodies == [b"b"]


# -- failures -------------------------------------------------------------------------------------


def test_a_failed_message_comes_back_under_its_own_topic(
    store: MessageStore, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """RECONSUME_LATER brings the message back after the delay, one reconsume later, as topic `orders`."""
    put(store, b"a", b"b")
    listener = Listener(
        lambda message: LATER if message.body == b"a" and not message.reconsume_times else SUCCESS
    )
    with consumer(broker, listener) as subject:
        subject.start()
        listener.wait_for(2)
        until(lambda: deliver(store, clock))
        listener.wait_for(3)
    assert sorted(listener.seen) == [("orders", 0, b"a"), ("orders", 0, b"b"), ("orders", 1, b"a")]
    assert (committed(store), committed(store, RETRY)) == (2, 1)


def test_a_message_that_always_fails_becomes_a_dead_letter(
    store: MessageStore, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """After max_reconsume_times retries, and not before, it lies in the dead-letter topic."""
    put(store, b"a")
    listener = Listener(lambda message: LATER)
    with consumer(broker, listener, max_reconsume_times=2) as subject:
        subject.start()
        for attempt in (1, 2, 3):
            listener.wait_for(attempt)
            until(lambda attempt=attempt: attempt == 3 or deliver(store, clock))  # type: ignore[misc]
    assert [reconsume_times for _, reconsume_times, _ in listener.seen] == [0, 1, 2]
    (dead,) = store.get_message("x", DEAD, 0, 0).messages
    assert (dead.body, dead.reconsume_times) == (b"a", 3)


def test_the_first_failure_is_no_dead_letter(store: MessageStore, broker: EmbeddedBroker) -> None:
    """max_reconsume_times=-1, the default, means 16."""
    put(store, b"a")
    consume(broker, Listener(lambda message: LATER), 1)
    assert store.get_max_offset_in_queue(DEAD, 0) == 0
    assert store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", 2) == 1


def test_a_refused_send_back_stops_nothing(
    store: MessageStore, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue goes on, and so do the others: the message is put by the client itself."""
    put(store, b"a", b"b", b"c")
    put(store, b"d", queue_id=1)

    def refuse(*_: object, **__: object) -> None:
        raise MessageNotFound(0, 0, 0)

    monkeypatch.setattr(store, "consumer_send_msg_back", refuse)
    listener = Listener(lambda message: LATER if message.body == b"a" else SUCCESS)
    consume(broker, listener, 4)
    assert listener.bodies == [b"a", b"b", b"c", b"d"]
    assert (committed(store), committed(store, queue_id=1)) == (3, 1)
    (waiting,) = store.get_message("x", "SCHEDULE_TOPIC_XXXX", 2, 0).messages
    assert (waiting.body, waiting.reconsume_times, waiting.properties["RECONSUME_TIME"]) == (b"a", 1, "1")


def test_a_message_that_cannot_be_sent_back_holds_the_offset(
    store: MessageStore, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither way works: its offset is not passed, and the next start hands it out again. Others go on."""
    put(store, b"a", b"b", b"c")

    def refuse(*_: object, **__: object) -> None:
        raise MessageNotFound(0, 0, 0)

    listener = Listener(lambda message: LATER if message.body == b"b" else SUCCESS)
    with monkeypatch.context() as patched:
        patched.setattr(store, "consumer_send_msg_back", refuse)
        patched.setattr(store, "put_retry", refuse)
        consume(broker, listener, 3)
    assert committed(store) == 1
    consume(broker, listener, 5)
    assert listener.bodies == [b"a", b"b", b"b", b"c", b"c"]


def test_a_send_back_that_was_slow_is_not_sent_twice(
    store: MessageStore, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLUSH_DISK_TIMEOUT: the copy is in the log."""
    put(store, b"a")
    send_back = store.consumer_send_msg_back

    def slow(*arguments: Any, **options: Any) -> SendBackResult:
        result = send_back(*arguments, **options)
        return SendBackResult(Disposition.RETRY, ResponseCode.SYSTEM_ERROR, result.put)

    monkeypatch.setattr(store, "consumer_send_msg_back", slow)
    consume(broker, Listener(lambda message: LATER), 1)
    assert store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", 2) == 1


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_no_exception_of_a_listener_ends_a_thread(
    store: MessageStore,
    broker: EmbeddedBroker,
    error: type[BaseException],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With one thread: the message after it is consumed, the failed one is sent back, and the log has it."""
    put(store, b"a", b"b")

    def fail(message: StoredMessage) -> ConsumeConcurrentlyStatus:
        if message.body == b"a":
            raise error
        return SUCCESS

    listener = Listener(fail)
    consume(broker, listener, 2, consume_thread_min=1)
    assert (listener.bodies, committed(store)) == ([b"a", b"b"], 2)
    assert error.__name__ in caplog.text


def test_damage_in_one_queue_does_not_slow_the_others(
    store: MessageStore, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull of queue 0 fails each time; 200 messages of queue 1, one a pull, do not wait 3 s for each."""
    put(store, b"damaged")
    put(store, *(b"%d" % number for number in range(200)), queue_id=1)
    get_message = store.get_message

    def fail(group: str, topic: str, queue_id: int, *rest: Any, lazily: bool) -> GetMessageResult:
        if (topic, queue_id) == ("orders", 0):
            raise CorruptRecord(Path("/store"), 0, "a record", "zeros")
        return get_message(group, topic, queue_id, *rest, lazily=lazily)

    monkeypatch.setattr(store, "get_message", fail)
    listener = Listener()
    with consumer(broker, listener, pull_batch_size=1) as subject:
        subject.start()
        listener.wait_for(200)
        assert [type(error) for error in subject.errors.values()] == [CorruptRecord]
    assert committed(store, queue_id=1) == 200
    assert committed(store) == -1


# -- what a user can do ---------------------------------------------------------------------------


def test_a_plain_function_as_listener(store: MessageStore, broker: EmbeddedBroker) -> None:
    """The shape of the README: None is success, an exception brings the message again."""
    put(store, b"good", b"bad")
    seen = Listener()
    with PushConsumer(broker, GROUP, ConsumerSettings(consume_from_where=FIRST)) as subject:
        subject.subscribe("orders")

        @subject.listener
        def charge(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
            seen(messages, context)
            if messages[0].body == b"bad":
                raise ValueError("card expired")

        subject.start()
        seen.wait_for(2)
    assert store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", 2) == 1
    assert committed(store) == 2
    assert charge.__name__ == "charge", "the decorator gives the function back"


def test_suspend_and_resume(store: MessageStore, broker: EmbeddedBroker) -> None:
    """While suspended nothing is pulled, but for a pull that waited already."""
    listener = Listener()
    with consumer(broker, listener) as subject:
        put(store, b"a")
        subject.start()
        listener.wait_for(1)
        subject.suspend()
        put(store, b"b")
        listener.wait_for(2)
        put(store, b"c", b"d")
        assert listener.bodies == [b"a", b"b"]
        subject.resume()
        listener.wait_for(4)


@pytest.mark.slow
def test_subscriptions_change_while_it_runs(store: MessageStore, broker: EmbeddedBroker) -> None:
    """A topic more, and one less."""
    put(store, b"a")
    listener = Listener()
    with consumer(broker, listener) as subject:
        subject.start()
        listener.wait_for(1)
        store.put_message(Message("refunds", b"r"))
        subject.subscribe("refunds")
        listener.wait_for(2)
        subject.unsubscribe("orders")
        until(lambda: ORDERS not in subject.queues)
        put(store, b"b")
    assert listener.bodies == [b"a", b"r"]


def test_hooks_are_called(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Around each call of the listener."""
    seen: list[str] = []

    class Hook:
        def consume_message_before(self, context: ConsumeMessageContext) -> None:
            seen.append("before")

        def consume_message_after(self, context: ConsumeMessageContext) -> None:
            assert context.return_type is not None
            seen.append(context.return_type.name)

    put(store, b"a")
    listener = Listener()
    with consumer(broker, listener) as subject:
        subject.add_hook(Hook())
        subject.start()
        listener.wait_for(1)
    assert seen == ["before", "SUCCESS"]


def test_broadcasting(store: MessageStore, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Each member has all messages; offsets are in its own file, and the broker's stay as they are."""
    put(store, b"a", b"b")
    listeners = {name: Listener(lambda message: LATER) for name in ("one", "other")}
    for name, listener in listeners.items():
        settings: dict[str, Any] = {
            "message_model": MessageModel.BROADCASTING,
            "instance_name": name,
            "local_offset_store_dir": str(tmp_path),
        }
        consume(broker, listener, 2, **settings)
        put(store, name.encode())
        consume(broker, listener, 3, **settings)
    assert listeners["one"].bodies == [b"a", b"b", b"one"]
    assert committed(store) == -1
    assert store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", 2) == 0, "nothing comes again"
    assert (tmp_path / "127.0.0.1@one" / GROUP / "offsets.json").exists()


# -- what a user can do wrong ---------------------------------------------------------------------


def test_a_start_without_all_that_it_needs(broker: EmbeddedBroker) -> None:
    """A typed error that says what is missing, and how to give it."""
    subject = PushConsumer(broker, GROUP)
    with pytest.raises(ConsumerNotReady, match=r"no listener: register one with @consumer.listener"):
        subject.start()
    subject.listener(lambda messages, context: None)
    with pytest.raises(ConsumerNotReady, match=r"no subscription: call consumer.subscribe"):
        subject.start()
    with pytest.raises(ConsumerNotReady, match="start it"):
        subject.suspend()


@pytest.mark.parametrize(
    ("topic", "expression", "error"),
    [
        ("orders", "||", SubscriptionIllegal),
        ("orders", 7, SubscriptionIllegal),
        ("or ders", "*", TopicIllegal),
        ("", "*", TopicIllegal),
    ],
)
def test_a_subscription_that_cannot_be(
    broker: EmbeddedBroker, topic: str, expression: Any, error: type[Exception]
) -> None:
    """It is refused at once."""
    with pytest.raises(error):
        PushConsumer(broker, GROUP).subscribe(topic, expression)


def test_a_group_that_cannot_be(broker: EmbeddedBroker) -> None:
    """By its name when the consumer is made."""
    with pytest.raises(GroupIllegal):
        PushConsumer(broker, "bil ling")


def test_a_group_that_does_not_exist(clock: ManualClock) -> None:
    """The start is refused where groups are not made by use, and leaves nothing; it can be repeated."""
    config = StoreConfig(
        mapped_file_size_commit_log=262_144, max_message_size=65_536, auto_create_subscription_group=False
    )
    files = MemoryFileSystem()
    with (
        MessageStore.open(Path("/store"), config, clock=clock, file_system=files, start=False) as store,
        EmbeddedBroker(store) as broker,
        consumer(broker, listener := Listener()) as subject,
    ):
        with pytest.raises(SubscriptionGroupNotExist):
            subject.start()
        assert threads() == []
        store.subscription_groups.create(GROUP)
        put(store, b"a")
        subject.start()
        listener.wait_for(1)


def test_a_start_for_which_there_is_no_thread(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, the group is left again, and it can be repeated."""
    with consumer(broker, Listener()) as subject:
        with monkeypatch.context() as patched:
            patched.setattr("mqstore.client.consumer.pulls.pull_service.start_thread", lambda thread: False)
            with pytest.raises(RuntimeError, match="cannot be started"):
                subject.start()
        assert (broker.consumer_ids(GROUP), threads()) == ([], [])
        subject.start()


def test_a_second_start(broker: EmbeddedBroker) -> None:
    """It is refused, and so is another listener."""
    with consumer(broker, Listener()) as subject:
        subject.start()
        with pytest.raises(ConsumerStarted):
            subject.start()
        with pytest.raises(ConsumerStarted):
            subject.register_message_listener(Listener())


def test_a_wrong_listener(broker: EmbeddedBroker) -> None:
    """It is refused when it is registered."""
    with pytest.raises(ListenerIllegal):
        PushConsumer(broker, GROUP).listener(lambda messages: None)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    "use",
    [
        lambda subject: subject.start(),
        lambda subject: subject.subscribe("orders"),
        lambda subject: subject.unsubscribe("orders"),
        lambda subject: subject.listener(lambda messages, context: None),
        lambda subject: subject.suspend(),
        lambda subject: subject.resume(),
        lambda subject: subject.add_hook(None),
    ],
)
@pytest.mark.parametrize("is_started", [True, False])
def test_use_after_close(
    broker: EmbeddedBroker, is_started: bool, use: Callable[[PushConsumer], object]
) -> None:
    """ConsumerClosed; a second close does nothing."""
    subject = consumer(broker, Listener())
    if is_started:
        subject.start()
    subject.close()
    subject.close()
    with pytest.raises(ConsumerClosed, match="make another"):
        use(subject)
    assert (subject.queues, subject.errors) == ([], {})


def test_nothing_is_lost_by_many_threads_and_many_closes(
    store: MessageStore, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """Listeners fail at random, consumers are closed at random times: each message succeeds at last."""
    chance = random.Random(1)
    sent = {f"{queue_id}-{number}".encode() for queue_id in range(2) for number in range(400)}
    for body in sorted(sent):
        put(store, body, queue_id=int(body[:1]))
    done: set[bytes] = set()

    def work(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> Any:
        context.ack_index = acknowledged = chance.randrange(-1, len(messages))
        if chance.random() < 0.1:
            raise ValueError("at random")
        done.update(message.body for message in messages[: acknowledged + 1])
        return SUCCESS

    for _ in range(60):
        settings = ConsumerSettings(
            consume_from_where=FIRST,
            consume_message_batch_max_size=chance.randrange(1, 9),
            pull_batch_size=chance.randrange(1, 40),
            pull_threshold_for_queue=chance.randrange(1, 200),
            max_reconsume_times=1_000,
        )
        with PushConsumer(broker, GROUP, settings) as subject:
            subject.subscribe("orders")
            subject.register_message_listener(work)
            subject.start()
            threading.Event().wait(chance.random() / 20)
        deliver(store, clock)
        if done == sent:
            break
    assert done == sent


# -- the end --------------------------------------------------------------------------------------


def test_a_close_leaves_nothing(store: MessageStore, broker: EmbeddedBroker) -> None:
    """No thread, no pull at the broker, no member of the group, nothing in memory of the queues."""
    put(store, b"a")
    listener = Listener()
    with consumer(broker, listener) as subject:
        subject.start()
        listener.wait_for(1)
    assert threads() == []
    assert broker.consumer_ids(GROUP) == []
    assert len(broker._held_pulls) == 0


def test_an_exception_in_the_block(store: MessageStore, broker: EmbeddedBroker) -> None:
    """It passes, and the consumer is closed."""
    put(store, b"a")
    listener = Listener()

    def fail() -> None:
        with consumer(broker, listener) as subject:
            subject.start()
            listener.wait_for(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert threads() == []
    assert committed(store) == 1


def test_a_listener_that_hangs(
    store: MessageStore, broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The close waits its time and logs which thread hangs on what; an answer afterwards counts no more."""
    put(store, b"a", b"b")
    left = threading.Event()

    def hang(message: StoredMessage) -> ConsumeConcurrentlyStatus:
        assert left.wait(10)
        return SUCCESS

    listener = Listener(hang)
    subject = consumer(broker, listener, consume_thread_min=1, await_termination_millis_when_shutdown=10)
    subject.start()
    listener.wait_for(1)
    subject.close()
    (hanging,) = threads()
    assert "has not returned in 0.01 s: thread 'mqstore consume billing-1' is at work on" in caplog.text
    assert "queue_offset=0" in caplog.text
    left.set()
    hanging.join(10)
    assert (committed(store), listener.bodies) == (-1, [b"a"])


def test_a_close_waits_for_listeners_at_work(store: MessageStore, broker: EmbeddedBroker) -> None:
    """What they finish is committed; what has not begun is left to the next start."""
    put(store, b"a", b"b", b"c")
    left = threading.Event()

    def work(message: StoredMessage) -> ConsumeConcurrentlyStatus:
        assert left.wait(10)
        return SUCCESS

    listener = Listener(work)
    subject = consumer(broker, listener, consume_thread_min=1)
    subject.start()
    listener.wait_for(1)
    closing = threading.Thread(target=subject.close)
    closing.start()
    until(lambda: running_of(subject)._consuming._threads._is_stopping)
    left.set()
    closing.join(10)
    assert (listener.bodies, committed(store)) == ([b"a"], 1)


def test_a_listener_may_close_its_consumer(store: MessageStore, broker: EmbeddedBroker) -> None:
    """It does not wait for itself; its answer counts, and nothing more is handed out."""
    put(store, b"a", b"b")

    def close(message: StoredMessage) -> ConsumeConcurrentlyStatus:
        subject.close()
        return SUCCESS

    listener = Listener(close)
    with consumer(broker, listener, consume_thread_min=1) as subject:
        subject.start()
        listener.wait_for(1)
    assert (listener.bodies, committed(store)) == ([b"a"], 1)


def test_a_store_that_is_closed_first(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is pulled any more, and the close says that the offsets could not be persisted."""
    caplog.set_level(logging.WARNING)
    files = MemoryFileSystem()
    with MessageStore.open(Path("/store"), CONFIG, clock=clock, file_system=files, start=False) as store:
        broker = EmbeddedBroker(store)
        put(store, b"a")
        listener = Listener()
        subject = consumer(broker, listener)
        subject.start()
        listener.wait_for(1)
    subject.close()
    broker.close()
    assert "cannot persist its offsets" in caplog.text


PROGRAM = """
import os, sys, threading
from mqstore import Message, MessageStore
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client import ConsumerSettings, PushConsumer
with MessageStore.open(sys.argv[1]) as store, EmbeddedBroker(store) as broker:
    store.put_messages([Message("orders", b"x")] * 10)
    try:
        with PushConsumer(broker, "billing", ConsumerSettings(consume_message_batch_max_size=32)) as consumer:
            consumer.subscribe("orders")
            consumer.listener(lambda messages, context: print("ready", flush=True))
            consumer.start()
            threading.Event().wait(60)
    except KeyboardInterrupt:
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if name.startswith(("mqstore pull", "mqstore timer"))], names
        assert not [name for name in names if name.startswith("mqstore consume")], names
        print(store.consumer_offsets.query("billing", "orders", 0), flush=True)
"""


@pytest.mark.slow
def test_an_interrupt(tmp_path: Path) -> None:
    """Ctrl-C in the block: the consumer is closed, its offset is kept, its threads are gone."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        os.kill(program.pid, signal.SIGINT)
        assert program.stdout.readline() == "10\n"
        assert program.wait(30) == 0


# -- in order -------------------------------------------------------------------------------------


class OrderlyListener(Listener):
    """As `Listener`, for consumption in order; notes the bodies of each queue as they came."""

    def __init__(
        self, answer: Callable[[StoredMessage], ConsumeOrderlyStatus] = lambda message: DONE
    ) -> None:
        super().__init__()
        self.answer_in_order = answer
        self.of_queues: dict[int, list[bytes]] = {}

    def consume(
        self, messages: Sequence[StoredMessage], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        bodies = [message.body for message in messages]
        self.of_queues.setdefault(context.queue_id, []).extend(bodies)
        with self.condition:
            self.seen.extend((message.topic, message.reconsume_times, message.body) for message in messages)
            self.condition.notify_all()
        return self.answer_in_order(messages[0])


def orderly_consumer(broker: EmbeddedBroker, listener: OrderlyListener, **settings: Any) -> PushConsumer:
    """A consumer in order that is not started."""
    subject = consumer(broker, listener, **settings)
    subject.register_orderly_message_listener(listener.consume)
    return subject


def test_queues_are_consumed_in_order(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Each by itself, whatever comes again; a close gives the locks up."""
    failed: set[bytes] = set()

    def fail_once(message: StoredMessage) -> ConsumeOrderlyStatus:
        if message.body in (b"3", b"4") and message.body not in failed:
            failed.add(message.body)
            return SUSPEND
        return DONE

    listener = OrderlyListener(fail_once)
    for queue_id in range(2):
        put(store, *(b"%d" % number for number in range(8)), queue_id=queue_id)
    with orderly_consumer(broker, listener, suspend_current_queue_time_millis=10) as subject:
        subject.start()
        listener.wait_for(18)
        assert broker.lock_queues(GROUP, "another", [ORDERS, MORE_ORDERS]) == set()
    for queue_id in range(2):
        once = [body for body, _ in itertools.groupby(listener.of_queues[queue_id])]
        assert once == [b"%d" % number for number in range(8)]
        assert committed(store, queue_id=queue_id) == 8
    assert broker.lock_queues(GROUP, "another", [ORDERS]) == {ORDERS}


@pytest.mark.slow
def test_a_queue_moves_when_its_listener_has_returned(store: MessageStore, broker: EmbeddedBroker) -> None:
    """Until then nobody else consumes it; its answer counts no more, so the message comes again."""
    at_work, go_on = threading.Event(), threading.Event()

    def hang(message: StoredMessage) -> ConsumeOrderlyStatus:
        if message.body == b"b":
            at_work.set()
            go_on.wait(30)
        return DONE

    one_sees, other_sees = OrderlyListener(hang), OrderlyListener()
    takes_over: dict[str, Any] = {"allocate": last_member_has_all}
    one = orderly_consumer(broker, one_sees, instance_name="a", **takes_over)
    other = orderly_consumer(broker, other_sees, instance_name="b", **takes_over)
    with other, one:
        one.start()
        until(lambda: one.queues)
        put(store, b"a", b"b", b"c")
        assert at_work.wait(30)
        other.start()
        until(lambda: ORDERS in one.queues and RETRIES in other.queues)
        assert ORDERS not in other.queues
        go_on.set()
        other_sees.wait_for(2)
        until(lambda: not one.queues)
    assert one_sees.of_queues == {0: [b"a", b"b"]}
    assert other_sees.of_queues == {0: [b"b", b"c"]}
    assert committed(store) == 3


def test_a_message_that_fails_too_often_in_order(store: MessageStore, broker: EmbeddedBroker) -> None:
    """It is a dead letter at once, for the group holds locks, and the queue goes on behind it."""
    listener = OrderlyListener(lambda message: SUSPEND if message.body == b"a" else DONE)
    put(store, b"a", b"b")
    with orderly_consumer(
        broker, listener, max_reconsume_times=1, suspend_current_queue_time_millis=10
    ) as subject:
        subject.start()
        listener.wait_for(3)
    assert listener.of_queues == {0: [b"a", b"a", b"b"]}
    assert store.get_max_offset_in_queue(DEAD, 0) == 1
    assert committed(store) == 2
