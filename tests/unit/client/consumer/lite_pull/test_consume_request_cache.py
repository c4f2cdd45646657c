"""The consume request cache alone: what is handed out, what counts as done, and who is woken."""

import threading
from pathlib import Path

import pytest

from mqstore.broker.broker import MessageQueue, PullAnswer
from mqstore.client.consumer.lite_pull.consume_request_cache import ConsumeRequestCache, Polled
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.store.errors import StoreClosed
from support.clients.scripted_broker import BROKER, found
from support.clients.stored_messages import stored_message

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
        return offsets_of(self.cache.take())


def offsets_of(polled: Polled | None) -> list[int]:
    return [] if polled is None else [message.queue_offset for message in polled.messages]


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
    assert offsets_of(subject.cache.take(one_by_one=True)) == [4, 5, 6]
    for offset, following, done, settled in ((None, None, 4, 4), (4, 5, 4, 5), (5, 6, 5, 6), (6, None, 6, 7)):
        if offset is not None:
            subject.cache.hand_out(pulled, offset, following)
        assert subject.cache.done() == {QUEUE: done}
        assert subject.cache.position(QUEUE) == settled
        subject.cache.settle()
        assert subject.cache.done() == {QUEUE: settled}


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
    """Row 'paused 1 s'."""
    subject.cache.paused = frozenset([QUEUE])
    assert (subject.cache.pause_ms(pulled), subject.cache.pause_ms(PulledQueue(OTHER, "*", 0))) == (1_000, 0)


def test_a_wait_ends_with_a_batch(subject: Cache, pulled: PulledQueue) -> None:
    """Or when its time is over, or with the stop."""
    assert subject.cache.wait(0) is None
    seen: list[list[int]] = []
    thread = threading.Thread(target=lambda: seen.append(offsets_of(subject.cache.wait(60))))
    thread.start()
    subject.submit(pulled, 4)
    thread.join(10)
    assert seen == [[4]]
    stopped = threading.Thread(target=lambda: seen.append(offsets_of(subject.cache.wait(60))))
    stopped.start()
    subject.cache.stop()
    stopped.join(10)
    assert (seen, subject.cache.is_stopped) == ([[4], []], True)


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
