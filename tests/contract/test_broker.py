"""What every broker does for clients: the embedded one, and one behind a network.

Each is asked the same over a directory of its own, in both flush modes of the store. Waits are ended by what
the broker does, and bounded only so that a broken broker cannot hang the tests.
"""

import queue
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, PutMessageResult, StoreConfig, StoredMessage
from mqstore.broker.broker import (
    Broker,
    BrokerClosed,
    ConsumerData,
    MessageModel,
    MessageQueue,
    PullAnswer,
    PullRequest,
    TopicRoute,
    TransactionState,
)
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.broker.transaction_checks import TransactionSettings
from mqstore.client import ProducerSettings, TopicRouteNotFound
from mqstore.client.producer.queues.publish_routes import PublishRoutes
from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.server import running
from mqstore.store.errors import StoreError
from mqstore.store.status import GetMessageStatus, PutMessageStatus, ResponseCode

CONFIG = StoreConfig(
    mapped_file_size_commit_log=8 << 20,
    max_message_size=1 << 20,
    reserve_window_commit_log=1 << 20,
    mapped_file_size_consume_queue=20_000,
    message_delay_level="1s 2s 3s",
)
CHECKS = TransactionSettings(transaction_timeout=50, transaction_check_interval=50)
PATIENCE_S = 30.0
TIMEOUT_MS = 10_000
GROUP, ME, OTHER = "billing", "me", "other"
DATA = ConsumerData(MessageModel.CLUSTERING, {"orders": "*"})
QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4)]


@contextmanager
def embedded(path: Path, config: StoreConfig) -> Iterator[Broker]:
    with (
        MessageStore.open(path, config) as store,
        EmbeddedBroker(store, transaction_settings=CHECKS) as broker,
    ):
        yield broker


@contextmanager
def remote(path: Path, config: StoreConfig) -> Iterator[Broker]:
    with (
        running(path, config, transaction_settings=CHECKS) as server,
        RemoteBroker(server.address) as broker,
    ):
        yield broker


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def flush_disk_type(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=[embedded, remote])
def broker(request: pytest.FixtureRequest, tmp_path: Path, flush_disk_type: Any) -> Iterator[Broker]:
    with request.param(tmp_path / "store", replace(CONFIG, flush_disk_type=flush_disk_type)) as broker:
        yield broker


def pull_request(
    offset: int = 0, subscription: str = "*", *, topic: str = "orders", suspend_ms: int = 0
) -> PullRequest:
    return PullRequest(GROUP, topic, 0, offset, 32, subscription, suspend_ms)


def send(broker: Broker, body: bytes, **fields: Any) -> PutMessageResult:
    return broker.send(Message("orders", body, **fields), timeout_ms=TIMEOUT_MS)


def pull(broker: Broker, offset: int = 0, subscription: str = "*", *, topic: str = "orders") -> PullAnswer:
    return broker.pull(pull_request(offset, subscription, topic=topic))


def bodies(answer: PullAnswer) -> list[bytes]:
    return [message.body for message in answer.messages]


class Calls:
    """Collects what a broker calls; `next` waits for one."""

    def __init__(self) -> None:
        self._calls: queue.Queue[Any] = queue.Queue()

    def __call__(self, *values: Any) -> None:
        self._calls.put(values)

    def next(self) -> Any:
        return self._calls.get(timeout=PATIENCE_S)

    @property
    def is_empty(self) -> bool:
        return self._calls.empty()


# -- topics and queues ------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_has_no_route(broker: Broker) -> None:
    assert broker.name == "broker-a"
    assert broker.topic_route("nowhere") is None


def test_a_send_creates_a_topic_with_the_queues_that_a_producer_expects(broker: Broker) -> None:
    """A producer sends to the queues of TBW102, at most four, before it knows the topic."""
    template = broker.topic_route("TBW102")
    assert template is not None
    assert template.is_writable
    send(broker, b"first", queue_id=3)
    route = broker.topic_route("orders")
    assert route is not None
    assert route.is_readable
    assert route.is_writable
    assert route.read_queue_nums == route.write_queue_nums >= 4
    assert isinstance(route, TopicRoute)


def test_offsets_of_a_queue(broker: Broker) -> None:
    puts = [send(broker, b"%d" % number, born_timestamp=1) for number in range(3)]
    assert [put.queue_offset for put in puts] == [0, 1, 2]
    assert (broker.min_offset("orders", 0), broker.max_offset("orders", 0)) == (0, 3)
    assert broker.max_offset("orders", 1) == 0
    times = [message.store_timestamp for message in pull(broker).messages]
    assert broker.search_offset("orders", 0, times[0]) == 0
    assert broker.search_offset("orders", 0, times[-1] + 60_000) in (2, 3)


