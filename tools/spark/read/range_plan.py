"""The ranges of the log: which parts of which segments are read, and by how many tasks.

Segments are left out whose records cannot be wanted, by store time, before more than their first record is
read. What is left is cut between segments or where records begin, so that tasks are of similar size: not so
small that what a task costs counts, and as many as the processors can share.

Store times are taken to be in the order of the log, as RocketMQ takes them. If the clock was set back between
the first records of two segments, both are read.
A cut is made at a whole record that the log has at its own physical offset. A body may hold such bytes; the
task before the cut then notices (segment_reader.py).
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mqstore.tools.spark.read.partitions import SegmentRange
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.segments.segment_files import LARGEST_RECORD_BYTES, SegmentFile
from mqstore.tools.spark.segments.segment_reader import SegmentScan, opened

__all__ = ["cut_into_tasks", "target_bytes", "wanted_ranges"]

_LEAST_BYTES, _MOST_BYTES = 128 << 20, 512 << 20
# How far behind the wanted place a cut is looked for at first; then it is as far as a record can reach.
_NEAR_BYTES = 64 << 10
# A cut is moved by at most this part of a task, so that it lies between two ranges: a task has a quarter more
# or less at most.
_MOST_SHIFT = 0.125


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

    About 128 to 512 MiB: a task for each processor of this machine, or two, three and so on, so that all of
    them are at work to the end. A task more costs Spark more time than it takes to read 10 MiB.
    min_partitions, max_bytes: as the options of these names say; of both, what makes more tasks counts.
    """
    cores = len(os.sched_getaffinity(0))
    tasks = cores * max(-(-total_bytes // (cores * _MOST_BYTES)), 1)
    target = max(-(-total_bytes // tasks), _LEAST_BYTES)
    if max_bytes is not None:
        target = max_bytes
    if min_partitions is not None:
        target = min(target, -(-total_bytes // min_partitions))
    return max(target, 1)


def cut_into_tasks(
    ranges: Sequence[SegmentRange], target: int, *, keeps_whole: bool = False, check_crc: bool = True
) -> Iterator[list[SegmentRange]]:
    """The ranges of each task: it reads about `target` bytes.

    A cut lies between two ranges if it can, which costs nothing and is always true; else at a record.
    keeps_whole: a range of at most `target` bytes is not cut. Raises SegmentMissing.
    """
    most_shift = int(target * _MOST_SHIFT)
    # What is behind it is too little for a task.
    last_cut = sum(one.size_bytes for one in ranges) - most_shift
    planned: list[SegmentRange] = []
    read_bytes, next_cut = 0, target
    for one in ranges:
        rest = one
        while rest.size_bytes and next_cut < min(read_bytes + one.size_bytes, last_cut):
            before = next_cut - read_bytes
            behind = one.size_bytes - before
            is_kept = keeps_whole and one.size_bytes <= target
            if is_kept or before <= min(most_shift, behind):
                cut: int | None = one.begin
            elif behind <= most_shift:
                cut = one.end
            else:
                cut = _find_cut(one, one.begin + before, check_crc)
            if cut is None:
                break
            if cut > rest.begin:
                planned.append(replace(rest, end=cut))
                rest = replace(rest, begin=cut)
            if planned:
                yield planned
                planned = []
            cut_bytes = read_bytes + cut - one.begin
            # Cuts stay at the multiples of `target`, so that no small rest is left for the last task.
            next_cut = cut_bytes + target if is_kept else (max(next_cut, cut_bytes) // target + 1) * target
        if rest.size_bytes:
            planned.append(rest)
        read_bytes += one.size_bytes
    if planned:
        yield planned


def _find_cut(one: SegmentRange, wanted: int, check_crc: bool) -> int | None:
    """The first record at or behind `wanted`; None: there is none near."""
    with opened(one.segment) as source:
        scan = SegmentScan(source, one.segment, wanted, one.end, check_crc=check_crc, chunk_bytes=1)
        position = scan.position
        found = scan.find_record(position + _NEAR_BYTES)
        if found is None and source.read(_NEAR_BYTES, position) != bytes(_NEAR_BYTES):
            found = scan.find_record(position + LARGEST_RECORD_BYTES)
    return None if found is None else one.segment.start_offset + found
