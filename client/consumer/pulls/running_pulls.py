"""The pulls of a consumer that runs: what push and lite pull consumers have in common, from start to close.

    while it runs   the rebalance gives and takes queues, the pull service pulls from them, and committed
                    offsets are persisted: all every 5 s, those that have moved every 200 ms
    close           no pull begins -> what was pulled is finished -> the timer ends -> offsets are persisted
                    -> the group is left

Each step is done whatever becomes of the others, also after an interrupt (Ctrl-C), and waits for a bounded
time. What does not end in time is logged.
Threads: `start` and `close` one at a time. What is periodic runs on the timer's thread.
Source: DefaultMQPushConsumerImpl and DefaultLitePullConsumerImpl, #start and #shutdown.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Protocol

from mqstore.broker.broker import Broker, MessageModel, MessageQueue
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.assigned_queues import AssignedQueues, QueueOrder
from mqstore.client.consumer.pulls.pull_service import PAUSE_AFTER_ERROR_MS, SUSPEND_MS, PullService
from mqstore.client.consumer.pulls.pulled_queue import Consuming, PulledQueue
from mqstore.client.offsets.consume_from_where import first_offset
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.client.rebalance.queue_allocation import Allocation
from mqstore.client.rebalance.rebalance_service import Assignment, RebalanceService
from mqstore.store.clock import Clock
from mqstore.store.errors import StoreError
from mqstore.store.threads.duty_cycle import DutyCycle
from mqstore.store.threads.timer import Timer

__all__ = ["ConsumerTimer", "RunningPulls"]

_logger = logging.getLogger(__name__)

_FIRST_PERSIST_MS = 10_000
# What has moved is told to the broker so soon: a process that is killed does again what it did since.
_TELL_MOVED_MS = 200
# How long `close` waits for a thread that works for the consumer itself.
_STOP_TIMEOUT_S = 5.0


class ConsumerTimer(Timer, Protocol):
    """The timer of one consumer, which ends with it."""

    def stop(self, timeout_s: float) -> bool:
        """End it; False if that takes longer."""
        ...


class RunningPulls:
    """The parts of one consumer. assigned: its queues. rebalance: finds out which they are."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        client_id: str,
        settings: ConsumerSettings,
        offsets: OffsetStore,
        timer: ConsumerTimer,
        clock: Clock,
        consuming: Consuming,
        subscriptions: Callable[[], Mapping[str, str]],
        allocate: Allocation,
        on_moved: Callable[[PulledQueue, int], None],
        *,
        order: QueueOrder | None = None,
        assignment: Callable[[AssignedQueues], Assignment] | None = None,
        suspend_ms: int = SUSPEND_MS,
        pause_after_error_ms: int = PAUSE_AFTER_ERROR_MS,
    ) -> None:
        """subscriptions: topic -> tags, as they are now. on_moved: of the pull service.

        assignment: makes of the queues what the rebalance tells; else it tells the queues themselves.
        """
        self._brokers = brokers
        self._group = group
        self._client_id = client_id
        self._settings = settings
        self._offsets = offsets
        self._timer = timer
        self._begin_ms = settings.begin_ms(clock.now_ms())
        self._persist_error: Exception | None = None
        self._tell_duty_cycle = DutyCycle()
        self.service = PullService(
            brokers,
            group,
            settings,
            offsets,
            timer,
            consuming,
            on_moved,
            suspend_ms=suspend_ms,
            pause_after_error_ms=pause_after_error_ms,
        )
        self.assigned = AssignedQueues(
            group, settings, offsets, self.service, self._first_offset, order=order
        )
        self.rebalance = RebalanceService(
            list(brokers.values()),
            group,
            client_id,
            settings.message_model,
            subscriptions,
            self.assigned if assignment is None else assignment(self.assigned),
            timer,
            allocate=allocate,
        )

    def start(self) -> None:
        """Start the thread that pulls. Raises RuntimeError if that cannot be."""
        self.service.start()
        self._timer.call_later(_FIRST_PERSIST_MS, self._persist_again)
        if self._settings.message_model is MessageModel.CLUSTERING:
            self._timer.call_later(_TELL_MOVED_MS, self._tell_moved_again)

    def suspend(self, *, is_suspended: bool) -> None:
        """Pull, or pull no more."""
        self.service.suspended = is_suspended
        if not is_suspended:
            for pulled in self.assigned:
                self.service.ready(pulled)
            self.rebalance.soon()

    def persist_now(self) -> None:
        """Persist the offsets of all queues, from any thread."""
        for pulled in self.assigned:
            self.assigned.persist(pulled)

    def close(self, finish: Callable[[], None]) -> None:
        """All steps of the header. Interrupts come out when all are done."""
        with ExitStack() as steps:
            # The last one first.
            for broker in self._brokers.values():
                steps.callback(self._leave, broker)
            steps.callback(self._end_offsets)
            steps.callback(self._stop_timer)
            steps.callback(finish)
            steps.callback(self._stop_pulls)
            self.rebalance.stop()

    # -- steps of the close -----------------------------------------------------------------------

    def _stop_pulls(self) -> None:
        if not self.service.stop(_STOP_TIMEOUT_S):
            _logger.warning("group %s: a pull has not ended in %g s", self._group, _STOP_TIMEOUT_S)

    def _stop_timer(self) -> None:
        if not self._timer.stop(_STOP_TIMEOUT_S):
            _logger.warning("group %s: %r has not ended in %g s", self._group, self._timer, _STOP_TIMEOUT_S)

    def _end_offsets(self) -> None:
        for pulled in self.assigned:
            # Cancels what waits at the broker; what a listener that hangs answers later counts no more.
            pulled.drop()
        self._persist()

    def _leave(self, broker: Broker) -> None:
        try:
            broker.unregister_consumer(self._group, self._client_id)
        except StoreError as error:
            _logger.warning("group %s cannot be left: %s", self._group, error)

    # -- on the timer's thread --------------------------------------------------------------------

    def _first_offset(self, queue: MessageQueue) -> int:
        broker = self._brokers[queue.broker_name]
        return first_offset(broker, queue, self._settings.consume_from_where, self._begin_ms)

    def _persist_again(self) -> None:
        self._timer.call_later(self._settings.persist_consumer_offset_interval, self._persist_again)
        self._persist()

    def _tell_moved_again(self) -> None:
        pause_ms = _TELL_MOVED_MS
        if self._tell_duty_cycle.is_due:
            try:
                self._tell_duty_cycle.run(self._tell_moved)
            except StoreError:
                # `_persist` tries again, and logs it.
                pause_ms = self._settings.persist_consumer_offset_interval
        self._timer.call_later(pause_ms, self._tell_moved_again)

    def _tell_moved(self) -> None:
        """Tell brokers of the offsets that moved since they were told last, with a pull or here."""
        for pulled in self.assigned:
            offset = self._offsets.read(pulled.queue)
            is_ours = not pulled.process_queue.dropped
            if is_ours and offset > 0 and offset != pulled.told_offset:
                self._offsets.persist(pulled.queue)
                pulled.told_offset = offset

    def _persist(self) -> None:
        try:
            self._offsets.persist_all([pulled.queue for pulled in self.assigned])
        except (StoreError, OSError) as error:
            if repr(error) != repr(self._persist_error):
                _logger.warning("group %s cannot persist its offsets: %s", self._group, error)
            self._persist_error = error
        else:
            self._persist_error = None

    def __repr__(self) -> str:
        return f"RunningPulls({self._group!r}, {self._client_id!r}, {self.assigned!r})"
