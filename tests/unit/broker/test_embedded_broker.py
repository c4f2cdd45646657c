"""The embedded broker: what it answers for its store, and that it leaves nothing behind.

The store is one in memory without services. Waits are ended by events; no test looks at the machine's clock.
"""

import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress

import pytest

from mqstore import Message, MessageStore, PutMessageResult, StoredMessage
from mqstore.broker.broker import (
    Broker,
    BrokerClosed,
    ConsumerData,
    MessageModel,
    MessageQueue,
    PullAnswer,
    PullRequest,
    ReplyNotDelivered,
    TopicRoute,
    TransactionState,
)
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.broker.queue_locks import LEASE_S
from mqstore.broker.transaction_checks import TransactionSettings
from mqstore.metadata.topics import Perm
from mqstore.store.errors import (
    MessageIllegal,
    MessageNotFound,
    NoPermission,
    StoreClosed,
    StoreError,
    StoreForked,
    StoreFull,
    StoreReadOnly,
    SubscriptionGroupNotExist,
    SubscriptionIllegal,
    TopicNotExist,
)
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.status import GetMessageStatus, PutMessageStatus
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore, bodies_of, messages_of

GROUP, ME, OTHER = "billing", "me", "other"
RETRY, DEAD = "%RETRY%billing", "%DLQ%billing"
DATA = ConsumerData(MessageModel.CLUSTERING, {"orders": "*"})
QUEUE = MessageQueue("orders", "broker-a", 0)
HALF = PutMessageResult(PutMessageStatus.PUT_OK, "RMQ_SYS_TRANS_HALF_TOPIC", 0, 0, 0, 100, 0, 0, b"")


@pytest.fixture
def broker(store: MessageStore, seconds: ManualSeconds) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(store, now_s=seconds) as broker:
        yield broker


def own_threads() -> set[str]:
    """The names of the threads of brokers."""
    return {thread.name for thread in threading.enumerate()} & {"mqstore broker", "mqstore transactions"}


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert own_threads() == set()


def request(
    offset: int = 0, subscription: str = "*", *, topic: str = "orders", suspend_ms: int = 600_000
) -> PullRequest:
    return PullRequest(GROUP, topic, 0, offset, 32, subscription, suspend_ms)


def pulled_later(
    broker: EmbeddedBroker, asked: PullRequest
) -> tuple["Future[PullAnswer | Exception]", Callable[[], None]]:
    """The answer to come, and what cancels the wait. A second answer would be an error in the log."""
    answered: Future[PullAnswer | Exception] = Future()
    return answered, broker.pull_later(asked, answered.set_result)


def do_nothing() -> None:
    pass


# -- topics and queues ----------------------------------------------------------------------------


def test_the_route_of_a_topic(broker: EmbeddedBroker, store: MessageStore) -> None:
    """Its queues, and whether they are read and written; nothing for a topic that is not there."""
    assert broker.topic_route("orders") is None
    store.topics.create("orders", read_queue_nums=4, write_queue_nums=2)
    assert broker.topic_route("orders") == TopicRoute(4, 2, is_readable=True, is_writable=True)
    store.topics.create("orders", 4, perm=Perm.READ)
    assert broker.topic_route("orders") == TopicRoute(4, 4, is_readable=True, is_writable=False)
    template = broker.topic_route("TBW102")
    assert template is not None
    assert template.is_writable


def test_the_offsets_of_a_queue(broker: EmbeddedBroker, store: MessageStore) -> None:
    """Those of the store, 0 for a queue without messages."""
    assert (broker.min_offset("orders", 0), broker.max_offset("orders", 0)) == (0, 0)
    put = broker.send(Message("orders", b"x"), timeout_ms=3_000)
    broker.send(Message("orders", b"y"), timeout_ms=3_000)
    assert (broker.min_offset("orders", 0), broker.max_offset("orders", 0)) == (0, 2)
    assert broker.search_offset("orders", 0, put.store_timestamp) == 0
    assert broker.search_offset("orders", 0, put.store_timestamp + 1) == 2


# -- sending --------------------------------------------------------------------------------------


