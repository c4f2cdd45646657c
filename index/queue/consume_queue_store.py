"""All consume queues of a store: `consumequeue/<topic>/<queueId>/`.

It turns chunks of the log into entries (`absorb`, the sink of a dispatcher) and finds the queue of a reader.
What one queue is: consume_queue.py. Who reads the log behind the writer: dispatcher.py.

Opening lists names only; the files of a queue are mapped when it is first asked for, so thousands of
queues cost little.
One compiled loop appends most runs of entries, however many queues they belong to, by the table of
queue_ends.py. Python appends the others, queue by queue.
Threads: one dispatcher calls `absorb`; everything else may be called from any thread.
Durability: `flush` makes durable what was absorbed before it. Rebuilt from the commit log by
queue_recovery.py.
"""

import functools
from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue import ConsumeQueue, PendingEntries
from mqstore.index.queue.consume_queue_format import END_OF_QUEUE, ENTRY_BYTES
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.index.queue.queue_ends import QueueEnds
from mqstore.index.queue.queue_manifest_format import QueueFiles, QueueManifest
from mqstore.store.config import StoreConfig
from mqstore.store.files.file_names import is_text, row_entries
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile, MappedFileSettings
from mqstore.store.foreign_error import is_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.threads.lock import Lock

__all__ = ["ConsumeQueueStore", "is_queue_name"]

