"""The planted bugs: defects that the crash tests must catch, or they prove nothing.

Each changes one decision of the store while it is planted, and is of a kind that real stores have had
(some of them were found here). `where` names the workloads in which it may show. The store itself knows
nothing of this.
"""

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from mqstore import MessageStore, PutMessageStatus
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.persistence import Persistence
from mqstore.put.put_path import PutPath
from mqstore.schedule.delivery import due_entries
from mqstore.services import Services
from mqstore.store.errors import LimitReached, StoreFull, StorePoisoned
from mqstore.store.files.file_system import FileEntry
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.log import recovery
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.flusher import Flusher
from mqstore.store.log.log_appender import LogAppender
from mqstore.store.record import record_kernels
from mqstore.store.state.abort_file import AbortFile
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store.state.recovery_point_format import RecoveryPoint
from mqstore.store.state.state_file import StateFile
from support.disks.simulated_disk import SimulatedDisk, SimulatedRegion
from support.disks.simulated_lock import SimulatedLock
from support.twins.record_scan import BLANK, DATA_ENDS, NO_RECORD, lenient_record_size

__all__ = ["PLANTED_BUGS", "PlantedBug"]


class PlantedBug(NamedTuple):
    """`plant()` is a context in which the defect is there. `faults`: it shows where an operation fails.

    `reuse`: it shows where stale records lie in the space that the log goes on in.
    """

    claim: str
    plant: Callable[[], contextlib.AbstractContextManager[object]]
    where: tuple[str, ...] = ()
    faults: bool = False
    fault: str = "EIO"
    reuse: bool = False


def _replaced(
    owner: Any, name: str, replacement: Any
) -> Callable[[], contextlib.AbstractContextManager[object]]:
    return lambda: mock.patch.object(owner, name, replacement)


def _is_log(path: Path) -> bool:
    return path.parent.name == "commitlog"


# -- syncing ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _no_log_sync() -> Iterator[None]:
    genuine = MappedFile.sync
    with (
        mock.patch.object(MappedFile, "sync", lambda file: None if _is_log(file.path) else genuine(file)),
        mock.patch.object(MappedFile, "sync_within", return_value=True),
    ):
        yield


def _sync_last_segment_only(flusher: Flusher, deadline_s: float | None = None) -> int:
    log = flusher.log
    target = log.max_offset
    if target > log.flushed_offset:
        log.files.files[-1].sync()
        log.flushed_offset = target
    return target


def _never_wait(path: PutPath, end_offset: int) -> PutMessageStatus:
    return PutMessageStatus.PUT_OK


def _own_puts_do_not_wait() -> contextlib.AbstractContextManager[object]:
    genuine = PutPath.put_internal

    def put_internal(path: PutPath, messages: Any) -> Any:
        with mock.patch.object(PutPath, "_wait", _never_wait):
            return genuine(path, messages)

    return mock.patch.object(PutPath, "put_internal", put_internal)


