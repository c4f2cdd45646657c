"""The pull: messages of one queue from an entry on, and what to ask for next in every case.

The statuses and their next offsets are RocketMQ's, so a client that follows `next_begin_offset` always gets
on. Entries come from consume_queue.py, records from store/log/commit_log.py; both are views of mapped files.

It does not wait for messages (mqstore/put/arrivals.py), dispatch what was just written (dispatcher.py), know
where a group stands (mqstore/metadata/consumer_offsets.py) or whether a topic exists
(mqstore/metadata/topics.py).

A queue to which nothing was ever put is an empty one, as in RocketMQ, which creates it on the spot.
Difference from DefaultMessageStore#getMessage: the limits for messages in memory apply to all messages, for
nobody can tell here what is in memory.

Threads: any; no lock is taken. A file that retention deletes meanwhile stays readable to the end of a call
and as long as its messages are held.
"""

import struct
from itertools import repeat

import msgspec
import numpy as np

from mqstore.index.pull.tag_filter import ALL_TAGS, TagFilter, parse_subscription
from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, ENTRY_BYTES
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.store.config import StoreConfig
from mqstore.store.errors import CorruptRecord
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.inner_batch import is_inner_batch, single_messages
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION, RecordIllegal
from mqstore.store.record.sys_flag import INNER_BATCH
from mqstore.store.status import GetMessageStatus

__all__ = ["GetMessageResult", "MessageReader"]

# Below that many messages a compiled loop gains nothing, and need not be loaded.
_FEW = 4
# Size, physical offset and, right behind it, the sys flag, as a record itself states them.
_STATED = struct.Struct(f">i{PHYSICAL_OFFSET_POSITION - 4}xqi")


class GetMessageResult(msgspec.Struct, frozen=True):
    """What a pull found. `next_begin_offset` is what to ask for next, whatever the status.

    min_offset, max_offset: of the queue. messages: in queue order; they lend views of the log.
    buffer_total_size: bytes of their records together.
    """

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]
    buffer_total_size: int = 0


