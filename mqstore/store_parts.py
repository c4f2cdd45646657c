"""The parts of an open store, as one value: made by opening.py, used by the others in this folder.

It holds no state of its own. Threads: as each part says.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.keys.key_index import KeyIndex
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.index.queue.queue_manifest_file import QueueManifestFile
from mqstore.metadata.consumer_offsets import ConsumerOffsets
from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topics import TopicConfigs
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.files.file_system import FileLock, FileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.listing_again import listing_again
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import RecoveryReport, recover
from mqstore.store.state.abort_file import AbortFile
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout

__all__ = ["KeyFeed", "StoreParts"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyFeed:
    """A key index, and the dispatcher that brings it the log."""

    index: KeyIndex
    dispatcher: Dispatcher
    flush_in_background: Callable[[], None]
    """Called at each round of persistence: makes durable what is due. `index.flush` makes all durable."""


@dataclass(frozen=True)
class StoreParts:
    """The parts of an open store, recovered and caught up.

    config: the settings in force. lock: None when the store is opened read only. key_feeds: queries ask the
    first. index_files: RocketMQ's, which is one of the key feeds.
    """

    layout: StoreLayout
    config: StoreConfig
    file_system: FileSystem
    clock: Clock
    lock: FileLock | None
    abort: AbortFile
    commit_log: CommitLog
    consume_queues: ConsumeQueueStore
    dispatcher: Dispatcher
    key_feeds: tuple[KeyFeed, ...]
    index_files: IndexFileKeyIndex | None
    checkpoint: CheckpointFile
    queue_names: QueueManifestFile
    recovery_point: RecoveryPointFile
    delay_levels: DelayLevels
    topics: TopicConfigs
    subscription_groups: SubscriptionGroups
    consumer_offsets: ConsumerOffsets
    recovery: RecoveryReport
    settings_file: DirectorySettingsFile

    @property
    def read_only(self) -> bool:
        """Whether the store is opened for reading only: without the lock."""
        return self.lock is None

    def refresh(self) -> None:
        """Read what a live writer has added to a store that was opened read only. Raises FilesVanished."""
        log = self.commit_log
        end_offset = log.max_offset

        def read() -> None:
            # The queues first: what they point to is then in the log, which is read after them.
            self.consume_queues.load(log.min_offset)
            log.load()
            # All before the old end has been walked already. 0: nothing behind the end is searched.
            recover(log, max(end_offset, log.min_offset), 0, read_only=True)

        listing_again(self.layout.root, read)

    def release(self, *, keys_are_lost: bool = False) -> None:
        """Close the key indexes, and unlock the directory.

        keys_are_lost: entries that are not stored yet are dropped: the files may be another writer's.
        """
        for feed in self.key_feeds:
            try:
                if keys_are_lost:
                    feed.index.drop()
                feed.index.close()
            except (StoreError, OSError) as error:
                raise_foreign(error)
                # The log has reported a failing disk already, and the keys are rebuilt from the log.
                _logger.warning("closing %s: %s", self.layout.root, error)
        if self.lock is not None:
            self.lock.release()
