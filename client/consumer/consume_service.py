"""The concurrent consume service: calls the listener on many threads, and does what its answer says.

    submit -> requests of consume_message_batch_max_size -> a thread -> listener -> its answer:

    CONSUME_SUCCESS    the messages up to ack_index are done, those after it are sent back
    RECONSUME_LATER    all are sent back; an exception, and a wrong answer, count as this
    BROADCASTING       what is not done is logged and dropped
    sent back          done: it comes again through %RETRY%group (send_back.py)
    could not be       that message alone comes again from memory after 5 s, with one reconsume time more

What is done leaves the process queue, and the offset that it then says is noted. If the queue was taken away
meanwhile nothing counts: the messages come again, perhaps elsewhere. A message that a listener has had for
consume_timeout is sent back by `clean_expired`, when it is the first of its queue, and holds the queue up no
more.

It pulls nothing (pull_service.py) and persists no offset.
Its threads: listening_service.py. `submit` is called by the one that pulls, `clean_expired` by the timer's.
Source: docs/spec/client_consume.md section 4; ConsumeMessageConcurrentlyService. Its CONSUME_START_TIME, a
property of each message, is kept with the batch here.
"""

import logging
from collections.abc import Sequence

from mqstore.broker.broker import MessageModel, PullAnswer
from mqstore.client.consumer.consume_hooks import ConsumeHooks, ConsumeMessageContext, return_type
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import (
    ALL_ACKNOWLEDGED,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    RegisteredConcurrentListener,
)
from mqstore.client.consumer.listening_service import ListeningService
from mqstore.client.consumer.pulls.process_queue import PulledBatch
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.pulls.received_message import ReceivedMessage, in_words
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.store.clock import Clock
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.timer import Timer

__all__ = ["ConcurrentConsumeService", "ConsumeRequest"]

_logger = logging.getLogger(__name__)

_AGAIN_MS = 5_000
_PAUSE_AT_SPAN_MS = 50
_EXPIRED_DELAY_LEVEL = 3
_MOST_EXPIRED = 16
_MINUTE_MS = 60_000


class ConsumeRequest:
    """One call of the listener: messages of a batch, and where in it they stand."""

    __slots__ = ("batch", "indexes", "mask", "max_offset", "messages", "min_offset", "pulled")

    def __init__(
        self,
        pulled: PulledQueue,
        batch: PulledBatch,
        indexes: Sequence[int],
        mask: int,
        messages: Sequence[StoredMessage],
        min_offset: int,
        max_offset: int,
    ) -> None:
        self.pulled = pulled
        self.batch = batch
        self.indexes = indexes
        self.mask = mask
        self.messages = messages
        self.min_offset = min_offset
        self.max_offset = max_offset

    def __repr__(self) -> str:
        first = self.messages[0]
        return f"{len(self.messages)} messages of {self.pulled.queue!r} from {first!r} on"


