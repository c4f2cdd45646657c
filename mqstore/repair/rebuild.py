"""Rebuilding: makes anew what is derived from the log, from its first record on.

    queues    consumequeue/            byte for byte what a broker or a store writes behind the same log
    keys      mqstore/keys/            and RocketMQ's index/, where there is one

First the log is walked from its first record on (a torn tail is cut; damage is CorruptRecord: repair first)
and the recovery point set back, so that no crash from then on leaves a store that believes in queues that are
gone. Then the old files are deleted, and the store is opened, which builds them. Killed at any point, it can
be run again; opening the store instead does as well.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from mqstore.message_store import MessageStore
from mqstore.settings.directory_config import remember, tool_config
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.store.clock import Clock, SystemClock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreNotFound
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import recover
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store_layout import StoreLayout
from mqstore.store_parts import OpeningProgress
from mqstore.store_stats import StoreStats

__all__ = ["derive_anew", "forget_keys", "rebuild", "recover_log", "with_index_files"]


def rebuild(
    path: Path,
    config: StoreConfig | None = None,
    *,
    queues: bool = False,
    keys: bool = False,
    file_system: FileSystem | None = None,
    clock: Clock | None = None,
    on_progress: OpeningProgress | None = None,
) -> StoreStats:
    """Rebuild the queues or the keys, or both, of the store at `path`; returns what it then has.

    Raises StoreNotFound, StoreLocked, CorruptRecord (the log is damaged: repair), StateFileCorrupt,
    SettingContradicted, StoreFull.
    """
    file_system, clock = file_system or OsFileSystem(), clock or SystemClock()
    layout = StoreLayout(path)
    if not file_system.exists(layout.commit_log):
        raise StoreNotFound(path)
    with _locked(file_system, layout):
        # One that is damaged is an error here: what it said is needed.
        DirectorySettingsFile(file_system, layout.settings).load()
        directory = tool_config(file_system, path, config)
        config = with_index_files(file_system, layout, directory.config)
        file_system.make_directories(layout.own)
        remember(file_system, layout, directory)
        recover_log(file_system, layout, config, clock)
        if queues:
            delete_tree(file_system, layout.consume_queues)
        if keys:
            forget_keys(file_system, layout)
    return derive_anew(path, config, file_system, clock, on_progress)


@contextlib.contextmanager
def _locked(file_system: FileSystem, layout: StoreLayout) -> Iterator[None]:
    lock = file_system.lock(layout.lock)
    try:
        yield
    finally:
        lock.release()


def with_index_files(file_system: FileSystem, layout: StoreLayout, config: StoreConfig) -> StoreConfig:
    """`config`, keeping RocketMQ's index files too if there is a directory for them."""
    if config.key_index == "lmdb" and file_system.exists(layout.index):
        return dataclasses.replace(config, key_index="both")
    return config


def recover_log(file_system: FileSystem, layout: StoreLayout, config: StoreConfig, clock: Clock) -> None:
    """Find the end of the log, durably, and set the recovery point so that all queues are dispatched anew."""
    file_system.make_directories(layout.own)
    log = CommitLog(file_system, layout.commit_log, config, clock)
    log.load()
    point_file = RecoveryPointFile(file_system, layout.recovery_point)
    point = point_file.load()
    durable_offset = point.log_offset if point is not None else None
    report = recover(log, log.min_offset, durable_offset, read_only=False)
    point_file.save(RecoveryPoint(report.end_offset, min(log.min_offset, report.end_offset)))


def forget_keys(file_system: FileSystem, layout: StoreLayout) -> None:
    """Delete both key indexes, RocketMQ's point first, so that it never claims too much."""
    file_system.delete(layout.index_point)
    if file_system.exists(layout.own):
        file_system.sync_directory(layout.own)
    # (The directory stays: that it is there says that the store keeps index files.)
    for entry in file_system.list(layout.index):
        file_system.delete(layout.index / entry.name)
    delete_tree(file_system, layout.keys)


def derive_anew(
    path: Path,
    config: StoreConfig,
    file_system: FileSystem,
    clock: Clock,
    on_progress: OpeningProgress | None,
) -> StoreStats:
    """Open the store, which builds what is missing, make it durable and close it again."""
    store = MessageStore.open(
        path, config, clock=clock, file_system=file_system, start=False, on_progress=on_progress
    )
    with store:
        store.flush()
        return store.stats()
