"""The log appender: places are given once and without holes, and nothing is ever half done.

Segments are closed as the spec says. Interrupts and full disks are injected at each step that changes the
disk, through a watched file system.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.store.errors import StoreFull, StoreLockLost, StorePoisoned
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.recovery import recover
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.record_format import (
    BLANK_MAGIC_CODE,
    BLANK_MIN_BYTES,
)
from support.disks.watched_file_system import WatchedFileSystem
from support.manual_clock import ManualClock
from support.stores.small_log import SEGMENT_BYTES, WINDOW_BYTES, SmallLog

AppendAll = Callable[..., list[PutMessageResult]]
IN_BULK = pytest.mark.parametrize(
    "append", [SmallLog.append_all, SmallLog.append_block], ids=["one by one", "in a block"]
)


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    return SmallLog(file_system, root / "commitlog")


@pytest.fixture
def watched(file_system: FileSystem) -> WatchedFileSystem:
    return WatchedFileSystem(file_system)


@pytest.fixture
def watched_log(watched: WatchedFileSystem, root: Path) -> SmallLog:
    return SmallLog(watched, root / "commitlog")


def test_places_are_given_in_order(small: SmallLog) -> None:
    """Queue offsets count per topic and queue, physical offsets are consecutive, times are the clock's."""
    first = small.append(b"a")
    small.clock.advance(5)
    second = small.append(b"bb")
    other = small.append(b"c", queue_id=1)
    elsewhere = small.append(b"d", topic="others")
    assert [place.queue_offset for place in (first, second, other, elsewhere)] == [0, 1, 0, 0]
    assert first.physical_offset == 0
    assert second.physical_offset == first.store_size
    assert small.log.max_offset == elsewhere.end_offset
    assert second.store_timestamp - first.store_timestamp == 5
    assert small.log.last_store_timestamp == elsewhere.store_timestamp


def test_half_and_rollback_messages_take_no_place_in_a_queue(small: SmallLog) -> None:
    """Their queue offset is 0 and the counter stays; a commit takes one."""
    places = [small.append(sys_flag=sys_flag).queue_offset for sys_flag in (0, 0x4, 0xC, 0x8, 0)]
    assert places == [0, 0, 0, 1, 2]


def test_a_queue_begins_where_its_owner_says(file_system: FileSystem, root: Path) -> None:
    """Asked once for each queue."""
    asked: list[tuple[str, int]] = []

    def first_queue_offset(topic: str, queue_id: int) -> int:
        asked.append((topic, queue_id))
        return 40

    small = SmallLog(file_system, root / "commitlog", first_queue_offset=first_queue_offset)
    assert [small.append(queue_id=2).queue_offset for _ in range(3)] == [40, 41, 42]
    assert asked == [("orders", 2)]


@pytest.mark.parametrize(("beyond", "rolls"), [(8, False), (7, True), (0, True)])
def test_a_segment_is_closed_exactly_where_the_spec_says(small: SmallLog, beyond: int, rolls: bool) -> None:
    """A record rolls if its length + 8 exceeds what is left: 8 bytes always remain for the BLANK."""
    small.fill_to(1_000)
    size = 1_000 - beyond
    place = small.append(bytes(size - small.overhead_bytes()))
    assert place.store_size == size
    assert place.physical_offset == (SEGMENT_BYTES if rolls else SEGMENT_BYTES - 1_000)
    segment = small.log.files.files[0]
    if rolls:
        left = segment.view[SEGMENT_BYTES - 1_000 :]
        assert bytes(left[:8]) == (1_000).to_bytes(4, "big") + (BLANK_MAGIC_CODE & 0xFFFF_FFFF).to_bytes(
            4, "big"
        )
        assert not any(left[8:])
    else:
        assert small.room_bytes == 8
        assert small.append().physical_offset == SEGMENT_BYTES
        assert bytes(segment.view[-8:]).hex(" ") == "00 00 00 08 cb d4 31 94"


@IN_BULK
def test_appending_in_bulk_gives_consecutive_places(small: SmallLog, append: AppendAll) -> None:
    """One lock, records of one queue or many; nothing for nothing."""
    small.append()
    places = append(small, b"a", b"bb", b"ccc")
    assert [place.queue_offset for place in places] == [1, 2, 3]
    assert append(small) == []
    assert small.bodies() == [b"body", b"a", b"bb", b"ccc"]


@IN_BULK
def test_appending_in_bulk_goes_on_in_the_next_segment(small: SmallLog, append: AppendAll) -> None:
    """And the one after that."""
    bodies = [bytes([index]) * 50_000 for index in range(6)]
    places = append(small, *bodies)
    for place, body in zip(places, bodies, strict=True):
        message = small.log.look_message_by_offset(place.physical_offset)
        assert message is not None
        assert (message.body, message.queue_offset) == (body, place.queue_offset)
    assert len(small.log.files.files) == 3
    assert small.bodies() == bodies