def test_three_ways_to_send(broker: EmbeddedBroker, store: MessageStore) -> None:
    """One message, several, and one without waiting for the disk."""
    assert broker.send(Message("orders", b"a"), timeout_ms=3_000).queue_offset == 0
    several = broker.send_all([Message("orders", b"b"), Message("orders", b"c")], timeout_ms=3_000)
    assert [put.queue_offset for put in several] == [1, 2]
    assert broker.send_async(Message("orders", b"d")).result(60).queue_offset == 3
    assert bodies_of(store, "orders") == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message(SCHEDULE_TOPIC, b"x"), NoPermission),
        (Message("orders", b"x", queue_id=99), MessageIllegal),
        (Message(5, b"x"), MessageIllegal),  # type: ignore[arg-type]
        (Message(RETRY, "text"), MessageIllegal),  # type: ignore[arg-type]
        ("no message", MessageIllegal),
    ],
)
def test_a_message_that_is_refused(broker: EmbeddedBroker, message: Message, error: type[StoreError]) -> None:
    """All ways to send raise the store's error."""
    with pytest.raises(error):
        broker.send(message, timeout_ms=3_000)
    with pytest.raises(error):
        broker.send_all([message], timeout_ms=3_000)
    with pytest.raises(error):
        broker.send_async(message)


def retry(reconsume_times: int) -> Message:
    return Message(RETRY, b"x", properties={"RECONSUME_TIME": str(reconsume_times)})


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_a_retry_of_a_group_that_holds_locks_is_a_dead_letter(
    broker: EmbeddedBroker, store: MessageStore, seconds: ManualSeconds, way: str
) -> None:
    """It consumes in order and has tried in place; whoever holds the lock, and until it expires."""

    def send(message: Message) -> str:
        if way == "send":
            return broker.send(message, timeout_ms=3_000).topic
        return broker.send_async(message).result(60).topic

    assert send(retry(1)) == RETRY
    broker.lock_queues(GROUP, OTHER, [QUEUE])
    assert send(retry(1)) == DEAD
    seconds.advance(LEASE_S)
    assert send(retry(1)) == DEAD
    seconds.advance(0.001)
    assert send(retry(1)) == RETRY
    broker.lock_queues("another group", OTHER, [QUEUE])
    assert send(retry(1)) == RETRY
    assert send(retry(17)) == DEAD
    dead = messages_of(store, DEAD)
    assert [(letter.queue_id, letter.properties["DELAY"]) for letter in dead] == [(0, "-1")] * 3
    config = store.topics.get(DEAD)
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums) == (1, 1)


def test_a_batch_takes_no_retries(broker: EmbeddedBroker, store: MessageStore) -> None:
    """As in a broker: nothing of it is stored."""
    with pytest.raises(MessageIllegal, match="'%RETRY%billing', a retry topic: send it alone") as caught:
        broker.send_all([Message("orders", b"x"), retry(1)], timeout_ms=3_000)
    assert caught.value.value == RETRY
    assert store.max_offset == 0


def send_back(broker: EmbeddedBroker, delay_level: int = 0, max_reconsume_times: int = 16) -> None:
    (failed,) = broker.pull(request()).messages
    broker.send_message_back(
        GROUP,
        failed,
        delay_level=delay_level,
        max_reconsume_times=max_reconsume_times,
        timeout_ms=5_000,
    )


@pytest.mark.parametrize(
    ("delay_level", "max_reconsume_times", "topic", "queue_id"),
    [
        (0, 16, SCHEDULE_TOPIC, 2),
        (5, 16, SCHEDULE_TOPIC, 4),
        (-1, 16, DEAD, 0),
        (0, 0, DEAD, 0),
    ],
)
def test_a_message_that_failed_comes_back(
    broker: EmbeddedBroker,
    store: MessageStore,
    delay_level: int,
    max_reconsume_times: int,
    topic: str,
    queue_id: int,
) -> None:
    """Later, or as a dead letter; the client's limit counts, also when it is 0."""
    broker.send(Message("orders", b"x"), timeout_ms=3_000)
    send_back(broker, delay_level, max_reconsume_times)
    (copy,) = messages_of(store, topic, queue_id)
    assert (copy.body, copy.reconsume_times) == (b"x", 1)


