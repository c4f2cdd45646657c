"""The transaction producer: what is committed, what is rolled back, what the broker asks about.

The broker is a real one over a store in memory; its checks are made by hand (`check`), and errors are
scripted.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.broker.broker import TransactionState
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.errors import ClientNotRunning, SendFailed
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.send_result import SendStatus
from mqstore.client.producer.transaction_producer import TransactionProducer
from mqstore.store.errors import MessageIllegal, StoreFull
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import PutMessageStatus
from support.clients.answering_broker import AnsweringBroker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore, bodies_of, messages_of

COMMIT = TransactionState.COMMIT_MESSAGE
ROLLBACK = TransactionState.ROLLBACK_MESSAGE
UNKNOW = TransactionState.UNKNOW
ORDER = Message("orders", b"body", tags="a", properties={"color": "red"})
FULL = StoreFull(Path("/full"), 1, "no room")


class Listener:
    """Answers what it is told, and notes what it sees."""

    def __init__(self, executed: Any = COMMIT, checked: Any = COMMIT) -> None:
        self.executed = executed
        self.checked = checked
        self.executions: list[tuple[Message, Any]] = []
        self.checks: list[StoredMessage] = []
        self.was_checked = threading.Event()

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState | None:
        self.executions.append((message, arg))
        return self._answer(self.executed)

    def check_local_transaction(self, message: StoredMessage) -> TransactionState | None:
        self.checks.append(message)
        try:
            return self._answer(self.checked)
        finally:
            self.was_checked.set()

    def _answer(self, answer: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


@pytest.fixture
def small(clock: ManualClock) -> SmallStore:
    return SmallStore(MemoryFileSystem(clock=clock), Path("/store"), clock=clock)


@pytest.fixture
def store(small: SmallStore) -> Iterator[MessageStore]:
    with small.open() as opened:
        opened.topics.create("orders", 1)
        yield opened


@pytest.fixture
def broker(store: MessageStore, seconds: ManualSeconds) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(store, now_s=seconds) as opened:
        yield opened


MakeProducer = Callable[..., TransactionProducer]


@pytest.fixture
def producer_with(broker: EmbeddedBroker) -> Iterator[MakeProducer]:
    made: list[TransactionProducer] = []

    def make(listener: Listener, **settings: Any) -> TransactionProducer:
        producer = TransactionProducer(broker, "bookings", listener, ProducerSettings(**settings))
        producer.start()
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close()


def check(broker: EmbeddedBroker, clock: ManualClock) -> int:
    """Let the time pass after which the broker asks, and have it ask."""
    clock.advance(6_001)
    return broker._check_thread._work.check()  # type: ignore[attr-defined, no-any-return]


# -- what the listener says -------------------------------------------------------------------------


def test_a_committed_message_is_seen(producer_with: MakeProducer, store: MessageStore) -> None:
    """After the listener, not before; with the id of the result."""
    seen_before = []
    listener = Listener(lambda: seen_before.append(bodies_of(store, "orders")) or COMMIT)
    result = producer_with(listener).send_message_in_transaction(ORDER, "seat 7")
    assert result.local_transaction_state is COMMIT
    assert seen_before == [[]]
    (found,) = messages_of(store, "orders")
    assert (found.body, found.tags, found.unique_key) == (b"body", "a", result.msg_id)
    ((message, arg),) = listener.executions
    assert (message.body, message.properties["UNIQ_KEY"], arg) == (b"body", result.msg_id, "seat 7")
    assert message.properties["color"] == "red"


def test_a_message_that_is_rolled_back_is_never_seen(
    producer_with: MakeProducer, store: MessageStore, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """Nor is the producer asked about it."""
    result = producer_with(Listener(ROLLBACK)).send_message_in_transaction(ORDER)
    assert result.local_transaction_state is ROLLBACK
    assert check(broker, clock) == 0
    assert bodies_of(store, "orders") == []


@pytest.mark.parametrize("answer", [UNKNOW, None, ValueError("a bug"), "COMMIT_MESSAGE"], ids=repr)
@pytest.mark.parametrize(("checked", "bodies"), [(COMMIT, [b"body"]), (ROLLBACK, [])])
def test_an_unknown_outcome_is_asked_about(
    producer_with: MakeProducer,
    store: MessageStore,
    broker: EmbeddedBroker,
    clock: ManualClock,
    answer: Any,
    checked: TransactionState,
    bodies: list[bytes],
) -> None:
    """UNKNOW, nothing, an exception and what is no state: the broker asks, and the answer counts."""
    listener = Listener(answer, checked)
    producer = producer_with(listener)
    result = producer.send_message_in_transaction(ORDER)
    assert (result.local_transaction_state, result.send_status) == (UNKNOW, SendStatus.SEND_OK)
    assert check(broker, clock) == 1
    producer.close()  # which ends the checks that have begun
    assert [(message.topic, message.unique_key) for message in listener.checks] == [("orders", result.msg_id)]
    assert bodies_of(store, "orders") == bodies


@pytest.mark.parametrize("answer", [UNKNOW, None, ValueError("a bug")], ids=repr)
def test_a_check_without_an_answer_is_repeated(
    producer_with: MakeProducer, broker: EmbeddedBroker, clock: ManualClock, answer: Any
) -> None:
    """Until there is one."""
    listener = Listener(UNKNOW, answer)
    producer_with(listener).send_message_in_transaction(ORDER)
    for count in (1, 2):
        listener.was_checked.clear()
        assert check(broker, clock) == 1
        assert listener.was_checked.wait(60)
        assert len(listener.checks) == count


def test_another_client_of_the_group_is_asked(
    producer_with: MakeProducer, store: MessageStore, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """When the one that sent the half is gone."""
    first, second = Listener(UNKNOW), Listener()
    gone, there = producer_with(first), producer_with(second)
    assert gone.client_id != there.client_id
    gone.send_message_in_transaction(ORDER)
    gone.close()
    assert check(broker, clock) == 1
    there.close()
    assert (len(first.checks), len(second.checks)) == (0, 1)
    assert bodies_of(store, "orders") == [b"body"]


def test_an_interrupt_leaves_it_to_the_check(
    producer_with: MakeProducer, broker: EmbeddedBroker, clock: ManualClock
) -> None:
    """Ctrl-C in the listener is raised, and nothing is told to the broker."""
    listener = Listener(KeyboardInterrupt())
    producer = producer_with(listener)
    with pytest.raises(KeyboardInterrupt):
        producer.send_message_in_transaction(ORDER)
    assert check(broker, clock) == 1
    producer.close()
    assert len(listener.checks) == 1


# -- the half ---------------------------------------------------------------------------------------


def test_the_half_is_compressed_and_the_listener_sees_the_body(
    producer_with: MakeProducer, store: MessageStore
) -> None:
    """As in any send: the caller's body is not changed."""
    listener = Listener()
    producer_with(listener).send_message_in_transaction(Message("orders", bytes(9_000)))
    (found,) = messages_of(store, "orders")
    assert (found.is_compressed, found.body) == (True, bytes(9_000))
    assert listener.executions[0][0].body == bytes(9_000)


