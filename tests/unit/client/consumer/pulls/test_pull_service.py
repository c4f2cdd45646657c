"""The pull loop, row by row of section 2 of the spec: a scripted broker, a timer moved by hand, no thread.

Each test makes queues ready, lets the service run until all wait, and looks at what was asked of the broker
and when the next look is due.
"""

import itertools
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mqstore.broker.broker import MessageModel, MessageQueue, PullAnswer, PullRequest
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.process_queue import PulledBatch
from mqstore.client.consumer.pulls.pull_service import PullService
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.repair.placeholder import placeholder
from mqstore.store.errors import CorruptRecord, StoreClosed, StoreError
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import GetMessageStatus
from support.clients.manual_timer import ManualTimer
from support.clients.scripted_broker import BROKER, ScriptedBroker, answer_of, found, nothing_found
from support.clients.stored_messages import RECORD_BYTES, stored_message, stored_messages

GROUP = "billing"
QUEUE = MessageQueue("orders", BROKER, 0)


class Consumption:
    """Takes what was pulled, and does nothing with it."""

    def __init__(self) -> None:
        self.skipped: list[tuple[PulledQueue, int]] = []
        self.ended: list[str] = []
        self.batches: list[PulledBatch] = []
        self.pause = 0
        self.woken_with = 0
        self.is_behind = False
        self.looked = threading.Event()

    def pause_ms(self, pulled: PulledQueue) -> int:
        return self.pause

    def submit(self, pulled: PulledQueue, batch: PulledBatch, answer: PullAnswer) -> None:
        self.batches.append(batch)

    def wake(self) -> None:
        self.woken_with = len(self.batches)

    def skip(self, pulled: PulledQueue, offset: int) -> None:
        self.skipped.append((pulled, offset))

    def end(self, broker_name: str, error: StoreClosed) -> None:
        self.ended.append(broker_name)

    def look_again(self) -> None:
        self.is_behind = False
        self.looked.set()


class Pulling:
    """A pull service and what is around it."""

    def __init__(self, settings: ConsumerSettings | None = None) -> None:
        self.broker = ScriptedBroker()
        self.timer = ManualTimer()
        self.consuming = Consumption()
        self.offsets = BrokerOffsetStore({BROKER: self.broker}, GROUP)
        self.moved: list[tuple[PulledQueue, int]] = []
        self.service = PullService(
            {BROKER: self.broker},
            GROUP,
            settings or ConsumerSettings(),
            self.offsets,
            self.timer,
            self.consuming,
            lambda pulled, offset: self.moved.append((pulled, offset)),
            now_s=self.timer.now_s,
        )

    def begin(self, queue: MessageQueue = QUEUE, offset: int = 0) -> PulledQueue:
        """Give a queue to the service."""
        pulled = PulledQueue(queue, "*", offset)
        self.service.ready(pulled)
        return pulled

    def run(self, *answers: PullAnswer | Exception) -> None:
        """Let it run, with these answers; then pulls wait at the broker."""
        self.broker.answers.extend(answers)
        self.service.run_once()

    @property
    def pulled_offsets(self) -> list[int]:
        return [request.offset for request in self.broker.pulls]


@pytest.fixture
def pulling() -> Pulling:
    return Pulling()


def test_what_a_pull_asks(pulling: Pulling) -> None:
    """The defaults of section 1: 32 messages, and the broker may keep the pull for 15 s."""
    pulling.begin(offset=7)
    pulling.run()
    (request,) = pulling.broker.pulls
    assert request == PullRequest(GROUP, "orders", 0, 7, 32, "*", 15_000)
    assert pulling.timer.delays_ms == [], "nothing is polled"


# -- rows of the table ----------------------------------------------------------------------------


def test_a_dropped_queue_ends(pulling: Pulling) -> None:
    """Row 'queue dropped': end, also for one whose pull waits at the broker."""
    pulling.begin().drop()
    pulling.run()
    assert pulling.broker.pulls == []
    other = pulling.begin()
    pulling.run()
    other.drop()
    assert pulling.broker.held == [], "cancelled"
    pulling.run()
    assert (len(pulling.broker.pulls), pulling.timer.delays_ms) == (1, [])


def test_an_answer_for_a_dropped_queue_counts_for_nothing(pulling: Pulling) -> None:
    """It may have been on its way when the queue was taken."""
    pulled = pulling.begin()
    pulling.run()
    pulled.process_queue.dropped = True
    pulling.broker.answer_held(found(stored_messages(0)))
    pulling.run()
    assert (pulling.consuming.batches, pulled.next_offset) == ([], 0)


