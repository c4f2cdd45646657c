"""Recovery as a table of bad tails: each state that a crash can leave, and damage, told apart.

A log is written and flushed in part; then the bytes behind are made into what a crash, or a bad disk, would
leave, and the log is opened again. Every case runs on both file systems.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore.store.errors import CorruptRecord
from mqstore.store.files.file_names import file_name
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log import recovery
from mqstore.store.log.recovery import RecoveryReport, find_start, recover
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.record_format import encode_blank
from mqstore.store.state.checkpoint_format import Checkpoint
from mqstore.store.state.recovery_point_format import RecoveryPoint
from support.stores.small_log import SEGMENT_BYTES, SmallLog
from support.twins.plain_records import record


class Crashed:
    """A log whose process is gone: `durable_offset` was synced, what lies behind can be changed."""

    def __init__(self, file_system: FileSystem, directory: Path, **settings: object) -> None:
        self.file_system = file_system
        self.directory = directory
        self.settings = settings
        self.durable_offset = 0
        self.places: list[PutMessageResult] = []
        self._writer = SmallLog(file_system, directory, **settings)

    def write(self, *bodies: bytes, **fields: object) -> None:
        self.places += [self._writer.append(body, **fields) for body in bodies]

    def sync_within(self, timeout_s: float) -> bool:
        self.sync()
        return True

    def sync(self) -> None:
        self.durable_offset = self._writer.log.max_offset

    def fill_to(self, room_bytes: int) -> None:
        self._writer.fill_to(room_bytes)

    @property
    def end_offset(self) -> int:
        return self._writer.log.max_offset

    def put_bytes(self, offset: int, data: bytes) -> None:
        """Change bytes of the log behind everybody's back."""
        mapped_file = self._writer.log.files.file_for(offset)
        assert mapped_file is not None
        mapped_file.write(offset - mapped_file.start_offset, data)

    def get_bytes(self, offset: int, length: int) -> bytes:
        mapped_file = self._writer.log.files.file_for(offset)
        assert mapped_file is not None
        position = offset - mapped_file.start_offset
        return bytes(mapped_file.view[position : position + length])

    def zero(self, offset: int, end_offset: int | None = None) -> None:
        self.put_bytes(offset, bytes((self.end_offset if end_offset is None else end_offset) - offset))

    def flip(self, offset: int) -> None:
        self.put_bytes(offset, bytes([self.get_bytes(offset, 1)[0] ^ 0x40]))

    def add_zero_segment(self) -> None:
        files = self._writer.log.files
        files.append_file(files.end_offset)

    def content(self) -> dict[str, bytes]:
        """All files of the log."""
        return {
            entry.name: self.file_system.read(self.directory / entry.name)
            for entry in self.file_system.list(self.directory)
        }

    def reopen(self, *, read_only: bool = False) -> SmallLog:
        """The log as the next process finds it; its end is not known yet."""
        return SmallLog(self.file_system, self.directory, read_only=read_only, **self.settings)

    def recover(
        self,
        *,
        start_offset: int = 0,
        durable_offset: int | None = -1,
        read_only: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> tuple[SmallLog, RecoveryReport]:
        """Open and recover; -1 stands for the offset that was synced."""
        small = self.reopen(read_only=read_only)
        known = self.durable_offset if durable_offset == -1 else durable_offset
        report = recover(small.log, start_offset, known, read_only=read_only, on_progress=on_progress)
        return small, report


@pytest.fixture
def crashed(file_system: FileSystem, root: Path) -> Crashed:
    made = Crashed(file_system, root / "commitlog")
    made.write(b"one", b"two", b"three")
    made.sync()
    return made


def check_ends_at(
    crashed: Crashed, end_offset: int, bodies: list[bytes], **arguments: object
) -> RecoveryReport:
    """Recovery finds this end and these bodies.

    Nothing but zeros follows, a second run changes nothing, and the next record goes there.
    """
    small, report = crashed.recover(**arguments)  # type: ignore[arg-type]
    assert (report.end_offset, report.records) == (end_offset, len(bodies))
    assert (small.log.max_offset, small.log.flushed_offset) == (end_offset, end_offset)
    assert small.bodies() == bodies
    for segment in small.log.files.files:
        assert (
            not segment.array[max(0, end_offset - segment.start_offset) :].any()
            or segment.end_offset <= end_offset
        )
    content = crashed.content()
    again, second = crashed.recover(**arguments)  # type: ignore[arg-type]
    assert second == report._replace(erased_bytes=0)
    assert crashed.content() == content
    place = again.append(b"next")
    assert again.bodies() == [*bodies, b"next"]
    assert place.physical_offset in (end_offset, (end_offset // SEGMENT_BYTES + 1) * SEGMENT_BYTES)
    return report


# -- states 1 and 2: nothing is missing ---------------------------------------------------------------


def test_an_empty_log_ends_where_it_begins(file_system: FileSystem, root: Path) -> None:
    """Nothing is created."""
    crashed = Crashed(file_system, root / "commitlog")
    small, report = crashed.recover()
    assert report == RecoveryReport(0, 0, 0, 0, 0)
    assert small.log.files.files == ()
    assert small.append().physical_offset == 0


def test_a_whole_log_ends_at_its_last_record(crashed: Crashed) -> None:
    """Synced or not, if it is all there."""
    crashed.write(b"four", b"five")
    report = check_ends_at(crashed, crashed.end_offset, [b"one", b"two", b"three", b"four", b"five"])
    assert report.erased_bytes == 0
    assert report.last_store_timestamp == crashed.places[-1].store_timestamp


def test_the_walk_may_begin_at_any_record(crashed: Crashed) -> None:
    """What lies before is neither read nor counted."""
    for index, place in enumerate(crashed.places):
        _, report = crashed.recover(start_offset=place.physical_offset)
        assert (report.start_offset, report.records) == (place.physical_offset, 3 - index)
        assert report.end_offset == crashed.end_offset


def test_a_log_of_many_segments_is_walked_to_its_end(crashed: Crashed) -> None:
    """BLANK after BLANK; half messages and V2 records count like others."""
    bodies = [bytes([index]) * 9_000 for index in range(40)]
    crashed.write(*bodies, sys_flag=0x4)
    crashed.write(b"long topic", topic="%RETRY%" + "g" * 121)
    check_ends_at(crashed, crashed.end_offset, [b"one", b"two", b"three", *bodies, b"long topic"])


@pytest.mark.parametrize("step_bytes", [1, 100, 137, 4_096, SEGMENT_BYTES])
def test_the_steps_of_the_walk_make_no_difference(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    """Wherever a step ends, inside a record or between two."""
    monkeypatch.setattr(recovery, "_STEP_BYTES", step_bytes)
    crashed.write(*(bytes([index]) * 3_000 for index in range(60)))
    _, report = crashed.recover()
    assert (report.end_offset, report.records) == (crashed.end_offset, 63)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.integers(0, 9_000), min_size=1, max_size=30),
    st.lists(st.floats(0, 1, exclude_max=True), max_size=2),
    st.sampled_from([500, 4_096, 20_000]),
    st.sampled_from([64, 10_000]),
)
def test_looking_ahead_makes_no_difference(
    lengths: list[int], damages: list[float], step_bytes: int, look_ahead_bytes: int
) -> None:
    """A second thread walks the step behind: the end, the number and the time are those of a single walk."""
    crashed = Crashed(MemoryFileSystem(), Path("/store/commitlog"))
    crashed.write(*(bytes([length % 256]) * length for length in lengths))
    for damage in damages:
        crashed.flip(int(crashed.end_offset * damage))
    found = []
    for steps in ({"_goes_on_at": lambda segment, position: False}, {}):
        sizes = {"_STEP_BYTES": step_bytes, "_LOOK_AHEAD_BYTES": look_ahead_bytes}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (sizes | steps).items():
                patch.setattr(recovery, name, value)
            found.append(crashed.recover(read_only=True)[1])
    assert found[0] == found[1]


def test_the_beginning_of_the_walk_is_told(crashed: Crashed) -> None:
    """Once, and only where there is something to walk over."""
    told: list[str] = []
    for start_offset in (0, crashed.end_offset):
        log = crashed.reopen().log
        recover(
            log, start_offset, crashed.durable_offset, read_only=False, on_walk=lambda: told.append("walk")
        )
    assert told == ["walk"]


def test_progress_rises_to_the_end(crashed: Crashed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told in bytes, of at most so many."""
    monkeypatch.setattr(recovery, "_STEP_BYTES", 1_000)
    crashed.write(*(bytes(300) for _ in range(100)))
    told: list[tuple[str, int, int]] = []
    crashed.recover(on_progress=lambda *progress: told.append(progress))
    assert told == sorted(told)
    assert told[-1] == ("recover", crashed.end_offset, SEGMENT_BYTES)
    assert len(told) > 10


# -- state 3: a torn tail -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"some body", {}),
        (b"", {}),
        (b"", {"tags": "TagA", "keys": "k"}),
        (b"some body", {"tags": "TagA"}),
    ],
)
@pytest.mark.parametrize("append_crc", [True, False])
def test_a_record_torn_at_any_byte_is_cut(
    file_system: FileSystem, root: Path, body: bytes, fields: dict[str, object], append_crc: bool
) -> None:
    """The rest of the record is zeros, as in a page that never reached the disk. None of it comes back."""
    crashed = Crashed(file_system, root / "commitlog", enabled_append_prop_crc=append_crc)
    crashed.write(b"one")
    crashed.sync()
    crashed.write(body, **fields)
    last = crashed.places[-1]
    whole = crashed.get_bytes(last.physical_offset, last.store_size)
    for length in range(last.store_size):
        torn = whole[:length].ljust(last.store_size, b"\0")
        crashed.put_bytes(last.physical_offset, torn)
        _, report = crashed.recover()
        if torn == whole:
            assert report.end_offset == crashed.end_offset
            continue
        assert report.end_offset == last.physical_offset, f"torn after {length} bytes"
        assert report.records == 1
        assert not any(crashed.get_bytes(last.physical_offset, last.store_size))


def test_a_record_whose_first_bytes_are_missing_is_cut(crashed: Crashed) -> None:
    """They are written last: killed in between, the rest of the record is there without them."""
    crashed.write(b"four")
    last = crashed.places[-1]
    crashed.zero(last.physical_offset, last.physical_offset + 8)
    report = check_ends_at(crashed, last.physical_offset, [b"one", b"two", b"three"])
    assert report.erased_bytes > 0


def test_a_torn_record_of_many_pages_is_cut(crashed: Crashed) -> None:
    """Any page of it may be missing, in the middle as well."""
    crashed.write(bytes(range(256)) * 100)
    last = crashed.places[-1]
    whole = crashed.get_bytes(last.physical_offset, last.store_size)
    for page in range(7):
        start = max(last.physical_offset, page * 4_096)
        crashed.zero(start, min((page + 1) * 4_096, crashed.end_offset))
        _, report = crashed.recover()
        assert report.end_offset == last.physical_offset
        crashed.put_bytes(last.physical_offset, whole)


def test_whole_records_behind_a_hole_are_cut(crashed: Crashed) -> None:
    """Pages reach the disk in any order. What follows the hole was never acknowledged as durable."""
    crashed.write(b"lost", b"left over")
    lost = crashed.places[-2]
    crashed.zero(lost.physical_offset, lost.end_offset)
    check_ends_at(crashed, lost.physical_offset, [b"one", b"two", b"three"])


def test_whole_segments_behind_a_hole_are_removed(crashed: Crashed) -> None:
    """The files too: the next segment begins anew."""
    crashed.write(*(bytes([index]) * 50_000 for index in range(8)))
    assert len(crashed.content()) == 4
    lost = crashed.places[4]
    crashed.flip(lost.physical_offset + 100)
    check_ends_at(crashed, lost.physical_offset, [b"one", b"two", b"three", bytes(50_000)])
    assert list(crashed.content())[:1] == [file_name(0)]


def test_a_stale_record_does_not_come_back(crashed: Crashed) -> None:
    """After a cut, a shorter record is put where the torn one was; the old bytes behind it are gone."""
    crashed.write(b"torn" * 100, b"stale")
    torn = crashed.places[-2]
    crashed.flip(torn.physical_offset + 100)
    small, _ = crashed.recover()
    small.append(b"new")
    _, report = crashed.recover()
    assert report.records == 4
    assert crashed.recover()[0].bodies() == [b"one", b"two", b"three", b"new"]


def test_garbage_behind_the_end_is_cut(crashed: Crashed) -> None:
    """Bytes that were never a record."""
    crashed.put_bytes(crashed.end_offset + 5_000, b"garbage")
    report = check_ends_at(crashed, crashed.end_offset, [b"one", b"two", b"three"])
    assert report.erased_bytes > 0


def test_a_record_of_another_place_ends_the_log(crashed: Crashed) -> None:
    """Whole, but it says that it lies elsewhere."""
    first = crashed.places[0]
    crashed.put_bytes(crashed.end_offset, crashed.get_bytes(0, first.store_size))
    check_ends_at(crashed, crashed.end_offset, [b"one", b"two", b"three"])


@pytest.mark.parametrize("in_hole_bytes", [0, 1, 2, 3])
def test_a_record_at_the_edge_of_a_hole_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_hole_bytes: int
) -> None:
    """Holes are stepped over. The first bytes of a record are zeros and may lie in one; it shows damage.

    Only where no offset is known to be durable, as in a directory that RocketMQ has written.
    """
    monkeypatch.setattr(recovery, "_SEARCH_BYTES", 4_096)
    first, place = record(0, body=b"one"), 3 * 4_096 - in_hole_bytes
    behind = record(place, body=b"two")
    assert not any(behind[:in_hole_bytes])
    with (tmp_path / file_name(0)).open("wb") as segment:
        segment.write(first)
        segment.seek(place + in_hole_bytes)
        segment.write(behind[in_hole_bytes:])
        segment.truncate(SEGMENT_BYTES)
    small = SmallLog(OsFileSystem(), tmp_path, read_only=True)
    report = recover(small.log, 0, None, read_only=True)
    assert report.damage is not None
    assert (report.records, report.damage.position) == (1, len(first))


# -- states 4 and 5: segments created ahead, or not yet -----------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_segments_created_ahead_are_removed(crashed: Crashed, count: int) -> None:
    """All zero behind the last one that holds records."""
    for _ in range(count):
        crashed.add_zero_segment()
    check_ends_at(crashed, crashed.end_offset, [b"one", b"two", b"three"])
    assert list(crashed.content()) == [file_name(0)]


def test_a_last_file_of_length_zero_is_removed(crashed: Crashed) -> None:
    """A creation that the crash interrupted."""
    crashed.file_system.write(crashed.directory / file_name(SEGMENT_BYTES), b"")
    check_ends_at(crashed, crashed.end_offset, [b"one", b"two", b"three"])
    assert list(crashed.content()) == [file_name(0)]


@pytest.mark.parametrize("room_bytes", [8, 9, 500])
def test_a_blank_without_a_next_segment_is_taken_back(crashed: Crashed, room_bytes: int) -> None:
    """The log ends where the BLANK begins, and the next record may take its place."""
    crashed.fill_to(room_bytes)
    crashed.sync()
    end_offset = crashed.end_offset
    crashed.put_bytes(end_offset, encode_blank(room_bytes))
    small, report = crashed.recover()
    assert report.end_offset == small.log.max_offset == end_offset
    assert not any(crashed.get_bytes(end_offset, room_bytes))
    place = small.append(b"next")
    assert place.physical_offset == (end_offset if room_bytes == 500 else SEGMENT_BYTES)


def test_a_blank_that_was_durable_to_its_last_byte_stays(crashed: Crashed) -> None:
    """Others may have noted that the log ends with the segment, and a record in its place would be missed."""
    crashed.fill_to(500)
    crashed.put_bytes(crashed.end_offset, encode_blank(500))
    crashed.durable_offset = SEGMENT_BYTES
    small, report = crashed.recover()
    assert report.end_offset == small.log.max_offset == small.log.flushed_offset == SEGMENT_BYTES
    assert small.append(b"next").physical_offset == SEGMENT_BYTES
    assert crashed.recover(durable_offset=SEGMENT_BYTES + 1)[0].bodies()[-1] == b"next"


def test_a_blank_before_an_empty_segment_ends_the_log_at_that_segment(crashed: Crashed) -> None:
    """The segment stays, and takes the next record."""
    crashed.fill_to(500)
    crashed.put_bytes(crashed.end_offset, encode_blank(500))
    crashed.add_zero_segment()
    small, report = crashed.recover()
    assert report.end_offset == small.log.max_offset == SEGMENT_BYTES
    assert small.append(b"next").physical_offset == SEGMENT_BYTES


# What a power cut leaves of 8 bytes that lie on two sectors, and of two of their bytes.
TORN_BLANKS = [
    bytes(4) + encode_blank(500)[4:],
    encode_blank(500)[:4] + bytes(4),
    bytes(3) + encode_blank(500)[3:],
    encode_blank(400),
]
IN_THE_NEXT_SEGMENT = bytes(range(250)) * 4


@pytest.mark.parametrize("torn", TORN_BLANKS, ids=lambda data: data.hex())
def test_a_torn_blank_ends_the_log(crashed: Crashed, torn: bytes) -> None:
    """prepared-async/3/159: what the next segment holds was not durable either, and is cut."""
    crashed.fill_to(500)
    crashed.sync()
    end_offset = crashed.end_offset
    crashed.write(IN_THE_NEXT_SEGMENT)
    crashed.put_bytes(end_offset, torn)
    small, report = crashed.recover()
    assert report.end_offset == small.log.max_offset == end_offset
    assert IN_THE_NEXT_SEGMENT not in small.bodies()
    assert not any(crashed.get_bytes(end_offset, 500))


@pytest.mark.parametrize("torn", TORN_BLANKS, ids=lambda data: data.hex())
def test_a_torn_blank_that_was_durable_is_damage(crashed: Crashed, torn: bytes) -> None:
    """Nothing is changed."""
    crashed.fill_to(500)
    end_offset = crashed.end_offset
    crashed.write(IN_THE_NEXT_SEGMENT)
    crashed.sync()
    crashed.put_bytes(end_offset, torn)
    before = crashed.content()
    with pytest.raises(CorruptRecord, match="Nothing was changed or deleted") as caught:
        crashed.recover()
    assert caught.value.position == end_offset
    assert crashed.content() == before


# -- state 6: damage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    ("position", "expected", "found"),
    [
        (0, "a total size from 88", ""),
        (5, "magic DAA320A7 or DAA320AB", "E32"),
        (30, "physical offset", ""),
        (90, "CRC", ""),
    ],
)
def test_damage_before_the_durable_offset_is_an_error(
    crashed: Crashed, which: int, position: int, expected: str, found: str
) -> None:
    """With file, position, expected and found; nothing is changed or deleted."""
    crashed.write(*(bytes([index]) * 50_000 for index in range(4)))
    crashed.sync()
    harmed = crashed.places[which]
    crashed.flip(harmed.physical_offset + position)
    content = crashed.content()
    with pytest.raises(CorruptRecord, match="Nothing was changed or deleted") as caught:
        crashed.recover()
    error = caught.value
    assert (error.path, error.position) == (crashed.directory / file_name(0), harmed.physical_offset)
    assert expected in error.expected
    assert found in error.found
    assert crashed.content() == content


def test_damage_in_a_later_segment_names_that_file(crashed: Crashed) -> None:
    """And the position within it."""
    crashed.write(*(bytes([index]) * 50_000 for index in range(6)))
    crashed.sync()
    harmed = crashed.places[-1]
    crashed.flip(harmed.physical_offset + 200)
    with pytest.raises(CorruptRecord) as caught:
        crashed.recover()
    start = harmed.physical_offset // SEGMENT_BYTES * SEGMENT_BYTES
    assert caught.value.path == crashed.directory / file_name(start)
    assert caught.value.position == harmed.physical_offset - start


def test_zeros_before_the_durable_offset_are_damage(crashed: Crashed) -> None:
    """A record that had been durable is not there any more."""
    last = crashed.places[-1]
    crashed.zero(last.physical_offset)
    with pytest.raises(CorruptRecord, match="found 00000000") as caught:
        crashed.recover()
    assert caught.value.position == last.physical_offset


def test_a_missing_last_segment_that_was_durable_is_damage(crashed: Crashed) -> None:
    """Although what is left ends cleanly in a BLANK, and that was durable too."""
    crashed.write(*(bytes([index]) * 50_000 for index in range(3)))
    crashed.sync()
    crashed.file_system.delete(crashed.directory / file_name(SEGMENT_BYTES))
    content = crashed.content()
    with pytest.raises(CorruptRecord):
        crashed.recover()
    assert crashed.content() == content


def test_records_behind_the_end_are_damage_when_nothing_is_known(crashed: Crashed) -> None:
    """A broker's directory has no durable offset: a whole record behind a broken one means damage."""
    crashed.write(*(bytes([index]) * 50_000 for index in range(4)))
    harmed = crashed.places[1]
    crashed.flip(harmed.physical_offset + 90)
    content = crashed.content()
    with pytest.raises(CorruptRecord, match="CRC") as caught:
        crashed.recover(durable_offset=None)
    assert caught.value.position == harmed.physical_offset
    assert crashed.content() == content


def test_a_torn_last_record_is_cut_when_nothing_is_known(crashed: Crashed) -> None:
    """Garbage behind it is not taken for records."""
    crashed.write(b"torn" * 50)
    last = crashed.places[-1]
    crashed.flip(last.physical_offset + 90)
    crashed.put_bytes(crashed.end_offset + 3_000, b"\xda\xa3\x20\xa7" * 10)
    check_ends_at(crashed, last.physical_offset, [b"one", b"two", b"three"], durable_offset=None)


# -- reading only -------------------------------------------------------------------------------------


def tear(crashed: Crashed) -> None:
    crashed.write(b"torn")
    crashed.flip(crashed.places[-1].physical_offset + 90)


def add_blank(crashed: Crashed) -> None:
    crashed.put_bytes(crashed.end_offset, encode_blank(SEGMENT_BYTES - crashed.end_offset))


def empty_file(crashed: Crashed) -> None:
    crashed.file_system.write(crashed.directory / file_name(SEGMENT_BYTES), b"")


@pytest.mark.parametrize("spoil", [tear, add_blank, Crashed.add_zero_segment, empty_file])
def test_reading_only_finds_the_end_and_changes_nothing(
    crashed: Crashed, spoil: Callable[[Crashed], None]
) -> None:
    """The torn tail is left to the next writer."""
    end_offset = crashed.end_offset
    spoil(crashed)
    content = crashed.content()
    small, report = crashed.recover(read_only=True)
    assert (report.end_offset, report.erased_bytes, report.damage) == (end_offset, 0, None)
    assert small.bodies() == [b"one", b"two", b"three"]
    assert crashed.content() == content


@pytest.mark.parametrize("durable_offset", [-1, None])
def test_reading_only_takes_what_is_whole_before_damage(crashed: Crashed, durable_offset: int | None) -> None:
    """As the error of a writable open advises; the report has the damage."""
    crashed.write(b"four", b"five")
    crashed.sync()
    harmed = crashed.places[3]
    crashed.flip(harmed.physical_offset + 90)
    content = crashed.content()
    small, report = crashed.recover(read_only=True, durable_offset=durable_offset)
    assert report.end_offset == harmed.physical_offset
    assert report.damage is not None
    assert report.damage.position == harmed.physical_offset
    assert small.bodies() == [b"one", b"two", b"three"]
    assert crashed.content() == content


def test_reading_beside_a_live_writer_is_not_taken_for_damage(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that are appended between the walk and the look behind it are simply more records."""
    find_damage = recovery._find_damage

    def write_first(*arguments: object) -> CorruptRecord | None:
        crashed.write(b"four", b"five")
        return find_damage(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(recovery, "_find_damage", write_first)
    small, report = crashed.recover(read_only=True, durable_offset=None)
    assert (report.damage, report.end_offset) == (None, crashed.end_offset)
    assert small.bodies() == [b"one", b"two", b"three", b"four", b"five"]


# -- where to begin -----------------------------------------------------------------------------------


@pytest.fixture
def segments(file_system: FileSystem, root: Path) -> Crashed:
    """Five segments; the clock goes on by 10 s with each record."""
    made = Crashed(file_system, root / "commitlog")
    for index in range(10):
        made.write(bytes([index]) * 50_000)
        made._writer.clock.advance(10_000)
    made.sync()
    return made


def start(crashed: Crashed, point: RecoveryPoint | None, checkpoint: Checkpoint, *, after_crash: bool) -> int:
    return find_start(crashed.reopen().log, point, checkpoint, after_crash=after_crash)


def test_recovery_begins_at_the_recovery_point(segments: Crashed) -> None:
    """Where the queues were durable: at a record, at the end, or at a segment's BLANK."""
    for place in segments.places:
        point = RecoveryPoint(segments.end_offset, place.physical_offset)
        assert start(segments, point, Checkpoint(), after_crash=True) == place.physical_offset
    end = segments.end_offset
    assert start(segments, RecoveryPoint(end, end), Checkpoint(), after_crash=True) == end
    blank = segments.places[1].end_offset
    assert start(segments, RecoveryPoint(end, blank), Checkpoint(), after_crash=True) == blank


def test_a_point_that_is_no_boundary_is_not_trusted(segments: Crashed) -> None:
    """Inside a record, behind all files, or before the first: then the checkpoint decides."""
    for offset in (1, segments.places[3].physical_offset + 1, 100 * SEGMENT_BYTES):
        assert start(segments, RecoveryPoint(offset, offset), Checkpoint(), after_crash=True) == 0
    # The first body is zeros, and so is what follows the log's end.
    for offset in (segments.places[0].physical_offset + 1_000, segments.end_offset + 8):
        point = RecoveryPoint(segments.end_offset + 8, offset)
        assert start(segments, point, Checkpoint(), after_crash=True) == 0
    segments.reopen().log.files.delete_first()
    assert start(segments, RecoveryPoint(0, 0), Checkpoint(), after_crash=True) == SEGMENT_BYTES


def test_a_point_at_zeros_costs_no_record(segments: Crashed) -> None:
    """It may be that of another log, in a directory restored from two copies: the whole log stays."""
    for offset in (1_000, segments.places[1].end_offset - 9, segments.end_offset + 8):
        crashed = segments.reopen()
        begin = find_start(crashed.log, RecoveryPoint(offset, offset), Checkpoint(), after_crash=True)
        assert recover(crashed.log, begin, None, read_only=False).end_offset == segments.end_offset


def test_without_a_point_the_checkpoint_decides_after_a_crash(segments: Crashed) -> None:
    """The newest segment that begins with a record stored three seconds before it, or earlier."""
    begins = [place for place in segments.places if place.physical_offset % SEGMENT_BYTES == 0]
    assert len(begins) == 5
    for place in begins:
        time = place.store_timestamp + 3_000
        assert start(segments, None, Checkpoint(time, time), after_crash=True) == place.physical_offset
        assert start(segments, None, Checkpoint(time - 1, time), after_crash=True) == max(
            0, place.physical_offset - SEGMENT_BYTES
        )
    assert start(segments, None, Checkpoint(), after_crash=True) == 0


def test_without_a_point_the_newest_segment_is_enough_after_a_clean_stop(segments: Crashed) -> None:
    """The newest that begins with a record: an empty one ahead of it does not count."""
    newest = segments.places[-2].physical_offset
    assert newest % SEGMENT_BYTES == 0
    assert start(segments, None, Checkpoint(), after_crash=False) == newest
    segments.add_zero_segment()
    assert start(segments, None, Checkpoint(), after_crash=False) == newest


def test_an_empty_log_is_begun_at_its_beginning(file_system: FileSystem, root: Path) -> None:
    """Whatever the files beside it say."""
    crashed = Crashed(file_system, root / "commitlog")
    for point in (None, RecoveryPoint(0, 0), RecoveryPoint(500, 500)):
        assert start(crashed, point, Checkpoint(), after_crash=True) == 0


# -- all tails at once --------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    durable=st.integers(0, 6),
    harm=st.lists(st.tuples(st.integers(0, 40_000), st.binary(min_size=1, max_size=300)), max_size=4),
    sizes=st.lists(st.integers(0, 30_000), min_size=6, max_size=6),
)
def test_whatever_happens_behind_the_durable_offset_costs_nothing_before_it(
    durable: int, harm: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    """Any bytes anywhere behind it: recovery ends with a prefix of what was written that has all of it."""
    crashed = Crashed(MemoryFileSystem(), Path("/commitlog"))
    bodies = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    for index, body in enumerate(bodies):
        if index == durable:
            crashed.sync()
        crashed.write(body)
    if durable == len(bodies):
        crashed.sync()
    for at, data in harm:
        offset = crashed.durable_offset + at
        room = SEGMENT_BYTES - offset % SEGMENT_BYTES
        if offset < (crashed.end_offset // SEGMENT_BYTES + 1) * SEGMENT_BYTES:
            crashed.put_bytes(offset, data[:room])
    small, report = crashed.recover()
    found = small.bodies()
    assert found == bodies[: len(found)]
    assert len(found) >= durable
    assert report.end_offset >= crashed.durable_offset
    assert crashed.recover()[1].erased_bytes == 0
