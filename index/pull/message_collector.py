"""The messages of consecutive queue entries: what a pull collects, up to its limits.

Each record is compared with its entry. Compiled loops take ordinary entries; the others are taken one by one,
by the rules of DefaultMessageStore#getMessage. Which entries there are, and what to ask for next:
message_reader.py.
Threads: any; no lock is taken.
"""

import functools
import struct
from types import ModuleType

import msgspec
import numpy as np
import numpy.typing as npt

from mqstore.index.pull.found_messages import FoundMessages, make_messages
from mqstore.index.pull.tag_filter import TagFilter
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY, ENTRY_BYTES
from mqstore.store.config import StoreConfig
from mqstore.store.errors import CorruptRecord
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.inner_batch import is_inner_batch, single_messages
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION, RecordIllegal
from mqstore.store.record.sys_flag import INNER_BATCH
from mqstore.store.status import GetMessageStatus

__all__ = ["Collected", "MessageCollector"]

Bytes = npt.NDArray[np.uint8]

# Below that many messages a compiled loop gains nothing, and need not be loaded.
_FEW = 4
# Size, physical offset and, right behind it, the sys flag, as a record itself states them.
_STATED = struct.Struct(f">i{PHYSICAL_OFFSET_POSITION - 4}xqi")


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loops. Cached, for an import statement costs a microsecond each time that it is run."""
    from mqstore.index.pull import pull_kernels

    return pull_kernels


class Collected(msgspec.Struct):
    """What the first `examined` entries gave; `status` says why there are no messages, if there are none.

    found: instead of `messages`, if these are all and may be made later.
    """

    messages: list[StoredMessage] = []
    examined: int = 0
    total_bytes: int = 0
    status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE
    found: FoundMessages | None = None


class MessageCollector:
    """Collects the messages of entries from the log of one store."""

    def __init__(self, commit_log: CommitLog, config: StoreConfig) -> None:
        self._commit_log = commit_log
        self._direct = commit_log.direct_reader
        self._segment_bytes = config.mapped_file_size_commit_log
        self._max_bytes = config.max_transfer_bytes_on_message_in_memory
        self._max_count = config.max_transfer_count_on_message_in_memory

    def collect(
        self, entries: memoryview, tag_filter: TagFilter | None, max_msg_nums: int, *, lazily: bool = False
    ) -> Collected:
        """Walk `entries` until a limit is reached; one message is taken at least, if there is one.

        lazily: where that is quicker, the messages are made when they are looked at. Raises CorruptRecord
        when an entry points at bytes that are not its record.
        """
        max_count = min(max_msg_nums, self._max_count)
        collected = Collected()
        room = min(max_count, len(entries) // ENTRY_BYTES)
        if tag_filter is None:
            if self._direct is not None:
                collect = self._find_directly if lazily else self._collect_directly
                collect(collected, entries, room)
            if room - collected.examined >= _FEW:
                self._collect_ordinary(collected, entries, room, lazily)
        elif room >= _FEW:
            self._collect_tagged(collected, entries, tag_filter, room)
        if collected.status is GetMessageStatus.FOUND:
            return collected
        self._collect_one_by_one(collected, entries, tag_filter, max_count)
        return collected

    def _collect_directly(self, collected: Collected, entries: memoryview, max_count: int) -> None:
        """As `_collect_ordinary`, by the direct read, up to the end of the first segment."""
        assert self._direct is not None
        messages, collected.total_bytes = self._direct.messages_of(entries, max_count, self._max_bytes)
        collected.messages, collected.examined = messages, len(messages)
        if messages and len(messages) == max_count and not _begins_with_blank(entries, max_count):
            collected.status = GetMessageStatus.FOUND

    def _find_directly(self, collected: Collected, entries: memoryview, max_count: int) -> None:
        """As `_collect_directly`, all of them or none, to be made later."""
        assert self._direct is not None
        places = np.empty((4, max_count), np.int64)
        view, count, total_bytes = self._direct.places_of(entries, places, self._max_bytes)
        if count and count == max_count and not _begins_with_blank(entries, count):
            collected.found = FoundMessages(view, places)
            collected.examined, collected.total_bytes = count, total_bytes
            collected.status = GetMessageStatus.FOUND

    def _collect_ordinary(
        self, collected: Collected, entries: memoryview, max_count: int, lazily: bool
    ) -> None:
        """The first entries, segment by segment, up to one that is out of the ordinary."""
        messages, room_bytes = collected.messages, self._max_bytes - collected.total_bytes
        if messages:
            entries = entries[len(messages) * ENTRY_BYTES :]
        while max_count - len(messages) >= _FEW:
            physical_offset, size, _ = ENTRY.unpack_from(entries)
            segment = self._segment_at(physical_offset)
            # The loop takes the first record whatever its size, which is right for the first of an answer.
            if segment is None or (messages and size > room_bytes):
                break
            view, data, start_offset, end = segment
            places = np.empty((4, max_count - len(messages)), np.int64)
            count, total_bytes = _kernels().locate_records(
                np.frombuffer(entries, np.uint8), data, start_offset, end, room_bytes, places
            )
            if not count:
                break
            if lazily and count == max_count and not _begins_with_blank(entries, count):
                collected.found = FoundMessages(view, places)
                collected.examined, collected.total_bytes = count, total_bytes
                collected.status = GetMessageStatus.FOUND
                return
            messages += make_messages(view, places[:, :count])
            entries, room_bytes = entries[count * ENTRY_BYTES :], room_bytes - total_bytes
        collected.examined, collected.total_bytes = len(messages), self._max_bytes - room_bytes

    def _collect_tagged(
        self, collected: Collected, entries: memoryview, tag_filter: TagFilter, max_count: int
    ) -> None:
        """The first entries of one segment that the filter wants, up to one that is out of the ordinary."""
        segment = self._segment_at(ENTRY.unpack_from(entries)[0])
        if segment is None:
            return
        view, data, start_offset, end = segment
        places = np.empty((4, max_count), np.int64)
        collected.examined, count, collected.total_bytes = _kernels().locate_tagged(
            np.frombuffer(entries, np.uint8),
            data,
            start_offset,
            end,
            self._max_bytes,
            tag_filter.codes,
            tag_filter.encoded,
            tag_filter.encoded_stops,
            places,
        )
        collected.messages += make_messages(view, places[:, :count])

    def _segment_at(self, physical_offset: int) -> tuple[memoryview, Bytes, int, int] | None:
        """Bytes, start offset and readable length of the segment of a record; None when it is gone."""
        log = self._commit_log
        segment = log.files.file_for(physical_offset)
        if segment is None:
            return None
        try:
            view, data = segment.view, segment.array
        except FileNotFoundError as error:
            raise_foreign(error)
            # Deleted by retention (of another process, perhaps) before it was first mapped here.
            return None
        start_offset = segment.start_offset
        return view, data, start_offset, min(log.visible_offset - start_offset, segment.size_bytes)

    def _collect_one_by_one(
        self, collected: Collected, entries: memoryview, tag_filter: TagFilter | None, max_count: int
    ) -> None:
        """What the compiled loops left, by the rules of the spec."""
        record_at, max_bytes = self._commit_log.record_at, self._max_bytes
        messages, examined, total_bytes = collected.messages, collected.examined, collected.total_bytes
        # If a record is gone, so are all behind it up to the end of its segment.
        gone_before = 0
        for at in range(examined * ENTRY_BYTES, len(entries), ENTRY_BYTES):
            physical_offset, size, tags_code = ENTRY.unpack_from(entries, at)
            is_blank = size == BLANK_SIZE
            is_full = len(messages) >= max_count or total_bytes + size > max_bytes
            if messages and is_full and not is_blank:
                break
            examined += 1
            if is_blank or physical_offset < gone_before:
                continue
            if tag_filter is not None and not tag_filter.may_match(tags_code):
                collected.status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            record = record_at(physical_offset, size)
            if record is None:
                gone_before = physical_offset - physical_offset % self._segment_bytes + self._segment_bytes
                collected.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                continue
            if size < _STATED.size or len(record) < size:
                raise self._not_its_record(physical_offset, size)
            stated_size, stated_offset, sys_flag = _STATED.unpack_from(record)
            if stated_size != size or stated_offset != physical_offset:  # I7
                raise self._not_its_record(physical_offset, size)
            if sys_flag & INNER_BATCH and is_inner_batch(sys_flag):
                singles = single_messages(StoredMessage.of(record))
                messages += [one for one in singles if tag_filter is None or tag_filter.wants(one)]
                total_bytes += size
                collected.status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            if tag_filter is not None and not self._matches(tag_filter, record, physical_offset):
                collected.status = GetMessageStatus.NO_MATCHED_MESSAGE
                continue
            messages.append(StoredMessage(record, 0, size))
            total_bytes += size
            gone_before = 0
        if messages:
            collected.status = GetMessageStatus.FOUND
        collected.examined, collected.total_bytes = examined, total_bytes

    def _matches(self, tag_filter: TagFilter, record: memoryview, physical_offset: int) -> bool:
        try:
            return tag_filter.matches(record)
        except RecordIllegal as illegal:
            raise self._not_its_record(physical_offset, len(record)) from illegal

    def _not_its_record(self, physical_offset: int, size: int) -> CorruptRecord:
        path, position = self._commit_log.place_of(physical_offset)
        return CorruptRecord(path, position, f"a record of {size} bytes for a queue entry", "something else")

    def __repr__(self) -> str:
        return f"MessageCollector({self._commit_log!r})"


def _begins_with_blank(entries: memoryview, index: int) -> bool:
    """Whether there is an entry at `index` that is blank: those behind the messages are passed over."""
    at = index * ENTRY_BYTES
    return at < len(entries) and ENTRY.unpack_from(entries, at)[1] == BLANK_SIZE