# -- sending ----------------------------------------------------------------------------------------------


def test_a_message_arrives_as_it_was_sent(broker: Broker) -> None:
    message = Message(
        "orders",
        bytes(range(256)),
        tags="created",
        keys=("o-1", "o-2"),
        properties={"region": "eu", "größe": "5 €"},
        flag=-7,
        born_timestamp=1_700_000_000_123,
    )
    put = broker.send(message, timeout_ms=TIMEOUT_MS)
    assert (put.status, put.topic, put.queue_id, put.queue_offset) == (
        PutMessageStatus.PUT_OK,
        "orders",
        0,
        0,
    )
    [stored] = pull(broker).messages
    assert (stored.body, stored.tags, list(stored.keys)) == (message.body, "created", ["o-1", "o-2"])
    assert {**stored.properties, "region": "eu"} == dict(stored.properties)
    assert stored.properties["größe"] == "5 €"
    assert (stored.flag, stored.born_timestamp) == (-7, 1_700_000_000_123)
    assert (put.physical_offset, put.msg_id) == (stored.physical_offset, stored.msg_id)


def test_a_batch_lies_in_a_row(broker: Broker) -> None:
    messages = [
        Message("orders", b"%d" % number, tags=f"t{number}", keys=f"k-{number}", flag=number)
        for number in range(20)
    ]
    puts = broker.send_all(messages, timeout_ms=TIMEOUT_MS)
    assert [put.queue_offset for put in puts] == list(range(20))
    found = pull(broker).messages
    assert [(each.body, each.tags, each.flag) for each in found] == [
        (message.body, message.tags, message.flag) for message in messages
    ]
    assert [put.physical_offset for put in puts] == [each.physical_offset for each in found]


def test_an_asynchronous_send(broker: Broker) -> None:
    futures = [broker.send_async(Message("orders", b"%d" % number)) for number in range(50)]
    puts = [future.result(PATIENCE_S) for future in futures]
    assert sorted(put.queue_offset for put in puts) == list(range(50))


@pytest.mark.slow
def test_a_delayed_message_comes_later(broker: Broker) -> None:
    send(broker, b"soon", delay_level=1)
    calls = Calls()
    send(broker, b"now")
    broker.pull_later(pull_request(1, suspend_ms=20_000), calls)
    (answer,) = calls.next()
    assert bodies(answer) == [b"soon"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message("no/such", b"x"), ResponseCode.INVALID_PARAMETER),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), None),
        (Message("orders", b"x" * (1 << 20) + b"x"), ResponseCode.MESSAGE_ILLEGAL),
        (Message("orders", b"x", queue_id=4_000), ResponseCode.INVALID_PARAMETER),
        (Message("orders", b"x", properties={"a": "\x01"}), None),
    ],
)
def test_what_is_refused(broker: Broker, message: Message, code: ResponseCode | None) -> None:
    """With a StoreError, and nothing is stored."""
    send(broker, b"before")
    with pytest.raises(StoreError) as refusal:
        broker.send(message, timeout_ms=TIMEOUT_MS)
    if code is not None:
        assert refusal.value.response_code == code
    assert bodies(pull(broker)) == [b"before"]


@pytest.mark.slow
def test_a_message_that_is_sent_back_comes_again(broker: Broker) -> None:
    """In the retry topic of the group, which a member has created."""
    broker.register_consumer(GROUP, ME, DATA, lambda: None)
    send(broker, b"bad", tags="created")
    [message] = pull(broker).messages
    broker.send_message_back(GROUP, message, delay_level=1, max_reconsume_times=16, timeout_ms=TIMEOUT_MS)
    calls = Calls()
    broker.pull_later(pull_request(topic="%RETRY%billing", suspend_ms=20_000), calls)
    (answer,) = calls.next()
    [again] = answer.messages
    assert (again.body, again.tags, again.reconsume_times) == (b"bad", "created", 1)
    assert again.properties["RETRY_TOPIC"] == "orders"
    broker.unregister_consumer(GROUP, ME)


def test_a_message_may_be_made_a_dead_letter(broker: Broker) -> None:
    broker.register_consumer(GROUP, ME, DATA, lambda: None)
    send(broker, b"dead")
    [message] = pull(broker).messages
    broker.send_message_back(GROUP, message, delay_level=-1, max_reconsume_times=16, timeout_ms=TIMEOUT_MS)
    assert bodies(pull(broker, topic="%DLQ%billing")) == [b"dead"]
    broker.unregister_consumer(GROUP, ME)