@contextlib.contextmanager
def _without_steps(owner: Any, method: str, *steps: str) -> Iterator[None]:
    """While `method` runs, these steps of the disk do nothing."""
    genuine = getattr(owner, method)

    def crippled(*arguments: Any, **settings: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for step in steps:
                stack.enter_context(mock.patch.object(SimulatedDisk, step, return_value=None))
            return genuine(*arguments, **settings)

    with mock.patch.object(owner, method, crippled):
        yield


def _publish_whatever_happens() -> contextlib.AbstractContextManager[object]:
    genuine = SimulatedRegion.publish

    def publish(region: SimulatedRegion, position: int, record: Any) -> None:
        with contextlib.suppress(StoreFull):
            genuine(region, position, record)

    return mock.patch.object(SimulatedRegion, "publish", publish)


def _poisoned_by_limits(appender: LogAppender, start_offset: int) -> MappedFile:
    try:
        return appender._files.append_file(start_offset)
    except LimitReached as error:
        raise OSError(errno.EMFILE, str(error)) from error


def _sync_and_try_again(flusher: Flusher, deadline_s: float | None = None) -> int:
    log = flusher.log
    target = log.max_offset
    try:
        for file in log.files.files:
            file.sync()
    except OSError as error:
        raise StorePoisoned(log.path, error) from error
    log.flushed_offset = target
    return target


def _sync_whatever_happens(flusher: Flusher, deadline_s: float | None = None) -> int:
    log = flusher.log
    target = log.max_offset
    for file in log.files.files:
        with contextlib.suppress(OSError):
            file.sync()
    log.flushed_offset = target
    return target


# -- order of what is persisted -----------------------------------------------------------------------


def _point_ahead_of_queues(persistence: Persistence, **settings: bool) -> None:
    log_offset = persistence._flusher.flush()
    persistence._parts.recovery_point.save(RecoveryPoint(log_offset, log_offset))


def _point_ahead_of_log(persistence: Persistence, **settings: bool) -> None:
    parts = persistence._parts
    parts.consume_queues.flush()
    end = parts.commit_log.max_offset
    parts.recovery_point.save(RecoveryPoint(end, min(end, parts.dispatcher.dispatched_offset)))


def _delay_offsets_unbounded(persistence: Persistence) -> None:
    persistence._delivery.persist(2**62)


def _consumer_offsets_unbounded(persistence: Persistence) -> None:
    persistence._parts.topics.persist()
    persistence._parts.subscription_groups.persist()
    persistence._parts.consumer_offsets.persist(lambda topic, queue_id: 2**62)


# -- recovery -----------------------------------------------------------------------------------------


def _cut_in_memory_only(log: CommitLog, end_offset: int) -> int:
    return 0


def _take_off_one_empty_file(files: MappedFileQueue, entries: list[FileEntry]) -> int:
    return len(entries) - bool(entries and entries[-1].size_bytes == 0)


def _end_in_any_last_blank(walk: Any) -> None:
    """`_Walk.run` as it was: it did not ask whether the full segment was known to be durable."""
    while (segment := walk._files.file_for(walk.end_offset)) is not None:
        if not walk._walk_segment(segment) or walk._files.file_for(segment.end_offset) is None:
            return
        walk.end_offset = segment.end_offset
        if walk._on_segment is not None:
            walk._on_segment(segment.end_offset)


def _lenient_scan(**leniency: bool) -> Callable[..., tuple[int, int, int, int]]:
    def scan(data: np.ndarray, start: int, end: int, base_offset: int) -> tuple[int, int, int, int]:
        seen = data[:end].tobytes()
        at, records, timestamp = int(start), 0, -1
        while at < end:
            if seen[at + 4 : at + 8].hex() == "cbd43194":
                return at, records, timestamp, BLANK
            size = lenient_record_size(seen, at, base_offset, **leniency)
            if size < 0:
                return at, records, timestamp, NO_RECORD
            timestamp = int.from_bytes(seen[at + 56 : at + 64], "big")
            records, at = records + 1, at + size
        return at, records, timestamp, DATA_ENDS

    return scan


def _offset_given_twice() -> contextlib.AbstractContextManager[object]:
    genuine = ConsumeQueueStore.next_queue_offset
    return mock.patch.object(
        ConsumeQueueStore,
        "next_queue_offset",
        lambda queues, topic, queue_id: max(0, genuine(queues, topic, queue_id) - 1),
    )


# -- time ---------------------------------------------------------------------------------------------


def _half_a_second_early() -> contextlib.AbstractContextManager[object]:
    genuine = due_entries.due_prefix
    return mock.patch.object(
        due_entries, "due_prefix", lambda deliver_ms, now_ms: genuine(deliver_ms, now_ms + 500)
    )


PLANTED_BUGS: dict[str, PlantedBug] = {
    "no-fdatasync": PlantedBug("a flush of the log syncs nothing", _no_log_sync, ("puts",)),
    "last-segment-only": PlantedBug(
        "a flush syncs the newest segment and forgets the one before",
        _replaced(Flusher, "_flush_locked", _sync_last_segment_only),
        ("rolling",),
    ),
    "failed-sync-repeated": PlantedBug(
        "a sync of the log that failed is tried again",
        _replaced(Flusher, "_flush_locked", _sync_and_try_again),
        faults=True,
    ),
    "failed-sync-swallowed": PlantedBug(
        "a sync of the log that failed counts as done (rocketmq issue 2706)",
        _replaced(Flusher, "_flush_locked", _sync_whatever_happens),
        faults=True,
    ),
    "limit-poisons": PlantedBug(
        "want of a descriptor for a new segment counts as a disk that failed",
        _replaced(LogAppender, "_add_segment", _poisoned_by_limits),
        faults=True,
        fault="EMFILE",
    ),
    "full-write-counts": PlantedBug(
        "on a copy-on-write disk a record for which there was no room counts as written",
        _publish_whatever_happens,
        faults=True,
        fault="ENOSPC, copy-on-write",
    ),
    "acknowledge-before-sync": PlantedBug(
        "a put is acknowledged before the sync that covers it",
        _replaced(PutPath, "_wait", _never_wait),
        ("puts",),
    ),
    "own-puts-do-not-wait": PlantedBug(
        "deliveries and copies sent back are not waited for (as in RocketMQ)",
        _own_puts_do_not_wait,
        ("ladder",),
    ),
    "rename-before-sync": PlantedBug(
        "a state file is renamed before its bytes are durable",
        lambda: _without_steps(StateFile, "_replace", "sync"),
        ("state-files",),
    ),
    "no-directory-sync": PlantedBug(
        "the rename of a state file is not made durable",
        lambda: _without_steps(StateFile, "_replace", "sync_directory"),
        ("state-files",),
    ),
    "segment-name-not-synced": PlantedBug(
        "the name of a new segment is not made durable",
        lambda: _without_steps(MappedFileQueue, "append_file", "sync_directory"),
        ("rolling", "puts"),
    ),
    "prepared-name-not-synced": PlantedBug(
        "the name of a segment that was made ahead is not made durable",
        lambda: _without_steps(MappedFileQueue, "prepare_file", "sync_directory"),
        ("prepared", "prepared-async"),
    ),
    "one-empty-segment": PlantedBug(
        "of several segments at the end that are empty, the last one is taken off",
        _replaced(MappedFileQueue, "_created_count", _take_off_one_empty_file),
        ("rolling-async", "rolling"),
    ),
    "point-ahead-of-queues": PlantedBug(
        "the recovery point is saved ahead of the consume queues",
        _replaced(Persistence, "flush_derived", _point_ahead_of_queues),
        ("puts", "long-queue"),
    ),
    "point-ahead-of-log": PlantedBug(
        "the recovery point is saved ahead of the log",
        _replaced(Persistence, "flush_derived", _point_ahead_of_log),
        ("puts-async",),
    ),
    "point-renamed-before-sync": PlantedBug(
        "the recovery point is neither synced nor its name",
        lambda: _without_steps(RecoveryPointFile, "save", "sync", "sync_directory"),
        ("puts", "long-queue-async"),
    ),
    "delay-offset-ahead": PlantedBug(
        "delayOffset.json passes deliveries whose copies are not durable",
        _replaced(Persistence, "persist_delay_offsets", _delay_offsets_unbounded),
        ("delays-async",),
    ),
    "consumer-offset-ahead": PlantedBug(
        "consumerOffset.json stands beyond the durable end of a queue",
        _replaced(Persistence, "persist_state", _consumer_offsets_unbounded),
        ("delays-async",),
    ),
    "tail-not-zeroed": PlantedBug(
        "recovery moves the end of the log in memory only (rocketmq issue 10666)",
        _replaced(recovery, "_cut", _cut_in_memory_only),
        ("rolling", "puts"),
    ),
    "body-crc-only": PlantedBug(
        "recovery believes a record whose body matches its CRC",
        _replaced(record_kernels, "scan", _lenient_scan(ignores_record_crc=True)),
        ("long-properties-async", "puts"),
    ),
    "place-ignored": PlantedBug(
        "recovery believes a record that was written for another place (rocketmq issue 10017)",
        _replaced(record_kernels, "scan", _lenient_scan(ignores_place=True)),
        reuse=True,
    ),
    "durable-blank-forgotten": PlantedBug(
        "a BLANK without a segment behind it ends the log, although all of its segment was durable",
        _replaced(recovery._Walk, "run", _end_in_any_last_blank),
        ("full-segments-async",),
    ),
    "torn-blank-believed": PlantedBug(
        "recovery believes a BLANK by its magic, whatever its length (as RocketMQ does)",
        _replaced(recovery, "_is_whole_blank", lambda segment, position: True),
        ("full-segments-async",),
    ),
    "kept-tail-not-synced": PlantedBug(
        "what recovery finds after a kill is called durable without a sync",
        _replaced(
            MappedFileQueue, "make_durable", lambda files, from_offset, end_offset, *, again, is_end: None
        ),
        ("kills-async", "kills"),
    ),
    "queues-not-cut": PlantedBug(
        "after a crash the consume queues are believed to their ends",
        _replaced(ConsumeQueueStore, "truncate", lambda queues, physical_offset, commit_log: None),
        ("long-queue-async", "rolling-async"),
    ),
    "abort-ignored": PlantedBug(
        "every opening counts as one after a clean close",
        _replaced(AbortFile, "exists", lambda abort: False),
        ("long-queue-async", "rolling-async"),
    ),
    "queue-offset-twice": PlantedBug(
        "after recovery the last queue offset is given once more", _offset_given_twice, ("puts",)
    ),
    "retention-deletes-waiting": PlantedBug(
        "retention deletes delayed messages that are still to be delivered",
        _replaced(Services, "_needed_from_offset", lambda store: 2**62),
        ("retention",),
    ),
    "early-delivery": PlantedBug(
        "a delayed message is delivered half a second early", _half_a_second_early, ("delays", "ladder")
    ),
    "lost-lock-unnoticed": PlantedBug(
        "a writer whose lock file was deleted goes on beside the next one",
        _replaced(SimulatedLock, "loss", lambda lock: None),
        ("lost-lock",),
    ),
    "child-closes-store": PlantedBug(
        "a forked child closes its parent's store",
        _replaced(MessageStore, "_forget", lambda store, opener_pid: None),
        ("forked-children",),
    ),
    "write-before-reserve": PlantedBug(
        "mapped bytes are written where no room was reserved",
        _replaced(MappedFile, "reserve", lambda file, end: setattr(file, "reserved_position", end)),
        ("puts",),
    ),
}
