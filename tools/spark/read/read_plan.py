"""The plan of a batch read: which stores, how far each goes, and the partitions that read it.

For each store or archive (log_source.py) the end of the log is fixed; then either the queues of the chosen
topics are read, if it is a store alone, and the log behind the place up to which they are complete
(queue_plan.py), or ranges of the log (archive_plan.py, range_plan.py).

It changes nothing and takes no lock. A directory that cannot be opened as a store, such as a copy of some
segments alone, is read by its segments.
"""

import glob
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from mqstore.opening import open_parts
from mqstore.store.clock import SystemClock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError, StoreNotFound
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store_parts import StoreParts
from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal, is_address
from mqstore.tools.spark.read import queue_plan, range_plan
from mqstore.tools.spark.read.archive_plan import joined, log_ranges
from mqstore.tools.spark.read.archived_queues import archived_queues, archived_time, with_archived
from mqstore.tools.spark.read.offset_bounds import queue_at_time, resolve_bounds
from mqstore.tools.spark.read.partitions import LogPartition, QueuePartition
from mqstore.tools.spark.read.queue_tail import QueueTail, read_tail
from mqstore.tools.spark.read.selection import QueueRange, Selection
from mqstore.tools.spark.segments.log_end import find_log_end
from mqstore.tools.spark.segments.log_source import ListedLog, LogSource, source_of
from mqstore.tools.spark.segments.segment_files import SegmentFile

__all__ = [
    "known_end",
    "log_end_of",
    "open_if_possible",
    "open_store",
    "plan_range",
    "plan_read",
    "resolve_queues",
    "sources_of",
    "stores_of",
]

_logger = logging.getLogger(__name__)

Partition = LogPartition | QueuePartition


def plan_read(options: ReadOptions, selection: Selection) -> list[Partition]:
    """The partitions.

    Raises StoreNotFound, SegmentMissing, SegmentShort, FilesVanished, SparkOptionIllegal, OffsetsMissing.
    """
    sources = sources_of(options)
    partitions: list[Partition] = []
    for source in sources:
        partitions += _LogPlan(source, options, selection, len(sources)).partitions()
    return partitions


def plan_range(
    source: LogSource, options: ReadOptions, selection: Selection, begin: int, end: int
) -> list[Partition]:
    """The partitions of a part of one store's log.

    begin, end: physical offsets where records begin, or the log ends. options: without a beginning and
    an end. Raises as `plan_read`.
    """
    return _LogPlan(source, options, selection, 1, (begin, end)).partitions()


def resolve_queues(
    source: LogSource,
    parts: StoreParts | None,
    options: ReadOptions,
    selection: Selection,
    log: ListedLog,
    end: int,
) -> tuple[list[QueueRange], int]:
    """What the options say of offsets of queues: the entries to read; up to where the queues have them all.

    Raises SparkOptionIllegal, OffsetsMissing.
    """
    if parts is None and source.path is not None:
        raise SparkOptionIllegal(
            f"{source.shown} has no queues that can be opened: leave out assign, offsets and queueScan",
            key="queueScan",
        )
    known, complete, tail = archived_queues(log, selection), end, QueueTail({})
    if parts is not None and log.local:
        complete = _complete_up_to(parts, log.local, end)
        tail = read_tail(log.local, complete, end, check_crc=options.check_crc)
        local = tail.added_to(queue_plan.chosen_queues(parts, selection, complete))
        known = with_archived(known, local)
    whole = [one for one in known if selection.wants_topic(one.topic) and _is_assigned(options, one)]
    _refuse_missing(source.shown, options, whole)

    def at_time(queue: QueueRange, time_ms: int) -> int:
        found = archived_time(log, queue, time_ms, check_crc=options.check_crc)
        if found is not None:
            return found
        return queue.end if parts is None else queue_at_time(parts, queue, tail, time_ms)

    return resolve_bounds(source.shown, options, whole, at_time), complete


def sources_of(options: ReadOptions) -> list[LogSource]:
    """The stores and archives that are named, globs expanded. Raises StoreNotFound."""
    found: dict[object, LogSource] = {}
    for path in options.paths:
        if is_address(path):
            found.setdefault(path, source_of(path, options))
            continue
        # One store by several names is one store.
        for each in _expanded(path):
            found.setdefault(each.resolve(), source_of(str(each), options))
    return list(found.values())


