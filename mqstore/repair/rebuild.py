"""Rebuilds what is derived from the log, from its first record on.

    queues    consumequeue/            byte for byte what a broker or a store writes behind the same log
    keys      mqstore/keys/            and RocketMQ's index/, where there is one

First the log is walked from its first record on (a torn tail is cut; damage is CorruptRecord: repair first)
and the recovery point is set back, so that after a crash no opening relies on queues that were deleted. Then
the old files are deleted, and the store is opened, which builds them. If it is killed at any point, run it
again, or open the store.
"""

import dataclasses
import logging
from pathlib import Path

from mqstore.message_store import MessageStore
from mqstore.settings.directory_config import remember, tool_config
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.clock import Clock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreNotFound
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import recover
from mqstore.store.progress import Progress
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store_layout import StoreLayout, user_path
from mqstore.store_stats import StoreStats
from mqstore.verify.inspection import Inspection

__all__ = ["build_derived", "forget_keys", "rebuild", "recover_log", "with_index_files"]

_logger = logging.getLogger(__name__)


def rebuild(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    queues: bool = False,
    keys: bool = False,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    on_progress: Progress | None = None,
) -> StoreStats:
    """Rebuild the queues or the keys, or both, of the store at `path`; returns what it then has.

    Raises StoreNotFound, StoreLocked, CorruptRecord (the log is damaged: repair), StateFileCorrupt,
    SettingContradicted, StoreFull.
    """
    path = user_path(path)
    inspection = Inspection.of(file_system, clock, on_opening=on_progress)
    file_system, layout = inspection.file_system, StoreLayout(path)
    if not file_system.exists(layout.commit_log):
        raise StoreNotFound(path)
    with inspection.locked(layout):
        # A damaged settings file is an error here: its contents are needed.
        DirectorySettingsFile(file_system, layout.settings).load()
        directory = tool_config(file_system, path, config)
        config = with_index_files(file_system, layout, directory.config)
        file_system.make_directories(layout.own)
        remember(file_system, layout, directory)
        recover_log(inspection, layout, config)
        if queues:
            delete_tree(file_system, layout.consume_queues)
        if keys:
            forget_keys(file_system, layout)
    stats = build_derived(path, config, inspection)
    log_event(
        *(_logger, events.STORE_REBUILT, "what is derived in %s is built from the log", path),
        store_path=str(path),
        queues=stats.queues,
        messages=stats.messages,
    )
    return stats


def with_index_files(file_system: FileSystem, layout: StoreLayout, config: StoreConfig) -> StoreConfig:
    """`config`, with RocketMQ's index files too if their directory exists."""
    if config.key_index == "lmdb" and file_system.exists(layout.index):
        return dataclasses.replace(config, key_index="both")
    return config


def recover_log(inspection: Inspection, layout: StoreLayout, config: StoreConfig) -> None:
    """Find the end of the log, durably, and set the recovery point so that all queues are built again."""
    file_system = inspection.file_system
    file_system.make_directories(layout.own)
    log = CommitLog(file_system, layout.commit_log, config, inspection.clock)
    log.load()
    point_file = RecoveryPointFile(file_system, layout.recovery_point)
    point = point_file.load()
    durable_offset = point.log_offset if point is not None else None
    report = recover(log, log.min_offset, durable_offset, read_only=False)
    point_file.save(RecoveryPoint(report.end_offset, min(log.min_offset, report.end_offset)))


def forget_keys(file_system: FileSystem, layout: StoreLayout) -> None:
    """Delete both key indexes; the index point first, so that it never claims files that are gone."""
    file_system.delete(layout.index_point)
    if file_system.exists(layout.own):
        file_system.sync_directory(layout.own)
    # (The directory stays: its existence says that the store keeps index files.)
    for entry in file_system.list(layout.index):
        file_system.delete(layout.index / entry.name)
    delete_tree(file_system, layout.keys)


def build_derived(path: Path, config: StoreConfig, inspection: Inspection) -> StoreStats:
    """Open the store, which builds what is missing; make that durable, and close the store."""
    store = MessageStore.open(
        path,
        config,
        clock=inspection.clock,
        file_system=inspection.file_system,
        start=False,
        on_progress=inspection.on_opening,
    )
    with store:
        store.flush()
        return store.stats()
