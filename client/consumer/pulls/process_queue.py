"""The process queue: the messages of a queue that were pulled and are not done, and what may be committed.

    put     -> a pulled batch, cached in the order of the queue
    remove  -> messages of a batch are done: the offset to commit is that of the first message that is left,
               or the end of what was put when none is left

So the committed offset never passes a message that is not done, whatever the order in which listeners end:

    cached 10 11 12 -> 12 done: commit 10 -> 11 done: commit 10 -> 10 done: commit 13

RocketMQ keeps a tree with a key for each message. Here the unit is the pulled batch: what is left of it is a
bit mask, and whole batches come and go in one step. Batches are pulled one behind the other, so they are in
the order of the queue.

`dropped` is set once, when the queue is taken away from this consumer: results that come later count for
nothing. Whoever drops it sets nothing back.

It does not know what a listener answered (consume_service.py), nor when to pull (pull_service.py).
Threads: any; one lock for each queue. `dropped`, `message_count` and `size_bytes` may be read without it.
Source: docs/spec/client_consume.md section 3; ProcessQueue of Apache RocketMQ.
"""

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from mqstore.index.pull.found_messages import FoundMessages
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import BORN_PORT_POSITION, QUEUE_OFFSET_POSITION
from mqstore.store.threads.lock import Lock

__all__ = ["CachedMessage", "ProcessQueue", "PulledBatch", "may_have_placeholders"]

NOTHING_CACHED = -1
"""What `remove` answers when there was nothing to remove from."""

# Without the other fields of the header, of which nothing is asked here.
_QUEUE_OFFSET = struct.Struct(f">{QUEUE_OFFSET_POSITION}xq")


class PulledBatch:
    """The messages of one pull.

    first_offset: queue offset of the first of all its messages. left: bit i says that message i is not done.
    starts: masks of messages that a listener got, and when.
    """

    __slots__ = ("first_offset", "left", "messages", "size_bytes", "starts")

    def __init__(self, messages: Sequence[StoredMessage], size_bytes: int | None = None) -> None:
        """size_bytes: of their records together, if that is known."""
        self.messages: Sequence[StoredMessage]
        if type(messages) is FoundMessages:
            # They are made when a listener looks at them.
            self.messages = messages
            self.first_offset = messages.first_queue_offset
        else:
            self.messages = messages = tuple(messages)
            self.first_offset = _queue_offset(messages[0])
        self.left = (1 << len(messages)) - 1
        # Of the records that are left.
        self.size_bytes = _size_bytes(messages) if size_bytes is None else size_bytes
        self.starts: list[tuple[int, int]] = []

    def holds(self, index: int) -> bool:
        """Whether message `index` is not done."""
        return bool(self.left >> index & 1)

    @property
    def first_index(self) -> int:
        """The first message that is not done; there is one."""
        return (self.left & -self.left).bit_length() - 1

    @property
    def first_left_offset(self) -> int:
        """Queue offset of the first message that is not done; there is one."""
        return self._offset_at(self.first_index) if not self.left & 1 else self.first_offset

    @property
    def last_left_offset(self) -> int:
        """Queue offset of the last message that is not done; there is one."""
        return self._offset_at(self.left.bit_length() - 1)

    @property
    def last_offset(self) -> int:
        """Queue offset of the last message, done or not."""
        return self._offset_at(len(self.messages) - 1)

    def _offset_at(self, index: int) -> int:
        messages = self.messages
        if type(messages) is FoundMessages:
            return self.first_offset + index
        return _queue_offset(messages[index])

    def start_ms(self, index: int) -> int | None:
        """When a listener last got message `index`, epoch ms; None if none did."""
        times = [start_ms for mask, start_ms in self.starts if mask >> index & 1]
        return times[-1] if times else None

    def __repr__(self) -> str:
        return f"PulledBatch({self.left.bit_count()} of {len(self.messages)} messages left)"


class CachedMessage(NamedTuple):
    """A message by its place in a batch. start_ms: when a listener got it, epoch ms; None: not yet."""

    batch: PulledBatch
    place: int
    message: StoredMessage
    start_ms: int | None