def test_a_copy_on_a_slow_disk_is_stored(small: SmallStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """FLUSH_DISK_TIMEOUT is no reason to send another: the group would get the message twice."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store, EmbeddedBroker(store) as broker:
        broker.send(Message("orders", b"x"), timeout_ms=3_000)
        with monkeypatch.context() as hung:
            hung.setattr(store._flusher, "wait_for", lambda end_offset: False)
            assert (
                broker.send(Message("others", b"x"), timeout_ms=3_000).status
                is PutMessageStatus.FLUSH_DISK_TIMEOUT
            )
            send_back(broker)
        store.flush()
        assert bodies_of(store, SCHEDULE_TOPIC, 2) == [b"x"]


def test_a_send_back_that_stores_nothing_is_an_error(broker: EmbeddedBroker, store: MessageStore) -> None:
    """The client then puts a copy itself."""
    broker.send(Message("orders", b"x"), timeout_ms=3_000)
    store.topics.create(RETRY, 1, perm=Perm.READ)
    with pytest.raises(NoPermission):
        send_back(broker)
    store.topics.create(RETRY, 1)
    (failed,) = broker.pull(request()).messages
    store._parts.commit_log.look_message_by_offset = lambda physical_offset: None  # type: ignore[method-assign]
    with pytest.raises(MessageNotFound):
        broker.send_message_back(GROUP, failed, delay_level=0, max_reconsume_times=16, timeout_ms=5_000)


# -- transactions ---------------------------------------------------------------------------------


def test_a_transaction_is_pulled_once_it_is_committed(broker: EmbeddedBroker) -> None:
    """Its consumer may have waited for it all the time."""
    waiting, _ = pulled_later(broker, request())
    half = broker.send_half(Message("orders", b"x"), "payments", timeout_ms=3_000)
    assert not waiting.done()
    broker.end_transaction(half, "payments", TransactionState.COMMIT_MESSAGE)
    answer = waiting.result(60)
    assert isinstance(answer, PullAnswer)
    assert [message.body for message in answer.messages] == [b"x"]


def test_a_producer_is_asked_by_a_thread_of_the_broker(small: SmallStore, clock: ManualClock) -> None:
    """Also about what it sent before a restart; one that has left is asked no more."""
    settings = TransactionSettings(transaction_timeout=0, transaction_check_interval=1)
    with small.open() as store, EmbeddedBroker(store) as broker:
        broker.send_half(Message("orders", b"x"), "payments", timeout_ms=3_000)
        assert own_threads() == {"mqstore transactions"}
    clock.advance(1)
    with small.open() as store, EmbeddedBroker(store, transaction_settings=settings) as broker:
        asked: Future[tuple[str, str]] = Future()

        def check(message: StoredMessage, half: PutMessageResult) -> None:
            broker.unregister_producer("payments", ME)
            broker.end_transaction(half, "payments", TransactionState.COMMIT_MESSAGE)
            asked.set_result((message.topic, threading.current_thread().name))

        broker.register_producer("payments", ME, check)
        assert asked.result(60) == ("orders", "mqstore transactions")
        assert bodies_of(store, "orders") == [b"x"]


def test_a_retry_is_no_transaction(broker: EmbeddedBroker) -> None:
    """It has been one."""
    with pytest.raises(MessageIllegal, match="a transaction goes to '%RETRY%billing', a retry topic"):
        broker.send_half(retry(1), "payments", timeout_ms=3_000)


def test_the_end_of_the_store_ends_the_checks(small: SmallStore) -> None:
    """No thread waits for 30 s."""
    store = small.open()
    broker = EmbeddedBroker(store)
    broker.register_producer("payments", ME, lambda message, half: None)
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "mqstore transactions")
    store.close()
    thread.join(60)
    assert not thread.is_alive()
    broker.close()


# -- pulling --------------------------------------------------------------------------------------

S = GetMessageStatus


@pytest.mark.parametrize(
    ("topic", "offset", "subscription", "status", "next_begin_offset", "is_illegal"),
    [
        ("orders", 0, "*", S.FOUND, 3, False),
        ("orders", 0, "b", S.FOUND, 3, False),
        ("orders", 0, "c", S.NO_MATCHED_MESSAGE, 3, False),
        ("orders", 3, "*", S.OFFSET_OVERFLOW_ONE, 3, False),
        ("orders", 4, "*", S.OFFSET_OVERFLOW_BADLY, 3, True),
        ("orders", -1, "*", S.OFFSET_TOO_SMALL, 0, True),
        ("nothing", 0, "*", S.NO_MESSAGE_IN_QUEUE, 0, False),
        ("nothing", 7, "*", S.NO_MESSAGE_IN_QUEUE, 0, True),
    ],
)
def test_each_status_of_a_pull(
    broker: EmbeddedBroker,
    topic: str,
    offset: int,
    subscription: str,
    status: GetMessageStatus,
    next_begin_offset: int,
    is_illegal: bool,
) -> None:
    """The rows of docs/spec/remoting.md 6.2: which offsets a client must give up."""
    broker.send_all([Message("orders", b"x", tags=tag) for tag in ("a", "b", "a")], timeout_ms=3_000)
    answer = broker.pull(request(offset, subscription, topic=topic))
    assert (answer.status, answer.next_begin_offset, answer.is_illegal) == (
        status,
        next_begin_offset,
        is_illegal,
    )
    assert bool(answer.messages) is (status is S.FOUND)
    end = 3 if topic == "orders" else 0
    assert (answer.min_offset, answer.max_offset) == (0, end)


def test_what_is_there_is_answered_at_once(broker: EmbeddedBroker) -> None:
    """By the thread that asks: messages, other tags to skip, an offset that is not there."""
    broker.send(Message("orders", b"x", tags="a"), timeout_ms=3_000)
    for asked in (request(), request(subscription="b"), request(7), request(1, suspend_ms=0)):
        answered, cancel = pulled_later(broker, asked)
        answer = answered.result(0)
        assert isinstance(answer, PullAnswer)
        assert answer.status is broker.pull(asked).status
        cancel()
    assert own_threads() == set()


def test_an_error_goes_to_the_callback(broker: EmbeddedBroker) -> None:
    """So a client has one place where it looks at answers."""
    answered, _ = pulled_later(broker, request(subscription="||"))
    assert isinstance(answered.result(0), SubscriptionIllegal)


def test_a_pull_waits_for_its_message(broker: EmbeddedBroker, store: MessageStore) -> None:
    """And is answered by the broker's thread."""
    names: list[str] = []
    answered: Future[PullAnswer | Exception] = Future()

    def callback(answer: PullAnswer | Exception) -> None:
        names.append(threading.current_thread().name)
        answered.set_result(answer)

    broker.pull_later(request(), callback)
    assert not answered.done()
    store.put_message(Message("orders", b"x"))
    answer = answered.result(60)
    assert isinstance(answer, PullAnswer)
    assert [message.body for message in answer.messages] == [b"x"]
    assert names == ["mqstore broker"]


def test_a_pull_waits_for_its_time(store: MessageStore) -> None:
    """The thread wakes by itself."""
    with EmbeddedBroker(store) as broker:
        answered, _ = pulled_later(broker, request(suspend_ms=1))
        assert answered.result(60) == PullAnswer(S.NO_MESSAGE_IN_QUEUE, [], 0, 0, 0, False, 0)


def test_a_pull_that_was_cancelled_hears_nothing(broker: EmbeddedBroker, store: MessageStore) -> None:
    """The next pull of the queue gets the message."""
    cancelled, cancel = pulled_later(broker, request())
    cancel()
    answered, _ = pulled_later(broker, request())
    store.put_message(Message("orders", b"x"))
    assert answered.result(60)
    assert not cancelled.done()


def test_many_messages_one_by_one_reach_a_client_that_pulls_on(
    broker: EmbeddedBroker, store: MessageStore
) -> None:
    """In their order, none twice and none missed, whichever thread is ahead."""
    found: list[bytes] = []
    done = threading.Event()

    def pull_on(answer: PullAnswer | Exception) -> None:
        assert isinstance(answer, PullAnswer)
        found.extend(message.body for message in answer.messages)
        if len(found) == 500:
            done.set()
        else:
            broker.pull_later(request(answer.next_begin_offset), pull_on)

    broker.pull_later(request(), pull_on)
    for number in range(500):
        store.put_message(Message("orders", b"%d" % number))
    assert done.wait(60)
    assert found == [b"%d" % number for number in range(500)]


# -- offsets --------------------------------------------------------------------------------------


def test_an_offset_is_found_again(broker: EmbeddedBroker, store: MessageStore) -> None:
    """As it was told, backwards too; a reset of an operator comes first, once."""
    broker.update_consumer_offset(GROUP, "orders", 0, 5)
    assert broker.query_consumer_offset(GROUP, "orders", 0) == 5
    broker.update_consumer_offset(GROUP, "orders", 0, 3)
    assert broker.query_consumer_offset(GROUP, "orders", 0) == 3
    assert broker.take_reset_offset(GROUP, "orders", 0) is None
    store.consumer_offsets.reset(GROUP, "orders", 0, 1)
    broker.update_consumer_offset(GROUP, "orders", 0, 9)
    assert broker.query_consumer_offset(GROUP, "orders", 0) == 1
    assert broker.take_reset_offset(GROUP, "orders", 0) == 1
    assert broker.take_reset_offset(GROUP, "orders", 0) is None


def test_a_new_group_begins_a_young_queue_at_its_start(store: MessageStore) -> None:
    """While its first message counts as in memory, and in a queue without any; else there is no offset."""
    store.put_message(Message("orders", b"x" * 100))
    young = EmbeddedBroker(store, memory_bytes=2**30)
    assert young.query_consumer_offset(GROUP, "orders", 0) == 0
    old = EmbeddedBroker(store, memory_bytes=100)
    assert old.query_consumer_offset(GROUP, "orders", 0) == -1
    assert old.query_consumer_offset(GROUP, "orders", 1) == 0
    assert GROUP not in store.subscription_groups


# -- members of a group ---------------------------------------------------------------------------


def test_a_group_gets_its_retry_topic_with_its_first_member(
    broker: EmbeddedBroker, store: MessageStore
) -> None:
    """So its consumers have the queue before the first message comes back."""
    store.subscription_groups.create(GROUP, retry_queue_nums=3)
    broker.register_consumer(GROUP, ME, DATA, do_nothing)
    assert broker.topic_route(RETRY) == TopicRoute(3, 3, is_readable=True, is_writable=True)
    store.subscription_groups.create("mailing", retry_queue_nums=0)
    broker.register_consumer("mailing", ME, DATA, do_nothing)
    assert broker.topic_route("%RETRY%mailing") is None


def test_a_member_whose_retry_topic_cannot_be_made_is_none(
    broker: EmbeddedBroker, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: it gets the error, and no share of the queues."""

    def fail(topic: str, queue_nums: int) -> None:
        raise StoreFull(store.path, 1, "full")

    monkeypatch.setattr(store.topics, "ensure", fail)
    with pytest.raises(StoreFull):
        broker.register_consumer(GROUP, ME, DATA, do_nothing)
    assert broker.consumer_ids(GROUP) == []


def test_members_come_and_go(broker: EmbeddedBroker, store: MessageStore) -> None:
    """The others are told, unless the group's settings say no."""
    told: list[str] = []
    broker.register_consumer(GROUP, ME, DATA, lambda: told.append(ME))
    broker.register_consumer(GROUP, OTHER, DATA, lambda: told.append(OTHER))
    assert broker.consumer_ids(GROUP) == [ME, OTHER]
    broker.unregister_consumer(GROUP, ME)
    assert (broker.consumer_ids(GROUP), told) == ([OTHER], [ME, OTHER])
    settings = store.subscription_groups.find("silent")
    assert settings.notify_consumer_ids_changed_enable
    broker.unregister_consumer("never seen", ME)


def test_a_group_that_may_not_be_created_has_no_members(small: SmallStore) -> None:
    """It must be created first."""
    with small.open(auto_create_subscription_group=False) as store, EmbeddedBroker(store) as broker:
        with pytest.raises(SubscriptionGroupNotExist):
            broker.register_consumer(GROUP, ME, DATA, do_nothing)
        assert broker.consumer_ids(GROUP) == []


def test_who_leaves_gives_up_its_locks(broker: EmbeddedBroker) -> None:
    """Another member need not wait for 60 s."""
    for client_id in (ME, OTHER):
        broker.register_consumer(GROUP, client_id, DATA, do_nothing)
    assert broker.lock_queues(GROUP, ME, [QUEUE]) == {QUEUE}
    assert broker.lock_queues(GROUP, OTHER, [QUEUE]) == set()
    broker.unregister_consumer(GROUP, ME)
    assert broker.lock_queues(GROUP, OTHER, [QUEUE]) == {QUEUE}
    broker.unlock_queues(GROUP, OTHER, [QUEUE])
    assert broker.lock_queues(GROUP, ME, [QUEUE]) == {QUEUE}


def test_queues_of_other_brokers_are_not_locked_here(broker: EmbeddedBroker) -> None:
    """Their own broker does that."""
    elsewhere = MessageQueue("orders", "broker-b", 0)
    assert broker.lock_queues(GROUP, ME, [elsewhere, QUEUE]) == {QUEUE}


# -- the broker as a whole ------------------------------------------------------------------------


def test_it_is_a_broker(broker: EmbeddedBroker) -> None:
    """Each method of the interface, with the same arguments and no others."""
    for name, wanted in vars(Broker).items():
        if inspect.isfunction(wanted) and not name.startswith("_"):
            asked = inspect.signature(wanted).parameters.values()
            given = inspect.signature(getattr(EmbeddedBroker, name)).parameters.values()
            assert [(one.name, one.kind) for one in given] == [(one.name, one.kind) for one in asked], name
    clients_see: Broker = broker
    assert clients_see.name == "broker-a"


def test_closing_ends_all_waits(store: MessageStore) -> None:
    """With an error that says so; the store hears nothing more of the broker, and stays open."""
    broker = EmbeddedBroker(store, "broker-b")
    waiting = [pulled_later(broker, request())[0] for _ in range(10)]
    broker.close()
    broker.close()
    assert [type(answered.result(60)) for answered in waiting] == [BrokerClosed] * 10
    assert not store._arrivals.wanted
    assert store.put_message(Message("orders", b"x")).queue_offset == 0
    assert repr(broker) == f"EmbeddedBroker('broker-b', {store!r}, closed)"


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.send(Message("orders", b"x"), timeout_ms=1),
        lambda broker: broker.send_all([], timeout_ms=1),
        lambda broker: broker.send_async(Message("orders", b"x")),
        lambda broker: broker.send_half(Message("orders", b"x"), "payments", timeout_ms=1),
        lambda broker: broker.end_transaction(HALF, "payments", TransactionState.COMMIT_MESSAGE),
        lambda broker: broker.register_producer("payments", ME, lambda message, half: None),
        lambda broker: broker.pull(request()),
        lambda broker: broker.topic_route("orders"),
        lambda broker: broker.max_offset("orders", 0),
        lambda broker: broker.min_offset("orders", 0),
        lambda broker: broker.search_offset("orders", 0, 0),
        lambda broker: broker.query_consumer_offset(GROUP, "orders", 0),
        lambda broker: broker.update_consumer_offset(GROUP, "orders", 0, 0),
        lambda broker: broker.take_reset_offset(GROUP, "orders", 0),
        lambda broker: broker.register_consumer(GROUP, ME, DATA, do_nothing),
        lambda broker: broker.consumer_ids(GROUP),
        lambda broker: broker.lock_queues(GROUP, ME, [QUEUE]),
    ],
)
def test_a_closed_broker_refuses(broker: EmbeddedBroker, call: Callable[[EmbeddedBroker], object]) -> None:
    """Every call but those by which clients leave."""
    broker.close()
    with pytest.raises(BrokerClosed):
        call(broker)
    answered, cancel = pulled_later(broker, request())
    assert isinstance(answered.result(0), BrokerClosed)
    cancel()
    broker.unlock_queues(GROUP, ME, [QUEUE])
    broker.unregister_consumer(GROUP, ME)
    broker.unregister_producer("payments", ME)


