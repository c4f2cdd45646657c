"""A running consumer: the parts that exist from the start to the close, and the order in which they end.

    close:  nothing more is handed out, no pull begins -> listeners at work have their time
            -> the timer ends -> offsets are persisted -> the group is left

Each step is done whatever becomes of the others, also after an interrupt (Ctrl-C), and waits for a bounded
time. What does not end in time is logged by its thread and its work.
Threads: `start` and `close` one at a time. What is periodic runs on the timer's thread.
Source: DefaultMQPushConsumerImpl#start, #shutdown.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from mqstore.broker.broker import Broker, MessageModel, MessageQueue
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.assigned_queues import AssignedQueues
from mqstore.client.consumer.consume_hooks import ConsumeHooks
from mqstore.client.consumer.consume_service import ConcurrentConsumeService
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import RegisteredListener
from mqstore.client.consumer.orderly.orderly_listener import RegisteredOrderlyListener
from mqstore.client.consumer.orderly.orderly_service import OrderlyConsumeService
from mqstore.client.consumer.pull_service import PullService
from mqstore.client.consumer.pulled_queue import PulledQueue
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.offsets.consume_from_where import first_offset
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.client.rebalance.queue_allocation import Allocation
from mqstore.client.rebalance.queue_locks import QueueLocks
from mqstore.client.rebalance.rebalance_service import RebalanceService
from mqstore.store.clock import Clock
from mqstore.store.errors import StoreError
from mqstore.store.threads.timer import TimerThread

__all__ = ["RunningConsumer"]

_logger = logging.getLogger(__name__)

_FIRST_PERSIST_MS = 10_000
_MINUTE_MS = 60_000
# How long `close` waits for a thread that works for the consumer itself.
_STOP_TIMEOUT_S = 5.0


class RunningConsumer:
    """The parts of one consumer. assigned: its queues. rebalance: finds out which they are."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        client_id: str,
        settings: ConsumerSettings,
        listener: RegisteredListener | RegisteredOrderlyListener,
        hooks: ConsumeHooks,
        offsets: OffsetStore,
        clock: Clock,
        subscriptions: Callable[[], Mapping[str, str]],
        allocate: Allocation,
    ) -> None:
        """subscriptions: topic -> tags, as they are now."""
        self._brokers = brokers
        self._group = group
        self._client_id = client_id
        self._settings = settings
        self._offsets = offsets
        self._begin_ms = settings.begin_ms(clock.now_ms())
        self._persist_error: Exception | None = None
        self._timer = timer = TimerThread(f"mqstore timer {group}")
        self._locks: QueueLocks | None = None
        order: OrderlyConsumeService | None = None
        self._consuming: ConcurrentConsumeService | OrderlyConsumeService
        if isinstance(listener, RegisteredOrderlyListener):
            if settings.message_model is MessageModel.CLUSTERING:
                self._locks = QueueLocks(list(brokers.values()), group, client_id, self._kept_queues, timer)
            send_back = SendBack(brokers, group, settings.orderly_retries)
            self._consuming = order = OrderlyConsumeService(
                group,
                settings,
                listener,
                offsets,
                send_back,
                timer,
                clock,
                hooks,
                self._locks,
                self._take_leaving_soon,
            )
        else:
            send_back = SendBack(brokers, group, settings.retries)
            self._consuming = ConcurrentConsumeService(
                group, settings, listener, offsets, send_back, timer, clock, hooks
            )
        self._pulls = PullService(
            brokers, group, settings, offsets, timer, self._consuming, on_moved=self._move_soon
        )
        self._consuming.tell_of_room(self._pulls)
        self.assigned = AssignedQueues(group, settings, offsets, self._pulls, self._first_offset, order=order)
        self.rebalance = RebalanceService(
            list(brokers.values()),
            group,
            client_id,
            settings.message_model,
            subscriptions,
            self.assigned,
            timer,
            allocate=allocate,
        )

    def start(self) -> None:
        """Start the threads. Raises RuntimeError if that cannot be."""
        self._pulls.start()
        self.rebalance.soon()
        if self._locks is not None:
            self._locks.start()
        self._timer.call_later(_FIRST_PERSIST_MS, self._persist_again)
        self._timer.call_later(self._settings.consume_timeout * _MINUTE_MS, self._clean_again)

    def suspend(self, *, is_suspended: bool) -> None:
        """Pull, or pull no more."""
        self._pulls.suspended = is_suspended
        if not is_suspended:
            for pulled in self.assigned:
                self._pulls.ready(pulled)
            self.rebalance.soon()

    def persist_now(self) -> None:
        """Persist the offsets of all queues, from any thread."""
        for pulled in self.assigned:
            self.assigned.persist(pulled)

    @property
    def is_listener_thread(self) -> bool:
        """Whether the caller is called by the listener."""
        return self._consuming.is_listener_thread

    def hand_out_nothing(self) -> None:
        """Begin no more calls of the listener; the first step of the close."""
        self.rebalance.stop()
        if self._locks is not None:
            self._locks.stop()
        self._consuming.stop(0)

    def close(self) -> None:
        """All steps of the header. Interrupts come out when all are done."""
        with ExitStack() as steps:
            # The last one first.
            for broker in self._brokers.values():
                steps.callback(self._leave, broker)
            steps.callback(self._end_offsets)
            steps.callback(self._stop_timer)
            steps.callback(self._stop_listeners)
            steps.callback(self._stop_pulls)
            self.hand_out_nothing()

    # -- steps of the close -----------------------------------------------------------------------

    def _stop_pulls(self) -> None:
        if not self._pulls.stop(_STOP_TIMEOUT_S):
            _logger.warning("group %s: a pull has not ended in %g s", self._group, _STOP_TIMEOUT_S)

    def _stop_listeners(self) -> None:
        timeout_s = self._settings.await_termination_millis_when_shutdown / 1000
        for thread, request in self._consuming.stop(timeout_s):
            _logger.warning(
                "group %s is closed, but its listener has not returned in %g s: thread %r is at work on %r. "
                "They come again",
                self._group,
                timeout_s,
                thread.name,
                request,
            )

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

    def _move_soon(self, pulled: PulledQueue, offset: int) -> None:
        def move() -> None:
            self.assigned.move(pulled, offset)
            self.rebalance.soon()

        self._timer.call_later(0, move)

    def _kept_queues(self) -> list[MessageQueue]:
        """The queues whose locks are renewed: not those that are to be given up."""
        return [pulled.queue for pulled in self.assigned if not pulled.process_queue.dropped]

    def _take_leaving_soon(self) -> None:
        def take() -> None:
            self.assigned.take_leaving()
            self.rebalance.soon()

        self._timer.call_later(0, take)

    def _persist_again(self) -> None:
        self._timer.call_later(self._settings.persist_consumer_offset_interval, self._persist_again)
        self._persist()

    def _persist(self) -> None:
        try:
            self._offsets.persist_all([pulled.queue for pulled in self.assigned])
        except (StoreError, OSError) as error:
            if repr(error) != repr(self._persist_error):
                _logger.warning("group %s cannot persist its offsets: %s", self._group, error)
            self._persist_error = error
        else:
            self._persist_error = None

    def _clean_again(self) -> None:
        self._timer.call_later(self._settings.consume_timeout * _MINUTE_MS, self._clean_again)
        for pulled in self.assigned:
            self._consuming.clean_expired(pulled)

    def __repr__(self) -> str:
        return f"RunningConsumer({self._group!r}, {self._client_id!r}, {self.assigned!r})"