@IN_BULK
def test_places_tell_the_store_time_of_their_records(
    file_system: FileSystem, root: Path, append: AppendAll
) -> None:
    """Also where time passes while a block goes on in the next segment."""

    class Ticking(ManualClock):
        def now_ms(self) -> int:
            self.advance(1)
            return super().now_ms()

    small = SmallLog(file_system, root, clock=Ticking())
    for place in append(small, *[bytes(50_000)] * 6):
        stored = small.log.look_message_by_offset(place.physical_offset)
        assert stored is not None
        assert place.store_timestamp == stored.store_timestamp


@IN_BULK
@pytest.mark.parametrize("free_windows", [0, 1, 2, 3, 4])
def test_appending_in_bulk_stores_all_or_none_on_a_full_disk(free_windows: int, append: AppendAll) -> None:
    """However little room there is; and everything once there is room."""
    memory = MemoryFileSystem(free_bytes=free_windows * WINDOW_BYTES)
    small = SmallLog(memory, Path("/commitlog"))
    bodies = [bytes([index]) * 50_000 for index in range(6)]
    with pytest.raises(StoreFull):
        append(small, *bodies)
    assert small.bodies() == []
    assert small.log.max_offset == 0
    memory.free_bytes = 2**30
    assert [place.queue_offset for place in append(small, *bodies)] == list(range(6))
    assert small.bodies() == bodies


def test_a_full_disk_refuses_the_put_and_lets_the_next_one_in() -> None:
    """Reads go on meanwhile, and no offset is lost."""
    memory = MemoryFileSystem(free_bytes=WINDOW_BYTES)
    small = SmallLog(memory, Path("/commitlog"))
    stored = []
    with contextlib.suppress(StoreFull):
        while True:
            stored.append(small.append(bytes(5_000)).queue_offset)
    assert stored == list(range(len(stored)))
    assert len(small.bodies()) == len(stored)
    memory.free_bytes = 2**30
    assert small.append().queue_offset == len(stored)