_MAX_NAME_BYTES = 255
# More than the longest record there may be, so that one that is cut is the last.
_LOOK_THROUGH_BYTES = 64 << 20


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loops. Cached, for an import statement costs a microsecond each time that it is run."""
    from mqstore.index.queue import entry_kernels

    return entry_kernels


class ConsumeQueueStore:
    """The queues under `directory`.

    `delay_tables`: int64, a row for each table of delays: the physical offset from which on it applies, then
    the delay in ms of each level. An entry of the schedule topic gets the time at which its message is due.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        config: StoreConfig,
        delay_tables: npt.NDArray[np.int64],
        *,
        read_only: bool = False,
        after_crash: bool = False,
        without_queues: Container[str] = frozenset(),
    ) -> None:
        """after_crash: the last writer has not closed the store; `truncate` follows.

        without_queues: topics that get no queues here: a broker keeps queues of another kind for them.
        """
        self._without_queues = without_queues
        self.directory = directory
        # Whether queues follow gaps and restarts in the log's numbering: True during a rebuild.
        self.follow_log = False
        # Store time of the newest message absorbed, epoch ms; 0 before the first. Written by `absorb`.
        self.last_store_timestamp = 0
        self._file_system = file_system
        self._file_settings = MappedFileSettings(
            file_size_bytes=config.mapped_file_size_consume_queue,
            size_key="mapped_file_size_consume_queue",
            reserve_window_bytes=config.reserve_window_consume_queue,
            read_only=read_only,
            is_derived_row=True,
            after_crash=after_crash,
        )
        # Set again by an opening that changes them, before anything is absorbed.
        self.delay_tables = delay_tables
        # Replaced under _moving, or before anything is absorbed.
        self.deleted = DeletedTopics({})
        self._commit_log_min_offset = 0
        self._guard = Lock()
        # Loaded queues. Read without a lock, written under _guard.
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        # Queues that have a directory and were not asked for yet. Under _guard.
        self._unloaded: set[tuple[str, int]] = set()
        # Held while the end of a queue moves: by appends, truncations and deletions. Taken before _guard.
        self._moving = Lock()
        # Of the queues that were appended to. Under _moving.
        self._ends = QueueEnds()
        # Queues of which entries, or the first of them, are durable, and their files. Replaced under _guard.
        self.durable_manifest = QueueManifest(0, {})
        # The first sync that failed. What it lost is unknown, so no later flush may claim success.
        self._sync_error: OSError | None = None

    def load(self, commit_log_min_offset: int = 0) -> None:
        """Find the queues by their directories; other names are skipped.

        A second call also finds what another process has added since, entries included.
        """
        self._commit_log_min_offset = commit_log_min_offset
        with self._guard:
            self._find_names()
            loaded = tuple(self._queues.values())
            if not self._file_settings.read_only:
                self.durable_manifest = QueueManifest(commit_log_min_offset, self._files_of_unloaded())
        for queue in loaded:
            if not self._file_settings.read_only or queue.is_same_on_disk():
                queue.load(commit_log_min_offset)
            else:
                self._forget(queue)

    def _forget(self, queue: ConsumeQueue) -> None:
        """Drop a queue that its writer has deleted; a new one of the same name is loaded when asked for."""
        name = (queue.topic, queue.queue_id)
        with self._guard:
            self._queues.pop(name, None)
            if self._file_system.exists(queue.directory):
                self._unloaded.add(name)

    def _find_names(self) -> None:
        for topic in filter(is_text, self._directories(self.directory)):
            for queue_id in self._directories(self.directory / topic):
                if queue_id.isascii() and queue_id.isdigit():
                    self._unloaded.add((topic, int(queue_id)))
        self._unloaded -= self._queues.keys()

    def _files_of_unloaded(self) -> dict[tuple[str, int], QueueFiles]:
        return {queue: files for queue in self._unloaded if (files := self._files_of(queue))}

    def _directories(self, path: Path) -> list[str]:
        return [entry.name for entry in self._file_system.list(path) if entry.is_directory]

    def _files_of(self, queue: tuple[str, int]) -> QueueFiles | None:
        """The files of a queue, by their names; None when it has none but what a crash left empty."""
        topic, queue_id = queue
        entries = row_entries(self._file_system, self.directory / topic / str(queue_id))
        names = [int(entry.name) for entry in entries if entry.size_bytes]
        return QueueFiles(names[0], names[-1]) if names else None

    # -- finding --------------------------------------------------------------------------------------

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of all queues, sorted."""
        with self._guard:
            return sorted(self._queues.keys() | self._unloaded)

    def loaded(self) -> list[ConsumeQueue]:
        """The queues that were asked for or appended to; of the others only the names are known."""
        with self._guard:
            return list(self._queues.values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, or None when nothing was ever put to it."""
        queue = self._queues.get((topic, queue_id))
        if queue is None and (topic, queue_id) in self._unloaded:
            return self.find_or_create(topic, queue_id)
        return queue

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; a new one has no files before its first entry. Raises as `ConsumeQueue.load`."""
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            return queue
        with self._guard:
            queue = self._queues.get((topic, queue_id))
            if queue is None:
                queue = self._open(topic, queue_id)
                self._queues[topic, queue_id] = queue
                self._unloaded.discard((topic, queue_id))
            return queue

    def _open(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = self.directory / topic / str(queue_id)
        queue = ConsumeQueue(self._file_system, directory, topic, queue_id, self._file_settings)
        if (topic, queue_id) in self._unloaded:
            queue.load(self._commit_log_min_offset)
        return queue

    def _all(self) -> list[ConsumeQueue]:
        return [self.find_or_create(topic, queue_id) for topic, queue_id in self.queues()]

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """The queue offset that the next message of a queue gets, as far as the log was absorbed.

        There is no bound for a queue that a broker keeps: its end is not known here.
        """
        if topic in self._without_queues:
            return END_OF_QUEUE
        queue = self.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def entries_below(self, topic: str, queue_id: int, physical_offset: int) -> int:
        """Queue offset behind the last message of a queue that is before `physical_offset`; as above."""
        if topic in self._without_queues:
            return END_OF_QUEUE
        queue = self.find(topic, queue_id)
        return queue.end_below(physical_offset) if queue is not None else 0

    @property
    def max_physical_offset(self) -> int:
        """End of the newest message that has an entry, over all queues (each is loaded); -1 without."""
        return max((queue.max_physical_offset for queue in self._all()), default=-1)

    # -- following the log ----------------------------------------------------------------------------

    def absorb(self, chunk: LogChunk) -> int:
        """Append the entries of the chunk's whole records; returns how many bytes were consumed.

        They end before the first bytes that are no whole record, or at the segment's end behind a BLANK.
        Absorbing bytes twice does no harm, so after an error the same chunk can be absorbed again.
        Raises QueueOffsetConflict, StoreFull.
        """
        entries, runs, consumed, at_blank, last_store_timestamp = _kernels().consume_queue_entries(
            chunk.data, chunk.base_offset, self.delay_tables
        )
        with self._moving:
            if self.deleted.concern(chunk.base_offset):
                runs = self.deleted.remaining(chunk.data, entries, runs)
            table = self._ends
            appended, ends, left = _kernels().append_runs(
                chunk.data, entries, runs, table.names, table.slots, table.rows
            )
            table.raise_ends(appended, ends)
            if len(left):
                self._append_one_by_one(chunk.data, entries.data, runs[left].tolist())
        if last_store_timestamp >= 0:
            self.last_store_timestamp = last_store_timestamp
        return chunk.segment_end - chunk.base_offset if at_blank else int(consumed)

    def entries_without_room(
        self, commit_log: CommitLog, offset: int, topic: str, queue_id: int
    ) -> tuple[int, bytes]:
        """The entries that a queue lacks because its disk has no room: (queue offset of the first, entries).

        offset: physical; the log is absorbed up to there. For readers, which then take entries from the log.
        """
        queue, name, found = self.find(topic, queue_id), topic.encode(), []
        first_offset = next_offset = queue.max_offset if queue is not None else 0
        while (chunk := commit_log.chunk(offset, _LOOK_THROUGH_BYTES)) is not None:
            entries, runs, consumed, at_blank, _ = _kernels().consume_queue_entries(
                chunk.data, chunk.base_offset, self.delay_tables
            )
            if self.deleted.concern(chunk.base_offset):
                runs = self.deleted.remaining(chunk.data, entries, runs)
            for index, count, queue_offset, topic_at, topic_length, run_queue_id in runs.tolist():
                known = next_offset - queue_offset
                is_ours = run_queue_id == queue_id and 0 <= known < count
                if is_ours and chunk.data[topic_at : topic_at + topic_length].tobytes() == name:
                    found.append(entries[(index + known) * ENTRY_BYTES : (index + count) * ENTRY_BYTES])
                    next_offset = queue_offset + count
            if not consumed and not at_blank:
                break
            offset = chunk.segment_end if at_blank else chunk.base_offset + int(consumed)
        return first_offset, b"".join(part.tobytes() for part in found)

    def _append_one_by_one(
        self, data: npt.NDArray[np.uint8], entries: memoryview, runs: list[list[int]]
    ) -> None:
        """The runs that the compiled loop leaves: new queues or files, no room reserved, known, conflicts."""
        for index, count, queue_offset, topic_at, topic_length, queue_id in runs:
            topic = data[topic_at : topic_at + topic_length].tobytes()
            queue = self._queue_to_fill(topic, queue_id)
            if queue is not None:
                self._ends.adopt(queue)
                part = entries[index * ENTRY_BYTES : (index + count) * ENTRY_BYTES]
                queue.append_entries(queue_offset, part, follow_log=self.follow_log)

    def _queue_to_fill(self, topic_bytes: bytes, queue_id: int) -> ConsumeQueue | None:
        """The queue of a record; None when its topic has none, or could not be the name of a directory."""
        topic = topic_bytes.decode("utf-8", "replace")
        if topic in self._without_queues:
            return None
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            return queue
        return self.find_or_create(topic, queue_id) if is_queue_name(topic, queue_id) else None

    def flush(self) -> None:
        """Make durable what was absorbed before this call.

        Raises OSError; then every later call raises it again, since a failed sync must not be retried. To
        make the queues whole, open the store again: that dispatches what was not durable.
        """
        if self._sync_error is not None:
            raise self._sync_error
        with self._moving:
            dirty = self._ends.unflushed()
        pending = [queue.pending() for queue in dirty]
        try:
            self._file_system.sync_all([file.region for part in pending for file in part.files])
            # A new queue is a name in three directories, two of which it shares with others.
            synced_directories: set[Path] = set()
            for queue in dirty:
                queue.sync_names(synced_directories)
        except OSError as error:
            # Stored before anything is called: Ctrl-C is raised at a call.
            self._sync_error = error
            if is_foreign(error):
                self._sync_error = None
            raise
        with self._moving:
            self._note_flushed(dirty, pending)

    def _note_flushed(self, dirty: Sequence[ConsumeQueue], pending: Sequence[PendingEntries]) -> None:
        # First: a queue that is marked is not looked at again, so an interrupt must come after this.
        self._note_durable(
            {queue: part.files[-1] for queue, part in zip(dirty, pending, strict=True) if part.files}
        )
        for queue, part in zip(dirty, pending, strict=True):
            queue.mark_flushed(part)

    def _note_durable(self, last_files: dict[ConsumeQueue, MappedFile]) -> None:
        """Note that these files, and those before them, are durable. Under _moving, so none is deleted."""
        added = {
            (queue.topic, queue.queue_id): QueueFiles(queue.files[0].start_offset, last.start_offset)
            for queue, last in last_files.items()
            if queue.files  # not deleted meanwhile
        }
        with self._guard:
            self.durable_manifest = self.durable_manifest.plus(added)

    # -- recovery and retention -----------------------------------------------------------------------

    def truncate(self, physical_offset: int, commit_log: CommitLog) -> None:
        """Drop the entries of messages at or behind `physical_offset` from every queue, durably."""
        with self._moving:
            self._truncate_all(physical_offset, commit_log)
        files = {
            name: QueueFiles(queue.files[0].start_offset, queue.files[-1].start_offset)
            for name, queue in self._queues.items()
            if queue.max_offset and queue.files
        }
        self.durable_manifest = QueueManifest(self._commit_log_min_offset, files)

    def _truncate_all(self, physical_offset: int, commit_log: CommitLog) -> None:
        for queue in self._all():
            queue.truncate(physical_offset, partial(_is_entry, commit_log, queue.topic, queue.queue_id))
            if commit_log.min_offset == 0:
                queue.restart_if_empty()

    def correct_min_offset(self, commit_log_min_offset: int) -> None:
        """Set where the log begins now, for all queues; the others take it when they are loaded."""
        self._commit_log_min_offset = commit_log_min_offset
        for queue in tuple(self._queues.values()):
            queue.correct_min_offset(commit_log_min_offset)

    def delete_expired(self, commit_log_min_offset: int) -> int:
        """Delete the files whose messages are all gone from the log; returns how many."""
        self._commit_log_min_offset = commit_log_min_offset
        queues = self._all()
        count = sum(queue.delete_expired(commit_log_min_offset) for queue in queues)
        firsts = {
            (queue.topic, queue.queue_id): queue.files[0].start_offset for queue in queues if queue.files
        }
        with self._guard:
            self.durable_manifest = self.durable_manifest.trimmed(commit_log_min_offset, firsts)
        return count

    def delete_topic(self, topic: str, end_offset: int = 0) -> int:
        """Delete the queues of a topic; returns how many. Their records stay in the log until they expire.

        end_offset: records of the topic before it that are not yet dispatched get no entries any more.
        """
        with self._moving:
            if end_offset:
                self.deleted = self.deleted.plus(topic, end_offset)
        mine = [queue_id for known_topic, queue_id in self.queues() if known_topic == topic]
        for queue_id in mine:
            self._destroy(topic, queue_id)
        self._remove_if_empty(self.directory / topic)
        return len(mine)

    def delete_queue(self, topic: str, queue_id: int) -> None:
        """Delete one queue, of which no message is in the log any more."""
        self._destroy(topic, queue_id)
        self._remove_if_empty(self.directory / topic)

    def destroy(self) -> None:
        """Delete all queues."""
        topics = set()
        self.durable_manifest = QueueManifest(self._commit_log_min_offset, {})
        for topic, queue_id in self.queues():
            self._destroy(topic, queue_id)
            topics.add(topic)
        for topic in topics:
            self._remove_if_empty(self.directory / topic)

    def _destroy(self, topic: str, queue_id: int) -> None:
        queue = self.find_or_create(topic, queue_id)
        with self._moving:
            with self._guard:
                self.durable_manifest = self.durable_manifest.without((topic, queue_id))
            queue.destroy()
            self._ends.retire(queue)
            # Last: a queue that is half deleted is still known, and can be deleted again.
            with self._guard:
                self._queues.pop((topic, queue_id), None)

    def _remove_if_empty(self, path: Path) -> None:
        if not self._file_system.list(path):
            self._file_system.delete_directory(path)

    def __repr__(self) -> str:
        return f"ConsumeQueueStore({str(self.directory)!r}, queues={len(self.queues())})"


def is_queue_name(topic: str, queue_id: int) -> bool:
    """Whether there can be a directory for a queue of this name."""
    is_name = topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic
    return is_name and queue_id >= 0 and len(topic.encode()) <= _MAX_NAME_BYTES


def _is_entry(
    commit_log: CommitLog, topic: str, queue_id: int, queue_offset: int, physical_offset: int, size: int
) -> bool:
    """Whether the log has this message of this queue there."""
    message = commit_log.look_message_by_offset(physical_offset)
    return message is not None and (
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.store_size,
    ) == (topic, queue_id, queue_offset, size)
