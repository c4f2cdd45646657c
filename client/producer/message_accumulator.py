"""The message accumulator: single sends of several threads, put together to batches (auto_batch).

A group is of one topic, queue, wait flag and tag. It is sent when its bodies have more than
`batch_max_bytes`, by the caller that brought the last of them, or when it is `batch_max_delay_ms` old: a
SYNC group by the caller that began it, an asynchronous one by a thread of the accumulator. Every caller
gets its own part of the result, or the error of the batch.

A message goes alone if it may not be in a batch (a delay, a retry topic, a transaction), if it is as large
as a batch, or if `total_batch_max_bytes` wait already.
Threads: any. Durability: as the result says.
Source: docs/spec/client_produce.md section 5; ProduceAccumulator of Apache RocketMQ.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, NamedTuple, TypeAlias

from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import ClientError
from mqstore.client.producer.message.message_batch import is_delayed
from mqstore.client.producer.message.outgoing import with_unique_key
from mqstore.client.producer.send_result import BatchSendResult, SendResult
from mqstore.client.producer.sends.async_send import SendFuture
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import is_retry_topic
from mqstore.store.record.properties_format import PRODUCER_GROUP
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.service import Service

__all__ = ["MessageAccumulator"]

SendBatch: TypeAlias = Callable[[list[Message], MessageQueue | None], BatchSendResult]
SendBatchAsync: TypeAlias = Callable[[list[Message], MessageQueue | None], SendFuture[BatchSendResult]]
_NEVER_S: Final = 1e9


class _Key(NamedTuple):
    """What the messages of a group have in common."""

    topic: str
    queue: MessageQueue | None
    waits: bool
    tags: str | None


class _Group:
    """Messages that are sent together. Written under the accumulator's lock until it is closed."""

    __slots__ = ("begun_s", "closing", "futures", "is_closed", "key", "messages", "size_bytes")

    def __init__(self, key: _Key, begun_s: float) -> None:
        self.key = key
        self.begun_s = begun_s
        self.messages: list[Message] = []
        # One for each message.
        self.futures: list[SendFuture[SendResult]] = []
        self.size_bytes = 0
        # Whoever closes it sends it. The event is for the caller that began it.
        self.is_closed = False
        self.closing = AutoResetEvent()

    def add(self, message: Message, future: SendFuture[SendResult], size_bytes: int) -> int:
        """Add a message; the bytes of all bodies so far."""
        self.messages.append(message)
        self.futures.append(future)
        self.size_bytes += size_bytes
        return self.size_bytes

    def close(self) -> None:
        """Let no message more in."""
        self.is_closed = True
        self.closing.set()

    def settle(self, sent: "Future[BatchSendResult]") -> None:
        """Give each caller its part."""
        error = sent.exception()
        if error is not None:
            for future in self.futures:
                future.set_exception(error)
            return
        for future, result in zip(self.futures, sent.result().each, strict=True):
            future.set_result(result)


