"""Opening: builds the parts of a store, reads its state, recovers, and catches up what is derived.

In this order, so that a refusal (a wrong setting, a held lock, a bad state file, damage) comes before
anything is changed:

    lock -> settings, named or remembered -> state files -> list the log, the queues, the index files
    -> find the end of the log -> cut a torn tail -> `abort` on disk -> remember the settings, and the
    identity
    -> cut the queues back to it -> dispatch what they miss

A `read_only` opening takes no lock, creates and changes nothing, and only notes the end of the log.
It does not start services (message_store.py). Source: DefaultMessageStore#load.
"""

import logging
from contextlib import ExitStack
from pathlib import Path

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.keys.key_index import KeyIndex
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.index.queue.queue_manifest_file import QueueManifestFile
from mqstore.index.queue.queue_manifest_format import QueueManifest
from mqstore.index.queue.queue_recovery import DISPATCHER_NAME, bring_up_to_date
from mqstore.metadata.consumer_offsets import ConsumerOffsets
from mqstore.metadata.topics import TopicConfig, TopicConfigs
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.settings.directory_config import Role, config_in_force
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.settings.store_identity_file import StoreIdentityFile
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import BackupUnfinished, StoreNotFound
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.files.file_system import FileLock, FileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import RecoveryReport, find_start, recover
from mqstore.store.message.topic_names import is_dead_letter_topic, is_retry_topic, is_system_topic
from mqstore.store.progress import Progress
from mqstore.store.relisting import relisting
from mqstore.store.state.abort_file import AbortFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store.threads.run_in_thread import run_in_thread
from mqstore.store_layout import StoreLayout
from mqstore.store_parts import (
    KeyFeed,
    OpeningContext,
    StoreParts,
    load_consume_queues,
    make_consume_queues,
    open_checkpoint,
    open_commit_log,
    open_index_files,
    open_own_key_index,
    open_queue_manifest,
    open_recovery_point,
    open_state_files,
    with_index_file_size,
)

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
    undo: ExitStack,
) -> StoreParts:
    """Open the store at `path`; see the head of this file. Raises what MessageStore.open raises.

    undo: gets what closes it again. It is the caller's, who closes it if anything goes wrong later: an
    interrupt may come before the parts have reached the caller.
    """
    DelayLevels.parse(config.message_delay_level)
    layout = StoreLayout(path)
    if file_system.exists(layout.unfinished_backup):
        raise BackupUnfinished(path)
    if read_only and not file_system.exists(layout.commit_log):
        raise StoreNotFound(path, exists=file_system.exists(path))

    def build() -> StoreParts:
        return _build_parts(layout, config, read_only, clock, file_system, on_progress, undo)

    return relisting(path, build) if read_only else build()


def _build_parts(
    layout: StoreLayout,
    config: StoreConfig,
    read_only: bool,
    clock: Clock,
    file_system: FileSystem,
    on_progress: Progress | None,
    undo: ExitStack,
) -> StoreParts:
    lock: FileLock | None = None
    try:
        if not read_only:
            lock = _lock(file_system, layout)
            undo.callback(lock.release)
        settings_file = DirectorySettingsFile(file_system, layout.settings)
        role: Role = "reader" if read_only else "writer"
        directory = config_in_force(file_system, layout, config, settings_file.load(), role)
        abort = AbortFile(file_system, layout.abort)
        context = OpeningContext(layout, directory, file_system, clock, read_only, abort.exists())
        return _Opening(context, settings_file, abort, on_progress, undo).run(lock)
    except BaseException:
        # Also for an interrupt between two lines: its traceback may refer to the lock for long.
        undo.close()
        if lock is not None:
            lock.release()
        raise


def _load_compiled_code() -> None:
    """The compiled code that dispatching to the queues needs."""
    import mqstore.index.queue.entry_kernels  # noqa: F401


def _lock(file_system: FileSystem, layout: StoreLayout) -> FileLock:
    """The one writer's lock (I10)."""
    file_system.make_directories(layout.root)
    return file_system.lock(layout.lock)


