"""Retention: which segments go, and when puts are refused; age and disk use are whatever the test says."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.store.errors import StoreFull
from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.retention import Retention
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, SmallLog

HOUR_MS = 3_600_000
SEGMENTS = 5


def local_hour(hour: int) -> int:
    """A moment at this hour of the machine's own time zone, epoch ms."""
    moment = datetime.datetime(2024, 9, 19, hour, 30).astimezone()
    return int(moment.timestamp() * 1_000)


class Kept:
    """A log of five flushed segments, a day older each, on a disk that is half full."""

    def __init__(self, file_system: FileSystem, directory: Path, **settings: object) -> None:
        self.watched = WatchedFileSystem(file_system)
        self.watched.used_percent = 50
        self.clock = ManualClock(local_hour(4))
        self.small = SmallLog(self.watched, directory, clock=self.clock, **settings)
        while len(self.small.log.files.files) < SEGMENTS:
            self.small.append(bytes(50_000))
        self.small.log.flushed_offset = self.small.log.max_offset
        self.pinned_offset = self.small.log.max_offset
        for index, segment in enumerate(self.small.log.files.files):
            self.watched.ages[segment.path] = self.clock.now_ms() - (SEGMENTS - index) * 24 * HOUR_MS
        self.retention = Retention(
            self.small.log, self.watched, self.small.config, self.clock, lambda: self.pinned_offset
        )

    def at_hour(self, hour: int) -> "Kept":
        """The same ages, another time of day."""
        moved = local_hour(hour) - self.clock.now_ms()
        self.clock.advance(moved)
        self.watched.ages = {path: age + moved for path, age in self.watched.ages.items()}
        return self

    @property
    def left(self) -> int:
        return len(self.small.log.files.files)


@pytest.fixture
def kept(file_system: FileSystem, root: Path) -> Kept:
    return Kept(file_system, root / "commitlog")


@pytest.fixture
def make(file_system: FileSystem, root: Path) -> Callable[..., Kept]:
    return lambda **settings: Kept(file_system, root / "commitlog", **settings)


def test_segments_past_their_time_go_in_the_hour_for_it(kept: Kept) -> None:
    """Ages 5, 4, 3, 2 and 1 days; 72 hours are kept. The files are gone from the disk, durably."""
    assert kept.retention.run_once() == 3
    assert (kept.left, kept.small.log.min_offset) == (2, 3 * SEGMENT_BYTES)
    assert len(kept.watched.list(kept.small.log.path)) == 2
    assert kept.watched.steps[-1][0] == "sync_directory"
    assert kept.retention.run_once() == 0


@pytest.mark.parametrize(("hour", "deleted"), [(3, 0), (4, 3), (5, 0), (16, 3)])
def test_only_in_the_hours_of_delete_when(make: Callable[..., Kept], hour: int, deleted: int) -> None:
    """Local hours, several if wanted."""
    assert make(delete_when="04;16").at_hour(hour).retention.run_once() == deleted


@pytest.mark.parametrize(("hours", "deleted"), [(121, 0), (120, 1), (96, 2), (24, 4), (0, 4)])
def test_age_counts_from_the_last_modification(make: Callable[..., Kept], hours: int, deleted: int) -> None:
    """To the millisecond; the newest segment stays at any age."""
    kept = make(file_reserved_time=hours)
    assert kept.retention.run_once() == deleted
    assert kept.left == SEGMENTS - deleted


def test_the_oldest_that_is_too_young_ends_the_round(kept: Kept) -> None:
    """Even if an older one lies behind it (a copied file, say): the log stays without a gap."""
    first, second, *_ = kept.small.log.files.files
    kept.watched.ages[second.path] = kept.clock.now_ms()
    assert kept.retention.run_once() == 1
    kept.watched.ages[first.path] = 0
    assert kept.retention.run_once() == 0


@pytest.mark.parametrize(
    ("used_percent", "deleted"), [(75, 0), (76, 3), (85, 3), (86, 4), (90, 4), (91, 4), (100, 4)]
)
def test_a_full_disk_deletes_at_any_hour(kept: Kept, used_percent: int, deleted: int) -> None:
    """Above the first ratio what is past its time, above the second regardless of age."""
    kept.at_hour(12)
    kept.watched.used_percent = used_percent
    assert kept.retention.run_once() == deleted


