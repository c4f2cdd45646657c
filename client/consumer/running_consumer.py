"""A push consumer that runs: the pulls (pulls/running_pulls.py), and what calls its listener.

    close   nothing more is handed out -> no pull begins -> listeners at work have their time -> the rest

Which listener does not end in time is logged by its thread and its work.
Threads: `start` and `close` one at a time. Source: DefaultMQPushConsumerImpl#start, #shutdown.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from mqstore.broker.broker import MessageModel, MessageQueue
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.consume_hooks import ConsumeHooks
from mqstore.client.consumer.consume_service import ConcurrentConsumeService
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import RegisteredConcurrentListener
from mqstore.client.consumer.orderly.orderly_listener import RegisteredOrderlyListener
from mqstore.client.consumer.orderly.orderly_service import OrderlyConsumeService
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.pulls.running_pulls import RunningPulls
from mqstore.client.consumer.send_back import RetryDelay, SendBack
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.client.rebalance.queue_allocation import Allocation
from mqstore.client.rebalance.queue_locks import QueueLocks
from mqstore.store.clock import Clock
from mqstore.store.threads.timer import TimerThread

__all__ = ["RunningConsumer"]

_logger = logging.getLogger(__name__)

_MINUTE_MS = 60_000


class RunningConsumer:
    """The parts of one consumer. assigned: its queues. rebalance: finds out which they are."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        client_id: str,
        settings: ConsumerSettings,
        listener: RegisteredConcurrentListener | RegisteredOrderlyListener,
        hooks: ConsumeHooks,
        offsets: OffsetStore,
        clock: Clock,
        subscriptions: Callable[[], Mapping[str, str]],
        allocate: Allocation,
        retry_policy: RetryDelay | None = None,
    ) -> None:
        """subscriptions: topic -> tags, as they are now. retry_policy: of a concurrent consumer."""
        self._group = group
        self._settings = settings
        self._timer = timer = TimerThread(f"mqstore timer {group}")
        self._locks: QueueLocks | None = None
        order: OrderlyConsumeService | None = None
        self._consuming: ConcurrentConsumeService | OrderlyConsumeService
        if isinstance(listener, RegisteredOrderlyListener):
            if settings.message_model is MessageModel.CLUSTERING:
                self._locks = QueueLocks(list(brokers.values()), group, client_id, self._kept_queues, timer)
            send_back = SendBack(brokers, group, settings.orderly_retries, hooks=hooks.send_backs)
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
            send_back = SendBack(brokers, group, settings.retries, retry_policy, hooks.send_backs)
            self._consuming = ConcurrentConsumeService(
                group, settings, listener, offsets, send_back, timer, clock, hooks
            )
        self._pulls = RunningPulls(
            brokers,
            group,
            client_id,
            settings,
            offsets,
            timer,
            clock,
            self._consuming,
            subscriptions,
            allocate,
            self._move_soon,
            order=order,
        )
        self._consuming.tell_of_room(self._pulls.service)
        self.assigned = self._pulls.assigned
        self.rebalance = self._pulls.rebalance

    def start(self) -> None:
        """Start the threads. Raises RuntimeError if that cannot be."""
        self._pulls.start()
        self.rebalance.soon()
        if self._locks is not None:
            self._locks.start()
        self._timer.call_later(self._settings.consume_timeout * _MINUTE_MS, self._clean_again)

    def suspend(self, *, is_suspended: bool) -> None:
        """Pull, or pull no more."""
        self._pulls.suspend(is_suspended=is_suspended)

    def persist_now(self) -> None:
        """Persist the offsets of all queues, from any thread."""
        self._pulls.persist_now()

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
            steps.callback(self._pulls.close, self._stop_listeners)
            self.hand_out_nothing()

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

    # -- on the timer's thread --------------------------------------------------------------------

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

    def _clean_again(self) -> None:
        self._timer.call_later(self._settings.consume_timeout * _MINUTE_MS, self._clean_again)
        for pulled in self.assigned:
            self._consuming.clean_expired(pulled)

    def __repr__(self) -> str:
        return f"RunningConsumer({self._pulls!r})"
