"""The orderly service, row by row of section 5 of client_consume.md and 7 of client_produce.md.

Runs are made by hand, without a thread; locks are a client's own over a broker's real table; pauses are a
timer moved by hand.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.broker.queue_locks import QueueLocks as BrokerLocks
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageContext, ConsumeReturnType
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeOrderlyStatus
from mqstore.client.consumer.orderly.orderly_listener import ConsumeOrderlyContext, RegisteredOrderlyListener
from mqstore.client.consumer.orderly.orderly_service import OrderlyConsumeService
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.client.rebalance.queue_locks import QueueLocks
from mqstore.store.errors import StoreError
from mqstore.store.message.stored_message import StoredMessage
from support.clients.manual_timer import ManualTimer
from support.clients.scripted_broker import BROKER, ScriptedBroker, found
from support.clients.stored_messages import stored_messages
from support.manual_clock import ManualClock

GROUP, ME, OTHER = "billing", "me", "other"
QUEUE = MessageQueue("orders", BROKER, 0)
SUCCESS, SUSPEND = ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
COMMIT, ROLLBACK = ConsumeOrderlyStatus.COMMIT, ConsumeOrderlyStatus.ROLLBACK


class LockingBroker(ScriptedBroker):
    """A scripted broker with a table of locks."""

    def __init__(self, timer: ManualTimer) -> None:
        super().__init__()
        self.table = BrokerLocks(timer.now_s)

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        return self.table.lock(group, client_id, queues)

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        self.table.unlock(group, client_id, queues)


class Consuming:
    """A service and what is around it. answers: of the listener, the last one for ever."""

    def __init__(
        self, *answers: Any, is_locked: bool = True, has_locks: bool = True, **settings: int
    ) -> None:
        self.answers = list(answers or [SUCCESS])
        self.seen: list[list[tuple[int, int]]] = []
        self.during: Callable[[ConsumeOrderlyContext], object] = lambda context: None
        self.timer = ManualTimer()
        self.broker = LockingBroker(self.timer)
        self.clock = ManualClock()
        self.hooks = ConsumeHooks()
        self.offsets = BrokerOffsetStore({BROKER: self.broker}, GROUP)
        self.pulled = PulledQueue(QUEUE, "*", 0)
        self.left = 0
        self.locks = QueueLocks([self.broker], GROUP, ME, lambda: [QUEUE], self.timer, now_s=self.timer.now_s)
        consumer_settings = ConsumerSettings(**settings)
        self.service = OrderlyConsumeService(
            GROUP,
            consumer_settings,
            RegisteredOrderlyListener(self.listen, None),
            self.offsets,
            SendBack({BROKER: self.broker}, GROUP, consumer_settings.orderly_retries),
            self.timer,
            self.clock,
            self.hooks,
            self.locks if has_locks else None,
            self.leave,
            now_s=self.timer.now_s,
        )
        self.service.wake = lambda: None  # type: ignore[method-assign]
        if is_locked:
            self.locks.lock(QUEUE)

    def listen(
        self, messages: Sequence[StoredMessage], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus | None:
        self.seen.append([(message.queue_offset, message.reconsume_times) for message in messages])
        self.during(context)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]

    def leave(self) -> None:
        self.left += 1

    def submit(self, *offsets: int) -> None:
        """A pull has found these."""
        answer = found(stored_messages(*offsets))
        batch = self.pulled.process_queue.put(answer.messages, answer.next_begin_offset)
        self.service.submit(self.pulled, batch, answer)

    def run(self) -> int:
        """Make the runs that wait for a thread; how many."""
        waiting = self.service._threads.take_all()
        for pulled in waiting:
            self.service.run(pulled)
        return len(waiting)

    def advance(self, duration_ms: float) -> int:
        """Let time pass, and make the runs that are due then."""
        self.timer.advance(duration_ms)
        return self.run()

    def consume(self, *offsets: int) -> None:
        self.submit(*offsets)
        self.run()

    @property
    def committed(self) -> int:
        return self.offsets.read(QUEUE)

    @property
    def offsets_seen(self) -> list[list[int]]:
        return [[offset for offset, _ in call] for call in self.seen]


def without_auto_commit(context: ConsumeOrderlyContext) -> None:
    context.auto_commit = False


# -- order and locks ------------------------------------------------------------------------------


def test_batches_come_in_order_one_at_a_time() -> None:
    """Row run: batch after batch; row no batch: the run ends, and the next put starts one."""
    consuming = Consuming(consume_message_batch_max_size=2)
    consuming.submit(0, 1, 2)
    consuming.submit(3)
    assert consuming.run() == 1
    assert consuming.offsets_seen == [[0, 1], [2, 3]]
    assert consuming.committed == 4
    consuming.consume(4)
    assert consuming.offsets_seen[2:] == [[4]]


def test_needs_the_lock() -> None:
    """Rows Needs and relock, not locked at the start: locked after 100 ms, consumed 10 ms later."""
    consuming = Consuming(is_locked=False)
    consuming.consume(0)
    assert (consuming.seen, consuming.timer.delays_ms) == ([], [100])
    assert consuming.advance(109) == 0
    assert consuming.advance(1) == 1
    assert consuming.offsets_seen == [[0]]


def test_another_member_has_the_lock() -> None:
    """Row Needs: again after 3000 ms if the lock failed."""
    consuming = Consuming(is_locked=False)
    consuming.broker.table.lock(GROUP, OTHER, [QUEUE])
    consuming.consume(0)
    assert consuming.advance(100) == 0
    assert consuming.timer.delays_ms == [3_000]
    assert consuming.seen == []


def test_a_lock_that_is_lost_in_the_midst_of_a_run() -> None:
    """Row run, lock gone: locked after 10 ms."""
    consuming = Consuming()
    consuming.during = lambda context: consuming.locks.unlock(QUEUE)
    consuming.consume(0, 1)
    assert (consuming.offsets_seen, consuming.timer.delays_ms) == ([[0]], [10])


def test_a_lock_that_is_old_in_the_midst_of_a_run() -> None:
    """Row run, lock old: over 30 s since the last success."""
    consuming = Consuming()
    consuming.during = lambda context: consuming.timer.advance(30_001)
    consuming.consume(0, 1)
    assert (consuming.offsets_seen, consuming.timer.delays_ms) == ([[0]], [10])


def test_a_run_of_a_minute() -> None:
    """Row Continuous run: at most 60 s, then again 10 ms later."""
    consuming = Consuming()

    def take_long(context: ConsumeOrderlyContext) -> None:
        consuming.timer.advance(20_001)
        consuming.locks.lock(QUEUE)

    consuming.during = take_long
    consuming.consume(0, 1, 2, 3)
    assert (consuming.offsets_seen, consuming.timer.delays_ms) == ([[0], [1], [2]], [10])
    consuming.advance(10)
    assert consuming.offsets_seen[3:] == [[3]]


def test_broadcasting_needs_no_lock() -> None:
    """Row Needs: CLUSTERING only."""
    consuming = Consuming(is_locked=False, has_locks=False)
    assert consuming.service.pause_ms(consuming.pulled) == 0
    consuming.consume(0)
    assert consuming.offsets_seen == [[0]]


def test_pull() -> None:
    """Rows pull and 6, first offset: not locked, again in 3 s; the first with the lock asks the store."""
    consuming = Consuming(is_locked=False)
    consuming.broker.offsets[GROUP, "orders", 0] = 7
    assert consuming.service.pause_ms(consuming.pulled) == 3_000
    assert consuming.pulled.next_offset == 0
    consuming.locks.lock(QUEUE)
    assert consuming.service.pause_ms(consuming.pulled) == 0
    assert consuming.pulled.next_offset == 7
    consuming.pulled.next_offset = 9
    consuming.service.pause_ms(consuming.pulled)
    assert consuming.pulled.next_offset == 9


def test_pull_of_a_group_without_an_offset() -> None:
    """It begins where the rebalance has said: what came since is not skipped."""
    consuming = Consuming()
    consuming.pulled.next_offset = 5
    consuming.service.pause_ms(consuming.pulled)
    assert consuming.pulled.next_offset == 5


# -- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [SUCCESS, COMMIT, ROLLBACK])
def test_auto_commit(answer: ConsumeOrderlyStatus, caplog: pytest.LogCaptureFixture) -> None:
    """Row true, SUCCESS, COMMIT, ROLLBACK: commit; the last two only warn."""
    consuming = Consuming(answer)
    consuming.consume(0)
    assert consuming.committed == 1
    assert bool(caplog.records) == (answer is not SUCCESS)


@pytest.mark.parametrize("answer", [SUSPEND, None, ValueError("no"), SystemExit(1), "nonsense"])
def test_suspend(answer: object) -> None:
    """Row true, SUSPEND; row Null/exception: the same again after 1000 ms, and nothing passes it."""
    consuming = Consuming(answer, SUCCESS)
    consuming.consume(0, 1)
    assert (consuming.seen, consuming.committed) == ([[(0, 0)]], -1)
    assert consuming.timer.delays_ms == [1_000]
    consuming.submit(2)
    assert consuming.run() == 0, "a batch that is pulled meanwhile begins no second run"
    consuming.advance(1_000)
    assert consuming.seen[1:] == [[(0, 1)], [(1, 0)], [(2, 0)]]
    assert consuming.committed == 3


@pytest.mark.parametrize(
    ("told_ms", "setting_ms", "expected_ms"),
    [(-1, 1_000, 1_000), (-1, 5, 10), (500, 1_000, 500), (1, 1_000, 10), (40_000, 1_000, 30_000)],
)
def test_suspend_time(told_ms: int, setting_ms: int, expected_ms: int) -> None:
    """Suspend time: context value, -1 for the setting; clamped to [10, 30000] ms."""
    consuming = Consuming(SUSPEND, suspend_current_queue_time_millis=setting_ms)

    def tell(context: ConsumeOrderlyContext) -> None:
        context.suspend_current_queue_time_millis = told_ms

    consuming.during = tell
    consuming.consume(0)
    assert consuming.timer.delays_ms == [expected_ms]


def test_without_auto_commit() -> None:
    """Row false, SUCCESS: no commit; row false, COMMIT: past all of them."""
    consuming = Consuming(SUCCESS, SUCCESS, COMMIT)
    consuming.during = without_auto_commit
    consuming.consume(0, 1)
    assert consuming.committed == -1
    consuming.consume(2)
    assert consuming.committed == 3


def test_rollback() -> None:
    """Row false, ROLLBACK: all come again, after a pause."""
    consuming = Consuming(SUCCESS, ROLLBACK, COMMIT)
    consuming.during = without_auto_commit
    consuming.consume(0, 1)
    assert (consuming.committed, consuming.timer.delays_ms) == (-1, [1_000])
    consuming.advance(1_000)
    assert consuming.seen == [[(0, 0)], [(1, 0)], [(0, 0)], [(1, 0)]]
    assert consuming.committed == 2


def test_suspend_without_auto_commit() -> None:
    """Row false, SUSPEND: the batch comes again, those before it stay until COMMIT."""
    consuming = Consuming(SUCCESS, SUSPEND, COMMIT)
    consuming.during = without_auto_commit
    consuming.consume(0, 1)
    consuming.advance(1_000)
    assert consuming.seen == [[(0, 0)], [(1, 0)], [(1, 1)]]
    assert consuming.committed == 2


def test_a_commit_may_go_back() -> None:
    """Commit uses updateOffset(increaseOnly = false)."""
    consuming = Consuming()
    consuming.offsets.update(QUEUE, 9, increase_only=True)
    consuming.consume(0)
    assert consuming.committed == 1


# -- messages that were tried too often -----------------------------------------------------------


def test_over_max_reconsume_times() -> None:
    """checkReconsumeTimes: put to the retry topic with RECONSUME_TIME r + 1 and DELAY 3 + r; committed."""
    consuming = Consuming(SUSPEND, max_reconsume_times=1)
    consuming.consume(0)
    consuming.advance(1_000)
    (sent,) = consuming.broker.sent
    assert (sent.topic, sent.delay_level) == ("%RETRY%billing", 4)
    properties = sent.properties
    assert (properties["RECONSUME_TIME"], properties["MAX_RECONSUME_TIMES"]) == ("2", "1")
    assert (consuming.committed, consuming.timer.delays_ms) == (1, [])


def test_without_a_limit() -> None:
    """maxReconsumeTimes -1: orderly 2147483647."""
    assert ConsumerSettings().orderly_retries == 2_147_483_647
    consuming = Consuming(SUSPEND)
    consuming.consume(0)
    for _ in range(20):
        consuming.advance(1_000)
    assert consuming.seen[-1] == [(0, 20)]
    assert consuming.broker.sent == []


def test_a_put_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """checkReconsumeTimes, failure: reconsume times + 1 locally, and suspend."""
    consuming = Consuming(SUSPEND, max_reconsume_times=0)
    consuming.broker.send_error = StoreError("full")
    consuming.consume(0)
    assert consuming.timer.delays_ms == [1_000]
    assert "cannot put" in caplog.text
    consuming.broker.send_error = None
    consuming.advance(1_000)
    assert consuming.seen == [[(0, 0)], [(0, 1)]]
    assert (len(consuming.broker.sent), consuming.committed) == (1, 1)


def test_a_batch_of_which_one_is_over_the_limit() -> None:
    """Batches: both are repeated, so the first is put twice."""
    consuming = Consuming(SUSPEND, max_reconsume_times=1, consume_message_batch_max_size=2)
    consuming.consume(0)
    consuming.submit(1)
    consuming.advance(1_000)
    assert consuming.seen == [[(0, 0)], [(0, 1), (1, 0)]]
    assert (len(consuming.broker.sent), consuming.committed) == (1, -1)
    consuming.advance(1_000)
    assert consuming.seen[2:] == [[(0, 1), (1, 1)]]
    assert (len(consuming.broker.sent), consuming.committed) == (3, 2)


def test_all_over_the_limit_without_auto_commit() -> None:
    """Batches: a SUSPEND whose messages were all sent commits nothing and goes on."""
    consuming = Consuming(SUSPEND, COMMIT, max_reconsume_times=0)
    committed = []
    consuming.during = lambda context: (without_auto_commit(context), committed.append(consuming.committed))
    consuming.consume(0, 1)
    assert consuming.offsets_seen == [[0], [1]]
    assert (committed, consuming.committed) == ([-1, -1], 2)


# -- queues that are taken away -------------------------------------------------------------------


def test_a_queue_that_was_taken_away_is_not_consumed() -> None:
    """Row run, dropped: nothing is begun, and its end is told."""
    consuming = Consuming()
    consuming.submit(0)
    consuming.pulled.drop()
    assert consuming.service.may_leave(consuming.pulled)
    consuming.run()
    assert (consuming.seen, consuming.left) == ([], 1)


@pytest.mark.parametrize("answer", [SUCCESS, SUSPEND, ROLLBACK])
def test_a_queue_that_is_taken_away_while_a_listener_has_messages(answer: ConsumeOrderlyStatus) -> None:
    """Row queue revoked: not given up before the listener has returned; its answer counts no more."""
    consuming = Consuming(answer, max_reconsume_times=0)
    may_leave = []

    def drop(context: ConsumeOrderlyContext) -> None:
        consuming.pulled.drop()
        may_leave.append(consuming.service.may_leave(consuming.pulled))

    consuming.during = drop
    consuming.consume(0, 1)
    assert may_leave == [False]
    assert consuming.service.may_leave(consuming.pulled)
    assert (consuming.offsets_seen, consuming.committed, consuming.left) == ([[0]], -1, 1)
    assert (consuming.timer.delays_ms, consuming.broker.sent) == ([], [])


def test_a_listener_that_does_not_return() -> None:
    """Row queue revoked: 20 s after its last lock given up by force; here it waits for that listener."""
    consuming = Consuming()
    again = PulledQueue(QUEUE, "*", 0)

    def hang(context: ConsumeOrderlyContext) -> None:
        consuming.during = lambda context: None
        consuming.pulled.drop()
        consuming.timer.advance(20_000)
        assert not consuming.service.may_leave(consuming.pulled)
        consuming.timer.advance(1)
        assert consuming.service.may_leave(consuming.pulled)
        consuming.service.release(QUEUE)
        assert consuming.service.claim(QUEUE)
        consuming.pulled = again
        consuming.consume(0)
        assert len(consuming.seen) == 1, "not beside the one that hangs"

    consuming.during = hang
    consuming.consume(0)
    consuming.advance(1_000)
    assert consuming.offsets_seen == [[0], [0]]
    assert consuming.committed == 1


def test_a_queue_is_claimed_and_released() -> None:
    """Rows queue assigned, queue revoked: locked at the broker, unlocked for others."""
    consuming = Consuming(is_locked=False)
    consuming.broker.table.lock(GROUP, OTHER, [QUEUE])
    assert not consuming.service.claim(QUEUE)
    consuming.broker.table.unlock(GROUP, OTHER, [QUEUE])
    assert consuming.service.claim(QUEUE)
    consuming.service.release(QUEUE)
    assert consuming.broker.table.lock(GROUP, OTHER, [QUEUE]) == {QUEUE}


def test_a_stopped_service_begins_no_batch() -> None:
    """Row stop: what a listener has is finished."""
    consuming = Consuming()
    consuming.during = lambda context: consuming.service.stop(0)
    consuming.consume(0, 1)
    assert (consuming.offsets_seen, consuming.committed) == ([[0]], 1)


# -- hooks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected", "is_success"),
    [
        (SUCCESS, ConsumeReturnType.SUCCESS, True),
        (COMMIT, ConsumeReturnType.SUCCESS, True),
        (ROLLBACK, ConsumeReturnType.SUCCESS, False),
        (SUSPEND, ConsumeReturnType.FAILED, False),
        (None, ConsumeReturnType.RETURNNULL, False),
        (ValueError("no"), ConsumeReturnType.EXCEPTION, False),
    ],
)
def test_return_type(answer: object, expected: ConsumeReturnType, is_success: bool) -> None:
    """ConsumeReturnType as in section 4, with SUSPEND for FAILED; COMMIT and ROLLBACK are SUCCESS there."""
    consuming = Consuming(answer)
    seen: list[tuple[ConsumeReturnType | None, bool]] = []

    class Hook:
        def consume_message_before(self, context: ConsumeMessageContext) -> None:
            assert context.return_type is None

        def consume_message_after(self, context: ConsumeMessageContext) -> None:
            seen.append((context.return_type, context.is_success))

    consuming.hooks.add(Hook())
    consuming.consume(0)
    assert seen == [(expected, is_success)]


def test_time_out() -> None:
    """Row TIME_OUT: it changes nothing about the messages."""
    consuming = Consuming()
    consuming.during = lambda context: consuming.clock.advance(15 * 60_000)
    consuming.consume(0)
    assert consuming.committed == 1


def test_what_does_not_match_is_passed() -> None:
    """As with a concurrent consumer."""
    consuming = Consuming()
    consuming.service.skip(consuming.pulled, 7)
    consuming.service.skip(consuming.pulled, 5)
    assert consuming.offsets.read(QUEUE) == 7


def test_queues_that_wait_are_looked_after() -> None:
    """They are behind while a thread could take them; the look gives them one."""
    consuming = Consuming()
    consumed = threading.Event()
    consuming.during = lambda context: consumed.set()
    del consuming.service.wake  # type: ignore[method-assign]
    assert not consuming.service.is_behind
    consuming.submit(0)
    assert consuming.service.is_behind
    consuming.service.look_again()
    assert consumed.wait(10)
    assert consuming.service.stop(10) == []
    assert consuming.seen == [[(0, 0)]]
