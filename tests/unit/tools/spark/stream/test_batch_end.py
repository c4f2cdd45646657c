"""Goal: a limit in bytes falls where the records say, however little of the log is read to find that place.

Method: a store of several segments, limits near and far from where its segments begin; the rule is applied to
the rows of the twin. No Spark is started.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.selection import Selection
from mqstore.tools.spark.segments.log_source import source_of
from mqstore.tools.spark.stream import batch_end as module
from mqstore.tools.spark.stream.batch_end import batch_end
from mqstore.tools.spark.stream.stream_log import LogBehind
from support.stores.small_log import SEGMENT_BYTES, small_config
from support.twins.plain_records import read_rows

Place = tuple[int, int]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "store"
    choice = random.Random(3)
    with MessageStore.open(path, small_config(), start=False) as writer:
        for _ in range(200):
            writer.put_message(Message("orders", choice.randbytes(choice.choice([10, 900, 9_000]))))
    assert len(list((path / "commitlog").iterdir())) > 3
    return path


def _places(store: Path) -> list[Place]:
    """Begin and end of each record, but for what fills up its segment."""
    rows = [row for segment in sorted((store / "commitlog").iterdir()) for row in read_rows(segment)]
    return [(row["physicalOffset"], row["physicalOffset"] + int(row["storeSize"])) for row in rows]


def _expected(places: list[Place], begin: int, max_bytes: int) -> int:
    """The first record whose end is beyond the limit is out, unless it is the only one."""
    behind = [place for place in places if place[0] >= begin]
    beyond = next((at for at, end in behind if end > begin + max_bytes), behind[-1][1])
    return behind[0][1] if beyond == begin else beyond


def _found(store: Path, begin: int, end: int, max_bytes: int) -> int:
    options = ReadOptions.parse({"path": str(store), "maxBytesPerTrigger": str(max_bytes)})
    segments = source_of(str(store), options).listed(options, begin).segments
    return batch_end(LogBehind(segments, begin), end, Selection.of(options), options.trigger)


def test_the_limit_falls_where_the_records_say(store: Path) -> None:
    """From each record on, with limits on and around the beginnings of segments."""
    places = _places(store)
    end = places[-1][1]
    for begin, _ in places[::9]:
        to_next = SEGMENT_BYTES - begin % SEGMENT_BYTES
        for segments in range(3):
            for more in (-9_999, -200, -1, 0, 1, 200, 9_999):
                max_bytes = max(1, to_next + segments * SEGMENT_BYTES + more)
                if begin + max_bytes < end:
                    found = _found(store, begin, end, max_bytes)
                    assert found == _expected(places, begin, max_bytes), (begin, max_bytes)


@pytest.mark.parametrize(("more", "most_read"), [(0, 0), (1, SEGMENT_BYTES), (70_000, SEGMENT_BYTES)])
def test_no_more_is_read_than_one_segment(
    store: Path, monkeypatch: pytest.MonkeyPatch, more: int, most_read: int
) -> None:
    """And none where the limit is the beginning of one."""
    read = 0
    whole = module.read_range

    def counted(segment: Any, begin: int, end: int, **settings: Any) -> Iterator[Any]:
        nonlocal read
        read += end - begin
        return whole(segment, begin, end, **settings)

    monkeypatch.setattr(module, "read_range", counted)
    found = _found(store, 0, _places(store)[-1][1], 2 * SEGMENT_BYTES + more)
    assert found >= 2 * SEGMENT_BYTES
    assert read <= most_read
