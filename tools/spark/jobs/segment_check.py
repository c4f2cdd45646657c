"""The segment check: every record of the logs of one or several stores, read in parallel.

    check_segments(["data"]).is_sound

Lengths, magic, stored physical offset and CRCs of each record, as the data source checks them in mode
PERMISSIVE; bodies are not decoded. Besides, no segment may be missing between two, and the last may not be
shorter than the others. A torn record at the end of the log is no damage: the next opening cuts it off.
Queues, keys and state files are not looked at: `mqstore verify` does that, on one machine.

It takes no lock and changes nothing. Beside a writer it checks what was in the log when it began.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mqstore.store.files.file_names import file_name
from mqstore.tools.spark.jobs.job_session import ANY_CORES, job_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mqstore.tools.spark.segments.segment_files import SegmentFile

__all__ = ["Damage", "SegmentCount", "SegmentReport", "check_segments"]

_OF_AN_EMPTY_LOG = 1 << 30


class SegmentCount(NamedTuple):
    """What one segment holds: whole records, their bytes, and places that are damaged."""

    store: str
    path: str
    records: int
    record_bytes: int
    damages: int


class Damage(NamedTuple):
    """Bytes that are not what was written. position: of the first of them, in the file `path`."""

    store: str
    path: str
    position: int
    size_bytes: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class SegmentReport:
    """What was found, in the order of the stores and their logs."""

    segments: tuple[SegmentCount, ...]
    damages: tuple[Damage, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damages

    @property
    def records(self) -> int:
        """Whole records of all segments."""
        return sum(segment.records for segment in self.segments)

    @property
    def record_bytes(self) -> int:
        """The bytes of these."""
        return sum(segment.record_bytes for segment in self.segments)


def check_segments(
    stores: Sequence[str | Path],
    *,
    spark: "SparkSession | None" = None,
    master: str = ANY_CORES,
    settings: Mapping[str, str] | None = None,
    max_partition_bytes: int | None = None,
) -> SegmentReport:
    """Check the logs of `stores`: directories, and globs of them. Without `spark` a session is started.

    max_partition_bytes: the most that one task reads. Damage is no error: it is in the report. Raises
    StoreNotFound, SparkNotInstalled, JavaNotFound, SparkJobFailed.
    """
    with job_session(spark, master, settings) as session:
        options = {"paths": json.dumps([str(store) for store in stores])}
        if max_partition_bytes is not None:
            options["maxPartitionBytes"] = str(max_partition_bytes)
        logs = _Logs(options)
        counted = _count(session, options, logs)
        logs.list_again()
    segments, damages = [], list(logs.holes())
    for store, offset, records, record_bytes, told in counted:
        found = logs.segment_at(store, offset)
        damages += [_damage(store, logs.segment_at(store, at), at, text) for at, text in told]
        segments.append(SegmentCount(store, found.path, records, record_bytes, len(told)))
    return SegmentReport(
        segments=tuple(_summed(segments)),
        damages=tuple(sorted(damages, key=lambda damage: (damage.store, damage.path, damage.position))),
    )


class _Logs:
    """The segments of the logs that are checked, as they were listed before and after the reading."""

    def __init__(self, options: Mapping[str, str]) -> None:
        from mqstore.tools.spark.options import ReadOptions
        from mqstore.tools.spark.read.read_plan import stores_of

        stores = [str(store) for store in stores_of(ReadOptions.parse(options))]
        self._before = {store: _listed(store) for store in stores}
        self._known = {store: {one.start_offset: one for one in self._before[store]} for store in stores}

    def list_again(self) -> None:
        """Know the segments that came while the job ran, too."""
        for store, known in self._known.items():
            for segment in _listed(store):
                known.setdefault(segment.start_offset, segment)

    def widths(self) -> dict[str, int]:
        """For each store a length: no stretch of that length, from a multiple of it on, crosses files."""
        widths = {}
        for store, segments in self._before.items():
            sizes = Counter(segment.size_bytes for segment in segments)
            starts = [segment.start_offset for segment in segments]
            widths[store] = math.gcd(*[size for size, _ in sizes.most_common(1)], *starts) or _OF_AN_EMPTY_LOG
        return widths

    def segment_at(self, store: str, offset: int) -> "SegmentFile":
        """The segment that holds a physical offset."""
        starts = [start for start in self._known[store] if start <= offset]
        return self._known[store][max(starts)]

    def holes(self) -> "Iterator[Damage]":
        """Segments that are missing between others, or are too short."""
        for store, segments in self._before.items():
            for one, following in itertools.pairwise(segments):
                if one.end_offset != following.start_offset:
                    missing = Path(one.path).with_name(file_name(one.end_offset))
                    size_bytes = following.start_offset - one.end_offset
                    yield Damage(store, str(missing), 0, max(size_bytes, 0), "the segment is missing")
            if len(segments) > 1 and segments[-1].size_bytes < segments[-2].size_bytes:
                last, lacking = segments[-1], segments[-2].size_bytes - segments[-1].size_bytes
                yield Damage(store, last.path, last.size_bytes, lacking, "the file was cut off")


def _listed(store: str) -> "list[SegmentFile]":
    from mqstore.tools.spark.segments.segment_files import list_segments

    return list_segments(Path(store), fail_on_data_loss=False)


Counted = tuple[str, int, int, int, list[tuple[int, str]]]
"""Of a stretch: store, a physical offset in it, whole records, their bytes, (offset, text) of damage."""


def _count(session: "SparkSession", options: Mapping[str, str], logs: _Logs) -> list[Counted]:
    """One pass over all records."""
    from pyspark.sql import functions as sql

    widths = logs.widths()
    if not widths:
        return []
    frame = _read(session, options)
    width = sql.create_map(*[sql.lit(part) for pair in widths.items() for part in pair])[frame.store]
    stretch = sql.floor(frame.physicalOffset / width) * width
    damage = sql.struct("physicalOffset", "_corrupt_record")
    is_damage = frame._corrupt_record.isNotNull()
    groups = frame.groupBy("store", stretch.alias("begin")).agg(
        sql.count_if(~is_damage).alias("records"),
        sql.coalesce(sql.sum("storeSize"), sql.lit(0)).alias("record_bytes"),
        sql.min("physicalOffset").alias("first"),
        sql.collect_list(sql.when(is_damage, damage)).alias("told"),
    )
    return [
        (row.store, row.first, row.records, row.record_bytes, [(at, text) for at, text in row.told])
        for row in groups.collect()
    ]


def _read(session: "SparkSession", options: Mapping[str, str]) -> "DataFrame":
    return (
        session.read.format("mqstore")
        .options(**options)
        .option("columns", "store, physicalOffset, storeSize, _corrupt_record")
        .option("mode", "PERMISSIVE")
        .option("failOnDataLoss", "false")
        .load()
    )


def _damage(store: str, segment: "SegmentFile", offset: int, text: str) -> Damage:
    """The damage that a row tells of: `<path>: <n> bytes from physical offset <n> on: <reason>`."""
    size, _, rest = text.removeprefix(f"{segment.path}: ").partition(" bytes from physical offset ")
    position = offset - segment.start_offset
    return Damage(store, segment.path, position, int(size), rest.partition(" on: ")[2])


def _summed(segments: Iterable[SegmentCount]) -> Iterator[SegmentCount]:
    """One row for each segment, of those of its stretches."""
    ordered = sorted(segments, key=lambda segment: (segment.store, segment.path))
    for (store, path), parts in itertools.groupby(ordered, key=lambda segment: (segment.store, segment.path)):
        numbers = [part[2:] for part in parts]
        records, record_bytes, damages = (sum(column) for column in zip(*numbers, strict=True))
        yield SegmentCount(store, path, records, record_bytes, damages)
