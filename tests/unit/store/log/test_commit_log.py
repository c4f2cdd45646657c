"""The commit log as a whole: what is appended is read back, and its end may be set anywhere."""

from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.commit_log import CommitLog
from support.stores.small_log import SmallLog


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    return SmallLog(file_system, root / "commitlog")


def test_records_across_segments_are_read_back(small: SmallLog) -> None:
    """Every record of several segments, each closed by a BLANK."""
    bodies = [bytes([index]) * 7_000 for index in range(50)]
    for body in bodies:
        small.append(body)
    assert len(small.log.files.files) > 2
    assert small.bodies() == bodies


def test_the_end_may_be_set_anywhere_in_the_row(small: SmallLog, file_system: FileSystem, root: Path) -> None:
    """Recovery finds the end; appends go on from there, in the segment that holds it."""
    places = [small.append(bytes([index]) * 40_000) for index in range(5)]
    for place in (places[4], places[2], places[0]):
        again = CommitLog(file_system, root / "commitlog", small.config, small.clock)
        again.load()
        again.set_end(place.physical_offset, 17)
        assert (again.max_offset, again.flushed_offset, again.visible_offset) == (place.physical_offset,) * 3
        assert again.last_store_timestamp == 17
        assert again.look_message_by_offset(place.physical_offset) is None
