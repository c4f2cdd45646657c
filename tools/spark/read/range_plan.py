"""The ranges of the log: which parts of which segments are read, and by how many tasks.

Segments are left out whose records cannot be wanted, by store time, before more than their first record is
read. What is left is cut where records begin, and packed, so that tasks are of similar
size: not so small that what a task costs counts, not so large that processors wait.

Store times are taken to be in the order of the log, as RocketMQ takes them. If the clock was set back between
the first records of two segments, both are read.
A cut is made at a whole record that the log has at its own physical offset. A body may hold such bytes; the
task before the cut then notices (segment_reader.py).
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mqstore.tools.spark.read.partitions import LogPartition, SegmentRange
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.segments.segment_bytes import SegmentBytes
from mqstore.tools.spark.segments.segment_files import LARGEST_RECORD_BYTES, SegmentFile
from mqstore.tools.spark.segments.segment_reader import SegmentScan, opened

__all__ = ["pack", "split", "target_bytes", "wanted_ranges"]

_LEAST_BYTES, _MOST_BYTES = 128 << 20, 512 << 20
_TASKS_OF_A_CORE = 3
# How far behind the wanted place a cut is looked for at first; then it is as far as a record can reach.
_NEAR_BYTES = 64 << 10
# A rest below this part of a task is not cut off.
_LEAST_REST = 0.25


def wanted_ranges(
    segments: Sequence[SegmentFile], begin: int, end: int, selection: Selection
) -> list[SegmentRange]:
    """The parts of segments from `begin` to `end` that may hold wanted records.

    begin, end: physical offsets where a record begins, or the log ends.
    """
    ranges = []
    for segment, (least_ms, most_ms) in zip(segments, _time_ranges(segments), strict=True):
        is_in_time = (selection.end_ms is None or least_ms < selection.end_ms) and (
            selection.begin_ms is None or most_ms >= selection.begin_ms
        )
        if segment.start_offset < end and segment.end_offset > begin and is_in_time:
            ranges.append(
                SegmentRange(segment, max(segment.start_offset, begin), min(segment.end_offset, end))
            )
    return ranges


def _time_ranges(segments: Sequence[SegmentFile]) -> list[tuple[float, float]]:
    """The least and the greatest store time that each segment may hold, epoch ms."""
    least: list[float] = []
    for segment in reversed(segments):
        unknown = segment.first_timestamp < 0
        known = float("-inf") if unknown else float(segment.first_timestamp)
        least.append(min(known, least[-1]) if least else known)
    greatest: list[float] = []
    most = float("-inf")
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        most = max(most, segment.first_timestamp)
        # Between two segments that are in order the times are taken to ascend.
        is_bounded = following is not None and following.first_timestamp >= segment.first_timestamp >= 0
        greatest.append(max(most, following.first_timestamp) if is_bounded and following else float("inf"))
    return list(zip(reversed(least), greatest, strict=True))


def target_bytes(total_bytes: int, min_partitions: int | None, max_bytes: int | None) -> int:
    """How much one task is to read.

    Three tasks for each processor of this machine, of 128 to 512 MiB. min_partitions, max_bytes: as the
    options of these names say; of both, what makes more tasks counts.
    """
    cores = len(os.sched_getaffinity(0))
    target = min(max(total_bytes // (_TASKS_OF_A_CORE * cores), _LEAST_BYTES), _MOST_BYTES)
    if max_bytes is not None:
        target = max_bytes
    if min_partitions is not None:
        target = min(target, -(-total_bytes // min_partitions))
    return max(target, 1)


def split(ranges: Sequence[SegmentRange], target: int, *, check_crc: bool = True) -> Iterator[SegmentRange]:
    """The ranges, cut into pieces of about `target` bytes. Raises SegmentMissing."""
    for one in ranges:
        if one.size_bytes <= target * (1 + _LEAST_REST):
            yield one
        else:
            yield from _split(one, target, check_crc)


def _split(one: SegmentRange, target: int, check_crc: bool) -> Iterator[SegmentRange]:
    begin = one.begin
    with opened(one.segment) as source:
        while one.end - begin > target * (1 + _LEAST_REST):
            # Pieces of equal size: the last one is not a sliver.
            count = -(-(one.end - begin) // target)
            cut = _find_cut(source, one, begin + (one.end - begin) // count, check_crc)
            if cut is None:
                break
            yield replace(one, begin=begin, end=cut)
            begin = cut
    yield replace(one, begin=begin)


def _find_cut(source: SegmentBytes, one: SegmentRange, wanted: int, check_crc: bool) -> int | None:
    """The first record at or behind `wanted`; None: there is none near."""
    scan = SegmentScan(source, one.segment, wanted, one.end, check_crc=check_crc, chunk_bytes=1)
    position = scan.position
    found = scan.find_record(position + _NEAR_BYTES)
    if found is None and source.read(_NEAR_BYTES, position) != bytes(_NEAR_BYTES):
        found = scan.find_record(position + LARGEST_RECORD_BYTES)
    return None if found is None else one.segment.start_offset + found


def pack(
    store: str, selection: Selection, ranges: Iterator[SegmentRange], target: int
) -> Iterator[LogPartition]:
    """Tasks of about `target` bytes: small ranges share one."""
    waiting: list[SegmentRange] = []
    size_bytes = 0
    for one in ranges:
        if waiting and size_bytes + one.size_bytes > target:
            yield LogPartition(store, selection, tuple(waiting))
            waiting, size_bytes = [], 0
        waiting.append(one)
        size_bytes += one.size_bytes
    if waiting:
        yield LogPartition(store, selection, tuple(waiting))
