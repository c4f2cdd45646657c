"""The rebuild of all consume queues of a store by Spark, into a new directory.

    rebuild_queues("data", "data/consumequeue.new")

    ranges of the log -> runs of entries (log_entries.py) -> by queue, in the order of the log
    -> whole files of each queue (queue_files.py) -> all renamed to their place at once

The files are byte for byte those that `mqstore rebuild queues` makes, and that a broker or a store writes
behind a log whose beginning is still there. Where it has expired, a queue begins with the first message
that the log has: the entries before it in the same file are pre-blank, and a queue of which the log has no
message is left out.

The writer's lock is held meanwhile where the directory has a lock file, so a store that is open is refused.
The target must not exist. It appears when it is whole; until then, and after a kill, there is only the
directory `<target>.unfinished`. Nothing of the store is changed: the user closes it, moves its directory
`consumequeue` away and the new one in its place.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mqstore.metadata.topics import TopicConfigs
from mqstore.settings.directory_config import DirectoryConfig, tool_config
from mqstore.store.errors import StoreNotFound
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.recovery import recover
from mqstore.store.state.recovery_point_file import RecoveryPointFile
from mqstore.store_layout import StoreLayout, user_path
from mqstore.tools.spark.jobs.job_errors import TargetTaken
from mqstore.tools.spark.jobs.job_session import ANY_CORES, job_session
from mqstore.tools.spark.rebuild.queue_rules import QueueRules
from mqstore.verify.inspection import Inspection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqstore.tools.spark.read.partitions import SegmentRange
    from mqstore.tools.spark.rebuild.queue_files import RebuiltQueue

__all__ = ["RebuildReport", "plan_rebuild", "rebuild_queues"]

# Tasks of the second half for each processor: queues differ in length.
_TASKS_OF_A_CORE = 3


@dataclass(frozen=True, kw_only=True)
class RebuildReport:
    """What was written to `target`, from the log up to physical offset `end_offset`."""

    target: Path
    end_offset: int
    queues: "tuple[RebuiltQueue, ...]"

    @property
    def entries(self) -> int:
        """Entries of all queues, without pre-blank ones."""
        return sum(queue.max_offset - queue.min_offset for queue in self.queues)


def rebuild_queues(
    store: str | Path,
    target: str | Path,
    *,
    spark: "SparkSession | None" = None,
    master: str = ANY_CORES,
    settings: Mapping[str, str] | None = None,
    max_partition_bytes: int | None = None,
) -> RebuildReport:
    """Write all consume queues of `store` to the new directory `target`.

    max_partition_bytes: the most of the log that one task reads. Raises StoreNotFound, StoreLocked,
    TargetTaken, LogDamaged and CorruptRecord (repair first), SegmentMissing, SettingContradicted,
    SparkJobFailed, SparkNotInstalled, JavaNotFound.
    """
    layout, inspection = StoreLayout(user_path(store).absolute()), Inspection.of(None, None)
    target = user_path(target).absolute()
    staging = target.with_name(f"{target.name}.unfinished")
    if not inspection.file_system.exists(layout.commit_log):
        raise StoreNotFound(layout.root)
    _refuse_taken(target, staging)
    with inspection.locked_if_writable(layout), job_session(spark, master, settings) as session:
        rules, tasks, end_offset = plan_rebuild(inspection, layout, max_partition_bytes)
        inspection.file_system.make_directories(staging / "finished")
        try:
            queues = _run(session, tasks, rules, staging)
            (staging / "finished").rename(target)
            inspection.file_system.sync_directory(target.parent)
        finally:
            delete_tree(inspection.file_system, staging)
    return RebuildReport(target=target, end_offset=end_offset, queues=queues)


def _refuse_taken(target: Path, staging: Path) -> None:
    if target.exists():
        raise TargetTaken(str(target), "give a directory that does not exist")
    if staging.exists():
        raise TargetTaken(str(staging), "a rebuild was killed, or is at work: delete it if none is")


def plan_rebuild(
    inspection: Inspection, layout: StoreLayout, max_partition_bytes: int | None
) -> "tuple[QueueRules, list[list[SegmentRange]], int]":
    """The rules of the store, the ranges of its log for each task, and where that ends."""
    from mqstore.tools.spark.read import range_plan
    from mqstore.tools.spark.read.selection import Selection
    from mqstore.tools.spark.segments.segment_files import list_segments

    directory = tool_config(inspection.file_system, layout.root)
    segments = list_segments(layout.root)
    if not segments:
        return _rules(inspection, layout, directory, 0, 0), [], 0
    begin = segments[0].start_offset
    end = _find_end(inspection, layout, directory, segments[-1].start_offset)
    rules = _rules(inspection, layout, directory, begin, end)
    wanted = range_plan.wanted_ranges(segments, begin, end, Selection())
    target_bytes = range_plan.target_bytes(end - begin, None, max_partition_bytes)
    tasks = range_plan.cut_into_tasks(wanted, target_bytes, keeps_whole=max_partition_bytes is not None)
    return rules, list(tasks), end


def _find_end(
    inspection: Inspection, layout: StoreLayout, directory: DirectoryConfig, last_segment_offset: int
) -> int:
    """The end of the log, as an opening finds it in the last segment. Raises CorruptRecord."""
    log = CommitLog(
        inspection.file_system, layout.commit_log, directory.config, inspection.clock, read_only=True
    )
    log.load()
    point = RecoveryPointFile(inspection.file_system, layout.recovery_point).load()
    durable_offset = point.log_offset if point is not None else None
    report = recover(log, last_segment_offset, durable_offset, read_only=True)
    if report.damage is not None:
        raise report.damage
    return report.end_offset


def _rules(
    inspection: Inspection, layout: StoreLayout, directory: DirectoryConfig, begin: int, end: int
) -> QueueRules:
    topics = TopicConfigs(inspection.file_system, layout.config, inspection.clock, read_only=True)
    topics.load()
    return QueueRules(
        delay_tables=directory.delays.as_array(),
        deleted=directory.deleted.within(begin, end),
        without_queues=topics.without_queues,
        file_size_bytes=directory.config.mapped_file_size_consume_queue,
        reserve_window_bytes=directory.config.reserve_window_consume_queue,
    )


def _run(
    session: "SparkSession", tasks: "Sequence[list[SegmentRange]]", rules: QueueRules, staging: Path
) -> "tuple[RebuiltQueue, ...]":
    """Both halves: entries by ranges of the log, then files by queue."""
    from mqstore.tools.spark.rebuild.log_entries import RANGES, RUN, entries_of_ranges
    from mqstore.tools.spark.rebuild.queue_files import WRITTEN, RebuiltQueue, write_queues

    if not tasks:
        return ()
    context = session.sparkContext
    rows = context.parallelize([(pickle.dumps(ranges),) for ranges in tasks], len(tasks))
    runs = session.createDataFrame(rows, RANGES).mapInArrow(
        lambda batches: entries_of_ranges(batches, rules), RUN
    )
    by_queue = runs.repartition(_TASKS_OF_A_CORE * context.defaultParallelism, "topic", "queueId")
    written = by_queue.sortWithinPartitions("topic", "queueId", "physicalOffset").mapInArrow(
        lambda batches: write_queues(batches, staging, rules), WRITTEN
    )
    return tuple(sorted(RebuiltQueue(*row) for row in written.collect()))