class ConcurrentConsumeService(ListeningService[ConsumeRequest]):
    """Consumes for one consumer. hooks: called around the listener."""

    def __init__(
        self,
        group: str,
        settings: ConsumerSettings,
        listener: RegisteredConcurrentListener,
        offsets: OffsetStore,
        send_back: SendBack,
        timer: Timer,
        clock: Clock,
        hooks: ConsumeHooks,
    ) -> None:
        super().__init__(group, settings, offsets, timer)
        self._batch_size = settings.consume_message_batch_max_size
        self._max_span = settings.consume_concurrently_max_span
        self._timeout_ms = settings.consume_timeout * _MINUTE_MS
        self._is_broadcasting = settings.message_model is MessageModel.BROADCASTING
        self._listener = listener
        self._send_back = send_back
        self._clock = clock
        self._hooks = hooks

    # -- taking messages --------------------------------------------------------------------------

    def pause_ms(self, pulled: PulledQueue) -> int:
        """50 if the messages in memory are too far apart: one of them may be held up for long."""
        return _PAUSE_AT_SPAN_MS if pulled.process_queue.is_wider_than(self._max_span) else 0

    def submit(self, pulled: PulledQueue, batch: PulledBatch, answer: PullAnswer) -> None:
        """Have the listener called with a batch, in pieces that are not too large, after `wake`."""
        messages, size = batch.messages, self._batch_size
        min_offset, max_offset = answer.min_offset, answer.max_offset
        count = len(messages)
        if count <= size:
            whole = ConsumeRequest(pulled, batch, range(count), batch.left, messages, min_offset, max_offset)
            self._threads.add(whole)
            return
        for start in range(0, count, size):
            stop = min(start + size, count)
            self._threads.add(
                ConsumeRequest(
                    pulled,
                    batch,
                    range(start, stop),
                    (1 << stop) - (1 << start),
                    messages[start:stop],
                    min_offset,
                    max_offset,
                )
            )

    # -- a request --------------------------------------------------------------------------------

    def run(self, request: ConsumeRequest) -> None:
        """Call the listener and do what its answer says. What the listener raises does not come out."""
        pulled = request.pulled
        if pulled.process_queue.dropped:
            return
        start_ms = self._clock.now_ms()
        request.batch.starts.append((request.mask, start_ms))
        context = ConsumeConcurrentlyContext(pulled.queue, request.min_offset, request.max_offset)
        if self._hooks.hooks:
            status = self._call_with_hooks(request, context, start_ms)
        else:
            status, _ = self._call(request, context)
        if pulled.process_queue.dropped:
            _logger.info("%r was taken away while a listener had messages: they come again", pulled.queue)
            return
        if status is ConsumeConcurrentlyStatus.CONSUME_SUCCESS and context.ack_index == ALL_ACKNOWLEDGED:
            self._finish(pulled, request.batch, request.mask)
        else:
            self._process_result(request, context, status or ConsumeConcurrentlyStatus.RECONSUME_LATER)

    def _call(
        self, request: ConsumeRequest, context: ConsumeConcurrentlyContext
    ) -> tuple[ConsumeConcurrentlyStatus | None, BaseException | None]:
        """What the listener answered, or None and what it raised."""
        try:
            return self._listener(request.messages, context), None
        except BaseException as error:  # noqa: BLE001 - it is logged, with its traceback
            # SystemExit and CancelledError as well: they would end this thread and leave the messages undone.
            queue = request.pulled.queue
            log_event(
                *(
                    _logger,
                    events.LISTENER_FAILED,
                    "the listener of group %s failed on %s",
                    self._group,
                    in_words(request.messages),
                ),
                exc_info=True,
                consumer_group=self._group,
                topic=queue.topic,
                queue_id=queue.queue_id,
            )
            return None, error

    def _call_with_hooks(
        self, request: ConsumeRequest, context: ConsumeConcurrentlyContext, start_ms: int
    ) -> ConsumeConcurrentlyStatus | None:
        seen = ConsumeMessageContext(self._group, request.pulled.queue, request.messages, start_ms)
        self._hooks.before(seen)
        status, error = self._call(request, context)
        elapsed_ms = self._clock.now_ms() - start_ms
        seen.elapsed_ms, seen.error = elapsed_ms, error
        seen.return_type = return_type(
            status, has_raised=error is not None, elapsed_ms=elapsed_ms, timeout_ms=self._timeout_ms
        )
        seen.status = status or ConsumeConcurrentlyStatus.RECONSUME_LATER
        self._hooks.after(seen)
        return status

    def _process_result(
        self,
        request: ConsumeRequest,
        context: ConsumeConcurrentlyContext,
        status: ConsumeConcurrentlyStatus,
    ) -> None:
        count = len(request.messages)
        acknowledged = context.acknowledged_count(status, count)
        done = request.mask
        if acknowledged < count:
            if self._is_broadcasting:
                _logger.warning(
                    "group %s drops %d messages that failed, from %r on: in BROADCASTING nothing comes again",
                    self._group,
                    count - acknowledged,
                    request.messages[acknowledged],
                )
            else:
                done &= ~self._give_back(request, acknowledged, context.delay_level_when_next_consume)
        self._finish(request.pulled, request.batch, done)

    def _give_back(self, request: ConsumeRequest, first: int, delay_level: int) -> int:
        """Send back the messages from `first` on; the mask of those that could not be, and stay."""
        kept = []
        broker_name = request.pulled.queue.broker_name
        for index, message in zip(request.indexes[first:], request.messages[first:], strict=True):
            # Those that expired were sent back before.
            if not request.batch.holds(index):
                continue
            if not self._send_back.send_back(message, delay_level, broker_name):
                kept.append((index, ReceivedMessage.again(message)))
        if not kept:
            return 0
        mask = sum(1 << index for index, _ in kept)
        again = ConsumeRequest(
            request.pulled,
            request.batch,
            [index for index, _ in kept],
            mask,
            tuple(message for _, message in kept),
            request.min_offset,
            request.max_offset,
        )
        self._submit_later(again, _AGAIN_MS)
        return mask

    def _finish(self, pulled: PulledQueue, batch: PulledBatch, done: int) -> None:
        queue = pulled.process_queue
        offset = queue.remove(batch, done)
        if offset >= 0 and not queue.dropped:
            self._offsets.update(pulled.queue, offset, increase_only=True)
        self._have_worked_off(pulled)

    # -- messages that take too long --------------------------------------------------------------

    def clean_expired(self, pulled: PulledQueue) -> None:
        """Send back the first messages of a queue as long as they have expired; nothing is committed."""
        queue = pulled.process_queue
        for _ in range(min(queue.message_count, _MOST_EXPIRED)):
            first = queue.first()
            if first is None or first.start_ms is None or queue.dropped:
                return
            if self._clock.now_ms() - first.start_ms <= self._timeout_ms:
                return
            broker_name = pulled.queue.broker_name
            if not self._send_back.send_back(first.message, _EXPIRED_DELAY_LEVEL, broker_name):
                return
            _logger.warning(
                "group %s has sent back %r: its listener has had it for over %d minutes",
                self._group,
                first.message,
                self._timeout_ms // _MINUTE_MS,
            )
            queue.remove_first(first)

    def __repr__(self) -> str:
        return f"ConcurrentConsumeService({self._group!r}, {self._threads!r})"