class ProcessQueue:
    """What one queue has in memory.

    message_count, size_bytes: of messages that are not done; bytes are those of their records.
    dropped: the queue is this consumer's no longer. last_pull_s: when a pull was last thought of, by a clock
    that only goes forward.
    """

    def __init__(self) -> None:
        self.message_count = 0
        self.size_bytes = 0
        self.dropped = False
        self.last_pull_s = 0.0
        self._lock = Lock()
        # All of these under the lock. A batch that is done leaves with those before it.
        self._batches: deque[PulledBatch] = deque()
        # Of the last message that was ever put, and what to commit when it is done (queueOffsetMax + 1).
        self._last_offset = 0
        self._end_offset = 0

    def put(
        self, messages: Sequence[StoredMessage], next_begin_offset: int, size_bytes: int | None = None
    ) -> PulledBatch:
        """Cache what a pull has found; at least one message.

        next_begin_offset: where the pull says to go on. The singles of an inner batch may have offsets behind
        it, that other messages have as well: those are never committed past. size_bytes: of the records
        together, if that is known.
        """
        batch = PulledBatch(messages, size_bytes)
        last_offset = batch.last_offset
        with self._lock:
            self._batches.append(batch)
            self._last_offset = last_offset
            self._end_offset = min(last_offset + 1, next_begin_offset)
            self.message_count += len(batch.messages)
            self.size_bytes += batch.size_bytes
        return batch

    def remove(self, batch: PulledBatch, mask: int) -> int:
        """Take out the messages of `mask`: they are done. Returns the offset to commit.

        That is NOTHING_CACHED (-1) if nothing was cached. Messages that are gone already are passed over.
        """
        with self._lock:
            batches = self._batches
            if not batches:
                return NOTHING_CACHED
            self._take_out(batch, batch.left & mask)
            self._forget_done()
            if not batches:
                return self._end_offset
            return batches[0].first_left_offset

    def _take_out(self, batch: PulledBatch, gone: int) -> None:
        self.message_count -= gone.bit_count()
        if gone == batch.left:
            self.size_bytes -= batch.size_bytes
            # It may wait for batches before it; its messages need not.
            batch.messages = ()
            batch.left = batch.size_bytes = 0
        else:
            size_bytes = sum([_record_bytes(batch.messages[index]) for index in _indexes(gone)])
            self.size_bytes -= size_bytes
            batch.size_bytes -= size_bytes
            batch.left ^= gone

    def _forget_done(self) -> None:
        batches = self._batches
        while batches and not batches[0].left:
            batches.popleft()

    def first(self) -> CachedMessage | None:
        """The first message that is not done; None without one."""
        with self._lock:
            if not self._batches:
                return None
            batch = self._batches[0]
            index = batch.first_index
            return CachedMessage(batch, index, batch.messages[index], batch.start_ms(index))

    def remove_first(self, cached: CachedMessage) -> None:
        """Take the message out if it is still the first one. Nothing is to be committed for that."""
        with self._lock:
            is_first = bool(self._batches) and self._batches[0] is cached.batch
            if is_first and cached.batch.first_index == cached.place:
                self._take_out(cached.batch, 1 << cached.place)
                self._forget_done()

    def max_span(self) -> int:
        """Offset of the last message less that of the first; 0 for fewer than two."""
        with self._lock:
            if not self._batches:
                return 0
            # Those behind may be done before those in front.
            last = next(batch for batch in reversed(self._batches) if batch.left)
            return last.last_left_offset - self._batches[0].first_left_offset

    def is_wider_than(self, span: int) -> bool:
        """Whether `max_span` is greater."""
        try:
            # Done or not: what is left lies between the two.
            widest = self._last_offset - self._batches[0].first_offset
        except IndexError:
            return False
        return widest > span and self.max_span() > span

    def __repr__(self) -> str:
        state = ", dropped" if self.dropped else ""
        return f"ProcessQueue({self.message_count} messages, {self.size_bytes} bytes{state})"


def _queue_offset(message: StoredMessage) -> int:
    return cast("int", _QUEUE_OFFSET.unpack_from(message.data, message.start)[0])


def _record_bytes(message: StoredMessage) -> int:
    return message.stop - message.start


def _size_bytes(messages: Sequence[StoredMessage]) -> int:
    return sum([message.stop - message.start for message in messages])


def _indexes(mask: int) -> Iterator[int]:
    """The bits that are set, the lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def may_have_placeholders(messages: Sequence[StoredMessage]) -> bool:
    """False where a byte of each record says that it is none, as it does but for one producer in 256."""
    if type(messages) is FoundMessages:
        return messages.has_byte(BORN_PORT_POSITION, 0)
    return 0 in [message.data[message.start + BORN_PORT_POSITION] for message in messages]