class MessageAccumulator:
    """The groups of one producer that wait."""

    def __init__(self, parts: SendParts, send_batch: SendBatch, send_batch_async: SendBatchAsync) -> None:
        settings = parts.settings
        self._parts = parts
        self._send_batch = send_batch
        self._send_batch_async = send_batch_async
        self._max_delay_s = settings.batch_max_delay_ms / 1000
        self._max_bytes = settings.batch_max_bytes
        self._total_max_bytes = settings.total_batch_max_bytes
        self._lock = Lock()
        # Bytes of bodies that wait or are being sent.
        self._total_bytes = 0
        self._groups: dict[_Key, _Group] = {}
        self._async_groups: dict[_Key, _Group] = {}
        period_ms = max(1, settings.batch_max_delay_ms // 2)
        self._service = Service("producer-accumulator", period_ms, self.send_old)
        self._has_thread = False
        self._is_closed = False

    def send(self, message: Message, queue: MessageQueue | None) -> SendResult | None:
        """Send it in a group, and wait; None, and nothing is sent, if it must go alone.

        Raises as `Producer.send_batch`.
        """
        joined = self._join(self._groups, message, queue)
        if joined is None:
            return None
        group, future = joined
        # The one that began it sees that it is not kept too long.
        if future is group.futures[0] and not group.closing.wait(self._max_delay_s):
            self._send_if_open(group)
        return future.result()

    def send_async(self, message: Message, queue: MessageQueue | None) -> SendFuture[SendResult] | None:
        """As `send`, without waiting; the future has what is wrong with the message."""
        try:
            joined = self._join(self._async_groups, message, queue)
        except StoreError as error:
            refused: SendFuture[SendResult] = SendFuture()
            refused.set_exception(error)
            return refused
        if joined is None:
            return None
        if not self._has_thread:
            self._start()
        return joined[1]

    def send_old(self, age_s: float | None = None) -> None:
        """Send the asynchronous groups that are old enough."""
        now_s = self._parts.timer()
        least_s = self._max_delay_s if age_s is None else age_s
        for group in list(self._async_groups.values()):
            if now_s - group.begun_s >= least_s and self._close(self._async_groups, group):
                self._send_async(group)

    def close(self) -> None:
        """Send what waits, and end the thread. Messages go alone from then on."""
        with self._lock:
            self._is_closed = True
        self._service.stop()
        self.send_old(-_NEVER_S)

    # -- inside ---------------------------------------------------------------------------------------

    def _join(
        self, groups: dict[_Key, _Group], message: Message, queue: MessageQueue | None
    ) -> tuple[_Group, SendFuture[SendResult]] | None:
        """Add a message to its group, and send that if it is large enough; None if it must go alone."""
        self._parts.check(message)
        size_bytes = len(message.body)
        if size_bytes > self._max_bytes or not _may_be_in_a_batch(message):
            return None
        message, _ = with_unique_key(message, self._parts.ids)
        key = _Key(message.topic, queue, message.wait_store_msg_ok, message.tags)
        future: SendFuture[SendResult] = SendFuture()
        # It may be sent at any moment from here on.
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._is_closed or self._total_bytes >= self._total_max_bytes:
                return None
            self._total_bytes += size_bytes
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group(key, self._parts.timer())
            is_full = group.add(message, future, size_bytes) > self._max_bytes
            if is_full:
                del groups[key]
                group.close()
        if is_full:
            send = self._send if groups is self._groups else self._send_async
            send(group)
        return group, future

    def _close(self, groups: dict[_Key, _Group], group: _Group) -> bool:
        """Let no message more into a group; False if another thread has done so, which sends it."""
        with self._lock:
            if group.is_closed:
                return False
            del groups[group.key]
            group.close()
            return True

    def _send_if_open(self, group: _Group) -> None:
        if self._close(self._groups, group):
            self._send(group)

    def _send(self, group: _Group) -> None:
        sent: Future[BatchSendResult] = Future()
        try:
            sent.set_result(self._send_batch(group.messages, group.key.queue))
        except Exception as error:  # noqa: BLE001 - it belongs to the futures
            sent.set_exception(error)
        except BaseException:
            # An interrupt is for this thread; the others must not wait for ever.
            sent.set_exception(ClientError("the thread that sent a batch for others was interrupted"))
            raise
        finally:
            self._end(group, sent)

    def _send_async(self, group: _Group) -> None:
        try:
            sent: Future[BatchSendResult] = self._send_batch_async(group.messages, group.key.queue)
        except Exception as error:  # noqa: BLE001 - it belongs to the futures
            sent = Future()
            sent.set_exception(error)
        sent.add_done_callback(lambda done: self._end(group, done))

    def _end(self, group: _Group, sent: "Future[BatchSendResult]") -> None:
        with self._lock:
            self._total_bytes -= group.size_bytes
        group.settle(sent)

    def _start(self) -> None:
        with self._lock:
            if not self._has_thread:
                self._service.start()
                self._has_thread = True

    def __repr__(self) -> str:
        waiting = sum(len(group.messages) for group in (*self._groups.values(), *self._async_groups.values()))
        return f"MessageAccumulator(waiting={waiting}, bytes={self._total_bytes})"


def _may_be_in_a_batch(message: Message) -> bool:
    """Whether it has no delay, no retry topic, and no producer group (of a transaction)."""
    try:
        return not (
            is_delayed(message) or is_retry_topic(message.topic) or PRODUCER_GROUP in message.properties
        )
    except (TypeError, AttributeError):
        return False  # alone, it is told what is wrong
