"""The orderly consume service: calls the listener for each queue with batch after batch, in order.

A queue is consumed by one run at a time, on any of the service's threads:

    submit -> a run: is the queue locked? -> take a batch -> listener -> its answer -> the next batch ...

    the run ends          and goes on
    no message waits      with the next submit
    not locked            locks it after 100 ms, in the midst of a run after 10 ms; then after 10 ms, or 3 s
                          if another member has it
    60 s have passed      after 10 ms: other queues have their turn
    suspended             after the time that the listener says

    answer     with autoCommit                              without
    SUCCESS    done, committed                              kept until COMMIT or ROLLBACK
    COMMIT     done, committed                              all kept ones are done, and committed
    ROLLBACK   done, committed                              all kept ones come again, after a pause
    SUSPEND    the batch comes again after a pause          the same
               all were over max_reconsume_times: done      all were over it: kept

An exception and a wrong answer count as SUSPEND. A message that comes again has one reconsume time more, in
memory alone. One that had max_reconsume_times of them is put to `%RETRY%group` each time that its batch is
suspended; the broker makes it a dead letter. If that fails it comes again, too.

A queue that was taken away is given up when its listener has returned, by force 20 s after its last lock; the
answer counts no more. RocketMQ waits 500 ms for the listener and tries again in each rebalance; here the end
of the run tells of itself.

It pulls nothing (pull_service.py) and persists no offset. Locks: client/rebalance/queue_locks.py.
Its threads: listening_service.py. `submit` and `pause_ms` are called by the one that pulls, `claim`,
`may_leave` and `release` by the timer's.
Source: docs/spec/client_consume.md section 5, docs/spec/client_produce.md section 7;
ConsumeMessageOrderlyService.
"""

import logging
import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from mqstore.broker.broker import MessageQueue, PullAnswer
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageContext, return_type
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import ConsumeOrderlyStatus
from mqstore.client.consumer.listening_service import ListeningService
from mqstore.client.consumer.orderly.ordered_messages import OrderedMessage, OrderedMessages
from mqstore.client.consumer.orderly.orderly_listener import ConsumeOrderlyContext, RegisteredOrderlyListener
from mqstore.client.consumer.pulls.process_queue import PulledBatch
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.pulls.received_message import ReceivedMessage, in_words
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.client.rebalance.queue_locks import QueueLocks
from mqstore.store.clock import Clock
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.timer import Timer
from mqstore.store.threads.worker_threads import Unfinished

__all__ = ["OrderlyConsumeService"]

_logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000
_LONGEST_RUN_S = 60.0
_SOON_MS = 10
_LOCK_AT_START_MS = 100
_LOCK_IN_RUN_MS = 10
_NOT_LOCKED_MS = 3_000
_LEAST_SUSPEND_MS, _MOST_SUSPEND_MS = 10, 30_000
_FORCED_AFTER_S = 20.0

_SUCCESS, _COMMIT = ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.COMMIT
_ROLLBACK, _SUSPEND = ConsumeOrderlyStatus.ROLLBACK, ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


