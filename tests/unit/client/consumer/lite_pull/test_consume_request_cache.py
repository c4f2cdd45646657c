"""The consume request cache alone: what is handed out, what counts as done, and who is woken."""

import itertools
import threading
from pathlib import Path

import pytest

from mqstore.broker.broker import MessageQueue, PullAnswer
from mqstore.client.consumer.lite_pull.consume_request import ConsumeRequest
from mqstore.client.consumer.lite_pull.consume_request_cache import ConsumeRequestCache
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.store.errors import StoreClosed
from support.clients.scripted_broker import BROKER, found
from support.clients.stored_messages import stored_message
from support.crash.interrupt_storm import Strike, Struck

QUEUE, OTHER = MessageQueue("orders", BROKER, 0), MessageQueue("orders", BROKER, 1)


class Cache:
    """A cache, and batches for it."""

    def __init__(self, threshold_for_all: int = 10_000, max_span: int = 2_000) -> None:
        self.cache = ConsumeRequestCache(1, 10, threshold_for_all, max_span)

    def submit(self, pulled: PulledQueue, *offsets: int) -> None:
        messages = [stored_message(offset) for offset in offsets]
        answer: PullAnswer = found(messages)
        batch = pulled.process_queue.put(messages, answer.next_begin_offset)
        self.cache.submit(pulled, batch, answer)
        self.cache.wake()

    def take(self) -> list[int]:
        """Hand out a batch as a whole."""
        return handed_out(self.cache.take())


def handed_out(request: ConsumeRequest | None) -> list[int]:
    if request is None:
        return []
    offsets = offsets_of(request)
    request.handed, request.taker = len(request.messages), None
    return offsets


def offsets_of(request: ConsumeRequest) -> list[int]:
    return [message.queue_offset for message in request.messages[request.handed :]]


@pytest.fixture
def subject() -> Cache:
    return Cache()


@pytest.fixture
def pulled() -> PulledQueue:
    return PulledQueue(QUEUE, "*", 0)


def test_batches_come_in_turn(subject: Cache, pulled: PulledQueue) -> None:
    """As they were pulled; what is handed out leaves the process queue."""
    subject.submit(pulled, 4, 5)
    subject.submit(pulled, 6)
    assert (subject.take(), pulled.process_queue.message_count) == ([4, 5], 1)
    assert (subject.take(), subject.take()) == ([6], [])


def test_what_was_handed_out_is_done_when_more_is_asked_for(subject: Cache, pulled: PulledQueue) -> None:
    """Row 'poll': here the messages count as consumed one poll later than in RocketMQ."""
    subject.submit(pulled, 4, 5)
    subject.submit(pulled, 6)
    subject.take()
    assert (subject.cache.done(), subject.cache.position(QUEUE)) == ({QUEUE: 4}, 6)
    subject.take()
    assert (subject.cache.done(), subject.cache.position(QUEUE)) == ({QUEUE: 6}, 7)
    subject.cache.settle()
    assert subject.cache.done() == {QUEUE: 7}


def test_a_batch_is_handed_out_one_by_one(subject: Cache, pulled: PulledQueue) -> None:
    """What was not handed out yet is never done, whoever settles; done never goes back."""
    subject.submit(pulled, 4, 5, 6)
    for handed, done, position in ((0, 4, 4), (1, 4, 5), (2, 5, 6), (3, 6, 7)):
        if handed:
            request = subject.cache.take()
            assert request is not None
            assert offsets_of(request) == [4, 5, 6][handed - 1 :]
            request.handed, request.taker = handed, None
        else:
            subject.cache.take()
            subject.cache.let_go()
        assert (subject.cache.done(), subject.cache.position(QUEUE)) == ({QUEUE: done}, position)
    subject.cache.settle()
    assert subject.cache.done() == {QUEUE: 7}


def test_threads_that_ask_at_once_get_different_batches(subject: Cache, pulled: PulledQueue) -> None:
    """What one of them still has in hand is not done, whatever the other does; its own it may take again."""
    subject.submit(pulled, 4, 5)
    subject.submit(pulled, 6)
    first = subject.cache.take()
    others: list[list[int]] = []
    other = threading.Thread(target=lambda: others.append(subject.take()))
    other.start()
    other.join(10)
    assert others == [[6]]
    subject.cache.settle()
    assert (subject.cache.done(), subject.cache.position(QUEUE)) == ({QUEUE: 4}, 4)
    assert subject.cache.take() is first, "as after an interrupt"
    subject.cache.let_go()
    other = threading.Thread(target=lambda: others.append(subject.take()))
    other.start()
    other.join(10)
    assert others == [[6], [4, 5]]
    subject.cache.settle()
    assert subject.cache.done() == {QUEUE: 7}


def test_one_queue_is_settled(subject: Cache, pulled: PulledQueue) -> None:
    """The other one stays at work."""
    other = PulledQueue(OTHER, "*", 0)
    subject.submit(pulled, 4)
    subject.take()
    subject.cache.settle([OTHER])
    assert subject.cache.done() == {QUEUE: 4}
    subject.submit(other, 9)
    subject.cache.settle([QUEUE])
    assert subject.cache.done() == {QUEUE: 5}


