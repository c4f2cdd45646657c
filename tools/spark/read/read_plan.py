"""The plan of a batch read: which stores, how far each goes, and the partitions that read it.

For each store: the end of the log is fixed; then either the queues of the chosen topics are read, and the log
behind the place up to which they are complete (queue_plan.py), or ranges of the log (range_plan.py).

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
from mqstore.tools.spark.options import ReadOptions, SparkOptionIllegal
from mqstore.tools.spark.read import queue_plan, range_plan
from mqstore.tools.spark.read.log_end import find_log_end
from mqstore.tools.spark.read.offset_bounds import resolve_bounds
from mqstore.tools.spark.read.partitions import LogPartition, QueuePartition
from mqstore.tools.spark.read.queue_tail import read_tail
from mqstore.tools.spark.read.segment_files import SegmentFile, list_segments
from mqstore.tools.spark.read.selection import QueueRange, Selection

__all__ = ["open_store", "plan_read", "stores_of"]

_logger = logging.getLogger(__name__)

Partition = LogPartition | QueuePartition


def plan_read(options: ReadOptions, selection: Selection) -> list[Partition]:
    """The partitions.

    Raises StoreNotFound, SegmentMissing, SegmentShort, FilesVanished, SparkOptionIllegal, OffsetsMissing.
    """
    stores = stores_of(options)
    partitions: list[Partition] = []
    for path in stores:
        partitions += _StorePlan(path, options, selection, len(stores)).partitions()
    return partitions


def stores_of(options: ReadOptions) -> list[Path]:
    """The store directories that are named, globs expanded. Raises StoreNotFound."""
    stores: list[Path] = []
    for path in options.paths:
        if (Path(path) / "commitlog").is_dir() or not glob.has_magic(path):
            stores.append(Path(path))
            continue
        matches = map(Path, sorted(glob.glob(path)))  # noqa: PTH207 - the pattern is an absolute path
        found = [match for match in matches if (match / "commitlog").is_dir()]
        if not found:
            raise StoreNotFound(Path(path))
        stores += found
    # One store by several names is one store.
    return list({store.resolve(): store for store in reversed(stores)}.values())[::-1]


class _StorePlan:
    """The plan for one store."""

    def __init__(self, path: Path, options: ReadOptions, selection: Selection, store_count: int) -> None:
        self._path = path
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
        """The partitions of this store."""
        segments = list_segments(self._path, fail_on_data_loss=self._options.fail_on_data_loss)
        if not segments:
            return []
        with _open_if_possible(self._path) as parts:
            known = (
                parts.commit_log.max_offset if parts is not None and parts.recovery.damage is None else None
            )
            end = find_log_end(segments[-1], known, check_crc=self._options.check_crc)
            through_queues = self._through_queues_if_possible(parts, segments, end)
            if through_queues is not None:
                return through_queues
            return list(self._through_log(segments, segments[0].start_offset, end, self._selection))

    # -- through the log --------------------------------------------------------------------------------

    def _through_log(
        self, segments: list[SegmentFile], begin: int, end: int, selection: Selection
    ) -> Iterator[LogPartition]:
        ranges = range_plan.wanted_ranges(segments, begin, end, self._selection)
        target = self._target(sum(one.size_bytes for one in ranges))
        pieces = range_plan.split(ranges, target, check_crc=self._options.check_crc)
        return range_plan.pack(str(self._path), selection, pieces, target)

    def _target(self, total_bytes: int) -> int:
        return range_plan.target_bytes(total_bytes, self._min_partitions, self._options.max_partition_bytes)

    # -- through the queues -----------------------------------------------------------------------------

    def _through_queues_if_possible(
        self, parts: StoreParts | None, segments: list[SegmentFile], end: int
    ) -> list[Partition] | None:
        """None if the log is to be read: also if files of queues are damaged, and the options allow it."""
        demanded = queue_plan.use_queues(self._options, self._selection)
        try:
            return self._through_queues(parts, segments, end, demanded)
        except (StoreError, OSError) as error:
            raise_foreign(error)
            if demanded:
                raise
            _logger.warning("%s is read without its consume queues: %s", self._path, error)
            return None

    def _through_queues(
        self, parts: StoreParts | None, segments: list[SegmentFile], end: int, demanded: bool | None
    ) -> list[Partition] | None:
        """None if the log is to be read. Raises SparkOptionIllegal, OffsetsMissing."""
        if demanded is False:
            return None
        if parts is None:
            if demanded:
                raise SparkOptionIllegal(
                    f"{self._path} has no queues that can be opened: leave out assign, offsets and queueScan",
                    key="queueScan",
                )
            return None
        safe_offset = segments[-2].start_offset if len(segments) > 1 else segments[0].start_offset
        complete = min(queue_plan.complete_up_to(parts, safe_offset), end)
        chosen = queue_plan.chosen_queues(parts, self._selection, complete)
        selection = self._selection
        if self._options.is_by_queue:
            tail = read_tail(segments, complete, end, check_crc=self._options.check_crc)
            known = [one for one in tail.added_to(chosen) if self._selection.wants_topic(one.topic)]
            whole = [one for one in known if self._is_assigned(one)]
            self._refuse_missing(whole)
            bounds = resolve_bounds(parts, self._options, whole, tail)
            selection = replace(selection, queue_bounds=tuple(bounds))
            chosen = bounds
        elif not demanded and not queue_plan.is_known_by_queues(parts, selection, chosen):
            return None
        wanted = queue_plan.narrowed(parts, selection, _below(parts, chosen, complete))
        sample = queue_plan.sample(parts, wanted)
        total_bytes = sample.total_bytes
        if not demanded and total_bytes > queue_plan.MOST_SHARE * self._log_bytes(segments, complete):
            return None
        planned: list[Partition] = []
        if wanted:
            cuts = sample.cuts(-(-total_bytes // self._target(total_bytes)))
            planned += queue_plan.pack_queues(str(self._path), selection, parts, wanted, cuts)
        if complete < end:
            planned += self._through_log(segments, complete, end, selection)
        return planned

    def _is_assigned(self, queue: QueueRange) -> bool:
        assign = self._options.assign
        return assign is None or any(
            queue.topic == topic and queue.queue_id in queues for topic, queues in assign
        )

    def _refuse_missing(self, chosen: list[QueueRange]) -> None:
        known = {(queue.topic, queue.queue_id) for queue in chosen}
        for topic, queues in self._options.assign or ():
            for queue_id in sorted(queues):
                if (topic, queue_id) not in known:
                    raise SparkOptionIllegal(
                        f"{self._path} has no queue {queue_id} of topic {topic!r}: assign queues that exist",
                        key="assign",
                        value=f"{topic}/{queue_id}",
                    )

    def _log_bytes(self, segments: list[SegmentFile], end: int) -> int:
        """How much a read of the log would read, store times considered."""
        ranges = range_plan.wanted_ranges(segments, segments[0].start_offset, end, self._selection)
        return sum(one.size_bytes for one in ranges)


def _below(parts: StoreParts, chosen: list[QueueRange], end_offset: int) -> list[QueueRange]:
    """The entries of messages before a physical offset."""
    found = []
    for one in chosen:
        queue = parts.consume_queues.find(one.topic, one.queue_id)
        if queue is not None:
            found.append(one._replace(end=min(one.end, queue.end_below(end_offset))))
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


@contextmanager
def _open_if_possible(path: Path) -> Iterator[StoreParts | None]:
    with ExitStack() as stack:
        try:
            parts = stack.enter_context(open_store(path))
        except (StoreError, OSError) as error:
            raise_foreign(error)
            _logger.info("%s is read by its segments alone: %s", path, error)
            parts = None
        yield parts