def test_delay_levels_are_the_stores(broker: Broker) -> None:
    assert [broker.delay_level_of(ms) for ms in (1, 1_000, 1_001, 3_000, 10_000)] == [1, 1, 2, 3, 3]


# -- replies ----------------------------------------------------------------------------------------------


def test_a_reply_reaches_the_client_that_asked(broker: Broker) -> None:
    calls = Calls()
    broker.register_reply_receiver(ME, calls)
    asked = Message("orders", b"?", properties={"CORRELATION_ID": "7", "REPLY_TO_CLIENT": ME, "TTL": "9000"})
    broker.send_async(asked).result(PATIENCE_S)
    [request] = pull(broker).messages
    reply = Message(
        f"{request.properties['CLUSTER']}_REPLY_TOPIC",
        b"!",
        properties={"CORRELATION_ID": "7", "REPLY_TO_CLIENT": ME, "MSG_TYPE": "reply"},
    )
    broker.send_reply(reply, timeout_ms=TIMEOUT_MS)
    (received,) = calls.next()
    assert (received.body, received.properties["CORRELATION_ID"]) == (b"!", "7")
    broker.unregister_reply_receiver(ME)
    with pytest.raises(StoreError):
        broker.send_reply(reply, timeout_ms=TIMEOUT_MS)


# -- transactions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        (TransactionState.COMMIT_MESSAGE, [b"half"]),
        (TransactionState.ROLLBACK_MESSAGE, []),
        (TransactionState.UNKNOW, []),
    ],
)
def test_a_half_is_seen_once_it_is_committed(
    broker: Broker, state: TransactionState, seen: list[bytes]
) -> None:
    send(broker, b"before")
    half = broker.send_half(Message("orders", b"half", tags="x"), "booking", timeout_ms=TIMEOUT_MS)
    assert bodies(pull(broker)) == [b"before"]
    broker.end_transaction(half, "booking", state)
    assert bodies(pull(broker)) == [b"before", *seen]


def test_a_half_of_another_group_is_not_ended(broker: Broker) -> None:
    half = broker.send_half(Message("orders", b"half"), "booking", timeout_ms=TIMEOUT_MS)
    with pytest.raises(StoreError):
        broker.end_transaction(half, "another", TransactionState.COMMIT_MESSAGE)
    broker.end_transaction(half, "booking", TransactionState.COMMIT_MESSAGE)
    assert bodies(pull(broker)) == [b"half"]


def test_a_producer_is_asked_about_a_half_that_nobody_ended(broker: Broker) -> None:
    calls = Calls()
    broker.register_producer("booking", ME, calls)
    broker.send_half(Message("orders", b"half", keys="k"), "booking", timeout_ms=TIMEOUT_MS)
    message, half = calls.next()
    assert (message.body, message.topic, list(message.keys)) == (b"half", "orders", ["k"])
    assert isinstance(message, StoredMessage)
    broker.end_transaction(half, "booking", TransactionState.COMMIT_MESSAGE)
    assert bodies(pull(broker)) == [b"half"]
    broker.unregister_producer("booking", ME)


# -- pulling ----------------------------------------------------------------------------------------------


def test_a_pull_takes_the_tags_that_are_wanted(broker: Broker) -> None:
    """Also where two tags have the same hash."""
    for tags in ("Aa", "BB", "C"):
        send(broker, tags.encode(), tags=tags)
    assert bodies(pull(broker, 0, "Aa || C")) == [b"Aa", b"C"]
    assert bodies(pull(broker, 0, "BB")) == [b"BB"]
    nothing = pull(broker, 0, "nobody")
    assert (nothing.status, nothing.messages) == (GetMessageStatus.NO_MATCHED_MESSAGE, [])
    assert nothing.next_begin_offset == 3
    assert not nothing.is_illegal


def test_a_pull_beyond_the_end_is_told_where_to_go_on(broker: Broker) -> None:
    send(broker, b"only")
    at_end = pull(broker, 1)
    assert (at_end.messages, at_end.next_begin_offset, at_end.is_illegal) == ([], 1, False)
    beyond = pull(broker, 7)
    assert beyond.is_illegal
    assert beyond.next_begin_offset == 1
    assert (beyond.min_offset, beyond.max_offset) == (0, 1)


def test_a_pull_of_an_unknown_topic(broker: Broker) -> None:
    """The embedded one finds no queue, a broker of RocketMQ refuses; nobody gets a message."""
    try:
        answer = pull(broker, topic="nowhere")
    except StoreError as error:
        assert error.response_code is ResponseCode.TOPIC_NOT_EXIST
    else:
        assert not answer.messages