def test_a_delay_is_dropped(producer_with: MakeProducer, store: MessageStore) -> None:
    """A message in a transaction is seen when it is committed."""
    producer_with(Listener()).send_message_in_transaction(Message("orders", b"now", delay_level=3))
    assert bodies_of(store, "orders") == [b"now"]


def test_what_is_wrong_with_a_message_is_raised(producer_with: MakeProducer) -> None:
    """There is no half then, and the listener is not asked."""
    listener = Listener()
    producer = producer_with(listener)
    for message in (Message("orders", b""), Message("orders", b"x", properties=["a"])):  # type: ignore[arg-type]
        with pytest.raises(MessageIllegal):
            producer.send_message_in_transaction(message)
    producer.close()
    with pytest.raises(ClientNotRunning):
        producer.send_message_in_transaction(ORDER)
    assert not listener.executions


class HalvesBroker(AnsweringBroker):
    """Keeps halves, and what they were ended with."""

    def __init__(self, *answers: Any, end_error: Exception | None = None) -> None:
        super().__init__("broker-a", *answers)
        self.ended: list[tuple[PutMessageResult, str, TransactionState]] = []
        self.end_error = end_error
        self.producers: list[tuple[str, str]] = []
        self.register_error: Exception | None = None

    def send_half(self, message: Message, producer_group: str, *, timeout_ms: int) -> PutMessageResult:
        assert producer_group == "bookings"
        return self.send(message, timeout_ms=timeout_ms)

    def end_transaction(self, half: PutMessageResult, producer_group: str, state: TransactionState) -> None:
        self.ended.append((half, producer_group, state))
        if self.end_error is not None:
            raise self.end_error

    def register_producer(self, group: str, client_id: str, check: Any) -> None:
        if self.register_error is not None:
            raise self.register_error
        self.producers.append((group, client_id))
        self.check = check

    def unregister_producer(self, group: str, client_id: str) -> None:
        self.producers.remove((group, client_id))


