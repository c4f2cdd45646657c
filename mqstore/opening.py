"""Opening: builds the parts of a store, reads its state, recovers, and catches up what is derived.

In this order, so that a refusal (a wrong setting, a held lock, a bad state file, damage) comes before
anything is changed:

    lock -> settings, named or remembered -> state files -> list the log, the queues, the index files
    -> find the end of the log -> cut a torn tail -> `abort` on disk -> remember the settings
    -> cut the queues back to it -> dispatch what they miss

Reading only: no lock, nothing is created or changed, and the end of the log is only noted.
It does not start services (message_store.py). Source: DefaultMessageStore#load.
"""

import dataclasses
import logging
from contextlib import ExitStack
from pathlib import Path

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
from mqstore.index.queue.queue_manifest_format import QueueManifest
from mqstore.index.queue.queue_recovery import DISPATCHER_NAME, bring_up_to_date
from mqstore.metadata.consumer_offsets import ConsumerOffsets
from mqstore.metadata.subscription_groups import SubscriptionGroups
from mqstore.metadata.topics import TopicConfig, TopicConfigs
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.settings.directory_config import Role, config_in_force
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import BackupUnfinished, StoreNotFound
from mqstore.store.files.file_system import FileLock, FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.listing_again import listing_again
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import RecoveryReport, find_start, recover
from mqstore.store.message.topic_names import is_dead_letter_topic, is_retry_topic, is_system_topic
from mqstore.store.progress import Progress
from mqstore.store.state.abort_file import AbortFile
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store.threads.run_in_thread import run_in_thread
from mqstore.store_layout import StoreLayout
from mqstore.store_parts import KeyFeed, StoreParts

__all__ = ["open_parts"]

_logger = logging.getLogger(__name__)


def open_parts(
    path: Path,
    config: StoreConfig,
    *,
    read_only: bool,
    clock: Clock,
    file_system: FileSystem,
    on_progress: Progress | None,
) -> StoreParts:
    """Open the store at `path`; see the head of this file. Raises what MessageStore.open raises."""
    DelayLevels.parse(config.message_delay_level)
    layout = StoreLayout(path)
    if file_system.exists(layout.unfinished_backup):
        raise BackupUnfinished(path)
    if read_only and not file_system.exists(layout.commit_log):
        raise StoreNotFound(path)

    def build() -> StoreParts:
        return _build_parts(layout, config, read_only, clock, file_system, on_progress)

    return listing_again(path, build) if read_only else build()


def _build_parts(
    layout: StoreLayout,
    config: StoreConfig,
    read_only: bool,
    clock: Clock,
    file_system: FileSystem,
    on_progress: Progress | None,
) -> StoreParts:
    with ExitStack() as given_back:
        lock = None if read_only else _lock(file_system, layout)
        if lock is not None:
            given_back.callback(lock.release)
        opening = _Opening(layout, config, read_only, clock, file_system, on_progress)
        given_back.callback(opening.give_back_keys)
        parts = opening.run(lock)
        given_back.pop_all()
        return parts


def _load_compiled_code() -> None:
    """What the queues' catching up will need."""
    import mqstore.index.queue.entry_kernels  # noqa: F401


def _lock(file_system: FileSystem, layout: StoreLayout) -> FileLock:
    """The one writer's lock (I10)."""
    file_system.make_directories(layout.root)
    return file_system.lock(layout.lock)