def stores_of(options: ReadOptions) -> list[Path]:
    """The store directories that are named, globs expanded. Raises StoreNotFound, SparkOptionIllegal."""
    paths = []
    for source in sources_of(options):
        if source.path is None:
            raise SparkOptionIllegal(
                f"{source.shown} is an archive: give the directory of a store", key="path"
            )
        paths.append(source.path)
    return paths


def _expanded(path: str) -> list[Path]:
    if (Path(path) / "commitlog").is_dir() or not glob.has_magic(path):
        return [Path(path)]
    matches = map(Path, sorted(glob.glob(path)))  # noqa: PTH207 - the pattern is an absolute path
    found = [match for match in matches if (match / "commitlog").is_dir()]
    if not found:
        raise StoreNotFound(Path(path))
    return found


class _LogPlan:
    """The plan for the log of one store, or of one archive."""

    def __init__(
        self,
        source: LogSource,
        options: ReadOptions,
        selection: Selection,
        store_count: int,
        part: tuple[int, int] | None = None,
    ) -> None:
        self._source = source
        self._part = part
        self._options = options
        self._selection = selection
        if store_count > 1 and options.is_by_queue:
            raise SparkOptionIllegal(
                f"offsets are those of one store, and {store_count} are read: read them one by one, or "
                "choose by startingTimestamp and endingTimestamp",
                key="startingOffsets",
            )
        self._min_partitions = options.min_partitions
        if options.min_partitions is not None:
            self._min_partitions = -(-options.min_partitions // store_count)

    def partitions(self) -> list[Partition]:
        """The partitions of this log."""
        log = self._source.listed(self._options, None if self._part is None else self._part[0])
        if not log.segments:
            return []
        with open_if_possible(self._source.path) as parts:
            begin, end = self._part or (log.segments[0].start_offset, log_end_of(log, parts, self._options))
            if self._source.archive is not None:
                return list(self._through_log(log, begin, end, self._bounded(parts, log, end)))
            through_queues = self._through_queues_if_possible(parts, log, begin, end)
            if through_queues is not None:
                return through_queues
            return list(self._through_log(log, begin, end, self._selection))

    def _bounded(self, parts: StoreParts | None, log: ListedLog, end: int) -> Selection:
        """The selection with the offsets of queues that the options name."""
        if not self._options.is_by_queue:
            return self._selection
        chosen, _ = resolve_queues(self._source, parts, self._options, self._selection, log, end)
        return replace(self._selection, queue_bounds=tuple(chosen))

    # -- through the log --------------------------------------------------------------------------------

    def _through_log(
        self, log: ListedLog, begin: int, end: int, selection: Selection
    ) -> Iterator[LogPartition]:
        ranges = log_ranges(log, begin, end, selection)
        target = self._target(sum(one.size_bytes for one in ranges))
        tasks = range_plan.cut_into_tasks(
            ranges,
            target,
            keeps_whole=self._options.max_partition_bytes is not None,
            check_crc=self._options.check_crc,
        )
        return (LogPartition(self._source.shown, selection, joined(task)) for task in tasks)

    def _target(self, total_bytes: int) -> int:
        return range_plan.target_bytes(total_bytes, self._min_partitions, self._options.max_partition_bytes)

    # -- through the queues -----------------------------------------------------------------------------

    def _through_queues_if_possible(
        self, parts: StoreParts | None, log: ListedLog, begin: int, end: int
    ) -> list[Partition] | None:
        """None if the log is to be read: also if files of queues are damaged, and the options allow it."""
        demanded = queue_plan.use_queues(self._options, self._selection)
        try:
            return self._through_queues(parts, log, begin, end, demanded)
        except (StoreError, OSError) as error:
            raise_foreign(error)
            if demanded:
                raise
            _logger.warning("%s is read without its consume queues: %s", self._source.shown, error)
            return None

    def _through_queues(
        self,
        parts: StoreParts | None,
        log: ListedLog,
        begin: int,
        end: int,
        demanded: bool | None,
    ) -> list[Partition] | None:
        """None if the log is to be read. Raises SparkOptionIllegal, OffsetsMissing."""
        if demanded is False or (parts is None and not demanded):
            return None
        selection = self._selection
        if self._options.is_by_queue or parts is None:
            chosen, complete = resolve_queues(self._source, parts, self._options, selection, log, end)
            selection = replace(selection, queue_bounds=tuple(chosen))
            assert parts is not None
        else:
            complete = _complete_up_to(parts, log.local, end)
            chosen = queue_plan.chosen_queues(parts, selection, complete)
            if not demanded and not queue_plan.is_known_by_queues(parts, selection, chosen):
                return None
        part_begin = None if self._part is None else begin
        # What the queues lack, or what lies before the part that is read, is not read through them.
        complete = max(begin, complete)
        wanted = queue_plan.narrowed(parts, selection, _between(parts, chosen, part_begin, complete))
        sample = queue_plan.sample(parts, wanted)
        total_bytes = sample.total_bytes
        if not demanded and total_bytes > queue_plan.MOST_SHARE * self._log_bytes(log, begin, complete):
            return None
        planned: list[Partition] = []
        if wanted:
            cuts = sample.cuts(-(-total_bytes // self._target(total_bytes)))
            planned += queue_plan.pack_queues(self._source.shown, selection, parts, wanted, cuts)
        if complete < end:
            planned += self._through_log(log, complete, end, selection)
        return planned

    def _log_bytes(self, log: ListedLog, begin: int, end: int) -> int:
        """How much a read of the log would read, store times considered."""
        ranges = log_ranges(log, begin, end, self._selection)
        return sum(one.size_bytes for one in ranges)


def log_end_of(log: ListedLog, parts: StoreParts | None, options: ReadOptions) -> int:
    """Physical offset of the end of a log that has segments. Raises SegmentMissing."""
    if not log.local:
        return log.segments[-1].end_offset
    return find_log_end(log.local[-1], known_end(parts), check_crc=options.check_crc)


def _complete_up_to(parts: StoreParts, segments: list[SegmentFile], end: int) -> int:
    safe_offset = segments[-2].start_offset if len(segments) > 1 else segments[0].start_offset
    return min(queue_plan.complete_up_to(parts, safe_offset), end)


def _is_assigned(options: ReadOptions, queue: QueueRange) -> bool:
    return options.assign is None or any(
        queue.topic == topic and queue.queue_id in queues for topic, queues in options.assign
    )


def _refuse_missing(shown: str, options: ReadOptions, chosen: list[QueueRange]) -> None:
    known = {(queue.topic, queue.queue_id) for queue in chosen}
    for topic, queues in options.assign or ():
        for queue_id in sorted(queues):
            if (topic, queue_id) not in known:
                raise SparkOptionIllegal(
                    f"{shown} has no queue {queue_id} of topic {topic!r}: assign queues that exist",
                    key="assign",
                    value=f"{topic}/{queue_id}",
                )


def _between(parts: StoreParts, chosen: list[QueueRange], begin: int | None, end: int) -> list[QueueRange]:
    """The entries of messages between two physical offsets; `begin` None: from the first entry on."""
    found = []
    for one in chosen:
        queue = parts.consume_queues.find(one.topic, one.queue_id)
        if queue is not None:
            first = one.begin if begin is None else max(one.begin, queue.end_below(begin))
            found.append(one._replace(begin=first, end=min(one.end, queue.end_below(end))))
    return [one for one in found if one.begin < one.end]


@contextmanager
def open_store(path: Path) -> Iterator[StoreParts]:
    """The parts of a store, opened read only. Raises what MessageStore.open raises."""
    with ExitStack() as undo:
        yield open_parts(
            path,
            StoreConfig(),
            read_only=True,
            clock=SystemClock(),
            file_system=OsFileSystem(),
            on_progress=None,
            undo=undo,
        )


def known_end(parts: StoreParts | None) -> int | None:
    """A place not far from the end of the log, where a record begins or the log ends; None: none is known."""
    return parts.commit_log.max_offset if parts is not None and parts.recovery.damage is None else None


@contextmanager
def open_if_possible(path: Path | None) -> Iterator[StoreParts | None]:
    """The parts of a store, or None without one, and for a directory that cannot be opened as one."""
    with ExitStack() as stack:
        parts = None
        try:
            if path is not None:
                parts = stack.enter_context(open_store(path))
        except (StoreError, OSError) as error:
            raise_foreign(error)
            _logger.info("%s is read by its segments alone: %s", path, error)
        yield parts