def test_a_pull_that_waits_is_woken_by_a_message(broker: Broker) -> None:
    send(broker, b"first")
    calls = Calls()
    broker.pull_later(pull_request(1, "wanted", suspend_ms=60_000), calls)
    send(broker, b"other", tags="other")
    send(broker, b"second", tags="wanted")
    (answer,) = calls.next()
    assert bodies(answer) == [b"second"]
    assert calls.is_empty


def test_a_pull_that_waits_ends_with_its_time(broker: Broker) -> None:
    send(broker, b"first")
    calls = Calls()
    broker.pull_later(pull_request(1, suspend_ms=100), calls)
    (answer,) = calls.next()
    assert (answer.messages, answer.next_begin_offset) == ([], 1)


def test_a_pull_that_was_cancelled_is_not_answered(broker: Broker) -> None:
    send(broker, b"first")
    cancelled, other = Calls(), Calls()
    cancel = broker.pull_later(pull_request(1, suspend_ms=60_000), cancelled)
    cancel()
    broker.pull_later(pull_request(1, suspend_ms=60_000), other)
    send(broker, b"second")
    (answer,) = other.next()
    assert bodies(answer) == [b"second"]
    assert cancelled.is_empty


# -- offsets and members ----------------------------------------------------------------------------------


def test_offsets_of_a_group_are_kept(broker: Broker) -> None:
    send(broker, b"first")
    assert broker.query_consumer_offset(GROUP, "orders", 0) == 0
    broker.update_consumer_offset(GROUP, "orders", 0, 1)
    assert broker.query_consumer_offset(GROUP, "orders", 0) == 1
    assert broker.take_reset_offset(GROUP, "orders", 0) is None


def test_members_hear_of_each_other(broker: Broker) -> None:
    mine, theirs = Calls(), Calls()
    assert broker.consumer_ids(GROUP) == []
    broker.register_consumer(GROUP, ME, DATA, mine)
    assert broker.consumer_ids(GROUP) == [ME]
    broker.register_consumer(GROUP, OTHER, DATA, theirs)
    mine.next()
    assert sorted(broker.consumer_ids(GROUP)) == [ME, OTHER]
    broker.unregister_consumer(GROUP, OTHER)
    mine.next()
    assert broker.consumer_ids(GROUP) == [ME]
    broker.unregister_consumer(GROUP, ME)
    assert broker.consumer_ids(GROUP) == []


def test_a_lock_is_one_members(broker: Broker) -> None:
    send(broker, b"first")
    for member in (ME, OTHER):
        broker.register_consumer(GROUP, member, DATA, lambda: None)
    assert broker.lock_queues(GROUP, ME, QUEUES[:2]) == set(QUEUES[:2])
    assert broker.lock_queues(GROUP, OTHER, QUEUES) == set(QUEUES[2:])
    broker.unlock_queues(GROUP, ME, QUEUES[:1])
    assert broker.lock_queues(GROUP, OTHER, QUEUES[:2]) == {QUEUES[0]}
    broker.unregister_consumer(GROUP, ME)
    assert broker.lock_queues(GROUP, OTHER, QUEUES) == set(QUEUES)
    broker.unregister_consumer(GROUP, OTHER)


# -- its end ----------------------------------------------------------------------------------------------


def test_a_closed_broker_raises_but_lets_clients_leave(broker: Broker) -> None:
    broker.register_consumer(GROUP, ME, DATA, lambda: None)
    calls = Calls()
    send(broker, b"first")
    broker.pull_later(pull_request(1, suspend_ms=60_000), calls)
    broker.close()  # type: ignore[attr-defined]
    (outcome,) = calls.next()
    assert isinstance(outcome, StoreError)
    broker.unregister_consumer(GROUP, ME)
    broker.unlock_queues(GROUP, ME, QUEUES)
    asked: list[Callable[[], object]] = [
        lambda: broker.topic_route("orders"),
        lambda: broker.send(Message("orders", b"late"), timeout_ms=1),
        lambda: broker.pull(pull_request()),
        lambda: broker.consumer_ids(GROUP),
        lambda: broker.register_consumer(GROUP, ME, DATA, lambda: None),
    ]
    for ask in asked:
        with pytest.raises(BrokerClosed):
            ask()


def test_publish_routes_are_those_of_a_producer(broker: Broker) -> None:
    """The routes that a producer makes of it: four queues of a topic that does not exist yet."""
    routes = PublishRoutes({broker.name: broker}, ProducerSettings(), random.Random(1))
    assert [queue.queue_id for queue in routes.find("new", 0.0).queues] == [0, 1, 2, 3]
    without = PublishRoutes(
        {broker.name: broker}, ProducerSettings(create_topic_key="nowhere"), random.Random(1)
    )
    with pytest.raises(TopicRouteNotFound):
        without.find("new", 0.0)
