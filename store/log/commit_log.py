"""The commit log: the one sequence of records that everything else is derived from.

Other modules use the log through this class. Its parts append (log_appender.py), read (log_reader.py), refuse
appends (append_gate.py) and know where it begins and ends (log_offsets.py). Files: mapped_file_queue.py.

It does not sync (flusher.py), find its end after a crash (recovery.py), delete old segments (retention.py),
or know that consume queues exist: whatever is derived from the log reads `chunk`s behind the writer.

Threads: any number append, one at a time; readers take no lock and see only what lies below
`visible_offset`: what is written, or with SYNC_FLUSH what is durable.
Durability: none when `append` returns; see flusher.py.
"""

from collections.abc import Callable
from pathlib import Path

from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFileSettings
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.log.append_gate import AppendGate
from mqstore.store.log.log_appender import LogAppender
from mqstore.store.log.log_offsets import LogOffsets
from mqstore.store.log.log_reader import LogReader
from mqstore.store.message.compiled_read import DirectReader
from mqstore.store.threads.auto_reset_event import AutoResetEvent

__all__ = ["CommitLog"]


def _begin_at_zero(topic: str, queue_id: int) -> int:
    return 0


class CommitLog:
    """The row of log segments of one store.

    append, append_all, append_block, direct_put, next_queue_offset, delete_queues, reserve_ahead: see
    LogAppender. aside: see AppendGate.
    chunk, record_at, look_message_by_offset, store_timestamp_at: see LogReader.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        config: StoreConfig,
        clock: Clock,
        *,
        read_only: bool = False,
        first_queue_offset: Callable[[str, int], int] = _begin_at_zero,
    ) -> None:
        """first_queue_offset: called at the first append to a (topic, queue id); its next queue offset.

        read_only: appends raise StoreReadOnly.
        """
        self.path = directory
        # Set by the writer when less than half a reserved window is left: time to call `reserve_ahead`.
        self.low_space = AutoResetEvent()
        settings = MappedFileSettings(
            file_size_bytes=config.mapped_file_size_commit_log,
            size_key="mapped_file_size_commit_log",
            reserve_window_bytes=config.reserve_window_commit_log,
            read_only=read_only,
            on_low_space=self.low_space.set,
            is_synced_often=config.is_sync_flush,
        )
        self.files = MappedFileQueue(file_system, directory, settings)
        self.offsets = LogOffsets(self.files, is_sync_flush=config.is_sync_flush)
        self._gate = AppendGate(directory.parent)
        self._appender = LogAppender(
            self.files,
            self.offsets,
            self._gate,
            config,
            clock,
            first_queue_offset=first_queue_offset,
        )
        if read_only:
            self.refuse(lambda: StoreReadOnly(directory.parent))
        self._reader = LogReader(self.files, self.offsets)
        # Methods of the parts themselves, so that a put or a get is no call longer.
        self.append = self._appender.append
        self.append_all = self._appender.append_all
        self.append_block = self._appender.append_block
        self.direct_put = self._appender.direct_put
        self.reserve_ahead = self._appender.reserve_ahead
        self.aside = self._gate.aside
        self.next_queue_offset = self._appender.next_queue_offset
        self.delete_queues = self._appender.delete_queues
        self.chunk = self._reader.chunk
        self.record_at = self._reader.record_at
        self.look_message_by_offset = self._reader.look_message_by_offset
        self.store_timestamp_at = self._reader.store_timestamp_at

    @property
    def direct_reader(self) -> DirectReader | None:
        """The compiled reader; None where it was not built. No field: a forked child empties all of these."""
        return self._reader.direct

    # -- where the log begins and ends ----------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte that is kept."""
        return self.files.min_offset

    @property
    def max_offset(self) -> int:
        """Physical offset behind the last record written."""
        return self.offsets.max_offset

    @property
    def visible_offset(self) -> int:
        """Physical offset that readers may read up to: durable with SYNC_FLUSH, else written."""
        return self.offsets.visible_offset

    @property
    def flushed_offset(self) -> int:
        """The log is durable up to this byte; raised by flusher.py alone, after a sync."""
        return self.offsets.flushed_offset

    @flushed_offset.setter
    def flushed_offset(self, flushed_offset: int) -> None:
        self.offsets.flushed_offset = flushed_offset

    @property
    def last_store_timestamp(self) -> int:
        """Store time of the newest record, epoch ms; 0 before the first."""
        return self._appender.last_store_timestamp

    def place_of(self, physical_offset: int) -> tuple[Path, int]:
        """The segment that holds a physical offset, and the position in it, for a CorruptRecord.

        The segment may be missing: deleted by retention, or beyond the end of the log.
        """
        return self.files.place_of(physical_offset)

    def load(self) -> None:
        """Find the segments; their end is known after `set_end`.

        Raises SegmentSizeMismatch, CorruptRecord.
        """
        self.files.load()

    def set_end(self, end_offset: int, last_store_timestamp: int) -> None:
        """Take `end_offset` as the end of the log, durable up to there. Recovery calls it once."""
        self.offsets.set_end(end_offset)
        self._appender.last_store_timestamp = last_store_timestamp

    # -- whether appends are refused ------------------------------------------------------------------

    def ask_before_growing(self, obstacle: Callable[[], StoreError | None]) -> None:
        """Call `obstacle` before each segment that is added; an error that it returns ends all appends."""
        self._appender.may_not_grow = obstacle

    def refuse(self, reason: Callable[[], StoreError] | None) -> None:
        """Refuse appends with the error that `reason` makes, or accept them again with None.

        A poisoned log stays poisoned: later calls change nothing.
        """
        self._gate.refuse(reason)

    def refuse_for_good(self, reason: Callable[[], StoreError]) -> None:
        """As `poison`, with the error that `reason` makes."""
        self._gate.refuse_for_good(reason)

    def poison(self, cause: BaseException) -> None:
        """Accept no more appends: a sync failed. Reads go on."""
        self._gate.poison(cause)

    @property
    def is_poisoned(self) -> bool:
        """Whether appends are refused for good: a sync has failed, or the lock was lost."""
        return self._gate.is_poisoned

    @property
    def refusal(self) -> StoreError | None:
        """The error that the next append would raise, if any."""
        return self._gate.refusal

    def __repr__(self) -> str:
        return f"CommitLog({str(self.path)!r}, min_offset={self.min_offset}, max_offset={self.max_offset})"
