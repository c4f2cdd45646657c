"""The transactions: messages that nobody sees until their producer commits them.

    send_half -> half, open -> end: final and op, or op alone            -> closed
                            -> check: a copy and op, its producer is asked -> open, at another queue offset
                                      after 15 times: given up, and op   -> closed

A half is open until an op names it (half_message.py says how they look on disk). An op is put in one step
with the record that it belongs to: the final, the copy of the half, or the one that is given up. The op comes
last. So a crash may repeat a message, and never loses one. The offsets of the group CID_RMQ_SYS_TRANS only
say where reading begins after a restart: below them everything is closed.

Differences from RocketMQ's broker, which reads such a directory and continues:
- Ops are put at once, not collected for 3 s: after a crash nobody is asked about what was ended.
- An op also names a half that is copied or given up. A half with CHECK_IMMUNITY_TIME_IN_SECONDS
  is carried when it lies far behind; RocketMQ does so with each check.
- The first end of a transaction counts, whichever of its halves it names. RocketMQ delivers the message
  twice if its producer commits after it was asked, and refuses ends after the immunity time to prevent that.
- A producer group without a client is not counted as asked (transaction_checks.py).

Threads: any. Durability: in SYNC_FLUSH what these methods have done is durable when they return.
Source: docs/spec/remoting.md section 9; TransactionalMessageServiceImpl, EndTransactionProcessor.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from mqstore.broker.broker import TransactionState
from mqstore.broker.half_message import HALF_QUEUE_ID, HalfMessage, ended_offsets, final_of, half_of, op_of
from mqstore.broker.open_halves import OpenHalf, OpenHalves
from mqstore.message_store import MessageStore
from mqstore.store.errors import CorruptRecord, MessageNotFound, StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import (
    TRANS_GROUP,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    check_group,
)
from mqstore.store.record.record_format import RecordIllegal, check_record
from mqstore.store.threads.lock import Lock

__all__ = ["TransactionIllegal", "Transactions"]

_logger = logging.getLogger(__name__)

# So many messages are read at a time.
_PAGE: Final = 32
_TOPICS: Final = (TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC)
# Unique key, born time, body CRC, check times: a half that was asked about once more replaces the one before.
_Identity: TypeAlias = tuple[str | None, int, int, int]


class TransactionIllegal(StoreError):
    """There is no such half message of this producer group, so it cannot be ended."""

    def __init__(self, half: PutMessageResult, producer_group: str, reason: str) -> None:
        super().__init__(
            f"producer group {producer_group!r} cannot end the transaction at physical offset "
            f"{half.physical_offset}, queue offset {half.queue_offset}: {reason}"
        )
        self.half = half
        self.producer_group = producer_group


class Transactions:
    """The transactions of one store. open_halves: those that are not ended; `load` reads them."""

    def __init__(self, store: MessageStore) -> None:
        self.open_halves = OpenHalves()
        self._store = store
        self._is_loaded = False
        self._load_lock = Lock()

    def send_half(self, message: Message, producer_group: str) -> PutMessageResult:
        """Store the half of `message`. Raises as `put_message`, and GroupIllegal."""
        check_group(producer_group)
        self.load()
        half = half_of(self._store.check_message(message), producer_group)
        floor = self._store.get_max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)

        def put_half() -> PutMessageResult:
            (put,) = self._store.put_own([half])
            self.open_halves.add(put.queue_offset, OpenHalf(put.physical_offset, (put.queue_offset,)))
            return put

        return self.open_halves.arriving(floor, put_half)

    def end(self, half: PutMessageResult, producer_group: str, state: TransactionState) -> None:
        """Commit or roll back, unless it was ended before; UNKNOW does nothing.

        Raises TransactionIllegal, MessageNotFound, CorruptRecord, and as `put_message`: it is as open as
        before then.
        """
        if state is TransactionState.UNKNOW:
            return
        self.load()
        record = self.half_at(half.physical_offset)
        _refuse_wrong(record, half, producer_group)

        def put_end(queue_offset: int | None) -> None:
            if queue_offset is None:
                _logger.info("%r of producer group %s was ended before", record, producer_group)
            else:
                op = self._put_end(queue_offset, state)
                self.open_halves.close([queue_offset], op.queue_offset)

        self.open_halves.ending(half.queue_offset, put_end)

    def _put_end(self, queue_offset: int, state: TransactionState) -> PutMessageResult:
        opened = self.open_halves.get(queue_offset)
        assert opened is not None, queue_offset
        messages = [op_of(opened.names, self._store.clock.now_ms())]
        if state is TransactionState.COMMIT_MESSAGE:
            messages.insert(0, final_of(self.half_at(opened.physical_offset)))
        return self._store.put_own(messages)[-1]

    def half_at(self, physical_offset: int) -> HalfMessage:
        """The record there, as a half, with its CRCs checked: a copy of it would hide that it is damaged.

        Raises MessageNotFound, CorruptRecord.
        """
        found = self._store.look_message_by_offset(physical_offset)
        if found is None:
            raise MessageNotFound(physical_offset, self._store.min_offset, self._store.max_offset)
        try:
            check_record(found.record, physical_offset)
        except RecordIllegal as illegal:
            path, position = self._store.commit_log.place_of(physical_offset)
            raise CorruptRecord(path, position, illegal.expected, illegal.found) from illegal
        return HalfMessage.of(found.record)

    # -- across restarts --------------------------------------------------------------------------

    def load(self) -> None:
        """Read which halves are open; does nothing the second time. Raises StoreClosed.

        A half that is damaged is open, for the log may be repaired; one whose op is damaged is open again.
        """
        if self._is_loaded:
            return
        with self._load_lock:
            if not self._is_loaded:
                for topic in _TOPICS:
                    self._store.topics.ensure(topic, 1)
                self._read()
                self._is_loaded = True

    def _read(self) -> None:
        closed: set[int] = set()
        ops: dict[int, int] = {}
        op_progress = self._first_offset(TRANS_OP_HALF_TOPIC)
        for queue_offset, op in self._messages(TRANS_OP_HALF_TOPIC, op_progress):
            ended = ended_offsets(op) if op is not None else []
            closed.update(ended)
            ops[queue_offset] = max(ended, default=-1)
        found = _FoundHalves(closed)
        for queue_offset, message in self._messages(TRANS_HALF_TOPIC, self._first_offset(TRANS_HALF_TOPIC)):
            if message is not None:
                found.add(HalfMessage.of(message.record))
            else:
                place = self._store.get_commit_log_offset_in_queue(
                    TRANS_HALF_TOPIC, HALF_QUEUE_ID, queue_offset
                )
                found.add_damaged(queue_offset, place)
        self.open_halves.load(found.halves, ops, op_progress)

    def _first_offset(self, topic: str) -> int:
        committed = self._store.consumer_offsets.query(TRANS_GROUP, topic, HALF_QUEUE_ID)
        return max(committed, self._store.get_min_offset_in_queue(topic, HALF_QUEUE_ID))

    def _messages(self, topic: str, offset: int) -> Iterator[tuple[int, StoredMessage | None]]:
        """The messages of a queue with their queue offsets; None where the log is damaged."""
        max_nums = _PAGE
        while True:
            try:
                messages, next_offset = self._page(topic, offset, max_nums)
            except CorruptRecord as damage:
                if max_nums == 1:
                    _logger.warning("a record of transactions is damaged: %s", damage)
                    yield offset, None
                    offset += 1
                # One by one up to the damaged one, and page by page behind it.
                max_nums = 1 if max_nums > 1 else _PAGE
                continue
            for message in messages:
                yield message.queue_offset, message
            if next_offset <= offset:
                return
            offset = next_offset

    def _page(self, topic: str, offset: int, max_nums: int) -> tuple[Sequence[StoredMessage], int]:
        """Some messages, and where the next begin. Raises CorruptRecord."""
        found = self._store.get_message(TRANS_GROUP, topic, HALF_QUEUE_ID, offset, max_nums)
        for message in found.messages:
            check_record(message.record, message.physical_offset)
        return found.messages, found.next_begin_offset

    def save_progress(self) -> None:
        """Commit up to where everything is closed, once that is durable; nothing before `load`.

        Raises StoreClosed, and as `flush`.
        """
        if not self._is_loaded:
            return
        end = self._store.get_max_offset_in_queue(TRANS_HALF_TOPIC, HALF_QUEUE_ID)
        progress = dict(zip(_TOPICS, self.open_halves.progress(end), strict=True))
        offsets = self._store.consumer_offsets
        known = {topic: offsets.query(TRANS_GROUP, topic, HALF_QUEUE_ID) for topic in _TOPICS}
        if progress == known:
            return
        # A power cut must not keep this and lose the ops, or the copies of halves, that it relies on.
        if self._store.commit_log.flushed_offset < self._store.max_offset:
            self._store.flush()
        for topic, offset in progress.items():
            offsets.commit(TRANS_GROUP, topic, HALF_QUEUE_ID, offset)

    def __repr__(self) -> str:
        return f"Transactions({len(self.open_halves)} open)"


class _FoundHalves:
    """The open halves of a queue that is read from its start. closed: the queue offsets that ops name.

    A half that stands for another one takes its place: a crash may have kept both.
    """

    def __init__(self, closed: set[int]) -> None:
        self.halves: dict[int, OpenHalf] = {}
        self._closed = closed
        # Queue offsets by name, and the newest by what all halves of one message have in common.
        self._by_name: dict[int, int] = {}
        self._by_identity: dict[_Identity, int] = {}

    def add(self, half: HalfMessage) -> None:
        """The next one of the queue."""
        known = half.first_queue_offset
        names = (half.queue_offset,) if known is None else (known, half.queue_offset)
        if not self._closed.isdisjoint(names):
            return
        before = self.halves.pop(self._offset_before(half), None)
        if before is not None:
            names = tuple(dict.fromkeys((*before.names, *names)))
        self.halves[half.queue_offset] = OpenHalf(half.physical_offset, names)
        self._by_name |= dict.fromkeys(names, half.queue_offset)
        if half.unique_key:
            self._by_identity[_identity(half, half.check_times)] = half.queue_offset

    def add_damaged(self, queue_offset: int, physical_offset: int) -> None:
        """The next one of the queue, of which nothing is known."""
        if queue_offset not in self._closed:
            self.halves[queue_offset] = OpenHalf(physical_offset, (queue_offset,))

    def _offset_before(self, half: HalfMessage) -> int:
        """The queue offset of the half that it stands for; -1 if there is none."""
        if half.first_queue_offset is not None:
            return self._by_name.get(half.first_queue_offset, -1)
        return self._by_identity.pop(_identity(half, half.check_times - 1), -1)


def _identity(half: HalfMessage, check_times: int) -> _Identity:
    return half.unique_key, half.born_timestamp, half.body_crc, check_times


def _refuse_wrong(record: HalfMessage, half: PutMessageResult, producer_group: str) -> None:
    """EndTransactionProcessor#checkPrepareMessage."""
    if record.stored_topic != TRANS_HALF_TOPIC or not record.is_sound:
        reason = f"there is {record!r}, which is no half message"
    elif record.queue_offset != half.queue_offset:
        reason = f"the half message there has queue offset {record.queue_offset}"
    elif record.producer_group != producer_group:
        reason = f"it is of producer group {record.producer_group!r}"
    else:
        return
    raise TransactionIllegal(half, producer_group, reason)