def test_the_end_of_the_store_ends_all_waits(small: SmallStore) -> None:
    """The thread as well, before anybody closes the broker."""
    store = small.open()
    broker = EmbeddedBroker(store)
    waiting = [pulled_later(broker, request())[0] for _ in range(10)]
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "mqstore broker")
    store.close()
    errors = [answered.result(60) for answered in waiting]
    assert {type(error) for error in errors} == {StoreClosed}
    thread.join(60)
    assert not thread.is_alive()
    late, _ = pulled_later(broker, request())
    assert type(late.result(0)) is StoreClosed
    broker.close()


def test_a_client_may_close_the_broker_in_its_callback(store: MessageStore) -> None:
    """The thread does not wait for itself."""
    broker = EmbeddedBroker(store)
    closed = threading.Event()

    def close(answer: PullAnswer | Exception) -> None:
        broker.close()
        closed.set()

    broker.pull_later(request(), close)
    store.put_message(Message("orders", b"x"))
    assert closed.wait(60)
    broker.close()


def test_callbacks_of_both_threads_may_close_the_broker_at_once(
    store: MessageStore, clock: ManualClock
) -> None:
    """Neither waits for the other."""
    settings = TransactionSettings(transaction_timeout=0, transaction_check_interval=1)
    broker = EmbeddedBroker(store, transaction_settings=settings)
    barrier = threading.Barrier(2)
    closed = threading.Semaphore(0)

    def close(*answer: object) -> None:
        with suppress(threading.BrokenBarrierError):
            barrier.wait(60)
        broker.close()
        closed.release()

    broker.register_producer("payments", ME, close)
    broker.send_half(Message("orders", b"x"), "payments", timeout_ms=3_000)
    clock.advance(1)
    broker.pull_later(request(), close)
    store.put_message(Message("orders", b"x"))
    assert closed.acquire(timeout=60)
    assert closed.acquire(timeout=60)
    broker.close()


