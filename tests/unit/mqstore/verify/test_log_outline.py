"""The outline of a log: where it begins and ends, what is damaged, and where a torn tail begins.

Method: segments of 1,000 bytes as the scan would report them, in all constellations.
"""

from pathlib import Path

import pytest

from mqstore.store.errors import LogGapTooLong
from mqstore.store.log.raw_segments import SegmentFile
from mqstore.verify.log_outline import LogOutline, LogScan
from mqstore.verify.log_scan import DamagedRange, ScannedSegment

SEGMENT_BYTES = 1_000


def segment(
    start: int, end: int, *damages: tuple[int, int], closed: bool = False, tail: bool = False
) -> ScannedSegment[None]:
    """Records up to `end`; closed: by a BLANK. Its records are of time 7."""
    file = SegmentFile(Path(f"{start:020d}"), start, SEGMENT_BYTES)
    ranges = tuple(DamagedRange(*damage, "a record", "none") for damage in damages)
    count = 1 if end > start else 0
    return ScannedSegment(
        file,
        count,
        end,
        closed,
        tail,
        7 * count,
        ranges,
        "a whole record",
        "junk" if tail else "zeros",
        (),
        (),
    )


def outline(*segments: ScannedSegment[None], durable: int | None = None) -> LogScan:
    made = LogOutline(SEGMENT_BYTES, durable)
    for each in segments:
        made.add(each)
    return made.finish()


def ranges(scan: LogScan) -> list[tuple[int, int]]:
    return [(each.start_offset, each.end_offset) for each in scan.damages]


FULL = segment(0, 1_000, closed=True)
CLOSED = segment(0, 800, closed=True)


@pytest.mark.parametrize(
    ("segments", "durable", "end", "damages", "torn"),
    [
        ([], None, 0, [], -1),
        ([segment(0, 400)], None, 400, [], -1),
        ([segment(0, 400, tail=True)], None, 400, [], 400),
        ([segment(0, 400, tail=True)], 400, 400, [], 400),
        ([segment(0, 400, tail=True)], 600, 400, [(400, 600)], -1),
        ([segment(0, 400)], 600, 400, [(400, 600)], -1),
        ([segment(0, 400)], 1_300, 400, [(400, 1_000), (1_000, 1_300)], -1),
        ([FULL, segment(1_000, 1_200)], None, 1_200, [], -1),
        ([FULL, segment(1_000, 1_000)], None, 1_000, [], -1),
        ([FULL, segment(1_000, 1_500, (1_100, 1_200))], None, 1_500, [(1_100, 1_200)], -1),
        ([FULL, segment(1_000, 1_500, (1_100, 1_200))], 1_100, 1_100, [], 1_100),
        ([segment(0, 400), segment(1_000, 1_200)], None, 1_200, [(400, 1_000)], -1),
        ([segment(0, 400, tail=True), segment(1_000, 1_200)], 400, 400, [], 400),
        ([FULL, segment(3_000, 3_200)], None, 3_200, [(1_000, 2_000), (2_000, 3_000)], -1),
        ([segment(5_000, 6_000, closed=True)], None, 6_000, [], -1),
        ([CLOSED], 700, 800, [], -1),
        ([CLOSED], 999, 800, [(800, 999)], -1),
        ([CLOSED], 1_000, 1_000, [], -1),
        ([CLOSED], 1_300, 1_000, [(1_000, 1_300)], -1),
        ([CLOSED, segment(1_000, 1_400, closed=True)], 2_000, 2_000, [], -1),
    ],
    ids=[
        "no segment",
        "ends in zeros",
        "torn",
        "torn behind what is durable",
        "torn before what is durable",
        "durable records are gone",
        "and those of the next segment",
        "two segments",
        "the second is empty",
        "damage",
        "damage that was never durable is the end",
        "a segment without its end",
        "that was never durable further",
        "segments are missing",
        "the first ones have expired",
        "a BLANK was not durable",
        "a BLANK was durable in part",
        "a BLANK was durable, and nothing behind it",
        "a BLANK was durable, and records behind it",
        "the BLANK of a later segment was durable",
    ],
)
def test_an_outline(
    segments: list[ScannedSegment[None]],
    durable: int | None,
    end: int,
    damages: list[tuple[int, int]],
    torn: int,
) -> None:
    """Where it ends, what is damaged before, and where the torn tail begins."""
    scan = outline(*segments, durable=durable)
    assert (scan.end_offset, ranges(scan), scan.torn_offset) == (end, damages, torn)
    assert scan.min_offset == (segments[0].segment.start_offset if segments else 0)


def test_damage_has_the_time_of_the_record_before_it() -> None:
    """Which may be in an earlier segment; 0 without one."""
    assert outline(FULL, segment(1_000, 1_500, (1_000, 1_200))).damages[0].before_timestamp == 7
    assert outline(segment(0, 500, (0, 200))).damages[0].before_timestamp == 0


def test_pieces_behind_the_end_are_not_of_the_log() -> None:
    """`add` returns the offset below which they are."""
    made = LogOutline(SEGMENT_BYTES, 400)
    assert made.add(segment(0, 400, tail=True)) == 400
    assert made.add(segment(1_000, 1_500)) == 400


def test_a_gap_that_no_log_has_is_refused() -> None:
    """A file's name may claim any offset."""
    with pytest.raises(LogGapTooLong):
        outline(FULL, segment(10**15, 10**15 + 100))
    with pytest.raises(LogGapTooLong):
        outline(FULL, durable=10**15)
