"""The push consumer against a real store in memory, with a clock that the tests move.

Each test puts messages, runs rounds by hand, and looks at what the listener saw, what was committed and
where the failed messages went. Statuses that a small store cannot produce come from a scripted one.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mqstore.client.consumer import push_consumer
from mqstore.client.consumer.consume_from_where import ConsumeFromWhere
from mqstore.client.consumer.listener import ConsumeContext, ConsumeStatus
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.client.consumer.received_message import ReceivedMessage
from mqstore.index.pull.message_reader import GetMessageResult
from mqstore.message_store import MessageStore
from mqstore.metadata.topics import TopicConfig
from mqstore.store.config import StoreConfig
from mqstore.store.errors import MessageNotFound, StoreClosed
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.message import Message
from mqstore.store.status import GetMessageStatus
from support.manual_clock import ManualClock

GROUP = "billing"
RETRY = "%RETRY%billing"
DEAD = "%DLQ%billing"
SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER
CONFIG = StoreConfig(
    mapped_file_size_commit_log=262_144,
    mapped_file_size_consume_queue=4_000,
    max_message_size=65_536,
    message_delay_level="1s 1s 1s 1s 1s",
    default_topic_queue_nums=2,
)


@pytest.fixture
def store(clock: ManualClock) -> Iterator[MessageStore]:
    path = Path("/store")
    with MessageStore.open(path, CONFIG, clock=clock, file_system=MemoryFileSystem(), start=False) as opened:
        yield opened


Answer = Callable[[ReceivedMessage], ConsumeStatus | None]


class Listener:
    """Answers what it is told for each message and notes what it saw."""

    def __init__(self, answer: Answer = lambda message: SUCCESS) -> None:
        self.answer = answer
        self.seen: list[tuple[str, int, bytes]] = []

    def __call__(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
        self.seen.extend((message.topic, message.reconsume_times, message.body) for message in messages)
        return self.answer(messages[0])


def put(store: MessageStore, *bodies: bytes, tags: str | None = None, queue_id: int = 0) -> None:
    store.put_messages([Message("orders", body, tags=tags, queue_id=queue_id) for body in bodies])


def consumer(
    store: MessageStore, listener: Listener, expression: str = "*", **options: object
) -> PushConsumer:
    options.setdefault("consume_from_where", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    return PushConsumer(store, GROUP, {"orders": expression}, listener, **options)  # type: ignore[arg-type]


def committed(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> int:
    return store.consumer_offsets.query(GROUP, topic, queue_id)


def deliver(store: MessageStore, clock: ManualClock) -> int:
    """Let the delay of a retry pass."""
    clock.advance(1_001)
    return store.deliver_due()


def test_hands_out_every_queue_in_order_and_commits_its_end(store: MessageStore) -> None:
    """All messages of all queues are handed out once, in order, and the offsets stand behind them."""
    put(store, b"a", b"b")
    put(store, b"c", queue_id=1)
    listener = Listener()
    assert consumer(store, listener).run_once() == 3
    assert [body for _, _, body in listener.seen] == [b"a", b"b", b"c"]
    assert (committed(store), committed(store, queue_id=1)) == (2, 1)


def test_nothing_more_comes_when_all_is_consumed(store: MessageStore) -> None:
    """A round without new messages hands out nothing and moves nothing."""
    put(store, b"a")
    subject = consumer(store, Listener())
    assert [subject.run_once(), subject.run_once()] == [1, 0]
    assert committed(store) == 1


def test_a_failed_message_comes_back_under_its_own_topic(store: MessageStore, clock: ManualClock) -> None:
    """RECONSUME_LATER brings the message back after the delay, one reconsume later, as topic `orders`."""
    put(store, b"a", b"b")
    listener = Listener(
        lambda message: LATER if message.body == b"a" and not message.reconsume_times else SUCCESS
    )
    subject = consumer(store, listener)
    subject.run_once()
    assert subject.run_once() == 0, "before its delay"
    assert deliver(store, clock) == 1
    subject.run_once()
    assert listener.seen == [("orders", 0, b"a"), ("orders", 0, b"b"), ("orders", 1, b"a")]
    assert (committed(store), committed(store, RETRY)) == (2, 1)


def test_a_message_that_always_fails_becomes_a_dead_letter(store: MessageStore, clock: ManualClock) -> None:
    """After max_reconsume_times retries, and not before, it lies in the dead-letter topic."""
    put(store, b"a")
    listener = Listener(lambda message: LATER)
    subject = consumer(store, listener, max_reconsume_times=2)
    for _ in range(3):
        subject.run_once()
        deliver(store, clock)
    assert [reconsume_times for _, reconsume_times, _ in listener.seen] == [0, 1, 2]
    (dead,) = store.get_message("x", DEAD, 0, 0).messages
    assert (dead.body, dead.reconsume_times) == (b"a", 3)


def _raise(message: ReceivedMessage) -> ConsumeStatus:
    raise ValueError(message)


@pytest.mark.parametrize("answer", [_raise, lambda message: None], ids=["exception", "None"])
def test_an_exception_and_no_answer_mean_later(store: MessageStore, answer: Answer) -> None:
    """Both send the message back, as RocketMQ does, and the consumer goes on."""
    put(store, b"a", b"b")
    assert consumer(store, Listener(answer)).run_once() == 2
    assert store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", 2) == 2
    assert committed(store) == 2


def test_a_batch_fails_as_a_whole(store: MessageStore) -> None:
    """With a batch size of 3, one answer counts for three messages."""
    put(store, b"a", b"b", b"c", b"d")
    listener = Listener(lambda message: LATER if message.body == b"a" else SUCCESS)
    consumer(store, listener, consume_message_batch_max_size=3).run_once()
    assert store.get_max_offset_in_queue("SCHEDULE_TOPIC_XXXX", 2) == 3


def test_messages_after_the_ack_index_are_sent_back(store: MessageStore) -> None:
    """CONSUME_SUCCESS with ack_index 1 keeps two messages and sends the others back."""
    put(store, b"a", b"b", b"c", b"d")

    def listen(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        context.ack_index = 1
        return SUCCESS

    subject = PushConsumer(
        store,
        GROUP,
        {"orders": "*"},
        listen,
        consume_message_batch_max_size=4,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    subject.run_once()
    sent_back = store.get_message("x", "SCHEDULE_TOPIC_XXXX", 2, 0).messages
    assert [message.body for message in sent_back] == [b"c", b"d"]


def test_a_negative_delay_level_is_a_dead_letter_at_once(store: MessageStore) -> None:
    """The context's delay level is handed to the send-back."""
    put(store, b"a")

    def listen(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        context.delay_level_when_next_consume = -1
        return LATER

    PushConsumer(
        store, GROUP, {"orders": "*"}, listen, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    ).run_once()
    assert store.get_max_offset_in_queue(DEAD, 0) == 1


def test_a_second_consumer_goes_on_where_the_first_ended(store: MessageStore) -> None:
    """A committed offset wins over consume_from_where; nothing is handed out twice."""
    put(store, b"a")
    consumer(store, Listener()).run_once()
    put(store, b"b")
    listener = Listener()
    consumer(store, listener).run_once()
    assert [body for _, _, body in listener.seen] == [b"b"]


def test_a_send_back_that_fails_holds_the_offset(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done before is committed, the failed message is not, and it is handed out again."""
    put(store, b"a", b"b", b"c")
    listener = Listener(lambda message: LATER if message.body == b"b" else SUCCESS)
    subject = consumer(store, listener)

    def fail(*_: object, **__: object) -> None:
        raise MessageNotFound(0, 0, 0)

    with monkeypatch.context() as patched:
        patched.setattr(store, "consumer_send_msg_back", fail)
        with pytest.raises(MessageNotFound):
            subject.run_once()
    assert committed(store) == 1
    subject.run_once()
    assert [body for _, _, body in listener.seen] == [b"a", b"b", b"b", b"c"]
    assert committed(store) == 3


def test_an_interrupt_in_the_listener_keeps_what_was_done(store: MessageStore) -> None:
    """KeyboardInterrupt passes through, and the messages before it are committed."""
    put(store, b"a", b"b")

    def interrupt(message: ReceivedMessage) -> ConsumeStatus:
        if message.body == b"b":
            raise KeyboardInterrupt
        return SUCCESS

    with pytest.raises(KeyboardInterrupt):
        consumer(store, Listener(interrupt)).run_once()
    assert committed(store) == 1


def test_only_the_subscribed_tags_are_handed_out(store: MessageStore) -> None:
    """The offset passes over what does not match."""
    put(store, b"a", tags="created")
    put(store, b"b", tags="paid")
    put(store, b"c", tags="shipped")
    listener = Listener()
    consumer(store, listener, "created || paid").run_once()
    assert [body for _, _, body in listener.seen] == [b"a", b"b"]
    assert committed(store) == 3


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, [b"a", b"b", b"c"]),
        (ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, [b"c"]),
        (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, [b"b", b"c"]),
    ],
    ids=lambda value: value.name if isinstance(value, ConsumeFromWhere) else "",
)
def test_a_new_group_begins_where_it_is_told(
    store: MessageStore, clock: ManualClock, where: ConsumeFromWhere, expected: list[bytes]
) -> None:
    """First offset, last offset and time, and the begin is remembered from the first round on."""
    put(store, b"a")
    clock.advance(10_000)
    time_ms = clock.now_ms()
    put(store, b"b")
    listener = Listener()
    subject = consumer(store, listener, consume_from_where=where, consume_timestamp_ms=time_ms)
    subject.run_once()
    assert committed(store) == 2
    put(store, b"c")
    subject.run_once()
    assert [body for _, _, body in listener.seen] == expected


def test_an_operators_reset_moves_the_consumer(store: MessageStore) -> None:
    """consumer_offsets.reset is followed by the next pull and ends with it."""
    put(store, b"a", b"b")
    listener = Listener()
    subject = consumer(store, listener)
    subject.run_once()
    store.consumer_offsets.reset(GROUP, "orders", 0, 1)
    subject.run_once()
    assert [body for _, _, body in listener.seen] == [b"a", b"b", b"b"]
    assert committed(store) == 2


@pytest.mark.parametrize(
    ("status", "next_offset"),
    [
        (GetMessageStatus.NO_MATCHED_MESSAGE, 9),
        (GetMessageStatus.MESSAGE_WAS_REMOVING, 9),
        (GetMessageStatus.OFFSET_FOUND_NULL, 9),
        (GetMessageStatus.OFFSET_TOO_SMALL, 9),
        (GetMessageStatus.OFFSET_OVERFLOW_ONE, 5),
        (GetMessageStatus.OFFSET_OVERFLOW_BADLY, 2),
        (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0),
        (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0),
    ],
    ids=lambda value: value.name if isinstance(value, GetMessageStatus) else str(value),
)
def test_every_status_leads_to_its_next_offset(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, status: GetMessageStatus, next_offset: int
) -> None:
    """Without messages the consumer goes where the answer says, back included, and commits that."""
    put(store, b"a")
    store.consumer_offsets.commit(GROUP, "orders", 0, 5)
    answer = GetMessageResult(status, next_offset, 0, 0, [])
    subject = consumer(store, Listener())
    monkeypatch.setattr(store, "get_message", lambda *_: answer)
    assert subject.pull_once("orders", 0) == 0
    assert committed(store) == next_offset


def test_a_retry_topic_that_comes_to_be_later_is_consumed(store: MessageStore, clock: ManualClock) -> None:
    """The first failure creates the retry topic, and the same consumer takes it up."""
    subject = consumer(store, Listener(lambda message: LATER if not message.reconsume_times else SUCCESS))
    assert subject.run_once() == 0, "not even the topic exists"
    put(store, b"a")
    subject.run_once()
    deliver(store, clock)
    assert subject.run_once() == 1


def test_start_and_stop_consume_in_a_thread(store: MessageStore) -> None:
    """What is put while it runs is handed out, and stop ends it."""
    arrived = threading.Event()

    def note(message: ReceivedMessage) -> ConsumeStatus:
        arrived.set()
        return SUCCESS

    subject = consumer(store, Listener(note))
    subject.start()
    try:
        put(store, b"a")
        assert arrived.wait(10)
    finally:
        subject.stop()
    assert committed(store) == 1


def test_a_queue_that_fails_does_not_hold_up_the_others(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every queue has its turn in the round; then the first error is raised."""
    put(store, b"a")
    put(store, b"b", queue_id=1)
    get_message = store.get_message

    def fail_on_queue_0(group: str, topic: str, queue_id: int, *rest: Any) -> GetMessageResult:
        if queue_id == 0:
            raise ValueError(f"{topic} is damaged")
        return get_message(group, topic, queue_id, *rest)

    monkeypatch.setattr(store, "get_message", fail_on_queue_0)
    listener = Listener()
    with pytest.raises(ValueError, match="orders is damaged"):
        consumer(store, listener).run_once()
    assert [body for _, _, body in listener.seen] == [b"b"]
    assert (committed(store), committed(store, queue_id=1)) == (0, 1)


def wait_for_end() -> None:
    """Wait until the thread of `start` has ended by itself."""
    for thread in threading.enumerate():
        if thread.name == f"consumer-{GROUP}":
            thread.join(10)
            assert not thread.is_alive()


def test_the_thread_ends_with_the_store_and_can_be_started_again(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StoreClosed ends it and is kept; start makes a new thread."""
    put(store, b"a")
    arrived = threading.Event()

    def note(message: ReceivedMessage) -> ConsumeStatus:
        arrived.set()
        return SUCCESS

    def closed(*_: object) -> None:
        raise StoreClosed(Path("/store"))

    subject = consumer(store, Listener(note))
    with monkeypatch.context() as patched:
        patched.setattr(store, "get_message", closed)
        subject.start()
        wait_for_end()
    assert isinstance(subject.last_error, StoreClosed)
    subject.start()
    try:
        assert arrived.wait(10)
    finally:
        subject.stop()


def test_stop_waits_for_one_batch_and_no_more(store: MessageStore) -> None:
    """The rest of what was pulled, and the other queues, are left to the next start."""
    put(store, b"a", b"b", b"c")
    put(store, b"d", queue_id=1)
    entered, left = threading.Event(), threading.Event()

    def work(message: ReceivedMessage) -> ConsumeStatus:
        entered.set()
        assert left.wait(10)
        return SUCCESS

    subject = consumer(store, listener := Listener(work))
    subject.start()
    assert entered.wait(10)
    stopping = threading.Thread(target=subject.stop)
    stopping.start()
    while not subject._is_stopping:
        pass
    left.set()
    stopping.join(10)
    assert [body for _, _, body in listener.seen] == [b"a"]
    assert (committed(store), committed(store, queue_id=1)) == (1, -1)
    assert subject.run_once() == 3, "by hand it goes on"


def test_a_listener_may_stop_its_consumer(store: MessageStore) -> None:
    """Its batch counts as it says; nothing more is handed out, and `start` goes on."""
    put(store, b"a", b"b")

    def stop(message: ReceivedMessage) -> ConsumeStatus:
        subject.stop()
        return SUCCESS

    subject = consumer(store, listener := Listener(stop))
    for expected in ([b"a"], [b"a", b"b"]):
        subject.start()
        wait_for_end()
        assert [body for _, _, body in listener.seen] == expected
    assert committed(store) == 2
    assert store.topics.get(RETRY) is None


def test_an_error_of_any_kind_pauses_the_thread(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept in last_error, and the thread lives on until it is stopped."""
    monkeypatch.setattr(push_consumer, "_PAUSE_AFTER_ERROR_SECONDS", 0.001)
    put(store, b"a")
    again = threading.Event()
    failed: list[object] = []

    def fail(*_: object) -> None:
        failed.append(_)
        if len(failed) > 10:
            again.set()
        raise TypeError("broken")

    monkeypatch.setattr(store, "get_message", fail)
    subject = consumer(store, Listener())
    subject.start()
    try:
        assert again.wait(10)
        assert isinstance(subject.last_error, TypeError)
    finally:
        subject.stop()


def test_a_topic_of_absurdly_many_queues_has_as_many_as_a_topic_may_have(store: MessageStore) -> None:
    """Whatever topics.json says."""
    config = TopicConfig(topic_name="orders", read_queue_nums=2**31 - 1)
    store.topics.add("orders", config)
    assert len(consumer(store, Listener())._queues()) == 65_536


def test_sizes_below_one_are_refused(store: MessageStore) -> None:
    """A batch of nothing would never end."""
    with pytest.raises(ValueError, match="at least 1"):
        consumer(store, Listener(), pull_batch_size=0)