@pytest.mark.parametrize("in_a_block", [False, True])
@pytest.mark.parametrize("room_bytes", [200_000, 5_000, 1_000])
@pytest.mark.parametrize("when", ["publish", "published", "write", "map", "reserve"])
def test_an_interrupt_never_gives_an_offset_twice(
    watched_log: SmallLog, watched: WatchedFileSystem, when: str, room_bytes: int, in_a_block: bool
) -> None:
    """Ctrl-C before or after the bytes are in place: the record is there, or its place is free again.

    Of a block there are the records that went into the segments before.
    """
    wanted = [bytes([index]) * 2_000 for index in range(3 if in_a_block else 1)]
    watched_log.append_all(b"first", b"second")
    if room_bytes < SEGMENT_BYTES:
        watched_log.fill_to(room_bytes)
    known = watched_log.bodies()

    def interrupt(step: str, path: Path) -> None:
        if step == when:
            raise KeyboardInterrupt

    watched.before = interrupt
    is_interrupted = False
    try:
        (watched_log.append_block if in_a_block else watched_log.append)(*wanted)
    except KeyboardInterrupt:
        is_interrupted = True
    watched.before = lambda step, path: None
    after = watched_log.bodies()
    assert after == known + wanted[: len(after) - len(known)]
    assert is_interrupted or len(after) == len(known) + len(wanted)
    place = watched_log.append(b"next")
    assert place.queue_offset == len(after)
    assert watched_log.bodies() == [*after, b"next"]
    offsets = []
    offset = 0
    while offset < watched_log.log.max_offset:
        message = watched_log.log.look_message_by_offset(offset)
        if message is None:
            offset = (offset // SEGMENT_BYTES + 1) * SEGMENT_BYTES
            continue
        offsets.append(message.queue_offset)
        offset += message.store_size
    assert offsets == list(range(len(after) + 1))


def test_a_record_that_was_not_acknowledged_is_not_found_later(
    watched_log: SmallLog, watched: WatchedFileSystem
) -> None:
    """An append that was taken back leaves zeros where a record would begin."""
    watched_log.append(b"first")
    end = watched_log.log.max_offset

    def interrupt(step: str, path: Path) -> None:
        if step == "published":
            raise KeyboardInterrupt

    watched.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        watched_log.append(b"second")
    segment = watched_log.log.files.files[0]
    assert watched_log.log.max_offset == end
    assert not any(segment.view[end : end + BLANK_MIN_BYTES])


@pytest.mark.parametrize("is_block", [False, True])
def test_two_interrupts_of_one_append_leave_no_gap(
    watched_log: SmallLog, watched: WatchedFileSystem, monkeypatch: pytest.MonkeyPatch, is_block: bool
) -> None:
    """The second one strikes while the append undoes itself: the next append undoes it."""
    watched_log.append(b"first")

    def interrupt(step: str, path: Path) -> None:
        if step == "published":
            raise KeyboardInterrupt

    def interrupt_again(file: MappedFile, length_bytes: int) -> None:
        raise KeyboardInterrupt

    append = watched_log.append_block if is_block else watched_log.append
    with monkeypatch.context() as interrupted:
        interrupted.setattr(watched, "before", interrupt)
        interrupted.setattr(MappedFile, "undo_publish", interrupt_again)
        with pytest.raises(KeyboardInterrupt):
            append(b"twice")
        with pytest.raises(KeyboardInterrupt):
            append(b"thrice")
    assert watched_log.append(b"another").queue_offset == 1
    assert watched_log.append_block(b"block")[0].queue_offset == 2
    end = watched_log.log.max_offset
    assert recover(watched_log.log, 0, end, read_only=False).end_offset == end
    assert watched_log.bodies() == [b"first", b"another", b"block"]


def test_an_interrupt_behind_an_append_takes_nothing_back(watched_log: SmallLog) -> None:
    """The record is visible, and the append had not noted that it has ended."""
    watched_log.append(b"first")
    log = watched_log.log
    segment, position = log.files.files[0], log.max_offset
    second = watched_log.append(b"second")
    log.offsets.unfinished = (segment, position, second.store_size, {("orders", 0): 1})
    assert watched_log.append(b"third").queue_offset == 2
    assert watched_log.bodies() == [b"first", b"second", b"third"]


def test_a_block_that_was_taken_back_is_not_found_later(
    watched_log: SmallLog, watched: WatchedFileSystem
) -> None:
    """Not even behind a record as long as its first one was, when the end is looked for again."""
    watched_log.append(b"first")

    def interrupt(step: str, path: Path) -> None:
        if step == "published":
            raise KeyboardInterrupt

    watched.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        watched_log.append_block(*[b"block %d" % at for at in range(5)])
    watched.before = lambda step, path: None
    watched_log.append(b"another")
    end = watched_log.log.max_offset
    assert recover(watched_log.log, 0, end, read_only=False).end_offset == end
    assert watched_log.bodies() == [b"first", b"another"]


def test_threads_share_the_log_without_a_hole(small: SmallLog) -> None:
    """Eight threads put to three queues: every offset of each queue once."""
    from concurrent.futures import ThreadPoolExecutor

    def put(thread: int) -> list[tuple[int, int, int]]:
        mine = []
        for index in range(60):
            queue_id = (thread + index) % 3
            place = small.append(b"%d-%d" % (thread, index), queue_id=queue_id)
            mine.append((queue_id, place.queue_offset, place.physical_offset))
        return mine

    with ThreadPoolExecutor(8) as pool:
        places = [place for mine in pool.map(put, range(8)) for place in mine]
    for queue_id in range(3):
        offsets = sorted(offset for queue, offset, _ in places if queue == queue_id)
        assert offsets == list(range(len(offsets)))
    assert len({physical for _, _, physical in places}) == 480
    assert len(small.bodies()) == 480


def test_low_space_is_told_in_each_segment(file_system: FileSystem, root: Path) -> None:
    """In one that is added, and in one that the opening found."""
    small = SmallLog(file_system, root / "commitlog")
    place = small.append()
    assert small.log.low_space.wait(0)
    assert not small.log.low_space.wait(0)
    again = SmallLog(file_system, root / "commitlog")
    again.log.set_end(place.end_offset, place.store_timestamp)
    again.append()
    assert again.log.low_space.wait(0)


def test_a_segment_that_is_full_may_be_read_ahead(
    file_system: FileSystem, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In SYNC_FLUSH the one that grows is not."""
    small = SmallLog(file_system, root / "commitlog", flush_disk_type="SYNC_FLUSH")
    first = small.append(b"a")
    said: list[object] = []
    region = small.log.files.files[0].region
    monkeypatch.setattr(region, "read_ahead", lambda _, **how: said.append(how["is_wanted"]))
    while small.append(bytes(500)).physical_offset < SEGMENT_BYTES:
        assert said == []
    assert (first.physical_offset, said) == (0, [True])


def test_a_roll_takes_the_segment_that_was_prepared(
    watched_log: SmallLog, watched: WatchedFileSystem
) -> None:
    """The put that rolls creates no file, syncs no directory and reserves no room."""
    for _ in range(3):
        watched_log.fill_to(20_000)
        watched_log.log.reserve_ahead()
        watched.steps.clear()
        watched_log.append(bytes(30_000))
        assert {step for step, _ in watched.steps} == {"write", "publish", "published"}
    assert len(watched_log.log.files.files) == 4
    bodies = watched_log.bodies()
    assert watched_log.append().queue_offset == len(bodies)


def test_a_segment_is_prepared_only_when_room_is_low(watched_log: SmallLog) -> None:
    """And the writer tells when: half a window before the end."""
    log = watched_log.log
    watched_log.fill_to(WINDOW_BYTES // 2 + 500)
    log.reserve_ahead()
    directory = log.files.directory
    assert not log.files._file_system.exists(directory / f"{SEGMENT_BYTES:020d}")
    log.low_space.wait(0)
    watched_log.append(bytes(600))
    assert log.low_space.wait(0)
    log.reserve_ahead()
    assert log.files._file_system.exists(directory / f"{SEGMENT_BYTES:020d}")
    assert (len(log.files.files), log.max_offset) == (1, SEGMENT_BYTES - watched_log.room_bytes)


@pytest.mark.parametrize("free_bytes", [0, 1_000])
def test_a_disk_without_room_for_the_next_segment_fails_no_put_that_has_room(free_bytes: int) -> None:
    """The put that needs that segment tries by itself; with room again, all goes on."""
    memory = MemoryFileSystem(free_bytes=2 * WINDOW_BYTES + free_bytes)
    small = SmallLog(memory, Path("/commitlog"))
    small.fill_to(20_000)
    for _ in range(2):
        with pytest.raises(StoreFull):
            small.log.reserve_ahead()
    assert small.append(bytes(5_000)).queue_offset == len(small.bodies()) - 1
    for _ in range(2):
        with pytest.raises(StoreFull):
            small.append(bytes(30_000))
    assert small.log.refusal is None
    memory.free_bytes = 2**30
    small.log.reserve_ahead()
    small.append(bytes(30_000))
    assert small.bodies()[-1] == bytes(30_000)


@pytest.mark.parametrize("broken", ["map", "reserve", "sync_directory"])
def test_a_disk_that_fails_under_a_preparation_poisons_nothing_yet(
    watched_log: SmallLog, watched: WatchedFileSystem, broken: str
) -> None:
    """The log goes on while it has room. A directory whose sync failed is not synced again by the put."""
    watched_log.fill_to(20_000)

    def fail(step: str, path: Path) -> None:
        if step == broken:
            raise OSError(5, "Input/output error")

    watched.before = fail
    with pytest.raises(OSError, match="Input/output"):
        watched_log.log.reserve_ahead()
    watched_log.append(bytes(5_000))
    watched.before = lambda step, path: None
    before = watched.count("sync_directory")
    if broken == "sync_directory":
        with pytest.raises(StorePoisoned):
            watched_log.append(bytes(30_000))
        assert watched.count("sync_directory") == before
    else:
        watched_log.append(bytes(30_000))
        assert len(watched_log.log.files.files) == 2


def test_nothing_is_prepared_for_a_log_that_may_not_grow(watched_log: SmallLog) -> None:
    """Nor for one that refuses appends; and appends are not refused because of it."""
    log = watched_log.log
    watched_log.fill_to(20_000)
    log.refuse(lambda: StoreFull(log.path, 0, "too full"))
    log.reserve_ahead()
    log.refuse(None)
    log.ask_before_growing(lambda: StoreLockLost(log.path, "its lock file was deleted"))
    log.reserve_ahead()
    assert len(log.files._file_system.list(log.files.directory)) == 1
    watched_log.append(bytes(5_000))
    with pytest.raises(StoreLockLost):
        watched_log.append(bytes(30_000))


def test_a_prepared_segment_is_not_taken_without_asking(watched_log: SmallLog) -> None:
    """The lock may be lost between the two."""
    log = watched_log.log
    watched_log.fill_to(20_000)
    log.reserve_ahead()
    log.ask_before_growing(lambda: StoreLockLost(log.path, "its lock file was deleted"))
    with pytest.raises(StoreLockLost):
        watched_log.append(bytes(30_000))
    assert len(log.files.files) == 1


def test_room_is_reserved_ahead_for_segments_that_a_block_left(watched_log: SmallLog) -> None:
    """A block for which there was no room at last: its segments are in the row already."""
    log = watched_log.log
    watched_log.fill_to(20_000)
    log.files.append_file(SEGMENT_BYTES)
    log.reserve_ahead()
    assert log.files.files[-1].reserved_position == WINDOW_BYTES
    assert len(log.files._file_system.list(log.files.directory)) == 2