def producer_over(broker: HalvesBroker, listener: Listener, **settings: Any) -> TransactionProducer:
    return TransactionProducer(broker, "bookings", listener, ProducerSettings(**settings))  # type: ignore[arg-type]


def test_the_half_is_sent_with_all_attempts() -> None:
    """As a SYNC send: one UNIQ_KEY; what is raised at the end is that of a send, and nothing is ended."""
    broker, listener = HalvesBroker(FULL, FULL), Listener()
    with producer_over(broker, listener) as producer:
        result = producer.send_message_in_transaction(ORDER)
        assert [message.properties["UNIQ_KEY"] for message in broker.sent] == [result.msg_id] * 3
        assert broker.ended == [(result.put, "bookings", COMMIT)]
        broker.answers = [FULL] * 3
        with pytest.raises(SendFailed):
            producer.send_message_in_transaction(ORDER)
    assert (len(broker.ended), len(listener.executions)) == (1, 1)


def test_a_half_that_is_not_ok_is_rolled_back() -> None:
    """FLUSH_DISK_TIMEOUT: the listener is not asked."""
    broker, listener = HalvesBroker(PutMessageStatus.FLUSH_DISK_TIMEOUT), Listener()
    with producer_over(broker, listener) as producer:
        result = producer.send_message_in_transaction(ORDER)
    assert (result.local_transaction_state, result.send_status) == (ROLLBACK, SendStatus.FLUSH_DISK_TIMEOUT)
    assert [state for _, _, state in broker.ended] == [ROLLBACK]
    assert not listener.executions


def test_an_end_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The result has what the listener said; the broker will ask."""
    broker = HalvesBroker(end_error=FULL)
    with producer_over(broker, Listener()) as producer:
        assert producer.send_message_in_transaction(ORDER).local_transaction_state is COMMIT
    assert "broker broker-a was not told" in caplog.text


def test_the_broker_knows_the_producer_while_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    """By group and client id; a broker that is closed is left out, with a warning."""
    broker, closed = HalvesBroker(), HalvesBroker()
    closed.name, closed.register_error = "closed", FULL
    producer = TransactionProducer([broker], "bookings", Listener())  # type: ignore[list-item]
    assert broker.producers == []
    producer.start()
    assert broker.producers == [("bookings", producer.client_id)]
    producer.close()
    producer.close()
    assert broker.producers == []
    producer_over(closed, Listener()).start()
    assert "broker closed will not ask TransactionProducer('bookings')" in caplog.text


def test_too_many_checks_are_left_to_the_next_round(caplog: pytest.LogCaptureFixture) -> None:
    """At most check_request_hold_max wait; the broker asks again about those beyond."""
    begun, goes_on = threading.Event(), threading.Event()

    def wait() -> TransactionState:
        begun.set()
        assert goes_on.wait(60)
        return COMMIT

    broker, listener = HalvesBroker(), Listener(UNKNOW, wait)
    with producer_over(broker, listener, check_request_hold_max=1) as producer:
        half = producer.send_message_in_transaction(ORDER).put
        message = StoredMessage.of(memoryview(b""))
        for _ in range(3):
            broker.check(message, half)
            assert begun.wait(60)
        assert "has too many checks of transactions" in caplog.text
        goes_on.set()
    assert len(listener.checks) == 2
