"""The push consumer: hands the messages of its topics to a listener and sends back what failed.

It is RocketMQ's clustering concurrent consumer, embedded: no network, the store is called directly.
Besides its topics it always consumes `%RETRY%group`, where messages that it sent back arrive again. One pull
takes one step through a queue:

    get_message -> listener, batch by batch -> send back what failed -> commit the offset

A message is done only when the listener succeeded or its copy for the retry is stored. The offset is
committed after that, never before, so a crash repeats messages and loses none. A send-back that fails
stops the queue there; the next pull begins with that message again.

It does not decide how late a retry comes or when a message is dead (schedule/retry/send_back.py), nor which
records match a subscription (index/pull/message_reader.py).

Threads: `run_once` by one thread at a time. `start` makes a thread that calls it; `stop` ends it after
the current batch.
Durability: offsets are as durable as `store.consumer_offsets` makes them.
Source: docs/spec/client_consume.md; DefaultMQPushConsumerImpl, ConsumeMessageConcurrentlyService.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mqstore.client.consumer.consume_from_where import ConsumeFromWhere, first_offset
from mqstore.client.consumer.listener import ConsumeContext, ConsumeStatus
from mqstore.client.consumer.received_message import ReceivedMessage
from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.message_store import MessageStore
from mqstore.metadata.topics import MAX_QUEUE_NUMS
from mqstore.store.errors import StoreClosed, StoreError
from mqstore.store.message import topic_names
from mqstore.store.status import GetMessageStatus, ResponseCode
from mqstore.store.threads.auto_reset_event import AutoResetEvent

__all__ = ["DEFAULT_MAX_RECONSUME_TIMES", "MessageListener", "PushConsumer", "SendBackRefused"]

DEFAULT_MAX_RECONSUME_TIMES = 16
"""Sent by a classic client with each send-back; it overrides `retry_max_times` of the group."""

_LOGGER = logging.getLogger(__name__)

_PAUSE_AFTER_ERROR_SECONDS = 3.0
_PAUSE_WHEN_IDLE_SECONDS = 0.02

MessageListener = Callable[[Sequence[ReceivedMessage], ConsumeContext], ConsumeStatus | None]
"""Consumes a batch. RECONSUME_LATER, None and an exception all send it back."""

# A broker answers these with PULL_OFFSET_MOVED: the offset is not in the queue; continue at the one given.
_OFFSET_MOVED = frozenset(
    {
        GetMessageStatus.OFFSET_TOO_SMALL,
        GetMessageStatus.OFFSET_OVERFLOW_BADLY,
        GetMessageStatus.NO_MESSAGE_IN_QUEUE,
        GetMessageStatus.NO_MATCHED_LOGIC_QUEUE,
    }
)


class SendBackRefused(StoreError):
    """The store did not take a failed message back; it will be handed out again."""

    def __init__(self, group: str, physical_offset: int, code: ResponseCode) -> None:
        super().__init__(
            f"group {group!r} could not send back the message at physical offset {physical_offset}: "
            f"{code.name} ({code.value})"
        )
        self.group = group
        self.physical_offset = physical_offset
        self.code = code


class QueueKey(NamedTuple):
    """One queue of one topic."""

    topic: str
    queue_id: int


class PushConsumer:
    """Consumes for `group` what `subscriptions` name: topic -> tags, `*` or `TagA || TagB`.

    A listener that raises is logged, as a warning of this module's logger, and its batch sent back.

    max_reconsume_times: retries before a message is a dead letter. consume_message_batch_max_size:
    messages in one call of the listener, which fail or succeed together. pull_batch_size: messages in
    one pull. consume_from_where, consume_timestamp_ms: where a new group begins (consume_from_where.py).
    """

    def __init__(
        self,
        store: MessageStore,
        group: str,
        subscriptions: Mapping[str, str],
        listener: MessageListener,
        *,
        max_reconsume_times: int = DEFAULT_MAX_RECONSUME_TIMES,
        consume_message_batch_max_size: int = 1,
        pull_batch_size: int = 32,
        consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        consume_timestamp_ms: int = 0,
    ) -> None:
        """Raises GroupIllegal, SubscriptionGroupNotExist, SubscriptionIllegal.

        ValueError: a size is below 1.
        """
        if consume_message_batch_max_size < 1 or pull_batch_size < 1:
            raise ValueError("consume_message_batch_max_size and pull_batch_size must be at least 1")
        for expression in subscriptions.values():
            parse_subscription(expression)
        store.subscription_groups.find(group)
        self.group = group
        self._store = store
        self._subscriptions = {**subscriptions, topic_names.retry_topic(group): "*"}
        self._listener = listener
        self._max_reconsume_times = max_reconsume_times
        self._batch_size = consume_message_batch_max_size
        self._pull_batch_size = pull_batch_size
        self._consume_from_where = consume_from_where
        self._consume_timestamp_ms = consume_timestamp_ms
        # Written by the thread in run_once.
        self._next_offsets: dict[QueueKey, int] = {}
        # Written by `stop`; the event ends a pause.
        self._is_stopping = False
        self._event = AutoResetEvent()
        self._thread: threading.Thread | None = None
        self.last_error: Exception | None = None
        """The error for which the thread of `start` pauses or has ended; None without one."""

    def __repr__(self) -> str:
        return f"<PushConsumer of {self.group!r} on {sorted(self._subscriptions)}>"

    # -- one round --------------------------------------------------------------------------------

    def run_once(self) -> int:
        """Pull once from every queue; the number of messages handed to the listener.

        Raises StoreError when the store refuses a pull or a send-back: the first error, after all
        queues were tried. Then, and when the listener raises a BaseException that is no Exception
        (KeyboardInterrupt), everything finished before is committed.
        """
        handed_out = 0
        first_error: Exception | None = None
        for key in self._queues():
            if self._is_stopping:
                break
            try:
                handed_out += self.pull_once(key.topic, key.queue_id)
            except Exception as error:  # noqa: BLE001 - an error in one queue must not stop the others
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return handed_out

    def _queues(self) -> list[QueueKey]:
        """The queues that exist by now: the retry topic is created by the first send-back."""
        found = ((topic, self._store.topics.get(topic)) for topic in self._subscriptions)
        return [
            QueueKey(topic, queue_id)
            for topic, config in found
            if config is not None and config.is_readable
            for queue_id in range(min(config.read_queue_nums, MAX_QUEUE_NUMS))
        ]

    def pull_once(self, topic: str, queue_id: int) -> int:
        """One step through one queue; the number of messages handed to the listener. Raises as run_once."""
        key = QueueKey(topic, queue_id)
        offset = self._offset(key)
        result = self._store.get_message(
            self.group, topic, queue_id, offset, self._pull_batch_size, self._subscriptions[topic]
        )
        messages = [ReceivedMessage.of(message.record) for message in result.messages]
        handed_out = self._consume(key, messages) if messages else 0
        if handed_out == len(messages):
            # Filtered, removed or missing entries lie between the last message and here; nothing is cached.
            self._advance(key, result.next_begin_offset, may_go_back=result.status in _OFFSET_MOVED)
        return handed_out

    def _offset(self, key: QueueKey) -> int:
        """Where to pull: an operator's reset, this consumer's place, the committed one, or the first."""
        reset = self._store.consumer_offsets.take_reset(self.group, *key)
        if reset is not None:
            self._next_offsets[key] = reset
        elif key not in self._next_offsets:
            self._next_offsets[key] = self._begin(key)
        return self._next_offsets[key]

    def _begin(self, key: QueueKey) -> int:
        committed = self._store.consumer_offsets.query(self.group, *key)
        if committed >= 0:
            return committed
        begin = first_offset(self._store, *key, self._consume_from_where, self._consume_timestamp_ms)
        # Committed at once, so that a restart does not begin at a later end of the queue.
        self._store.consumer_offsets.commit(self.group, *key, begin)
        return begin

    def _advance(self, key: QueueKey, offset: int, *, may_go_back: bool = False) -> None:
        """Pull from `offset` next, and commit it; it moves back only if the queue ends before it."""
        current = self._next_offsets[key]
        if offset > current or (may_go_back and offset != current):
            self._next_offsets[key] = offset
            self._store.consumer_offsets.commit(self.group, *key, offset)

    # -- a batch ----------------------------------------------------------------------------------

    def _consume(self, key: QueueKey, messages: list[ReceivedMessage]) -> int:
        """Hand out the messages batch by batch until `stop`; finished ones are committed in every case.

        Returns how many were handed out.
        """
        done_offset, start = messages[0].queue_offset, 0
        try:
            while start < len(messages) and not self._is_stopping:
                batch = messages[start : start + self._batch_size]
                for message in self._finish_batch(key, batch):
                    done_offset = message.queue_offset + 1
                start += len(batch)
        finally:
            self._advance(key, done_offset)
        return start

    def _finish_batch(self, key: QueueKey, batch: list[ReceivedMessage]) -> Iterator[ReceivedMessage]:
        """Yield each message of the batch once it is acknowledged or stored for its retry."""
        context = ConsumeContext(*key)
        acknowledged = context.acknowledged_count(self._call_listener(batch, context), len(batch))
        yield from batch[:acknowledged]
        for message in batch[acknowledged:]:
            self._send_back(message, context.delay_level_when_next_consume)
            yield message

    def _call_listener(self, batch: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        try:
            return self._listener(batch, context) or ConsumeStatus.RECONSUME_LATER
        except Exception:
            _LOGGER.warning("the listener of group %s failed on %s", self.group, batch[0], exc_info=True)
            return ConsumeStatus.RECONSUME_LATER

    def _send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        result = self._store.consumer_send_msg_back(
            self.group,
            message.physical_offset,
            delay_level,
            max_reconsume_times=self._max_reconsume_times,
        )
        if result.response_code is not ResponseCode.SUCCESS:
            raise SendBackRefused(self.group, message.physical_offset, result.response_code)

    # -- a thread of its own ----------------------------------------------------------------------

    def start(self) -> None:
        """Run in a thread until `stop`, or until the store is closed.

        An error is kept in `last_error` and pauses the thread for 3 s.
        """
        if self._is_stopping:
            self.stop()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name=f"consumer-{self.group}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread once its batch is done, and wait for it; a listener that calls this need not."""
        self._is_stopping = True
        self._event.set()
        if self._thread is threading.current_thread():
            return
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._is_stopping = False

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                handed_out = self.run_once()
                self.last_error = None
            except StoreClosed as error:
                self.last_error = error
                return
            except Exception as error:  # noqa: BLE001 - a round that fails must not end the thread
                self.last_error = error
                self._event.wait(_PAUSE_AFTER_ERROR_SECONDS)
                continue
            if not handed_out:
                self._event.wait(_PAUSE_WHEN_IDLE_SECONDS)
