"""The concurrent service, row by row of section 4 of the spec: requests are run by hand, without a thread.

`Consuming` puts a batch into a process queue and submits it; `run` runs what waits. Offsets are in memory,
send-backs go to a scripted broker, and the 5 s of what comes again are a timer moved by hand.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence

import pytest

from mqstore.broker.broker import MessageModel, MessageQueue
from mqstore.client.consumer import consume_service
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageContext, ConsumeReturnType
from mqstore.client.consumer.consume_service import ConcurrentConsumeService, ConsumeRequest
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    RegisteredConcurrentListener,
)
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.store.message.stored_message import StoredMessage
from support.clients.manual_timer import ManualTimer
from support.clients.scripted_broker import BROKER, ScriptedBroker, found
from support.clients.stored_messages import stored_message, stored_messages
from support.manual_clock import ManualClock

GROUP = "billing"
QUEUE = MessageQueue("orders", BROKER, 0)
SUCCESS, LATER = ConsumeConcurrentlyStatus.CONSUME_SUCCESS, ConsumeConcurrentlyStatus.RECONSUME_LATER
MINUTE_MS = 60_000

Answer = ConsumeConcurrentlyStatus | BaseException | object


class Listener:
    """Gives its answers one after the other, the last one for ever; raises what is an exception."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers or [SUCCESS])
        self.seen: list[list[tuple[int, int]]] = []
        self.contexts: list[ConsumeConcurrentlyContext] = []
        self.during: Callable[[ConsumeConcurrentlyContext], object] = lambda context: None

    def __call__(
        self, messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus | None:
        self.seen.append([(message.queue_offset, message.reconsume_times) for message in messages])
        self.contexts.append(context)
        self.during(context)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    @property
    def offsets(self) -> list[list[int]]:
        """Queue offsets of each call."""
        return [[offset for offset, _ in call] for call in self.seen]


class Consuming:
    """A service and what is around it."""

    def __init__(
        self,
        *answers: Answer,
        batch_size: int = 4,
        model: MessageModel = MessageModel.CLUSTERING,
        none_means: ConsumeConcurrentlyStatus | None = None,
    ) -> None:
        self.listener = Listener(*answers)
        self.broker = ScriptedBroker()
        self.clock = ManualClock()
        self.timer = ManualTimer()
        self.hooks = ConsumeHooks()
        self.offsets = BrokerOffsetStore({BROKER: self.broker}, GROUP)
        self.pulled = PulledQueue(QUEUE, "*", 0)
        self.service = ConcurrentConsumeService(
            GROUP,
            ConsumerSettings(consume_message_batch_max_size=batch_size, message_model=model),
            RegisteredConcurrentListener(self.listener, none_means),
            self.offsets,
            SendBack({BROKER: self.broker}, GROUP, 16),
            self.timer,
            self.clock,
            self.hooks,
        )

    def submit(self, *offsets: int, messages: Sequence[StoredMessage] = ()) -> None:
        """A pull has found these."""
        answer = found(messages or stored_messages(*offsets))
        batch = self.pulled.process_queue.put(answer.messages, answer.next_begin_offset)
        self.service.submit(self.pulled, batch, answer)

    def requests(self) -> list[ConsumeRequest]:
        """What waits for a thread, taken from there."""
        return self.service._threads.take_all()

    def run(self) -> None:
        """Run what waits."""
        for request in self.requests():
            self.service.run(request)

    def advance(self, duration_ms: int) -> None:
        """Let time pass; a request that is due again waits for `run`."""
        self.clock.advance(duration_ms)
        self.service.wake = lambda: None  # type: ignore[method-assign]
        self.timer.advance(duration_ms)

    @property
    def committed(self) -> int:
        return self.offsets.read(QUEUE)

    @property
    def sent_back(self) -> list[int]:
        return [message.queue_offset for message, _, _ in self.broker.sent_back]


# -- submit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "pieces"), [(1, [1]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (9, [4, 4, 1])])
def test_requests_have_the_batch_size(count: int, pieces: list[int]) -> None:
    """Submit: list size <= batch size gives one request, else chunks of batch size."""
    consuming = Consuming()
    consuming.submit(*range(count))
    consuming.run()
    assert [len(call) for call in consuming.listener.seen] == pieces
    assert [offset for call in consuming.listener.offsets for offset in call] == list(range(count))
    assert (consuming.committed, consuming.pulled.process_queue.message_count) == (count, 0)


def test_refused_requests_come_again_after_5_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit, on rejection (no thread can be started): again after 5000 ms, none is lost, none is larger."""
    consuming = Consuming()
    monkeypatch.setattr(consuming.service._threads, "wake", lambda: False)
    consuming.submit(*range(6))
    consuming.service.wake()
    assert consuming.timer.delays_ms == [5_000, 5_000]
    consuming.timer.advance(4_999)
    assert consuming.requests() == []
    consuming.advance(1)
    consuming.run()
    assert consuming.listener.offsets == [[0, 1, 2, 3], [4, 5]]
    assert consuming.committed == 6


def test_the_span_of_a_queue() -> None:
    """Pull row 'concurrent and span > 2000': 50 ms, and the comparison is strict."""
    consuming = Consuming()
    consuming.submit(0, 2_000)
    assert consuming.service.pause_ms(consuming.pulled) == 0
    consuming.submit(2_001)
    assert consuming.service.pause_ms(consuming.pulled) == 50


# -- run ------------------------------------------------------------------------------------------


def test_a_dropped_queue_is_not_consumed() -> None:
    """Run, dropped queue: return without a commit."""
    consuming = Consuming()
    consuming.submit(0)
    consuming.pulled.drop()
    consuming.run()
    assert (consuming.listener.seen, consuming.committed) == ([], -1)


def test_a_queue_dropped_meanwhile_counts_for_nothing() -> None:
    """Row queue dropped meanwhile: neither a commit nor a send-back."""
    consuming = Consuming(LATER)
    consuming.listener.during = lambda context: consuming.pulled.drop()
    consuming.submit(0)
    consuming.run()
    assert (consuming.committed, consuming.sent_back) == (-1, [])


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("no"),
        SystemExit(),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        None,
        True,
        "CONSUME_SUCCESS",
    ],
    ids=repr,
)
def test_what_counts_as_a_failure(answer: Answer) -> None:
    """Run: exception or null gives RECONSUME_LATER, whatever the exception; a wrong answer as well."""
    consuming = Consuming(answer)
    consuming.submit(0, 1)
    consuming.run()
    assert (consuming.sent_back, consuming.committed) == ([0, 1], 2)


def test_a_wrong_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It names the listener and the answer."""
    consuming = Consuming(17)
    consuming.submit(0)
    consuming.run()
    assert "answered 17" in caplog.text


@pytest.mark.parametrize("name", ["ack_index", "delay_level_when_next_consume"])
def test_nonsense_on_the_context_is_a_failure(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """What a listener sets must be a whole number."""
    consuming = Consuming()
    consuming.listener.during = lambda context: setattr(context, name, "1")
    consuming.submit(0)
    consuming.run()
    assert consuming.sent_back == [0]
    assert name in caplog.text


def test_none_of_a_plain_function_is_success() -> None:
    """That is what `@consumer.listener` makes of it."""
    consuming = Consuming(None, none_means=SUCCESS)
    consuming.submit(0)
    consuming.run()
    assert (consuming.sent_back, consuming.committed) == ([], 1)


def test_what_a_listener_is_told() -> None:
    """The queue, and where it began and ended when it was pulled (MIN_OFFSET, MAX_OFFSET)."""
    consuming = Consuming()
    consuming.submit(3, 4)
    consuming.run()
    (context,) = consuming.listener.contexts
    assert (context.message_queue, context.topic, context.queue_id) == (QUEUE, "orders", 0)
    assert (context.min_offset, context.max_offset) == (0, 5)


def test_what_is_done_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception's traceback, a batch, a request: nothing holds the messages (views of mapped files)."""
    # pytest keeps all log records, and they have the traceback.
    monkeypatch.setattr(consume_service._logger, "disabled", True)
    consuming = Consuming()
    consuming.listener.during = lambda context: {}["missing"]
    one = stored_message(0)
    mapping = bytearray(one.data)
    shown = StoredMessage.of(memoryview(mapping))
    consuming.submit(messages=[shown])
    consuming.run()
    consuming.broker.sent_back.clear()
    del shown
    gc.collect()
    mapping.extend(b"which raises BufferError while there is a view")


# -- the result -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "ack_index", "sent_back"),
    [
        (SUCCESS, None, []),
        (SUCCESS, 1, [2, 3]),
        (SUCCESS, 99, []),
        (SUCCESS, -1, [0, 1, 2, 3]),
        (SUCCESS, -5, [0, 1, 2, 3]),
        (LATER, None, [0, 1, 2, 3]),
        (LATER, 1, [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("model", MessageModel, ids=lambda model: model.name)
def test_acknowledged(
    model: MessageModel, status: Answer, ack_index: int | None, sent_back: list[int]
) -> None:
    """Rows CONSUME_SUCCESS, RECONSUME_LATER; BROADCASTING drops what CLUSTERING sends back. All is done."""
    consuming = Consuming(status, model=model)
    if ack_index is not None:
        consuming.listener.during = lambda context: setattr(context, "ack_index", ack_index)
    consuming.submit(0, 1, 2, 3)
    consuming.run()
    assert consuming.sent_back == (sent_back if model is MessageModel.CLUSTERING else [])
    assert (consuming.committed, consuming.pulled.process_queue.message_count) == (4, 0)


def test_broadcasting_logs_what_it_drops(caplog: pytest.LogCaptureFixture) -> None:
    """Row BROADCASTING: messages after ackIndex are logged and dropped."""
    consuming = Consuming(LATER, model=MessageModel.BROADCASTING)
    consuming.submit(0, 1)
    consuming.run()
    assert "drops 2 messages" in caplog.text


@pytest.mark.parametrize("level", [0, 5, -1])
def test_the_delay_level_is_the_listeners(level: int) -> None:
    """Row CLUSTERING: sent back with delayLevelWhenNextConsume, and the consumer's own maximum (16)."""
    consuming = Consuming(LATER)
    consuming.listener.during = lambda context: setattr(context, "delay_level_when_next_consume", level)
    consuming.submit(0)
    consuming.run()
    assert [entry[1:] for entry in consuming.broker.sent_back] == [(level, 16)]


def test_a_message_that_has_left_is_not_sent_back() -> None:
    """Row CLUSTERING: if no longer in the process queue, skip; it had expired and was sent back before."""
    consuming = Consuming(LATER)

    def expire(context: ConsumeConcurrentlyContext) -> None:
        first = consuming.pulled.process_queue.first()
        assert first is not None
        consuming.pulled.process_queue.remove_first(first)

    consuming.listener.during = expire
    consuming.submit(0, 1)
    consuming.run()
    assert consuming.sent_back == [1]


def test_a_message_that_cannot_be_sent_back_comes_again_alone() -> None:
    """Rows 'on failure' and 'kept aside': reconsumeTimes + 1 locally, a new request after 5000 ms."""
    consuming = Consuming(LATER, SUCCESS)
    consuming.listener.during = lambda context: setattr(context, "ack_index", 0)
    consuming.submit(0, 1, 2)
    refuse = consuming.broker.send_message_back

    def refuse_one(group: str, message: StoredMessage, **options: int) -> None:
        if message.queue_offset == 1:
            raise ValueError("no")
        refuse(group, message, **options)

    consuming.broker.send_message_back = refuse_one  # type: ignore[assignment,method-assign]
    consuming.broker.send_error = ValueError("no")
    consuming.run()
    assert (consuming.sent_back, consuming.committed) == ([0, 2], 1)
    assert consuming.timer.delays_ms == [5_000]
    consuming.listener.during = lambda context: None
    consuming.advance(5_000)
    consuming.run()
    assert consuming.listener.seen == [[(0, 0), (1, 0), (2, 0)], [(1, 1)]]
    assert consuming.committed == 3


def test_a_message_kept_aside_again_and_again_counts_on() -> None:
    """Each local try is one reconsume time more; the queue's other messages are not held up."""
    consuming = Consuming(LATER, LATER, SUCCESS, SUCCESS)
    consuming.broker.send_back_error = consuming.broker.send_error = ValueError("no")
    consuming.submit(0)
    consuming.run()
    consuming.advance(5_000)
    consuming.run()
    consuming.submit(1)
    consuming.run()
    assert consuming.committed == 0
    consuming.advance(5_000)
    consuming.run()
    assert consuming.listener.seen == [[(0, 0)], [(0, 1)], [(1, 0)], [(0, 2)]]
    assert consuming.committed == 2


def test_the_offset_only_increases() -> None:
    """Row commit: updateOffset with increaseOnly; a result that comes late does not move it back."""
    consuming = Consuming()
    consuming.offsets.update(QUEUE, 9, increase_only=False)
    consuming.submit(0)
    consuming.run()
    assert consuming.committed == 9


def test_results_in_any_order() -> None:
    """The committed offset never passes a message that is not done."""
    consuming = Consuming(batch_size=1)
    consuming.submit(10, 11, 12)
    first, second, third = consuming.requests()
    seen = []
    for request in (third, second, first):
        consuming.service.run(request)
        seen.append(consuming.committed)
    assert seen == [10, 10, 13]


# -- hooks ----------------------------------------------------------------------------------------


class Hook:
    def __init__(self) -> None:
        self.before: list[ConsumeMessageContext] = []
        self.after: list[ConsumeMessageContext] = []

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self.before.append(context)
        assert context.return_type is None

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        self.after.append(context)


@pytest.mark.parametrize(
    ("answer", "minutes", "return_type", "sent_back"),
    [
        (ValueError("no"), 20, ConsumeReturnType.EXCEPTION, [0]),
        (7, 0, ConsumeReturnType.EXCEPTION, [0]),
        (None, 20, ConsumeReturnType.RETURNNULL, [0]),
        (SUCCESS, 15, ConsumeReturnType.TIME_OUT, []),
        (LATER, 15, ConsumeReturnType.TIME_OUT, [0]),
        (LATER, 14, ConsumeReturnType.FAILED, [0]),
        (SUCCESS, 14, ConsumeReturnType.SUCCESS, []),
    ],
    ids=lambda value: value.name if isinstance(value, ConsumeReturnType) else None,
)
def test_what_hooks_are_told(
    answer: Answer, minutes: int, return_type: ConsumeReturnType, sent_back: list[int]
) -> None:
    """The table ConsumeReturnType; TIME_OUT does not change what is done with the messages."""
    consuming = Consuming(answer)
    hook = Hook()
    consuming.hooks.add(hook)
    consuming.listener.during = lambda context: consuming.clock.advance(minutes * MINUTE_MS)
    consuming.submit(0)
    consuming.run()
    (seen,) = hook.after
    assert hook.before == [seen]
    assert (seen.return_type, consuming.sent_back) == (return_type, sent_back)
    assert seen.is_success == (not sent_back)
    assert (seen.consumer_group, seen.message_queue, seen.elapsed_ms) == (GROUP, QUEUE, minutes * MINUTE_MS)
    assert isinstance(seen.error, BaseException) == (return_type is ConsumeReturnType.EXCEPTION)


# -- messages that take too long ------------------------------------------------------------------


def test_messages_that_expire_are_sent_back() -> None:
    """Row 3, cleanExpiredMsg: the first message, older than consumeTimeout, with level 3; no commit."""
    consuming = Consuming()
    consuming.submit(0, 1)
    consuming.submit(2)
    (first, _) = consuming.requests()

    def expire(context: ConsumeConcurrentlyContext) -> None:
        consuming.clock.advance(15 * MINUTE_MS)
        consuming.service.clean_expired(consuming.pulled)
        assert consuming.sent_back == [], "the comparison is strict"
        consuming.clock.advance(1)
        consuming.service.clean_expired(consuming.pulled)
        assert [(message.queue_offset, level) for message, level, _ in consuming.broker.sent_back] == [
            (0, 3),
            (1, 3),
        ], "message 2 was not begun with"
        assert consuming.committed == -1

    consuming.listener.during = expire
    consuming.service.run(first)
    assert (consuming.sent_back, consuming.committed) == ([0, 1], 2)


def test_at_most_16_expire_at_a_time() -> None:
    """cleanExpiredMsg: up to min(size, 16) rounds."""
    consuming = Consuming(batch_size=32)

    def expire(context: ConsumeConcurrentlyContext) -> None:
        consuming.clock.advance(16 * MINUTE_MS)
        consuming.service.clean_expired(consuming.pulled)

    consuming.listener.during = expire
    consuming.submit(*range(20))
    consuming.run()
    assert consuming.sent_back == list(range(16))


def test_an_expired_message_that_cannot_be_sent_back_stays() -> None:
    """It is looked at again the next time."""
    consuming = Consuming()
    consuming.broker.send_back_error = consuming.broker.send_error = ValueError("no")

    def expire(context: ConsumeConcurrentlyContext) -> None:
        consuming.clock.advance(16 * MINUTE_MS)
        consuming.service.clean_expired(consuming.pulled)
        assert consuming.pulled.process_queue.message_count == 1

    consuming.listener.during = expire
    consuming.submit(0)
    consuming.run()
    assert consuming.committed == 1


# -- room -----------------------------------------------------------------------------------------


def test_room_is_told_of_only_where_somebody_waits() -> None:
    """The pull service has held the queue back."""
    consuming = Consuming()
    told: list[PulledQueue] = []

    class Room:
        def has_room(self, pulled: PulledQueue) -> None:
            told.append(pulled)

    consuming.service.tell_of_room(Room())
    consuming.submit(0)
    consuming.run()
    assert told == []
    consuming.pulled.is_held_back = True
    consuming.submit(1)
    consuming.run()
    assert told == [consuming.pulled]


def test_requests_that_wait_are_looked_after() -> None:
    """They are behind while a thread could take them; the look gives them one."""
    consuming = Consuming()
    consumed = threading.Event()
    consuming.listener.during = lambda context: consumed.set()
    assert not consuming.service.is_behind
    consuming.submit(0)
    assert consuming.service.is_behind
    consuming.service.look_again()
    assert consumed.wait(10)
    assert not consuming.service.is_behind
    assert consuming.service.stop(10) == []


# -- threads --------------------------------------------------------------------------------------


def test_threads_end_and_say_what_they_hang_on() -> None:
    """stop: what is not begun is dropped; a listener that does not return is named with its messages."""
    consuming = Consuming(batch_size=1)
    entered, left = threading.Event(), threading.Event()

    def hang(context: ConsumeConcurrentlyContext) -> None:
        entered.set()
        assert left.wait(10)

    consuming.listener.during = hang
    consuming.submit(0)
    consuming.service.wake()
    assert entered.wait(10)
    ((thread, request),) = consuming.service.stop(0.01)
    assert "1 messages of MessageQueue(topic='orders'" in repr(request)
    assert thread.name == "mqstore consume billing-1"
    left.set()
    thread.join(10)
    assert not thread.is_alive()


def test_what_does_not_match_is_passed() -> None:
    """correctTagsOffset: the offset is noted, and never goes back."""
    consuming = Consuming()
    consuming.service.skip(consuming.pulled, 7)
    consuming.service.skip(consuming.pulled, 5)
    assert consuming.offsets.read(QUEUE) == 7
