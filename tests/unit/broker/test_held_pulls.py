"""The pulls that wait: which event answers which of them, and that none is missed or answered twice.

The store is a real one in memory. There is no thread: the tests take its steps, at a time that they choose.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from mqstore import Message, MessageStore
from mqstore.broker import held_pulls as held_pulls_module
from mqstore.broker.broker import PullAnswer, PullRequest
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.broker.held_pulls import HeldPulls
from mqstore.store.errors import CorruptRecord, StoreClosed
from mqstore.store.record.java_hash import string_hash
from mqstore.store.status import GetMessageStatus
from mqstore.store.threads import auto_reset_event
from support.disks.interrupts import interrupted_at
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.stores.small_store import SmallStore


def request(
    offset: int = 0,
    subscription: str = "*",
    *,
    topic: str = "orders",
    queue_id: int = 0,
    suspend_ms: int = 15_000,
) -> PullRequest:
    return PullRequest("billing", topic, queue_id, offset, 32, subscription, suspend_ms)


class Holding:
    """Held pulls over a store, and what became of each."""

    def __init__(self, store: MessageStore, seconds: ManualSeconds) -> None:
        self.store = store
        self.seconds = seconds
        self.pull_count = 0
        self._broker = EmbeddedBroker(store)
        self.pulls = HeldPulls(store, self._pull, seconds)

    def _pull(self, asked: PullRequest) -> PullAnswer:
        self.pull_count += 1
        return self._broker.pull(asked)

    def hold(self, asked: PullRequest) -> tuple[list[PullAnswer | Exception], Callable[[], None]]:
        """The answers that come, and what cancels the wait."""
        answers: list[PullAnswer | Exception] = []
        return answers, self.pulls.hold(asked, answers.append)

    def is_woken(self) -> bool:
        """Whether the thread would do something now; takes the step."""
        was_set = self.pulls.event.wait(0)
        if was_set or self.pulls.due_s <= self.seconds():
            self.pulls.run_once()
        return was_set

    def settle(self) -> None:
        """Take steps until there is nothing to do."""
        while self.is_woken():
            pass


@pytest.fixture
def holding(store: MessageStore, seconds: ManualSeconds) -> Iterator[Holding]:
    holding = Holding(store, seconds)
    yield holding
    holding.pulls.end()


def bodies(answers: list[PullAnswer | Exception]) -> list[list[bytes]]:
    """What each answer brought."""
    return [[message.body for message in answer.messages] for answer in answers if type(answer) is PullAnswer]


def test_a_message_answers_the_pulls_of_its_queue(holding: Holding) -> None:
    """Those alone, each once, and nobody waits for them any more."""
    first, _ = holding.hold(request())
    second, _ = holding.hold(request())
    elsewhere, _ = holding.hold(request(queue_id=1))
    holding.settle()
    assert first == second == elsewhere == []
    holding.store.put_message(Message("orders", b"x"))
    holding.settle()
    assert bodies(first) == bodies(second) == [[b"x"]]
    assert elsewhere == []
    holding.store.put_message(Message("orders", b"y"))
    holding.settle()
    assert (len(first), len(second), len(holding.pulls)) == (1, 1, 1)


def test_a_message_that_comes_before_the_thread_looks_is_found(holding: Holding) -> None:
    """A put that found nobody waiting was announced to nobody."""
    answers, _ = holding.hold(request())
    holding.store.put_message(Message("orders", b"x"))
    holding.settle()
    assert bodies(answers) == [[b"x"]]


@pytest.mark.parametrize("way", ["put_message_async", "put_message", "put_messages"])
def test_a_put_that_does_not_wait_for_the_disk_is_found(
    small: SmallStore, seconds: ManualSeconds, way: str
) -> None:
    """In SYNC_FLUSH such a message is in the log before anybody waits, and is read after the next sync."""
    with small.open(flush_disk_type="SYNC_FLUSH") as store:
        holding = Holding(store, seconds)
        message = Message("orders", b"x", wait_store_msg_ok=way == "put_message_async")
        if way == "put_messages":
            store.put_messages([message] * 2)
        else:
            getattr(store, way)(message)
        answers, _ = holding.hold(request())
        holding.settle()
        assert answers == []
        store.flush()
        holding.settle()
        assert bodies(answers) == [[b"x"] * (2 if way == "put_messages" else 1)]
        holding.pulls.end()


@pytest.mark.parametrize("way", ["put_messages", "put_columns", "deliver_due"])
def test_all_ways_to_put_answer_a_pull(holding: Holding, clock: ManualClock, way: str) -> None:
    """One message, lists, columns, and delayed messages that are due."""
    answers, _ = holding.hold(request())
    holding.settle()
    store = holding.store
    if way == "put_messages":
        store.put_messages([Message("orders", b"x")] * 50)
    elif way == "put_columns":
        store.put_columns({"topic": "orders", "body": [b"x"] * 50, "queue_id": 0})
    else:
        store.put_message(Message("orders", b"x", delay_level=1))
        holding.settle()
        assert answers == []
        clock.advance(1_000)
        assert store.deliver_due() == 1
    holding.settle()
    assert [set(found) for found in bodies(answers)] == [{b"x"}]


def test_other_tags_do_not_wake(holding: Holding) -> None:
    """The hash is compared where the message is put; the queue is not even looked at."""
    answers, _ = holding.hold(request(subscription="paid || sent"))
    holding.settle()
    pulls_before = holding.pull_count
    holding.store.put_messages([Message("orders", b"-", tags="created"), Message("orders", b"-")])
    assert not holding.is_woken()
    assert holding.pull_count == pulls_before
    holding.store.put_message(Message("orders", b"x", tags="sent"))
    assert holding.is_woken()
    assert bodies(answers) == [[b"x"]]


def test_a_tag_of_the_same_hash_leaves_a_pull_waiting(holding: Holding) -> None:
    """It is looked at, and finds nothing for it."""
    assert string_hash("Aa") == string_hash("BB")
    answers, _ = holding.hold(request(subscription="Aa"))
    holding.settle()
    holding.store.put_message(Message("orders", b"-", tags="BB"))
    holding.settle()
    assert answers == []
    holding.store.put_message(Message("orders", b"x", tags="Aa"))
    holding.settle()
    assert bodies(answers) == [[b"x"]]


def test_time_that_is_up_answers_with_what_is_there(holding: Holding) -> None:
    """Each pull at its own time, and not before; the client goes on where the answer says."""
    late, _ = holding.hold(request(suspend_ms=20_000, subscription="paid"))
    early, _ = holding.hold(request(suspend_ms=5_000))
    holding.settle()
    assert holding.pulls.due_s == holding.seconds() + 5
    holding.seconds.advance(4.999)
    holding.pulls.run_once()
    assert (early, late) == ([], [])
    holding.seconds.advance(0.001)
    holding.pulls.run_once()
    assert early == [PullAnswer(GetMessageStatus.NO_MESSAGE_IN_QUEUE, [], 0, 0, 0, False, 0)]
    assert late == []
    holding.store.put_message(Message("orders", b"-", tags="created"))
    holding.seconds.advance(15)
    holding.pulls.run_once()
    assert late == [PullAnswer(GetMessageStatus.NO_MATCHED_MESSAGE, [], 1, 0, 1, False, 0)]
    assert holding.pulls.due_s == math.inf


def test_a_cancelled_pull_is_not_answered(holding: Holding) -> None:
    """Neither by a message nor by its time; and puts to its queue need not tell anybody any more."""
    answers, cancel = holding.hold(request())
    holding.settle()
    assert holding.store._arrivals.wants("orders", 0)
    cancel()
    holding.settle()
    assert not holding.store._arrivals.wants("orders", 0)
    holding.store.put_message(Message("orders", b"x"))
    holding.seconds.advance(60)
    holding.settle()
    holding.pulls.run_once()
    assert answers == []
    cancel()


def test_a_pull_may_be_cancelled_before_it_is_taken_in(holding: Holding) -> None:
    """And after it was answered, when nothing happens."""
    answers, cancel = holding.hold(request())
    cancel()
    holding.store.put_message(Message("orders", b"x"))
    holding.settle()
    assert (answers, len(holding.pulls)) == ([], 0)
    answers, cancel = holding.hold(request())
    holding.settle()
    cancel()
    assert bodies(answers) == [[b"x"]]


def test_a_pull_that_fails_answers_with_its_error(holding: Holding, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client learns of damage at once, not when its time is up."""
    damage = CorruptRecord(holding.store.path, 0, "a record", "zeros")

    def fail(asked: PullRequest) -> PullAnswer:
        raise damage

    monkeypatch.setattr(holding.pulls, "_pull", fail)
    answers, _ = holding.hold(request())
    holding.settle()
    assert answers == [damage]