class OrderlyConsumeService(ListeningService[PulledQueue]):
    """Consumes for one consumer."""

    def __init__(
        self,
        group: str,
        settings: ConsumerSettings,
        listener: RegisteredOrderlyListener,
        offsets: OffsetStore,
        send_back: SendBack,
        timer: Timer,
        clock: Clock,
        hooks: ConsumeHooks,
        locks: QueueLocks | None,
        on_left: Callable[[], None],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """locks: None in BROADCASTING, where each member has all queues.

        on_left: called when the run of a queue ends that was taken away. now_s: a clock that only goes
        forward.
        """
        super().__init__(group, settings, offsets, timer)
        self._batch_size = settings.consume_message_batch_max_size
        self._timeout_ms = settings.consume_timeout * _MINUTE_MS
        self._suspend_ms = settings.suspend_current_queue_time_millis
        self._max_reconsume_times = settings.orderly_retries
        self._listener = listener
        self._send_back = send_back
        self._clock = clock
        self._hooks = hooks
        self._locks = locks
        self._on_left = on_left
        self._now_s = now_s
        self._is_stopped = False
        self._lock = Lock()
        # Both under the lock. The queues that a run is at work on, and for which time of theirs here.
        self._at_work: dict[MessageQueue, PulledQueue] = {}
        self._ordered: WeakKeyDictionary[PulledQueue, OrderedMessages] = WeakKeyDictionary()

    # -- taking messages --------------------------------------------------------------------------

    def pause_ms(self, pulled: PulledQueue) -> int:
        """3000 if the queue is not locked. The first pull with the lock begins at the committed offset."""
        if self._locks is None:
            return 0
        if not self._locks.is_locked(pulled.queue):
            return _NOT_LOCKED_MS
        ordered = self._ordered_of(pulled)
        if not ordered.has_begun:
            kept = self._offsets.read_kept(pulled.queue)
            # Without one it stays: another look at the end of the queue would skip what has come since.
            if kept >= 0:
                pulled.next_offset = kept
            ordered.has_begun = True
        return 0

    def submit(self, pulled: PulledQueue, batch: PulledBatch, answer: PullAnswer) -> None:
        """Have the listener called with a batch, after those before it and after `wake`."""
        if self._ordered_of(pulled).add(batch):
            self._threads.add(pulled)

    def _ordered_of(self, pulled: PulledQueue) -> OrderedMessages:
        with self._lock:
            ordered = self._ordered.get(pulled)
            if ordered is None:
                self._ordered[pulled] = ordered = OrderedMessages(pulled.process_queue)
            return ordered

    def clean_expired(self, pulled: PulledQueue) -> None:
        """Nothing: in order no message is given up because it takes long."""

    def stop(self, timeout_s: float) -> list[Unfinished]:
        """Begin no more batches; those under way have `timeout_s`. Returns the threads that need longer."""
        self._is_stopped = True
        return super().stop(timeout_s)

    # -- queues that come and go ------------------------------------------------------------------

    def claim(self, queue: MessageQueue) -> bool:
        """Lock a queue for this member; False if another one has it."""
        return self._locks is None or self._locks.lock(queue)

    def may_leave(self, pulled: PulledQueue) -> bool:
        """Whether no listener is at work on a queue that was dropped, or its lock is too old to wait."""
        if self._locks is None or self._locks.age_s(pulled.queue) > _FORCED_AFTER_S:
            return True
        with self._lock:
            return self._at_work.get(pulled.queue) is not pulled

    def release(self, queue: MessageQueue) -> None:
        """Other members may lock the queue."""
        if self._locks is not None:
            self._locks.unlock(queue)

    # -- a run ------------------------------------------------------------------------------------

    def run(self, pulled: PulledQueue) -> None:
        """Consume one queue until there is a reason to end. What the listener raises does not come out."""
        ordered = self._ordered_of(pulled)
        try:
            self._run(pulled, ordered)
        except BaseException:
            ordered.rollback()
            self._submit_later(pulled, self._suspend_ms)
            raise
        finally:
            if pulled.process_queue.dropped:
                self._on_left()

    def _run(self, pulled: PulledQueue, ordered: OrderedMessages) -> None:
        begin_s, lock_ms = self._now_s(), _LOCK_AT_START_MS
        while not pulled.process_queue.dropped and not self._is_stopped:
            if self._locks is not None and not self._locks.is_held(pulled.queue):
                self._timer.call_later(lock_ms, lambda: self._lock_again(pulled))
                return
            if self._now_s() - begin_s > _LONGEST_RUN_S:
                self._submit_later(pulled, _SOON_MS)
                return
            taken = ordered.take(self._batch_size)
            if not taken or not self._consume_alone(pulled, ordered, taken):
                return
            lock_ms = _LOCK_IN_RUN_MS

    def _consume_alone(
        self, pulled: PulledQueue, ordered: OrderedMessages, taken: Sequence[OrderedMessage]
    ) -> bool:
        """Consume a batch, unless a listener is still at work on the queue; whether the run goes on."""
        with self._lock:
            is_free = pulled.queue not in self._at_work
            if is_free:
                self._at_work[pulled.queue] = pulled
        if not is_free:
            # It did not return in time when the queue was taken away, and here the queue is again.
            ordered.put_back(taken)
            self._submit_later(pulled, self._suspend_ms)
            return False
        try:
            # A drop from here on waits for the listener.
            return not pulled.process_queue.dropped and self._consume(pulled, ordered, taken)
        finally:
            with self._lock:
                del self._at_work[pulled.queue]

    def _lock_again(self, pulled: PulledQueue) -> None:
        if not pulled.process_queue.dropped:
            self._submit_later(pulled, _SOON_MS if self.claim(pulled.queue) else _NOT_LOCKED_MS)

    # -- a batch ----------------------------------------------------------------------------------

    def _consume(
        self, pulled: PulledQueue, ordered: OrderedMessages, taken: Sequence[OrderedMessage]
    ) -> bool:
        """Call the listener with a batch and do what it answers; whether the run goes on."""
        context = ConsumeOrderlyContext(pulled.queue)
        status = self._call([message for _, _, message in taken], context) or _SUSPEND
        if pulled.process_queue.dropped:
            _logger.info("%r was taken away while a listener had messages: they come again", pulled.queue)
            return False
        if context.auto_commit and status in (_COMMIT, _ROLLBACK):
            _logger.warning(
                "the listener of group %s has answered %s with auto_commit: it counts as SUCCESS",
                self._group,
                status.name,
            )
            status = _SUCCESS
        if status is _SUSPEND:
            again = self._messages_to_come_again(taken, pulled.queue.broker_name)
            if again is not None:
                ordered.put_back(again)
                self._suspend(pulled, context)
                return False
        elif status is _ROLLBACK:
            ordered.rollback()
            self._suspend(pulled, context)
            return False
        if context.auto_commit or status is _COMMIT:
            self._commit(pulled, ordered)
        return True

    def _call(
        self, messages: Sequence[StoredMessage], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus | None:
        """What the listener answered; None without an answer. Hooks are called around it."""
        start_ms = self._clock.now_ms()
        seen = ConsumeMessageContext(self._group, context.message_queue, messages, start_ms)
        self._hooks.before(seen)
        status: ConsumeOrderlyStatus | None = None
        try:
            status = self._listener(messages, context)
        except BaseException as error:  # noqa: BLE001 - it is logged, with its traceback
            # SystemExit and CancelledError as well: they would end this thread and leave the queue undone.
            log_event(
                _logger,
                events.LISTENER_FAILED,
                "the listener of group %s failed on %s",
                *(self._group, in_words(messages)),
                exc_info=True,
                consumer_group=self._group,
                topic=context.message_queue.topic,
                queue_id=context.message_queue.queue_id,
            )
            # The frames of the traceback hold the messages.
            seen.error = error.with_traceback(None)
            # What it may have set did not come to an answer.
            context.suspend_current_queue_time_millis = -1
        seen.elapsed_ms = self._clock.now_ms() - start_ms
        seen.return_type = return_type(
            status,
            has_raised=seen.error is not None,
            elapsed_ms=seen.elapsed_ms,
            timeout_ms=self._timeout_ms,
        )
        seen.status = status or _SUSPEND
        self._hooks.after(seen)
        return status

    def _messages_to_come_again(
        self, taken: Sequence[OrderedMessage], broker_name: str
    ) -> list[OrderedMessage] | None:
        """The batch with its new reconsume times; None if all were over the limit, and are put elsewhere."""
        again = []
        is_suspended = False
        for ordered in taken:
            message = ordered.message
            # A record that is damaged counts no times.
            is_over = message.is_whole and message.reconsume_times >= self._max_reconsume_times
            if is_over and self._send_back.send_to_retry_topic(message, broker_name):
                again.append(ordered)
            else:
                is_suspended = True
                again.append(ordered._replace(message=ReceivedMessage.again(message)))
        return again if is_suspended else None

    def _suspend(self, pulled: PulledQueue, context: ConsumeOrderlyContext) -> None:
        pause_ms = context.suspend_current_queue_time_millis
        if pause_ms == -1:
            pause_ms = self._suspend_ms
        self._submit_later(pulled, max(_LEAST_SUSPEND_MS, min(pause_ms, _MOST_SUSPEND_MS)))

    def _commit(self, pulled: PulledQueue, ordered: OrderedMessages) -> None:
        offset = ordered.commit()
        if offset >= 0 and not pulled.process_queue.dropped:
            self._offsets.update(pulled.queue, offset, increase_only=False)
        self._have_worked_off(pulled)

    def __repr__(self) -> str:
        return f"OrderlyConsumeService({self._group!r}, {self._threads!r}, {self._locks!r})"