def test_what_began_already_is_not_set_back(subject: Cache, pulled: PulledQueue) -> None:
    """A seek whose first pull was quicker than itself."""
    subject.submit(pulled, 4)
    subject.take()
    subject.cache.begin(pulled, 0)
    assert subject.cache.position(QUEUE) == 5


def test_a_queue_that_is_dropped_hands_out_nothing(subject: Cache, pulled: PulledQueue) -> None:
    """Row 'poll': of queues not dropped."""
    subject.submit(pulled, 4)
    pulled.drop()
    assert (subject.take(), subject.cache.done()) == ([], {})


def test_a_queue_that_is_dropped_at_work_counts_no_more(subject: Cache, pulled: PulledQueue) -> None:
    """Its messages come again, to whoever has it next."""
    subject.submit(pulled, 4)
    subject.take()
    pulled.drop()
    subject.cache.settle()
    assert (subject.cache.done(), subject.cache.position(QUEUE)) == ({}, None)


def test_messages_that_do_not_match_are_passed(subject: Cache, pulled: PulledQueue) -> None:
    """At once where nothing is at work, else with what is."""
    subject.cache.skip(pulled, 3)
    assert subject.cache.done() == {QUEUE: 3}
    subject.cache.skip(pulled, 5)
    assert subject.cache.done() == {QUEUE: 5}
    subject.submit(pulled, 6)
    subject.take()
    subject.cache.skip(pulled, 9)
    assert (subject.cache.done(), subject.cache.position(QUEUE)) == ({QUEUE: 5}, 9)
    subject.cache.settle()
    assert subject.cache.done() == {QUEUE: 9}


@pytest.mark.parametrize(("waiting", "pause_ms"), [(2, 0), (3, 50)])
def test_the_limit_of_all(waiting: int, pause_ms: int) -> None:
    """Row 'a limit 50 ms': requests times batch size above 20 messages."""
    subject = Cache(threshold_for_all=20)
    pulled = PulledQueue(QUEUE, "*", 0)
    for offset in range(waiting):
        subject.submit(pulled, offset)
    assert subject.cache.pause_ms(PulledQueue(OTHER, "*", 0)) == pause_ms


@pytest.mark.parametrize(("last", "pause_ms"), [(9, 0), (10, 50)])
def test_the_limit_of_the_span(last: int, pause_ms: int) -> None:
    """Row 'a limit 50 ms': offsets more than 9 apart."""
    subject, pulled = Cache(max_span=9), PulledQueue(QUEUE, "*", 0)
    subject.submit(pulled, 0, last)
    assert subject.cache.pause_ms(pulled) == pause_ms


def test_a_paused_queue(subject: Cache, pulled: PulledQueue) -> None:
    """Row pull task: paused 1 s."""
    subject.cache.paused = frozenset([QUEUE])
    assert (subject.cache.pause_ms(pulled), subject.cache.pause_ms(PulledQueue(OTHER, "*", 0))) == (1_000, 0)


def test_a_wait_ends_with_a_batch(subject: Cache, pulled: PulledQueue) -> None:
    """Or when its time is over, or with the stop."""
    assert subject.cache.wait(0) is None
    seen: list[list[int]] = []
    thread = threading.Thread(target=lambda: seen.append(handed_out(subject.cache.wait(60))))
    thread.start()
    subject.submit(pulled, 4)
    thread.join(10)
    assert seen == [[4]]
    stopped = threading.Thread(target=lambda: seen.append(handed_out(subject.cache.wait(60))))
    stopped.start()
    subject.cache.stop()
    stopped.join(10)
    assert (seen, subject.cache.is_stopped) == ([[4], []], True)


def test_an_interrupt_of_a_wait_leaves_no_lock() -> None:
    """At every place of it, as Ctrl-C may come; the thread that pulls goes on."""
    for place in itertools.count(1):
        subject, strike = Cache(), Strike(place)
        try:
            with strike:
                subject.cache.wait(0.001)
        except Struck:
            pass
        pulling = threading.Thread(target=subject.submit, args=(PulledQueue(QUEUE, "*", 0), 4), daemon=True)
        pulling.start()
        pulling.join(10)
        assert not pulling.is_alive(), strike.where
        assert subject.take() == [4]
        if not strike.has_struck:
            break
    assert place > 10


def test_a_callback_is_called_once(subject: Cache, pulled: PulledQueue) -> None:
    """At once if something is here, else with the next batch; not if it was cancelled."""
    calls: list[str] = []
    subject.cache.call_when_ready(lambda: calls.append("cancelled"))()
    subject.cache.call_when_ready(lambda: calls.append("waited"))
    subject.submit(pulled, 4)
    subject.submit(pulled, 5)
    assert calls == ["waited"]
    subject.cache.call_when_ready(lambda: calls.append("at once"))()
    assert calls == ["waited", "at once"]


def test_brokers_that_are_closed(subject: Cache, pulled: PulledQueue) -> None:
    """What is here is handed out; then whoever asks is told, unless the consumer itself was stopped."""
    subject.submit(pulled, 4)
    subject.cache.end(BROKER, StoreClosed(Path("/store")))
    assert subject.take() == [4]
    with pytest.raises(StoreClosed):
        subject.take()
    subject.cache.stop()
    assert subject.take() == []