@pytest.mark.parametrize("error", [ValueError("callback"), SystemExit("callback")], ids=repr)
def test_a_callback_that_fails_is_logged(
    holding: Holding, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """The other pulls are answered all the same."""

    def fail(answer: PullAnswer | Exception) -> None:
        raise error

    holding.pulls.hold(request(), fail)
    answers, _ = holding.hold(request())
    holding.store.put_message(Message("orders", b"x"))
    holding.settle()
    assert bodies(answers) == [[b"x"]]
    assert f"{type(error).__name__}: callback" in caplog.text
    assert "topic='orders'" in caplog.text


def test_a_callback_may_pull_again(holding: Holding) -> None:
    """So do clients, all the time."""
    found: list[bytes] = []

    def pull_on(answer: PullAnswer | Exception) -> None:
        assert isinstance(answer, PullAnswer)
        found.extend(message.body for message in answer.messages)
        holding.pulls.hold(request(answer.next_begin_offset), pull_on)

    holding.pulls.hold(request(), pull_on)
    for number in range(5):
        holding.settle()
        holding.store.put_message(Message("orders", b"%d" % number))
    holding.settle()
    assert found == [b"0", b"1", b"2", b"3", b"4"]


def test_pulls_that_idle_cost_nothing(holding: Holding) -> None:
    """A thousand of them, while messages go to other queues: the thread sleeps until the first time is up."""
    for number in range(1_000):
        holding.hold(request(queue_id=number % 8))
    holding.settle()
    pulls_before, store = holding.pull_count, holding.store
    for _ in range(100):
        store.put_message(Message("others", b"x"))
    assert not holding.is_woken()
    assert holding.pull_count == pulls_before
    assert holding.pulls.due_s == holding.seconds() + 15
    assert len(holding.pulls) == 1_000
    assert repr(holding.pulls) == "HeldPulls(1000 waiting)"


def test_pulls_that_were_answered_are_forgotten(holding: Holding) -> None:
    """Long before their time: a busy client would leave thousands behind."""
    for offset in range(1_000):
        holding.hold(request(offset))
        holding.settle()
        holding.store.put_message(Message("orders", b"x"))
        holding.settle()
    assert len(holding.pulls._deadlines) < 200
    assert not holding.pulls._by_queue
    assert len(holding.pulls) == 0


def test_the_end_answers_all(small: SmallStore, seconds: ManualSeconds) -> None:
    """With the error of the closed store; also a pull that comes later, and one not yet taken in."""
    store = small.open()
    holding = Holding(store, seconds)
    taken_in, _ = holding.hold(request())
    holding.settle()
    new, _ = holding.hold(request(queue_id=1))
    assert not holding.pulls.is_done
    store.close()
    assert holding.pulls.is_done
    assert holding.pulls.event.wait(0)
    holding.pulls.end()
    late, _ = holding.hold(request())
    for answers in (taken_in, new, late):
        assert [type(answer) for answer in answers] == [StoreClosed]
    assert not store._arrivals.wanted


def test_a_pull_that_begins_to_wait_at_a_closed_store_ends_it(
    small: SmallStore, seconds: ManualSeconds
) -> None:
    """The store's end was announced before anybody listened."""
    store = small.open()
    holding = Holding(store, seconds)
    answers, _ = holding.hold(request())
    store.close()
    holding.settle()
    assert [type(answer) for answer in answers] == [StoreClosed]
    assert holding.pulls.is_done


def test_an_end_without_any_pull_is_quiet(holding: Holding) -> None:
    """The store hears nothing of a broker at which nobody waited."""
    holding.pulls.end()
    assert not holding.store._arrivals.wanted


def test_ctrl_c_keeps_no_other_pull_from_its_answer(small: SmallStore, seconds: ManualSeconds) -> None:
    """It strikes anywhere in a hold, a cancel or a put: the pull beside waits on, and the next message
    answers it.
    """
    modules = (held_pulls_module, auto_reset_event)
    scenes: tuple[Callable[[Holding, Callable[[], None]], object], ...] = (
        lambda holding, cancel: holding.hold(request(subscription="paid")),
        lambda holding, cancel: cancel(),
        lambda holding, cancel: holding.store.put_message(Message("orders", b"-", tags="paid")),
    )
    with small.open() as store:
        for scene in scenes:
            place, was_interrupted = 0, True
            while was_interrupted:
                place += 1
                holding = Holding(store, seconds)
                offset = store.get_max_offset_in_queue("orders", 0)
                _, cancel = holding.hold(request(offset, "paid"))
                answered: Future[PullAnswer | Exception] = Future()
                holding.pulls.hold(request(offset, "x"), answered.set_result)
                holding.settle()
                was_interrupted = interrupted_at(place, modules, lambda: scene(holding, cancel))  # noqa: B023 - called in this round
                store.put_message(Message("orders", b"x", tags="x"))
                holding.settle()
                assert answered.done(), place
                holding.pulls.end()
            assert place > 1