class _Opening:
    """The steps of one opening."""

    def __init__(
        self,
        layout: StoreLayout,
        config: StoreConfig,
        read_only: bool,
        clock: Clock,
        file_system: FileSystem,
        on_progress: Progress | None,
    ) -> None:
        self.layout = layout
        self.settings_file = DirectorySettingsFile(file_system, layout.settings)
        remembered = self.settings_file.load()
        role: Role = "reader" if read_only else "writer"
        directory = config_in_force(file_system, layout, config, remembered, role)
        self.config = directory.config
        self.directory = directory
        self.read_only = read_only
        self.clock = clock
        self.file_system = file_system
        self.delay_levels = DelayLevels.parse(self.config.message_delay_level)
        self.on_progress = on_progress
        self._key_indexes: list[KeyIndex] = []

    def give_back_keys(self) -> None:
        """After an opening that failed: LMDB's files may be open once in a process."""
        for index in self._key_indexes:
            index.close()

    def run(self, lock: FileLock | None) -> StoreParts:
        """All steps."""
        layout, file_system = self.layout, self.file_system
        topics, groups, consumer_offsets = self._load_state_files()
        abort = AbortFile(file_system, layout.abort)
        checkpoint = CheckpointFile(file_system, layout.checkpoint)
        checkpoint.load()
        recovery_point = RecoveryPointFile(file_system, layout.recovery_point)
        recovery_point.load()
        commit_log = CommitLog(
            file_system, layout.commit_log, self.config, self.clock, read_only=self.read_only
        )
        commit_log.load()
        after_crash = abort.exists()
        if not self.read_only:
            queue_bytes = self.config.mapped_file_size_consume_queue
            delete_leftovers(file_system, layout.consume_queues, queue_bytes, self.directory.deleted)
        consume_queues = self._load_consume_queues(commit_log.min_offset, topics, after_crash=after_crash)
        if self._keeps_index_files:
            self._adopt_index_files()
        queue_names = QueueManifestFile(file_system, layout.queue_names)
        queue_names.load()
        start_offset = find_start(
            commit_log, recovery_point.point, checkpoint.checkpoint, after_crash=after_crash
        )
        report = self._recover(commit_log, recovery_point, start_offset)
        if not self.read_only:
            # Also of the queues: a flush makes the names under it durable, and not its own.
            for directory in (layout.commit_log, layout.consume_queues, layout.own, layout.config):
                file_system.make_directories(directory)
            abort.create()
            self._remember(commit_log, consume_queues)
        dispatcher = self._catch_up_queues(
            commit_log, consume_queues, queue_names, recovery_point, start_offset, after_crash=after_crash
        )
        index_files = self._open_index_files(commit_log, checkpoint, after_crash=after_crash)
        key_feeds = self._feed_keys(commit_log, index_files)
        self._agree_with_queues(topics, consumer_offsets, consume_queues)
        return StoreParts(
            layout,
            self.config,
            file_system,
            self.clock,
            lock,
            abort,
            commit_log,
            consume_queues,
            dispatcher,
            key_feeds,
            index_files,
            checkpoint,
            queue_names,
            recovery_point,
            self.delay_levels,
            topics,
            groups,
            consumer_offsets,
            report,
            self.settings_file,
        )

    def _load_state_files(self) -> tuple[TopicConfigs, SubscriptionGroups, ConsumerOffsets]:
        arguments = (self.file_system, self.layout.config, self.clock)
        topics = TopicConfigs(
            *arguments,
            auto_create_topic_enable=self.config.auto_create_topic_enable,
            default_topic_queue_nums=self.config.default_topic_queue_nums,
            read_only=self.read_only,
        )
        groups = SubscriptionGroups(
            *arguments,
            auto_create_subscription_group=self.config.auto_create_subscription_group,
            read_only=self.read_only,
        )
        offsets = ConsumerOffsets(
            *arguments, topics=topics, subscription_groups=groups, read_only=self.read_only
        )
        topics.load()
        groups.load()
        offsets.load()
        # Only to see that it can be read: the delivery service loads its own when the queues are complete.
        DelayOffsets(*arguments).load()
        return topics, groups, offsets

    def _load_consume_queues(
        self, min_offset: int, topics: TopicConfigs, *, after_crash: bool
    ) -> ConsumeQueueStore:
        consume_queues = ConsumeQueueStore(
            self.file_system,
            self.layout.consume_queues,
            self.config,
            self.directory.delays.as_array(),
            read_only=self.read_only,
            after_crash=after_crash,
            without_queues=topics.without_queues,
        )
        consume_queues.load(min_offset)
        return consume_queues

    def _recover(
        self, commit_log: CommitLog, recovery_point: RecoveryPointFile, start_offset: int
    ) -> RecoveryReport:
        """Find the end of the log; each segment that is walked through moves the recovery point on."""
        point = recovery_point.point
        return recover(
            commit_log,
            start_offset,
            point.log_offset if point is not None else None,
            read_only=self.read_only,
            on_progress=self.on_progress,
            on_settled=lambda offset: recovery_point.save(RecoveryPoint(offset, start_offset)),
            # Loading needs the GIL and the scan does not, so they overlap.
            on_walk=lambda: run_in_thread(_load_compiled_code),
        )

    def _remember(self, commit_log: CommitLog, consume_queues: ConsumeQueueStore) -> None:
        """Make the settings in force durable, before anything that depends on them is written."""
        end_offset = commit_log.max_offset
        before = self.directory
        delays = before.delays.changed(end_offset, self.delay_levels)
        delays = delays.without_expired(commit_log.min_offset)
        if delays.newest != before.delays.newest:
            _logger.warning(
                "%s: message_delay_level was %r and is %r from physical offset %d on",
                self.layout.root,
                before.delays.newest.text,
                delays.newest.text,
                end_offset,
            )
        deleted = before.deleted.within(commit_log.min_offset, end_offset)
        consume_queues.delay_tables, consume_queues.deleted = delays.as_array(), deleted
        self.directory = before._replace(config=self.config, delays=delays, deleted=deleted)
        self.settings_file.save(self.directory.to_remember())

    def _catch_up_queues(
        self,
        commit_log: CommitLog,
        consume_queues: ConsumeQueueStore,
        queue_names: QueueManifestFile,
        recovery_point: RecoveryPointFile,
        start_offset: int,
        *,
        after_crash: bool,
    ) -> Dispatcher:
        end_offset = commit_log.max_offset
        if self.read_only:
            return Dispatcher(commit_log, consume_queues, end_offset, DISPATCHER_NAME)

        def save(queues_offset: int) -> None:
            recovery_point.save(RecoveryPoint(end_offset, queues_offset))

        def begin_anew() -> None:
            # In this order: a name is missed until the point says that all is to be dispatched.
            save(commit_log.min_offset)
            queue_names.save(QueueManifest(commit_log.min_offset, {}))

        def go_on_from(queues_offset: int) -> None:
            queue_names.save(consume_queues.durable_manifest)
            save(queues_offset)

        # Before a queue is cut, for the start may be before the point; and before the first put, for without
        # a point whole records behind a torn one would pass for damage.
        save(start_offset)
        return bring_up_to_date(
            commit_log,
            consume_queues,
            start_offset,
            after_crash=after_crash,
            expected=queue_names.known,
            on_rebuild=begin_anew,
            on_progress=self.on_progress,
            on_durable=go_on_from,
        )

    def _agree_with_queues(
        self, topics: TopicConfigs, consumer_offsets: ConsumerOffsets, consume_queues: ConsumeQueueStore
    ) -> None:
        """Topics that only their queues tell of get a config; no consumer stands beyond its queue's end."""
        queue_nums: dict[str, int] = {}
        for topic, queue_id in consume_queues.queues():
            queue_nums[topic] = max(queue_nums.get(topic, 0), queue_id + 1)
        for topic, count in queue_nums.items():
            if topics.get(topic) is None:
                nums = max(count, self._created_queue_nums(topic))
                topics.add(topic, TopicConfig(topic_name=topic, read_queue_nums=nums, write_queue_nums=nums))
        if not self.read_only:
            consumer_offsets.correct(consume_queues.next_queue_offset)

    def _created_queue_nums(self, topic: str) -> int:
        """Queues that a topic of this name had when it came to be by itself, maybe just before a crash."""
        is_users = not (is_retry_topic(topic) or is_dead_letter_topic(topic) or is_system_topic(topic))
        is_created = is_users and self.config.auto_create_topic_enable
        return self.config.default_topic_queue_nums if is_created else 1

    @property
    def _keeps_index_files(self) -> bool:
        key_index = self.config.key_index
        if not self.config.key_index_enable or key_index == "lmdb":
            return False
        # Beside lmdb they are there for a broker: a reader needs them not, and no broker opens a memory.
        return key_index == "index_file" or (
            not self.read_only and isinstance(self.file_system, OsFileSystem)
        )

    @property
    def _index_file_size(self) -> IndexFileSize:
        return IndexFileSize(self.config.max_hash_slot_num, self.config.max_index_num)

    def _adopt_index_files(self) -> None:
        """Go on with the sizes of the index files that are there. Raises SegmentSizeMismatch."""
        row = IndexFileList(self.file_system, self.layout.index, self._index_file_size, read_only=True)
        row.load()
        self.config = dataclasses.replace(
            self.config, max_hash_slot_num=row.size.slot_count, max_index_num=row.size.entry_count
        )

    def _open_index_files(
        self, commit_log: CommitLog, checkpoint: CheckpointFile, *, after_crash: bool
    ) -> IndexFileKeyIndex | None:
        if not self._keeps_index_files:
            return None
        return IndexFileKeyIndex(
            self.file_system,
            self.layout.index,
            self.layout.index_point,
            commit_log,
            self._index_file_size,
            self.clock,
            after_crash=after_crash,
            index_msg_timestamp=checkpoint.checkpoint.index_msg_timestamp,
            read_only=self.read_only,
            with_tags=self.config.index_tags,
        )

    def _feed_keys(self, commit_log: CommitLog, index_files: IndexFileKeyIndex | None) -> tuple[KeyFeed, ...]:
        feeds = []
        if self.config.key_index_enable and self.config.key_index != "index_file":
            index = self._open_own_key_index(commit_log)
            self._key_indexes.append(index)
            feeds.append(KeyFeed(index, self._key_dispatcher(commit_log, index, "key index"), index.flush))
        if index_files is not None:
            dispatcher = self._key_dispatcher(commit_log, index_files, "index files")
            feeds.append(KeyFeed(index_files, dispatcher, index_files.flush_if_due))
        return tuple(feeds)

    @staticmethod
    def _key_dispatcher(commit_log: CommitLog, index: KeyIndex, name: str) -> Dispatcher:
        return Dispatcher(commit_log, index, index.dispatched_offset, name)

    def _open_own_key_index(self, commit_log: CommitLog) -> KeyIndex:
        if isinstance(self.file_system, OsFileSystem):
            return LmdbKeyIndex(
                self.layout.keys, commit_log, read_only=self.read_only, file_system=self.file_system
            )
        return MemoryKeyIndex(commit_log)