class MessageReader:
    """Answers pulls from the queues and the log of one store."""

    def __init__(self, commit_log: CommitLog, consume_queues: ConsumeQueueStore, config: StoreConfig) -> None:
        self._commit_log = commit_log
        self._consume_queues = consume_queues
        self._segment_bytes = config.mapped_file_size_commit_log
        self._max_bytes = config.max_transfer_bytes_on_message_in_memory
        self._max_count = config.max_transfer_count_on_message_in_memory
        self._max_filter_bytes = config.max_filter_message_size

    def get_message(
        self, group: str, topic: str, queue_id: int, offset: int, max_msg_nums: int = 32, tags: str = ALL_TAGS
    ) -> GetMessageResult:
        """Messages of a queue from entry `offset` on.

        group: who asks; it makes no difference to the answer. max_msg_nums: at most so many (and at most
        max_transfer_count_on_message_in_memory, and so many bytes; at least one if there is one).
        tags: `*`, or tags separated by `||`. Raises SubscriptionIllegal, and CorruptRecord when an entry
        points at bytes that are not its record.
        """
        tag_filter = parse_subscription(tags)
        queue = self._consume_queues.find(topic, queue_id)
        if queue is None:
            return GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [])
        # A reader beside a live writer may see entries of records that lie behind its end of the log.
        min_offset, max_offset = queue.min_offset, queue.end_below(self._commit_log.visible_offset)
        refused = _outside(offset, min_offset, max_offset)
        if refused is not None:
            status, next_begin_offset = refused
            return GetMessageResult(status, next_begin_offset, min_offset, max_offset, [])
        # Examined at most, filtered or not; the first file ends it too.
        count = max(-(-self._max_filter_bytes // ENTRY_BYTES), max_msg_nums)
        entries = queue.view_from(offset, min(count, max_offset - offset))
        if not entries:
            return _gone(queue, offset, max_offset)
        status, examined, messages, total_bytes = self._scan(entries, tag_filter, max_msg_nums)
        return GetMessageResult(status, offset + examined, min_offset, max_offset, messages, total_bytes)

    def get_from_log(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        max_msg_nums: int,
        tags: str,
        dispatched_offset: int,
    ) -> GetMessageResult:
        """As `get_message`, where the disk has no room for all entries: those it lacks come from the log."""
        first_offset, missing = self._consume_queues.entries_without_room(
            self._commit_log, dispatched_offset, topic, queue_id
        )
        if not missing or offset < first_offset:
            return self.get_message(group, topic, queue_id, offset, max_msg_nums, tags)
        queue = self._consume_queues.find(topic, queue_id)
        min_offset = queue.min_offset if queue is not None else 0
        max_offset = first_offset + len(missing) // ENTRY_BYTES
        refused = _outside(offset, min_offset, max_offset)
        if refused is not None:
            return GetMessageResult(*refused, min_offset, max_offset, [])
        entries = memoryview(missing)[(offset - first_offset) * ENTRY_BYTES :]
        count = max(-(-self._max_filter_bytes // ENTRY_BYTES), max_msg_nums)
        status, examined, messages, total_bytes = self._scan(
            entries[: count * ENTRY_BYTES], parse_subscription(tags), max_msg_nums
        )
        return GetMessageResult(status, offset + examined, min_offset, max_offset, messages, total_bytes)

    def _scan(
        self, entries: memoryview, tag_filter: TagFilter | None, max_msg_nums: int
    ) -> tuple[GetMessageStatus, int, list[StoredMessage], int]:
        """Walk `entries`; returns the status, how many of them are done with, the messages, their bytes."""
        max_count = min(max_msg_nums, self._max_count, len(entries) // ENTRY_BYTES)
        examined, messages, collected_bytes = self._collect_ordinary(
            entries, tag_filter, max_count, self._max_bytes
        )
        while (
            tag_filter is None and 0 < examined < max_count and self._fits(entries, examined, collected_bytes)
        ):
            # The next one lies in another segment, or is for `_collect`.
            found = self._collect_ordinary(
                entries[examined * ENTRY_BYTES :],
                None,
                max_count - examined,
                self._max_bytes - collected_bytes,
            )
            if not found[0]:
                break
            examined += found[0]
            messages += found[1]
            collected_bytes += found[2]
        return self._collect(entries, examined, tag_filter, max_msg_nums, messages, collected_bytes)

    def _fits(self, entries: memoryview, index: int, collected_bytes: int) -> bool:
        """Whether there is a next entry, and its record may be in the answer too."""
        at = index * ENTRY_BYTES
        return at < len(entries) and collected_bytes + ENTRY.unpack_from(entries, at)[1] <= self._max_bytes

    def _collect_ordinary(
        self, entries: memoryview, tag_filter: TagFilter | None, max_count: int, max_bytes: int
    ) -> tuple[int, list[StoredMessage], int]:
        """The first entries as long as nothing is special about them: how many, their messages, the bytes.

        They lie in one segment. What it leaves, `_collect` goes on with. The compiled loop checks each record
        as that does.
        """
        log = self._commit_log
        segment = log.files.file_for(ENTRY.unpack_from(entries)[0])
        if max_count < _FEW or segment is None:
            return 0, [], 0
        try:
            view, data = segment.view, segment.array
        except FileNotFoundError as error:
            raise_foreign(error)
            return 0, [], 0
        end = min(log.visible_offset - segment.start_offset, segment.size_bytes)
        places = np.empty((4, max_count), np.int64)
        packed = np.frombuffer(entries, np.uint8)
        from mqstore.index.pull import pull_kernels

        if tag_filter is None:
            count, collected_bytes = pull_kernels.locate_records(
                packed, data, segment.start_offset, end, max_bytes, places
            )
            examined = count
        else:
            examined, count, collected_bytes = pull_kernels.locate_tagged(
                packed,
                data,
                segment.start_offset,
                end,
                max_bytes,
                tag_filter.codes,
                tag_filter.encoded,
                tag_filter.encoded_stops,
                places,
            )
        return examined, list(map(StoredMessage, repeat(view), *places[:, :count].tolist())), collected_bytes

    def _collect(
        self,
        entries: memoryview,
        examined: int,
        tag_filter: TagFilter | None,
        max_msg_nums: int,
        messages: list[StoredMessage],
        collected_bytes: int,
    ) -> tuple[GetMessageStatus, int, list[StoredMessage], int]:
        """The loop of the spec.

        examined, messages, collected_bytes: entries that were done with before, and what was found in them;
        messages is added to.
        """
        record_at = self._commit_log.record_at
        max_count, max_bytes = min(max_msg_nums, self._max_count), self._max_bytes
        status = GetMessageStatus.FOUND if messages else GetMessageStatus.NO_MATCHED_MESSAGE
        # Behind a record that is gone, all up to the end of its segment are gone as well.
        gone_before = 0
        unpack_from = ENTRY.unpack_from
        for at in range(examined * ENTRY_BYTES, len(entries), ENTRY_BYTES):
            physical_offset, size, tags_code = unpack_from(entries, at)
            is_blank = size == BLANK_SIZE
            is_full = len(messages) >= max_count or collected_bytes + size > max_bytes
            if messages and is_full and not is_blank:
                break
            examined += 1
            if is_blank or physical_offset < gone_before:
                continue
            if tag_filter is not None and not tag_filter.may_match(tags_code):
                if not messages:
                    status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            record = record_at(physical_offset, size)
            if record is None:
                gone_before = physical_offset - physical_offset % self._segment_bytes + self._segment_bytes
                if not messages:
                    status = GetMessageStatus.MESSAGE_WAS_REMOVING
                continue
            if size < _STATED.size or len(record) < size:
                raise self._not_its_record(physical_offset, size)
            stated_size, stated_offset, sys_flag = _STATED.unpack_from(record)
            if stated_size != size or stated_offset != physical_offset:  # I7
                raise self._not_its_record(physical_offset, size)
            if sys_flag & INNER_BATCH and is_inner_batch(sys_flag):
                singles = single_messages(StoredMessage.of(record))
                if tag_filter is not None:
                    singles = [message for message in singles if tag_filter.wants(message)]
                messages += singles
                collected_bytes += size
                status = GetMessageStatus.FOUND if messages else GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            if tag_filter is not None and not self._matches(tag_filter, record, physical_offset):
                if not messages:
                    status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            messages.append(StoredMessage.of(record))
            collected_bytes += size
            status = GetMessageStatus.FOUND
            gone_before = 0
        return status, examined, messages, collected_bytes

    def _matches(self, tag_filter: TagFilter, record: memoryview, physical_offset: int) -> bool:
        try:
            return tag_filter.matches(record)
        except RecordIllegal as illegal:
            raise self._not_its_record(physical_offset, len(record)) from illegal

    def _not_its_record(self, physical_offset: int, size: int) -> CorruptRecord:
        segment = self._commit_log.files.file_for(physical_offset)
        path = segment.path if segment is not None else self._commit_log.path
        position = physical_offset % self._segment_bytes
        return CorruptRecord(path, position, f"a record of {size} bytes for a queue entry", "something else")

    def __repr__(self) -> str:
        return f"MessageReader({self._commit_log!r}, {self._consume_queues!r})"


def _gone(queue: ConsumeQueue, offset: int, max_offset: int) -> GetMessageResult:
    """Retention took the entry at `offset` meanwhile: alone with others of its file, or the whole file."""
    min_offset = queue.min_offset
    if offset < min_offset:
        return GetMessageResult(GetMessageStatus.OFFSET_TOO_SMALL, min_offset, min_offset, max_offset, [])
    next_begin_offset = queue.roll_next_file(offset)
    return GetMessageResult(GetMessageStatus.OFFSET_FOUND_NULL, next_begin_offset, min_offset, max_offset, [])


def _outside(offset: int, min_offset: int, max_offset: int) -> tuple[GetMessageStatus, int] | None:
    """Status and next offset when there is no entry at `offset`; None when there is one."""
    if max_offset == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < min_offset:
        return GetMessageStatus.OFFSET_TOO_SMALL, min_offset
    if offset == max_offset:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > max_offset:
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, max_offset
    return None
