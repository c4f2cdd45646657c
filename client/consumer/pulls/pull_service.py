"""The pull service: one thread that pulls from all queues of a consumer.

    ready -> may it be pulled now? -> Broker.pull_later -> cached and handed on -> ready again
              |                        |
              |                        `- nothing there: the broker keeps the pull until one comes, or 15 s
              `- no: again after a pause

The broker waits, not this thread: it sleeps until some pull is answered or some pause is over.

    pause       because
    for good    the queue was taken away; the store or the broker is closed
    1000 ms     the consumer is suspended
    50 ms       above pull_threshold_for_queue messages, or pull_threshold_size_for_queue MiB, in memory
    as told     what consumes says so: 50 ms when offsets are too far apart
    20 ms       the broker refuses for its load (code 215)
    3000 ms     any other error of a pull

Placeholders of a repair are left out here, as RocketMQ's client leaves out what a filter does not want.
A queue above a threshold is ready again as soon as half of it is worked off; the 50 ms are the longest wait.
An error concerns its own queue only, and is logged when it changes. Before a pull the broker is asked whether
an operator has reset the offset, and told how far the queue is consumed (at most every 50 ms). RocketMQ's row
"client state not ok" has no case here: pulls begin with the start and end with the close.

Threads: `run_once` by one at a time, the thread of `start`; all else by any. Callbacks of the broker only
leave their answer. Source: docs/spec/client_consume.md section 2; DefaultMQPushConsumerImpl#pullMessage,
PullMessageService.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from mqstore.broker.broker import Broker, MessageModel, PullAnswer, PullRequest
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.process_queue import ProcessQueue, may_have_placeholders
from mqstore.client.consumer.pulls.pulled_queue import Consuming, PulledQueue
from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.store.errors import StoreClosed, StoreError
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.start_thread import start_thread
from mqstore.store.threads.timer import Timer

__all__ = ["PullService"]

_logger = logging.getLogger(__name__)

SUSPEND_MS = 15_000
PAUSE_AFTER_ERROR_MS = 3_000
_PAUSE_WHEN_SUSPENDED_MS = 1_000
_PAUSE_ABOVE_THRESHOLD_MS = 50
_PAUSE_AT_FLOW_CONTROL_MS = 20
# For a broker that answers at once although it should wait: the thread must not turn round and round.
_PAUSE_WITHOUT_PROGRESS_MS = 50
_FLOW_CONTROL = 215
_MIB = 1 << 20

# A backlog is pulled thousands of times a second: the broker need not hear of each.
_LEAST_BETWEEN_COMMITS_S = 0.05
# What was pulled is handed on at the end, and after so long. A thread that waits for the interpreter is
# signalled at each pull, which lets go of it; it would have to wait as long anyway (sys.getswitchinterval).
_HAND_ON_S = 0.005
# The clock is asked after so many steps.
_STEPS_OF_A_TURN = 32
# Requests that wait so long, although there are threads, need more of them.
_LOOK_AGAIN_S = 0.001
# Heals a wake-up that an interrupt (Ctrl-C) has prevented.
_LONGEST_SLEEP_S = 5.0


class PullService:
    """Pulls for one consumer.

    threshold_for_queue, threshold_size_for_queue: messages and bytes in memory above which a queue is not
    pulled. suspended: whether none is.
    """

    def __init__(
        self,
        brokers: Mapping[str, Broker],
        group: str,
        settings: ConsumerSettings,
        offsets: OffsetStore,
        timer: Timer,
        consuming: Consuming,
        on_moved: Callable[[PulledQueue, int], None],
        *,
        suspend_ms: int = SUSPEND_MS,
        pause_after_error_ms: int = PAUSE_AFTER_ERROR_MS,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """on_moved: the queue was dropped and is to go on at that offset. It must be quick.

        suspend_ms: how long a broker may keep a pull. now_s: a clock that only goes forward.
        """
        self.threshold_for_queue = settings.pull_threshold_for_queue
        self.threshold_size_for_queue = settings.pull_threshold_size_for_queue * _MIB
        self.suspended = False
        self._brokers = brokers
        self._group = group
        self._batch_size = settings.pull_batch_size
        self._interval_ms = settings.pull_interval
        self._is_clustering = settings.message_model is MessageModel.CLUSTERING
        self._offsets = offsets
        self._timer = timer
        self._consuming = consuming
        self._on_moved = on_moved
        self._suspend_ms = suspend_ms
        self._pause_after_error_ms = pause_after_error_ms
        self._now_s = now_s
        self._event = AutoResetEvent()
        # Appended to by any thread, taken by the one that pulls.
        self._ready: deque[PulledQueue] = deque()
        self._answered: deque[PulledQueue] = deque()
        self._is_stopping = False
        self._closed_brokers: set[str] = set()
        # The queue that the broker is being asked about.
        self._asked: PulledQueue | None = None
        self._thread = threading.Thread(target=self._loop, name=f"mqstore pull {group}", daemon=True)

    # -- for other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if none can be started."""
        if not start_thread(self._thread):
            raise RuntimeError(f"the thread {self._thread.name!r} cannot be started: end other threads")

    def stop(self, timeout_s: float) -> bool:
        """End the thread after its step; False if that takes longer than `timeout_s`."""
        self._is_stopping = True
        self._event.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def ready(self, pulled: PulledQueue) -> None:
        """Pull from the queue as soon as it may be pulled from."""
        if not pulled.is_ready:
            pulled.is_ready = True
            self._ready.append(pulled)
        self._event.set()

    def has_room(self, pulled: PulledQueue) -> None:
        """Messages of a queue that is held back were worked off: it is ready if that was half of them."""
        queue = pulled.process_queue
        is_half_empty = 2 * queue.message_count <= self.threshold_for_queue
        if is_half_empty and 2 * queue.size_bytes <= self.threshold_size_for_queue:
            pulled.is_held_back = False
            self.ready(pulled)

    # -- in the thread that pulls -----------------------------------------------------------------

    def run_once(self) -> None:
        """Pull until every queue waits: for the broker, for a pause, or for its messages to be worked off."""
        steps, handed_on_s = 0, self._now_s()
        try:
            while (self._answered or self._ready) and not self._is_stopping:
                self._step()
                steps += 1
                if steps % _STEPS_OF_A_TURN == 0 and (now_s := self._now_s()) - handed_on_s >= _HAND_ON_S:
                    handed_on_s = now_s
                    self._consuming.wake()
        finally:
            self._consuming.wake()

    def _step(self) -> None:
        is_answered = bool(self._answered)
        pulled = self._answered.popleft() if is_answered else self._ready.popleft()
        try:
            if is_answered:
                self._take_answer(pulled)
            else:
                pulled.is_ready = False
                if not pulled.is_pulling and self._may_pull(pulled):
                    self._pull(pulled)
        except BaseException as error:
            # An error in one queue must not stop the others.
            pulled.is_pulling = False
            self._fail(pulled, error)
            if not isinstance(error, Exception):
                raise

    def _may_pull(self, pulled: PulledQueue) -> bool:
        queue = pulled.process_queue
        if queue.dropped:
            return False
        queue.last_pull_s = now_s = self._now_s()
        if self.suspended:
            self._again(pulled, _PAUSE_WHEN_SUSPENDED_MS)
        elif self._is_above_threshold(queue):
            self._hold_back(pulled)
        elif pause_ms := self._consuming.pause_ms(pulled):
            self._again(pulled, pause_ms)
        else:
            return not self._is_clustering or self._follow_broker(pulled, now_s)
        return False

    def _hold_back(self, pulled: PulledQueue) -> None:
        pulled.is_held_back = True
        if pulled.is_looked_after:
            # The last look is still to come: messages were worked off before it, and others pulled.
            return

        def look() -> None:
            pulled.is_looked_after = False
            if pulled.is_held_back:
                self.ready(pulled)

        pulled.is_looked_after = True
        self._timer.call_later(_PAUSE_ABOVE_THRESHOLD_MS, look)

    def _is_above_threshold(self, queue: ProcessQueue) -> bool:
        is_too_many = queue.message_count > self.threshold_for_queue
        return is_too_many or queue.size_bytes > self.threshold_size_for_queue

    def _follow_broker(self, pulled: PulledQueue, now_s: float) -> bool:
        """Tell the broker how far the queue is; False if an operator has moved it: it is to begin again."""
        topic, broker_name, queue_id = pulled.queue
        broker = self._brokers[broker_name]
        reset = broker.take_reset_offset(self._group, topic, queue_id)
        if reset is not None:
            self._move(pulled, reset)
            return False
        if now_s - pulled.told_s >= _LEAST_BETWEEN_COMMITS_S:
            consumed = self._offsets.read(pulled.queue)
            if consumed > 0 and consumed != pulled.told_offset:
                broker.update_consumer_offset(self._group, topic, queue_id, consumed)
                pulled.told_offset, pulled.told_s = consumed, now_s
        return True

    def _pull(self, pulled: PulledQueue) -> None:
        topic, broker_name, queue_id = pulled.queue
        offset, subscription = pulled.next_offset, pulled.subscription
        request = PullRequest(
            self._group, topic, queue_id, offset, self._batch_size, subscription, self._suspend_ms
        )
        pulled.is_pulling, pulled.is_held_back = True, False
        callback = pulled.callback
        if callback is None:
            pulled.callback = callback = self._callback_for(pulled)
        self._asked = pulled
        try:
            pulled.cancel = self._brokers[broker_name].pull_later(request, callback)
        finally:
            self._asked = None
        if pulled.process_queue.dropped or self._is_stopping:
            # Whoever did that may have come too early to cancel it.
            pulled.cancel()
        answer = pulled.answer
        if isinstance(answer, PullAnswer) and _is_no_progress(answer, offset):
            pulled.answer = None
            pulled.is_pulling = False
            self._again(pulled, _PAUSE_WITHOUT_PROGRESS_MS)
        else:
            # It is there already, if there was something to pull.
            self._take_answer(pulled)

    def _callback_for(self, pulled: PulledQueue) -> Callable[[PullAnswer | Exception], None]:
        def leave(answer: PullAnswer | Exception) -> None:
            pulled.answer = answer
            # While the broker is asked, whoever asks looks at the answer next.
            if self._asked is not pulled:
                self._answered.append(pulled)
                self._event.set()

        return leave

    def _take_answer(self, pulled: PulledQueue) -> None:
        answer, pulled.answer = pulled.answer, None
        if answer is None:
            return
        pulled.is_pulling = False
        if isinstance(answer, Exception):
            self._fail(pulled, answer)
        elif not pulled.process_queue.dropped:
            pulled.error = None
            self._handle(pulled, answer)

    def _handle(self, pulled: PulledQueue, answer: PullAnswer) -> None:
        if answer.is_illegal:
            self._move(pulled, answer.next_begin_offset)
            return
        if answer.messages:
            self._cache(pulled, answer)
            if self._interval_ms:
                self._again(pulled, self._interval_ms)
                return
        else:
            self._skip(pulled, answer.next_begin_offset)
        if not pulled.is_ready:
            pulled.is_ready = True
            self._ready.append(pulled)

    def _cache(self, pulled: PulledQueue, answer: PullAnswer) -> None:
        messages, size_bytes = answer.messages, answer.size_bytes
        if pulled.is_retry:
            messages = [ReceivedMessage.of(message.record) for message in messages]
        elif may_have_placeholders(messages):
            messages, size_bytes = [each for each in messages if not each.is_placeholder], None
            if not messages:
                self._skip(pulled, answer.next_begin_offset)
                return
        batch = pulled.process_queue.put(messages, answer.next_begin_offset, size_bytes)
        # Last: if the batch cannot be read, the next pull gets it again.
        pulled.next_offset = answer.next_begin_offset
        self._consuming.submit(pulled, batch, answer)

    def _skip(self, pulled: PulledQueue, next_offset: int) -> None:
        """Go on: nothing that was pulled is for the listener."""
        pulled.next_offset = next_offset
        if not pulled.process_queue.message_count:
            self._consuming.skip(pulled, next_offset)

    def _move(self, pulled: PulledQueue, offset: int) -> None:
        """The offset is not in the queue (OFFSET_ILLEGAL), or was reset: what is in memory counts no more."""
        pulled.process_queue.dropped = True
        self._on_moved(pulled, offset)

    def _fail(self, pulled: PulledQueue, error: BaseException) -> None:
        is_known = repr(error) == repr(pulled.error)
        pulled.error = error
        if isinstance(error, StoreClosed):
            # Once for all queues of a broker.
            broker_name = pulled.queue.broker_name
            if not self._is_stopping and broker_name not in self._closed_brokers:
                self._closed_brokers.add(broker_name)
                _logger.warning("group %s pulls no more: %s", self._group, error)
                self._consuming.end(broker_name, error)
            return
        if not is_known:
            _logger.warning(
                "group %s cannot pull from %s at offset %d and will try again: %s",
                self._group,
                pulled.queue,
                pulled.next_offset,
                error,
                exc_info=None if isinstance(error, StoreError) else error,
            )
        is_flow_control = getattr(error, "response_code", None) == _FLOW_CONTROL
        self._again(pulled, _PAUSE_AT_FLOW_CONTROL_MS if is_flow_control else self._pause_after_error_ms)

    def _again(self, pulled: PulledQueue, pause_ms: int) -> None:
        self._timer.call_later(pause_ms, lambda: self.ready(pulled))

    def _loop(self) -> None:
        while not self._is_stopping:
            try:
                self.run_once()
                self._sleep()
            except BaseException:
                _logger.exception("the thread that pulls for group %s goes on after an error", self._group)

    def _sleep(self) -> None:
        """Until there is something to pull; once in between, look whether listeners are behind."""
        if self._answered or self._ready:
            return
        if self._consuming.is_behind:
            if self._event.wait(_LOOK_AGAIN_S):
                return
            self._consuming.look_again()
        self._event.wait(_LONGEST_SLEEP_S)

    def __repr__(self) -> str:
        return f"PullService({self._group!r}, suspended={self.suspended})"


def _is_no_progress(answer: PullAnswer, offset: int) -> bool:
    # The number first: it nearly always says no, and to count messages takes a call.
    return answer.next_begin_offset == offset and not answer.messages and not answer.is_illegal