class _Opening:
    """The steps of one opening. `undo` closes what is open when a later step fails."""

    def __init__(
        self,
        context: OpeningContext,
        settings_file: DirectorySettingsFile,
        abort: AbortFile,
        on_progress: Progress | None,
        undo: ExitStack,
    ) -> None:
        self._context = context
        self._settings_file = settings_file
        self._abort = abort
        self._on_progress = on_progress
        self._undo = undo

    def run(self, lock: FileLock | None) -> StoreParts:
        """All steps."""
        delay_levels = DelayLevels.parse(self._context.config.message_delay_level)
        topics, groups, consumer_offsets = open_state_files(self._context)
        checkpoint = open_checkpoint(self._context)
        recovery_point = open_recovery_point(self._context)
        consume_queues = make_consume_queues(self._context, topics)
        commit_log = open_commit_log(self._context, consume_queues.next_queue_offset)
        load_consume_queues(self._context, consume_queues, commit_log.min_offset)
        self._context = context = with_index_file_size(self._context)
        queue_names = open_queue_manifest(context)
        start_offset = find_start(
            commit_log, recovery_point.point, checkpoint.checkpoint, after_crash=context.after_crash
        )
        report = self._recover(commit_log, recovery_point, start_offset)
        if not context.read_only:
            self._begin_to_write(commit_log, consume_queues, delay_levels)
        dispatcher = self._catch_up_queues(
            commit_log, consume_queues, queue_names, recovery_point, start_offset
        )
        index_files = open_index_files(context, commit_log, checkpoint)
        key_feeds = self._feed_keys(commit_log, index_files)
        self._agree_with_queues(topics, consumer_offsets, consume_queues)
        parts = StoreParts(
            layout=context.layout,
            config=context.config,
            file_system=context.file_system,
            clock=context.clock,
            lock=lock,
            abort=self._abort,
            commit_log=commit_log,
            consume_queues=consume_queues,
            dispatcher=dispatcher,
            key_feeds=key_feeds,
            index_files=index_files,
            checkpoint=checkpoint,
            queue_names=queue_names,
            recovery_point=recovery_point,
            delay_levels=delay_levels,
            topics=topics,
            subscription_groups=groups,
            consumer_offsets=consumer_offsets,
            recovery=report,
            settings_file=self._settings_file,
        )
        self._undo.callback(parts.release)
        self._tell_of(report)
        return parts

    def _tell_of(self, report: RecoveryReport) -> None:
        if self._context.read_only or not (self._context.after_crash or report.erased_bytes):
            return
        root = str(self._context.layout.root)
        log_event(
            *(_logger, events.STORE_RECOVERED, "%s was not closed, and is recovered: %r", root, report),
            store_path=root,
            start_offset=report.start_offset,
            end_offset=report.end_offset,
            records=report.records,
            erased_bytes=report.erased_bytes,
        )

    def _recover(
        self, commit_log: CommitLog, recovery_point: RecoveryPointFile, start_offset: int
    ) -> RecoveryReport:
        """Find the end of the log; each segment that is walked through moves the recovery point on."""
        point = recovery_point.point
        return recover(
            commit_log,
            start_offset,
            point.log_offset if point is not None else None,
            read_only=self._context.read_only,
            on_progress=self._on_progress,
            on_durable=lambda offset: recovery_point.save(RecoveryPoint(offset, start_offset)),
            # Loading needs the GIL and the scan does not, so they overlap.
            on_walk=lambda: run_in_thread(_load_compiled_code),
        )

    def _begin_to_write(
        self, commit_log: CommitLog, consume_queues: ConsumeQueueStore, delay_levels: DelayLevels
    ) -> None:
        """Make the directories, then `abort`, then the settings in force durable, before anything else."""
        layout = self._context.layout
        # Also that of the queues: a flush makes the names in it durable, and not its own name.
        for directory in (layout.commit_log, layout.consume_queues, layout.own, layout.config):
            self._context.file_system.make_directories(directory)
        self._abort.create()
        self._remember(commit_log, consume_queues, delay_levels)
        StoreIdentityFile(self._context.file_system, layout.identity).ensure()

    def _remember(
        self, commit_log: CommitLog, consume_queues: ConsumeQueueStore, delay_levels: DelayLevels
    ) -> None:
        """Make the settings in force durable, before anything that depends on them is written."""
        end_offset = commit_log.max_offset
        before = self._context.directory
        delays = before.delays.changed(end_offset, delay_levels)
        delays = delays.without_expired(commit_log.min_offset)
        if delays.newest != before.delays.newest:
            root, was, now = str(self._context.layout.root), before.delays.newest.text, delays.newest.text
            log_event(
                _logger,
                events.DELAY_LEVELS_CHANGED,
                "%s: message_delay_level was %r and is %r from physical offset %d on",
                *(root, was, now, end_offset),
                store_path=root,
                before=was,
                after=now,
                physical_offset=end_offset,
            )
        deleted = before.deleted.within(commit_log.min_offset, end_offset)
        consume_queues.delay_tables, consume_queues.deleted = delays.as_array(), deleted
        self._settings_file.save(before._replace(delays=delays, deleted=deleted).to_remember())

    def _catch_up_queues(
        self,
        commit_log: CommitLog,
        consume_queues: ConsumeQueueStore,
        queue_names: QueueManifestFile,
        recovery_point: RecoveryPointFile,
        start_offset: int,
    ) -> Dispatcher:
        end_offset = commit_log.max_offset
        if self._context.read_only:
            return Dispatcher(commit_log, consume_queues, end_offset, DISPATCHER_NAME)

        def save(queues_offset: int) -> None:
            recovery_point.save(RecoveryPoint(end_offset, queues_offset))

        def begin_again() -> None:
            # In this order: missing queues count as lost until the point says that all is dispatched again.
            save(commit_log.min_offset)
            queue_names.save(QueueManifest(commit_log.min_offset, {}))

        def note_durable(queues_offset: int) -> None:
            queue_names.save(consume_queues.durable_manifest)
            save(queues_offset)

        # Before a queue is truncated, because the start may be before the point. And before the first put:
        # without a point, whole records behind a torn one would count as damage.
        save(start_offset)
        return bring_up_to_date(
            commit_log,
            consume_queues,
            start_offset,
            after_crash=self._context.after_crash,
            expected=queue_names.known,
            on_rebuild=begin_again,
            on_progress=self._on_progress,
            on_durable=note_durable,
        )

    def _agree_with_queues(
        self, topics: TopicConfigs, consumer_offsets: ConsumerOffsets, consume_queues: ConsumeQueueStore
    ) -> None:
        """Give settings to topics that only have queues; move offsets beyond a queue's end back to it."""
        queue_nums: dict[str, int] = {}
        for topic, queue_id in consume_queues.queues():
            queue_nums[topic] = max(queue_nums.get(topic, 0), queue_id + 1)
        for topic, count in queue_nums.items():
            if topics.get(topic) is None:
                nums = max(count, self._created_queue_nums(topic))
                topics.add(topic, TopicConfig(topic_name=topic, read_queue_nums=nums, write_queue_nums=nums))
        if not self._context.read_only:
            consumer_offsets.correct(consume_queues.next_queue_offset)

    def _created_queue_nums(self, topic: str) -> int:
        """How many queues a topic of this name got if its first put created it, maybe just before a crash."""
        is_users = not (is_retry_topic(topic) or is_dead_letter_topic(topic) or is_system_topic(topic))
        is_created = is_users and self._context.config.auto_create_topic_enable
        return self._context.config.default_topic_queue_nums if is_created else 1

    def _feed_keys(self, commit_log: CommitLog, index_files: IndexFileKeyIndex | None) -> tuple[KeyFeed, ...]:
        feeds = []
        own: KeyIndex | None = None
        try:
            own = open_own_key_index(self._context, commit_log)
            if own is not None:
                self._undo.callback(own.close)
        except BaseException:
            # LMDB's files may be open once in a process: an interrupt between the lines above closes them.
            if own is not None:
                own.close()
            raise
        if own is not None:
            feeds.append(KeyFeed(own, _key_dispatcher(commit_log, own, "key index"), own.flush))
        if index_files is not None:
            dispatcher = _key_dispatcher(commit_log, index_files, "index files")
            feeds.append(KeyFeed(index_files, dispatcher, index_files.flush_if_due))
        return tuple(feeds)


def _key_dispatcher(commit_log: CommitLog, index: KeyIndex, name: str) -> Dispatcher:
    return Dispatcher(commit_log, index, index.dispatched_offset, name)