def test_a_forked_child_leaves_the_broker_to_its_parent(broker: EmbeddedBroker, store: MessageStore) -> None:
    """It closes it without waiting for threads that it does not have; the parent's waits go on."""
    answered, _ = pulled_later(broker, request())
    child = os.fork()
    if child == 0:
        answers: list[PullAnswer | Exception] = []
        broker.pull_later(request(), answers.append)
        broker.close()
        os._exit(0 if type(answers[0]) is StoreForked else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.put_message(Message("orders", b"x"))
    assert isinstance(answered.result(60), PullAnswer)


def test_clients_in_a_forked_child_leave_without_a_lock(broker: EmbeddedBroker) -> None:
    """A thread of the parent may have held it at the fork; the members are the parent's, and hear nothing."""
    told: list[str] = []
    for member in (ME, OTHER):
        broker.register_consumer(GROUP, member, DATA, lambda: told.append("changed"))
    broker.register_producer("payments", ME, lambda message, half: None)
    told.clear()
    with broker._groups._lock, broker._queue_locks._lock, broker._producers._lock:
        child = os.fork()
        if child == 0:
            # The system ends it if it waits for ever.
            signal.alarm(60)
            broker.unlock_queues(GROUP, ME, [QUEUE])
            broker.unregister_consumer(GROUP, ME)
            broker.unregister_producer("payments", ME)
            broker.close()
            os._exit(len(told))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert broker.consumer_ids(GROUP) == [ME, OTHER]


def test_a_store_that_is_read_only_has_no_broker(small: SmallStore) -> None:
    """Offsets could not be kept, and nobody would be told of messages."""
    small.open().close()
    with small.open(read_only=True) as store, pytest.raises(StoreReadOnly):
        EmbeddedBroker(store)


def test_a_topic_that_may_not_be_created_is_refused(small: SmallStore) -> None:
    """Clients try another broker then."""
    with small.open(auto_create_topic_enable=False) as store, EmbeddedBroker(store) as broker:
        with pytest.raises(TopicNotExist):
            broker.send(Message("orders", b"x"), timeout_ms=3_000)
        assert broker.topic_route("TBW102") is None


def test_a_broker_shows_its_name_and_who_waits(broker: EmbeddedBroker, store: MessageStore) -> None:
    """For logs."""
    assert broker.name == "broker-a"
    _, cancel = pulled_later(broker, request())
    assert repr(broker) == f"EmbeddedBroker('broker-a', {store!r}, 1 pulls wait)"
    cancel()


# -- requests and replies ------------------------------------------------------------------------


def reply_to(client_id: str) -> Message:
    properties = {"REPLY_TO_CLIENT": client_id, "MSG_TYPE": "reply", "CORRELATION_ID": "7", "TTL": "1"}
    return Message("DefaultCluster_REPLY_TOPIC", b"pong", properties=properties)


def test_a_reply_is_handed_to_its_client(broker: EmbeddedBroker, store: MessageStore) -> None:
    """Once, with the time of the push; it is stored besides, and its topic exists before the first one."""
    received: list[Message] = []
    broker.register_reply_receiver(ME, received.append)
    assert broker.topic_route("DefaultCluster_REPLY_TOPIC") == TopicRoute(1, 1, True, True)
    put = broker.send_reply(reply_to(ME), timeout_ms=0)
    assert [(reply.body, reply.properties["PUSH_REPLY_TIME"]) for reply in received] == [
        (b"pong", str(store.clock.now_ms()))
    ]
    assert put.queue_offset == 0
    assert bodies_of(store, "DefaultCluster_REPLY_TOPIC") == [b"pong"]


def test_a_reply_to_nobody_is_refused(broker: EmbeddedBroker, store: MessageStore) -> None:
    """To a client that is unknown, or has left; nothing is stored."""
    received: list[Message] = []
    broker.register_reply_receiver(ME, received.append)
    broker.unregister_reply_receiver(ME)
    broker.unregister_reply_receiver(ME)
    for client_id in (ME, OTHER):
        with pytest.raises(ReplyNotDelivered, match=f"no client '{client_id}' that waits") as caught:
            broker.send_reply(reply_to(client_id), timeout_ms=0)
        assert caught.value.client_id == client_id
    with pytest.raises(ReplyNotDelivered):
        broker.send_reply(Message("DefaultCluster_REPLY_TOPIC", b"pong"), timeout_ms=0)
    assert not received
    assert bodies_of(store, "DefaultCluster_REPLY_TOPIC") == []


def test_a_reply_that_is_refused_reaches_nobody(broker: EmbeddedBroker) -> None:
    """It is checked before it is handed on."""
    received: list[Message] = []
    broker.register_reply_receiver(ME, received.append)
    with pytest.raises(MessageIllegal):
        broker.send_reply(Message("two words", b"pong", properties={"REPLY_TO_CLIENT": ME}), timeout_ms=0)
    assert not received


def test_a_request_gets_the_name_of_the_cluster(store: MessageStore, seconds: ManualSeconds) -> None:
    """From which the topic of its reply follows; other messages do not get it."""
    with EmbeddedBroker(store, now_s=seconds, cluster_name="east") as broker:
        broker.send_async(Message("orders", b"ping", properties={"REPLY_TO_CLIENT": ME}))
        broker.send_async(Message("orders", b"other", properties={"UNIQ_KEY": "1"}))
        broker.register_reply_receiver(ME, do_nothing)  # type: ignore[arg-type]
        assert broker.topic_route("east_REPLY_TOPIC") is not None
    request, other = messages_of(store, "orders")
    assert request.properties == {"REPLY_TO_CLIENT": ME, "CLUSTER": "east"}
    assert other.properties == {"UNIQ_KEY": "1"}
