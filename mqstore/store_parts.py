"""The parts of a store: what each is opened with, and all of them as one value once the store is open.

Each `open_*` makes one part, or a few that belong together, from the `OpeningContext`. In which order, and
what happens in between, is in opening.py. Nothing here starts a thread. Threads: as each part says.
"""

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.index_file.index_file import IndexFileSize
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.index_file.index_file_list import IndexFileList
from mqstore.index.keys.key_index import KeyIndex
from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.index.keys.memory_key_index import MemoryKeyIndex
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.index.queue.queue_leftovers import delete_leftovers
from mqstore.index.queue.queue_manifest_file import QueueManifestFile
from mqstore.metadata.consumer_offsets import ConsumerOffsets
from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topics import TopicConfigs
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.settings.directory_config import DirectoryConfig
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.files.file_system import FileLock, FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import RecoveryReport, recover
from mqstore.store.relisting import relisting
from mqstore.store.state.abort_file import AbortFile
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout

__all__ = [
    "KeyFeed",
    "OpeningContext",
    "StoreParts",
    "load_consume_queues",
    "make_consume_queues",
    "open_checkpoint",
    "open_commit_log",
    "open_index_files",
    "open_own_key_index",
    "open_queue_manifest",
    "open_recovery_point",
    "open_state_files",
    "with_index_file_size",
]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OpeningContext:
    """What the parts of one store are opened with.

    directory: the settings in force. after_crash: the last writer has not closed the store.
    """

    layout: StoreLayout
    directory: DirectoryConfig
    file_system: FileSystem
    clock: Clock
    read_only: bool
    after_crash: bool

    @property
    def config(self) -> StoreConfig:
        """The settings in force; no value is a default that the directory may change."""
        return self.directory.config

    @property
    def index_file_size(self) -> IndexFileSize:
        """The size of RocketMQ's index files, as the settings say."""
        return IndexFileSize(self.config.max_hash_slot_num, self.config.max_index_num)

    @property
    def keeps_index_files(self) -> bool:
        """Whether RocketMQ's index files are kept: as the key index, or beside it for a broker."""
        config = self.config
        if not config.key_index_enable or config.key_index == "lmdb":
            return False
        # Beside lmdb they are for brokers only: a reader does not need them, nor does a store in memory.
        is_for_broker = not self.read_only and isinstance(self.file_system, OsFileSystem)
        return config.key_index == "index_file" or is_for_broker


@dataclass(frozen=True, eq=False)
class KeyFeed:
    """A key index, and the dispatcher that brings it the log."""

    index: KeyIndex
    dispatcher: Dispatcher
    flush_in_background: Callable[[], None]
    """Called at each round of persistence: makes durable what is due. `index.flush` makes all durable."""


@dataclass(frozen=True, eq=False)
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

        relisting(self.layout.root, read)

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


def open_state_files(context: OpeningContext) -> tuple[TopicConfigs, SubscriptionGroups, ConsumerOffsets]:
    """RocketMQ's JSON tables, loaded. Raises StateFileCorrupt."""
    config, read_only = context.config, context.read_only
    place = (context.file_system, context.layout.config, context.clock)
    topics = TopicConfigs(
        *place,
        auto_create_topic_enable=config.auto_create_topic_enable,
        default_topic_queue_nums=config.default_topic_queue_nums,
        read_only=read_only,
    )
    groups = SubscriptionGroups(
        *place, auto_create_subscription_group=config.auto_create_subscription_group, read_only=read_only
    )
    offsets = ConsumerOffsets(*place, topics=topics, subscription_groups=groups, read_only=read_only)
    topics.load()
    groups.load()
    offsets.load()
    # Only to see that it can be read: the delivery service loads its own when the queues are complete.
    DelayOffsets(*place).load()
    return topics, groups, offsets


def open_checkpoint(context: OpeningContext) -> CheckpointFile:
    """RocketMQ's checkpoint, loaded."""
    checkpoint = CheckpointFile(context.file_system, context.layout.checkpoint)
    checkpoint.load()
    return checkpoint


def open_recovery_point(context: OpeningContext) -> RecoveryPointFile:
    """Where recovery begins, loaded."""
    recovery_point = RecoveryPointFile(context.file_system, context.layout.recovery_point)
    recovery_point.load()
    return recovery_point


def open_queue_manifest(context: OpeningContext) -> QueueManifestFile:
    """Which queues had entries, loaded."""
    queue_names = QueueManifestFile(context.file_system, context.layout.queue_names)
    queue_names.load()
    return queue_names


def make_consume_queues(context: OpeningContext, topics: TopicConfigs) -> ConsumeQueueStore:
    """The queues of a log; nothing is read as yet."""
    return ConsumeQueueStore(
        context.file_system,
        context.layout.consume_queues,
        context.config,
        context.directory.delays.as_array(),
        read_only=context.read_only,
        after_crash=context.after_crash,
        without_queues=topics.without_queues,
    )


def open_commit_log(context: OpeningContext, first_queue_offset: Callable[[str, int], int]) -> CommitLog:
    """The log with its segments; its end is not known yet. Raises SegmentSizeMismatch, CorruptRecord."""
    commit_log = CommitLog(
        context.file_system,
        context.layout.commit_log,
        context.config,
        context.clock,
        read_only=context.read_only,
        first_queue_offset=first_queue_offset,
    )
    commit_log.load()
    return commit_log


def load_consume_queues(context: OpeningContext, consume_queues: ConsumeQueueStore, min_offset: int) -> None:
    """Find the queues of a log that begins at `min_offset`, as on disk. A writer deletes leftovers first."""
    if not context.read_only:
        directory, queue_bytes = context.layout.consume_queues, context.config.mapped_file_size_consume_queue
        delete_leftovers(context.file_system, directory, queue_bytes, context.directory.deleted)
    consume_queues.load(min_offset)


def with_index_file_size(context: OpeningContext) -> OpeningContext:
    """The context, with the size of the index files that are there. Raises SegmentSizeMismatch."""
    if not context.keeps_index_files:
        return context
    files = IndexFileList(context.file_system, context.layout.index, context.index_file_size, read_only=True)
    files.load()
    config = dataclasses.replace(
        context.config, max_hash_slot_num=files.size.slot_count, max_index_num=files.size.entry_count
    )
    return dataclasses.replace(context, directory=context.directory._replace(config=config))


def open_index_files(
    context: OpeningContext, commit_log: CommitLog, checkpoint: CheckpointFile
) -> IndexFileKeyIndex | None:
    """RocketMQ's index files, recovered; None where none are kept. Raises SegmentSizeMismatch, StoreFull."""
    if not context.keeps_index_files:
        return None
    return IndexFileKeyIndex(
        context.file_system,
        context.layout.index,
        context.layout.index_point,
        commit_log,
        context.index_file_size,
        context.clock,
        after_crash=context.after_crash,
        index_msg_timestamp=checkpoint.checkpoint.index_msg_timestamp,
        read_only=context.read_only,
        with_tags=context.config.index_tags,
    )


def open_own_key_index(context: OpeningContext, commit_log: CommitLog) -> KeyIndex | None:
    """Our own key index, recovered; None where there is none."""
    config = context.config
    if not config.key_index_enable or config.key_index == "index_file":
        return None
    if not isinstance(context.file_system, OsFileSystem):
        return MemoryKeyIndex(commit_log)
    return LmdbKeyIndex(
        context.layout.keys, commit_log, read_only=context.read_only, file_system=context.file_system
    )