def test_nothing_is_forced_where_that_is_off(make: Callable[..., Kept]) -> None:
    """`clean_file_forcibly_enable`: then only age counts."""
    kept = make(clean_file_forcibly_enable=False).at_hour(12)
    kept.watched.used_percent = 99
    assert kept.retention.run_once() == 3


def test_a_round_deletes_so_many_at_most(make: Callable[..., Kept]) -> None:
    """`delete_file_batch_max`; the next round goes on."""
    kept = make(delete_file_batch_max=2, file_reserved_time=0)
    assert [kept.retention.run_once() for _ in range(3)] == [2, 2, 0]


@pytest.mark.parametrize("used_percent", [50, 99])
@pytest.mark.parametrize("pinned_segment", [0, 1, 2])
def test_what_is_pinned_stays_even_when_room_is_short(
    kept: Kept, pinned_segment: int, used_percent: int
) -> None:
    """A delayed message still to be delivered keeps its segment and all behind it."""
    kept.pinned_offset = pinned_segment * SEGMENT_BYTES + 100
    kept.watched.used_percent = used_percent
    assert kept.retention.run_once() == pinned_segment
    assert kept.small.log.min_offset <= kept.pinned_offset


def test_what_is_not_durable_stays(make: Callable[..., Kept]) -> None:
    """A segment is not deleted before it was flushed."""
    kept = make(file_reserved_time=0)
    kept.small.log.flushed_offset = SEGMENT_BYTES + 1
    assert kept.retention.run_once() == 1


def test_the_last_segment_is_never_deleted(make: Callable[..., Kept]) -> None:
    """However old and however full."""
    kept = make(file_reserved_time=0)
    kept.watched.used_percent = 100
    for _ in range(3):
        kept.retention.run_once()
    assert kept.left == 1


def test_an_empty_log_has_nothing_to_delete(file_system: FileSystem, root: Path) -> None:
    """And a full disk refuses puts to it as well."""
    watched = WatchedFileSystem(file_system)
    watched.used_percent = 95
    small = SmallLog(watched, root)
    assert Retention(small.log, watched, small.config, small.clock, lambda: 0).run_once() == 0
    with pytest.raises(StoreFull):
        small.append()


def test_above_the_warning_level_puts_are_refused_until_there_is_room(kept: Kept) -> None:
    """With an error that names the ratio; reads go on, and puts resume by themselves."""
    kept.watched.used_percent = 91
    kept.retention.run_once()
    with pytest.raises(StoreFull, match="91 % full, above disk_space_warning_level_ratio = 90"):
        kept.small.append()
    assert kept.small.log.look_message_by_offset(kept.small.log.min_offset) is not None
    kept.watched.used_percent = 90
    kept.retention.run_once()
    kept.small.append()


def test_puts_are_refused_though_nothing_can_be_deleted(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up and a deletion that fails come together. The error is raised all the same."""

    def fail(path: Path) -> None:
        raise OSError(5, "gone", str(path))

    monkeypatch.setattr(kept.watched, "delete", fail)
    kept.watched.used_percent = 91
    with pytest.raises(OSError, match="gone"):
        kept.retention.run_once()
    with pytest.raises(StoreFull, match="91 % full"):
        kept.small.append()


def test_another_refusal_is_not_lifted(kept: Kept) -> None:
    """Retention takes back only its own."""
    kept.small.log.poison(OSError(5, "gone"))
    kept.watched.used_percent = 95
    kept.retention.run_once()
    kept.watched.used_percent = 50
    kept.retention.run_once()
    assert kept.small.log.is_poisoned


def test_a_deleted_segment_stays_readable_to_those_who_hold_it(kept: Kept) -> None:
    """The file goes, the view stays."""
    held = kept.small.log.look_message_by_offset(0)
    assert held is not None
    kept.retention.run_once()
    assert held.body == bytes(50_000)
    assert kept.small.log.look_message_by_offset(0) is None
