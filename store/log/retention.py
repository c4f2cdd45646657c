"""Retention: deletes the oldest log segments, by age and by how full the disk is.

Three shares of the disk, in percent (RocketMQ's CleanCommitLogService):

    disk_max_used_space_ratio          above it, segments past file_reserved_time are deleted at any hour
    disk_space_clean_forcibly_ratio    above it, the oldest are deleted regardless of age
    disk_space_warning_level_ratio     above it, as before, and puts are refused until there is room

Otherwise segments past file_reserved_time are deleted in the hours of delete_when, or when an operator asks.
The newest segment is never deleted, nor one that holds a delayed message still to be delivered, not even when
the disk is full. Age is the file's time of last modification, as in RocketMQ. Consume queues follow the log
(index/queue/consume_queue_store.py).

Its period is clean_resource_interval; a step that failed is tried again in the next period.
Durability: a deletion is durable when `run_once` returns. Threads: one runner at a time.
"""

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path

from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError, StoreFull
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.log.commit_log import CommitLog

__all__ = ["Retention"]

_HOUR_MS = 3_600_000


class Retention:
    """Deletes expired segments of one log."""

    def __init__(
        self,
        log: CommitLog,
        file_system: FileSystem,
        config: StoreConfig,
        clock: Clock,
        pinned_offset: Callable[[], int],
    ) -> None:
        """`pinned_offset`: physical offset from which on records are still needed."""
        self._log = log
        self._file_system = file_system
        self._config = config
        self._clock = clock
        self._pinned_offset = pinned_offset
        self._delete_hours = {int(hour) for hour in config.delete_when.split(";")}
        self._refusing = False

    def run_once(self) -> int:
        """One look at age and disk use; returns the number of segments deleted."""
        used_percent = self._file_system.disk_usage(self._log.path).used_percent
        try:
            return self._delete_expired(used_percent)
        finally:
            # Above all when nothing could be deleted.
            self._refuse_or_accept(used_percent)

    def expired(self) -> list[MappedFile]:
        """The segments that `delete_expired_now` would delete."""
        pinned_offset = self._pinned_offset()

        def may_go(file: MappedFile) -> bool:
            return self._may_go(file, pinned_offset, forcibly=False)

        return list(itertools.takewhile(may_go, self._log.files.files[:-1]))

    def delete_expired_now(self) -> int:
        """Delete all segments past file_reserved_time, at whatever hour; returns how many.

        RocketMQ: executeDeleteFilesManually, which does so in rounds.
        """
        deleted = 0
        while count := self._delete_expired(0, at_any_hour=True):
            deleted += count
        return deleted

    def _delete_expired(self, used_percent: int, *, at_any_hour: bool = False) -> int:
        config = self._config
        forcibly = config.clean_file_forcibly_enable and used_percent > config.disk_space_clean_forcibly_ratio
        in_hour = at_any_hour or self._local_hour() in self._delete_hours
        if not (forcibly or in_hour or used_percent > config.disk_max_used_space_ratio):
            return 0
        pinned_offset = self._pinned_offset()
        deleted = 0
        while (
            deleted < config.delete_file_batch_max
            and len(files := self._log.files.files) > 1
            and self._may_go(files[0], pinned_offset, forcibly=forcibly)
        ):
            self._log.aside(self._log.files.delete_first)
            deleted += 1
        return deleted

    def _may_go(self, file: MappedFile, pinned_offset: int, *, forcibly: bool) -> bool:
        if file.end_offset > min(pinned_offset, self._log.flushed_offset):
            return False
        return forcibly or self._age_ms(file.path) >= self._config.file_reserved_time * _HOUR_MS

    def _age_ms(self, path: Path) -> int:
        return self._clock.now_ms() - self._file_system.modified_ms(path)

    def _refuse_or_accept(self, used_percent: int) -> None:
        too_full = used_percent > self._config.disk_space_warning_level_ratio
        if too_full:
            self._log.refuse(lambda: self._disk_full(used_percent))
        elif self._refusing:
            self._log.refuse(None)
        self._refusing = too_full

    def _disk_full(self, used_percent: int) -> StoreError:
        limit = self._config.disk_space_warning_level_ratio
        reason = f"the disk is {used_percent} % full, above disk_space_warning_level_ratio = {limit}"
        return StoreFull(self._log.path, 0, reason)

    def _local_hour(self) -> int:
        return datetime.datetime.fromtimestamp(self._clock.now_ms() / 1000).astimezone().hour