def test_paused(pulling: Pulling) -> None:
    """Row 'paused': 1000 ms."""
    pulling.service.suspended = True
    pulling.begin()
    pulling.run()
    assert (pulling.broker.pulls, pulling.timer.delays_ms) == ([], [1_000])
    pulling.service.suspended = False
    pulling.timer.advance(1_000)
    pulling.run()
    assert pulling.pulled_offsets == [0]


def test_a_thousand_messages_still_pull(pulling: Pulling) -> None:
    """Row 'cached count > 1000': the comparison is strict."""
    pulling.begin()
    pulling.run(found(stored_messages(*range(1_000))))
    assert pulling.pulled_offsets == [0, 1_000]
    assert pulling.timer.delays_ms == []


def test_more_than_a_thousand_messages_wait(pulling: Pulling) -> None:
    """Row 'cached count > 1000': 50 ms."""
    pulling.begin()
    pulling.run(found(stored_messages(*range(1_001))))
    assert (pulling.pulled_offsets, pulling.timer.delays_ms) == ([0], [50])
    pulling.timer.advance(50)
    pulling.run()
    assert (pulling.pulled_offsets, pulling.timer.delays_ms) == ([0], [50])


@pytest.mark.parametrize(("is_above", "delays_ms"), [(0, []), (1, [50])])
def test_cached_bytes(is_above: int, delays_ms: list[int]) -> None:
    """Row 'cached MiB > 100': 50 ms, and strict; here with 1 MiB."""
    pulling = Pulling(ConsumerSettings(pull_threshold_size_for_queue=1))
    message = stored_message(0, body=b"x" * (2**20 - RECORD_BYTES + 1 + is_above))
    assert message.store_size == 2**20 + is_above
    pulling.begin()
    pulling.run(found([message]))
    assert pulling.timer.delays_ms == delays_ms


def test_a_pause_of_what_consumes(pulling: Pulling) -> None:
    """Rows 'concurrent and span > 2000' (50 ms) and 'orderly and not locked' (3000 ms): it says so."""
    pulling.consuming.pause = 3_000
    pulling.begin()
    pulling.run()
    assert (pulling.broker.pulls, pulling.timer.delays_ms) == ([], [3_000])


def test_flow_control_of_the_broker(pulling: Pulling) -> None:
    """Row 'broker FLOW_CONTROL (215)': 20 ms."""

    class TooBusy(StoreError):
        response_code = 215  # type: ignore[assignment]

    pulling.begin()
    pulling.run(TooBusy())
    assert pulling.timer.delays_ms == [20]


@pytest.mark.parametrize(
    "error", [CorruptRecord(Path("/x"), 0, "a record", "zeros"), ValueError("broken")], ids=["store", "any"]
)
def test_an_error(pulling: Pulling, caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    """Row 'other exception': 3000 ms; it is logged once, and forgotten when a pull succeeds."""
    pulled = pulling.begin()
    pulling.run(error)
    assert (pulling.timer.delays_ms, pulled.error) == ([3_000], error)
    pulling.broker.answers.append(error)
    pulling.timer.advance(3_000)
    pulling.run()
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    pulling.timer.advance(3_000)
    pulling.run(found(stored_messages(0)))
    assert pulled.error is None


def test_an_error_of_one_queue_does_not_slow_the_others(pulling: Pulling) -> None:
    """Damage in queue 0: queue 1 is pulled at once, as often as there is something."""
    broken = pulling.begin()
    whole = pulling.begin(MessageQueue("orders", BROKER, 1))
    pulling.run(ValueError("damaged"), found(stored_messages(0)), found(stored_messages(1)))
    assert (whole.next_offset, broken.next_offset) == (2, 0)
    assert [request.queue_id for request in pulling.broker.pulls] == [0, 1, 1, 1]


def test_an_error_before_the_pull_is_one_of_the_pull(pulling: Pulling) -> None:
    """The word about the offset may fail too: again after 3000 ms."""
    pulling.begin()
    pulling.offsets.update(QUEUE, 5, increase_only=True)
    pulling.broker.commit_errors["orders"] = ValueError("no")
    pulling.run()
    assert (pulling.broker.pulls, pulling.timer.delays_ms) == ([], [3_000])


def test_an_exit_in_a_pull_does_not_lose_the_queue(pulling: Pulling) -> None:
    """SystemExit comes out of the step, and the queue is pulled again after 3000 ms."""
    pulling.begin()

    def leave(*_: object) -> Callable[[], None]:
        raise SystemExit

    pulling.broker.pull_later = leave  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        pulling.run()
    assert pulling.timer.delays_ms == [3_000]


def test_a_closed_store_ends_the_pulls(pulling: Pulling, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing will be found there any more; that is logged, once for all queues."""
    for queue_id in range(3):
        pulling.begin(MessageQueue("orders", BROKER, queue_id))
    pulling.run(*[StoreClosed(Path("/store"))] * 3)
    assert pulling.timer.delays_ms == []
    assert [message[:29] for message in caplog.messages] == ["group billing pulls no more: "]


# -- results --------------------------------------------------------------------------------------


def test_found(pulling: Pulling) -> None:
    """FOUND: cached, submitted, and pulled again at once from where the answer says."""
    pulled = pulling.begin()
    pulling.run(found(stored_messages(0, 2), next_begin_offset=5))
    assert pulling.pulled_offsets == [0, 5]
    (batch,) = pulling.consuming.batches
    assert [message.queue_offset for message in batch.messages] == [0, 2]
    assert (pulled.process_queue.message_count, pulling.consuming.woken_with) == (2, 1)


def test_what_waits_at_the_broker_is_taken_when_it_comes(pulling: Pulling) -> None:
    """The answer of a pull that waited comes from another thread, and wakes the service."""
    pulling.begin()
    pulling.run()
    answering = threading.Thread(
        target=pulling.broker.answer_held, args=[found(stored_messages(0))], daemon=True
    )
    answering.start()
    answering.join(10)
    assert pulling.consuming.batches == [], "the broker's thread does no work of ours"
    pulling.run()
    assert len(pulling.consuming.batches) == 1
    assert pulling.pulled_offsets == [0, 1]


@pytest.mark.parametrize(
    "status",
    [
        GetMessageStatus.NO_MATCHED_MESSAGE,
        GetMessageStatus.MESSAGE_WAS_REMOVING,
        GetMessageStatus.OFFSET_FOUND_NULL,
    ],
)
def test_nothing_that_matches(pulling: Pulling, status: GetMessageStatus) -> None:
    """NO_NEW_MSG, NO_MATCHED_MSG: next offset, and as nothing is cached it is noted (correctTagsOffset)."""
    pulling.begin()
    pulling.run(answer_of(status, 9))
    assert pulling.pulled_offsets == [0, 9]
    assert [offset for _, offset in pulling.consuming.skipped] == [9]


def test_nothing_that_matches_behind_what_is_cached(pulling: Pulling) -> None:
    """NO_MATCHED_MSG while a message is not done: the offset is not noted, it would pass that message."""
    pulling.begin()
    pulling.run(found(stored_messages(0)), nothing_found(9))
    assert pulling.pulled_offsets == [0, 1, 9]
    assert pulling.consuming.skipped == []


def test_an_illegal_offset(pulling: Pulling) -> None:
    """OFFSET_ILLEGAL: the process queue is dropped, and the queue is to go on where the answer says."""
    pulled = pulling.begin(offset=5)
    pulling.run(answer_of(GetMessageStatus.OFFSET_TOO_SMALL, 20, is_illegal=True))
    assert pulling.moved == [(pulled, 20)]
    assert pulled.process_queue.dropped
    assert pulling.timer.delays_ms == []


def test_a_broker_that_does_not_wait_is_not_asked_without_end(pulling: Pulling) -> None:
    """Nothing there, at once, and no way on: the thread pauses instead of turning round and round."""
    pulling.begin(offset=5)
    pulling.run(answer_of(GetMessageStatus.OFFSET_OVERFLOW_ONE, 5))
    assert (pulling.pulled_offsets, pulling.timer.delays_ms) == ([5], [50])


def test_messages_that_come_back_have_their_own_topic(pulling: Pulling) -> None:
    """resetRetryAndNamespace: in %RETRY%group a message is shown under its RETRY_TOPIC."""
    pulling.begin(MessageQueue("%RETRY%billing", BROKER, 0))
    message = stored_message(0, topic="%RETRY%billing", properties={"RETRY_TOPIC": "orders"})
    pulling.run(found([message]))
    (shown,) = pulling.consuming.batches[0].messages
    assert isinstance(shown, ReceivedMessage)
    assert (shown.topic, shown.stored_topic) == ("orders", "%RETRY%billing")


def test_a_batch_that_cannot_be_read_is_pulled_again(pulling: Pulling) -> None:
    """Its last record is no record: an error of the pull, and nothing is passed over."""
    whole, damaged = stored_messages(0, 1)
    damaged.data = memoryview(b"")
    pulled = pulling.begin()
    pulling.run(found([whole, damaged], next_begin_offset=2))
    assert (pulled.next_offset, pulling.timer.delays_ms) == (0, [3_000])


def placeholder_of(queue_offset: int) -> StoredMessage:
    """What a repair puts in the place of a lost message."""
    record = placeholder("orders", 0, queue_offset, 300 * queue_offset, 300, 1)
    return StoredMessage.of(memoryview(record))


def test_placeholders_of_a_repair_are_left_out(pulling: Pulling) -> None:
    """The queue goes on behind them; one at its end is committed with the next pull that finds nothing."""
    pulled = pulling.begin()
    batch = [stored_message(0), placeholder_of(1), stored_message(2), placeholder_of(3)]
    pulling.run(found(batch, next_begin_offset=4))
    (cached,) = pulling.consuming.batches
    assert [message.queue_offset for message in cached.messages] == [0, 2]
    assert pulled.next_offset == 4
    assert pulled.process_queue.remove(cached, cached.left) == 3
    pulling.broker.answer_held(nothing_found(4))
    pulling.run()
    assert pulling.consuming.skipped == [(pulled, 4)]


def test_a_pull_of_placeholders_alone_is_passed_over(pulling: Pulling) -> None:
    """As one of tags that nobody wants."""
    pulled = pulling.begin()
    pulling.run(found([placeholder_of(0), placeholder_of(1)], next_begin_offset=2))
    assert (pulling.consuming.batches, pulling.consuming.skipped) == ([], [(pulled, 2)])
    assert pulling.pulled_offsets == [0, 2]


def test_a_pull_interval(pulling: Pulling) -> None:
    """pull_interval: the pause after a pull that found something."""
    pulling = Pulling(ConsumerSettings(pull_interval=200))
    pulling.begin()
    pulling.run(found(stored_messages(0)))
    assert (pulling.pulled_offsets, pulling.timer.delays_ms) == ([0], [200])


# -- words to the broker --------------------------------------------------------------------------


def test_a_pull_carries_the_consumed_offset(pulling: Pulling) -> None:
    """If it is greater than 0, when it has changed, and at most every 50 ms."""
    pulling.begin()
    seen = []
    for consumed, after_ms in ((0, 0), (1, 60), (2, 40), (3, 20), (3, 60)):
        pulling.offsets.update(QUEUE, consumed, increase_only=True)
        pulling.timer.advance(after_ms)
        pulling.run(found(stored_messages(0)))
        pulling.broker.answer_held(found(stored_messages(1)))
        seen.append([offset for _, _, _, offset in pulling.broker.commits])
    assert seen == [[], [1], [1], [1, 3], [1, 3]]


def test_an_operators_reset_is_followed(pulling: Pulling) -> None:
    """Before each pull: the queue is dropped and begins again there, like one with an illegal offset."""
    pulled = pulling.begin(offset=5)
    pulling.broker.resets[GROUP, "orders", 0] = 2
    pulling.run()
    assert (pulling.moved, pulling.broker.pulls) == ([(pulled, 2)], [])
    assert pulled.process_queue.dropped


def test_broadcasting_says_nothing_about_offsets() -> None:
    """The offsets are its own: neither a reset is asked for nor an offset told."""
    pulling = Pulling(ConsumerSettings(message_model=MessageModel.BROADCASTING))
    pulling.broker.resets[GROUP, "orders", 0] = 2
    pulling.begin()
    pulling.offsets.update(QUEUE, 3, increase_only=True)
    pulling.run()
    assert (len(pulling.broker.pulls), pulling.broker.commits, pulling.moved) == (1, [], [])


# -- room -----------------------------------------------------------------------------------------


def test_a_queue_is_ready_again_when_half_is_worked_off(pulling: Pulling) -> None:
    """Not after each message: that would be a switch of threads for each."""
    pulled = pulling.begin()
    pulling.run(found(stored_messages(*range(1_001))))
    (batch,) = pulling.consuming.batches
    assert pulled.is_held_back
    pulled.process_queue.remove(batch, (1 << 500) - 1)
    pulling.service.has_room(pulled)
    pulling.run()
    assert pulling.pulled_offsets == [0]
    pulled.process_queue.remove(batch, 1 << 500)
    pulling.service.has_room(pulled)
    pulling.run()
    assert pulling.pulled_offsets == [0, 1_001]
    assert not pulled.is_held_back


def test_a_queue_that_is_held_back_again_and_again_has_one_timer(pulling: Pulling) -> None:
    """A quick listener works a threshold off a thousand times a second; the 50 ms are looked at once."""
    pulled = pulling.begin()
    pulling.run(found(stored_messages(*range(1_001))))
    for _ in range(3):
        pulled.process_queue.remove(pulling.consuming.batches[-1], (1 << 1_001) - 1)
        pulling.service.has_room(pulled)
        pulling.timer.advance(10)
        pulling.run(found(stored_messages(*range(1_001))))
    assert (len(pulling.broker.pulls), pulling.timer.delays_ms) == (4, [20])
    pulling.timer.advance(20)
    pulling.run()
    assert (len(pulling.broker.pulls), pulling.timer.delays_ms) == (4, [50])


def test_a_queue_is_pulled_once_at_a_time(pulling: Pulling) -> None:
    """However often it is made ready: by a timer, by room, by the end of a suspension."""
    pulled = pulling.begin()
    for _ in range(3):
        pulling.service.ready(pulled)
    pulling.run()
    pulling.service.ready(pulled)
    pulling.run()
    assert len(pulling.broker.pulls) == 1


@pytest.mark.parametrize(("pull_s", "handed_on"), [(0.0002, [32, 40]), (0.0001, [40])])
def test_a_backlog_is_handed_on_in_turns(pulling: Pulling, pull_s: float, handed_on: list[int]) -> None:
    """What was pulled is handed on after 5 ms: listeners begin while the service still pulls."""
    times_s = itertools.count()
    pulling.service._now_s = lambda: next(times_s) * pull_s
    seen: list[int] = []
    wake = pulling.consuming.wake

    def note() -> None:
        wake()
        seen.append(pulling.consuming.woken_with)

    pulling.consuming.wake = note  # type: ignore[method-assign]
    pulling.begin()
    pulling.run(*(found(stored_messages(offset)) for offset in range(40)))
    assert seen == handed_on


# -- its thread -----------------------------------------------------------------------------------


def test_the_thread_goes_on_after_an_exit(pulling: Pulling, caplog: pytest.LogCaptureFixture) -> None:
    """SystemExit out of a broker is logged; other queues are pulled."""
    pull_later, pulled = pulling.broker.pull_later, threading.Event()

    def leave(request, callback):  # type: ignore[no-untyped-def]
        if request.queue_id == 0:
            raise SystemExit
        pulled.set()
        return pull_later(request, callback)

    pulling.broker.pull_later = leave  # type: ignore[method-assign]
    pulling.service.start()
    try:
        pulling.begin()
        pulling.begin(MessageQueue("orders", BROKER, 1))
        assert pulled.wait(10)
    finally:
        assert pulling.service.stop(10)
    assert "goes on after an error" in caplog.text


def test_the_thread_looks_after_listeners_that_are_behind(pulling: Pulling) -> None:
    """Once, a moment after it has handed something on; then it sleeps."""
    pulling.consuming.is_behind = True
    pulling.service.start()
    try:
        assert pulling.consuming.looked.wait(10)
    finally:
        assert pulling.service.stop(10)


def test_a_stopped_service_cancels_what_it_asks(pulling: Pulling) -> None:
    """A pull that is asked for while the service stops does not stay at the broker."""
    pull_later = pulling.broker.pull_later

    def stop(request, callback):  # type: ignore[no-untyped-def]
        pulling.service.stop(0)
        return pull_later(request, callback)

    pulling.broker.pull_later = stop  # type: ignore[method-assign]
    pulling.begin()
    pulling.run()
    assert pulling.broker.held == []


def test_settings_of_a_pull() -> None:
    """pull_batch_size and the subscription are those of the consumer and the queue."""
    pulling = Pulling(msgspec.structs.replace(ConsumerSettings(), pull_batch_size=5))
    pulled = PulledQueue(QUEUE, "created || paid", 0)
    pulling.service.ready(pulled)
    pulling.run()
    (request,) = pulling.broker.pulls
    assert (request.max_nums, request.subscription) == (5, "created || paid")
