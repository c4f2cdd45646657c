"""The dispatcher: it hands the visible log to its sink, once, in order, and keeps errors in sight.

Method: a sink that notes what it is given stands for the real ones; the log is a real small one.
"""

import threading
from pathlib import Path

import pytest

from mqstore.index.dispatcher import Dispatcher
from mqstore.store.errors import CorruptRecord, StoreFull
from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.log_reader import LogChunk
from support.stores.small_log import SEGMENT_BYTES, SmallLog
from support.twins.index_kernels import walk


class NotingSink:
    """Absorbs whole records and remembers where each began."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.error: Exception | None = None
        self.threads: set[int] = set()

    def absorb(self, chunk: LogChunk) -> int:
        if self.error is not None:
            raise self.error
        self.threads.add(threading.get_ident())
        consumed = 0
        for at, total, *_ in walk(chunk.data.tobytes(), chunk.base_offset):
            if total < 0:
                return chunk.segment_end - chunk.base_offset
            self.offsets.append(chunk.base_offset + at)
            consumed = at + total
        return consumed


@pytest.fixture
def small(file_system: FileSystem, root: Path) -> SmallLog:
    small = SmallLog(file_system, root / "commitlog")
    small.log.set_end(0, 0)
    return small


@pytest.fixture
def sink() -> NotingSink:
    return NotingSink()


@pytest.fixture
def dispatcher(small: SmallLog, sink: NotingSink) -> Dispatcher:
    return Dispatcher(small.log, sink, 0, "noting")


def test_it_follows_the_writer_over_segments(
    small: SmallLog, sink: NotingSink, dispatcher: Dispatcher
) -> None:
    """Every record once and in order, whatever the limit of a step."""
    offsets = [small.append(b"x" * (at * 97 % 3000)).physical_offset for at in range(300)]
    assert small.log.max_offset > 2 * SEGMENT_BYTES
    limit = 1
    while dispatcher.run_once(limit):
        limit = limit * 3 % 40_000 + 1
    assert sink.offsets == offsets
    assert dispatcher.dispatched_offset == small.log.max_offset
    assert dispatcher.run_once() == 0


def test_an_empty_log_has_nothing_to_do(dispatcher: Dispatcher) -> None:
    """No error before the first append."""
    assert dispatcher.run_once() == 0
    dispatcher.catch_up(0)
    dispatcher.catch_up(10**9)


def test_catch_up_goes_no_further_than_it_must(
    small: SmallLog, sink: NotingSink, dispatcher: Dispatcher
) -> None:
    """A reader that asks for what is dispatched already does no work; else it works itself, in its thread."""
    small.append()
    dispatcher.catch_up(small.log.max_offset)
    small.append()
    dispatcher.catch_up(1)
    assert len(sink.offsets) == 1
    reader = threading.Thread(target=dispatcher.catch_up, args=(small.log.max_offset,))
    reader.start()
    reader.join()
    assert len(sink.offsets) == 2
    assert len(sink.threads) == 2


def test_only_what_is_visible_is_dispatched(file_system: FileSystem, root: Path, sink: NotingSink) -> None:
    """With SYNC_FLUSH a record waits until it is durable."""
    small = SmallLog(file_system, root / "sync", flush_disk_type="SYNC_FLUSH")
    small.log.set_end(0, 0)
    small.append()
    dispatcher = Dispatcher(small.log, sink, 0, "noting")
    assert dispatcher.run_once() == 0
    small.log.flushed_offset = small.log.max_offset
    assert dispatcher.run_once() == small.log.max_offset


def test_it_jumps_to_the_minimum_of_the_log(
    small: SmallLog, sink: NotingSink, dispatcher: Dispatcher
) -> None:
    """Segments that retention deleted before they were dispatched are passed over."""
    while small.log.max_offset < 2 * SEGMENT_BYTES:
        small.append(b"x" * 5000)
    small.log.files.delete_first()
    dispatcher.catch_up(small.log.max_offset)
    assert sink.offsets[0] == SEGMENT_BYTES
    assert dispatcher.dispatched_offset == small.log.max_offset


def test_a_sink_that_fails_is_heard(small: SmallLog, sink: NotingSink, dispatcher: Dispatcher) -> None:
    """The error is raised to who asked and kept; nothing is skipped; success clears it."""
    small.append()
    sink.error = StoreFull(Path("x"), 1, "full")
    for attempt in (dispatcher.run_once, lambda: dispatcher.catch_up(small.log.max_offset)):
        with pytest.raises(StoreFull):
            attempt()
        assert dispatcher.error is sink.error
    assert dispatcher.dispatched_offset == 0
    sink.error = None
    dispatcher.catch_up(small.log.max_offset)
    assert dispatcher.error is None
    assert len(sink.offsets) == 1


def test_damage_in_the_visible_log_is_an_error(
    small: SmallLog, sink: NotingSink, dispatcher: Dispatcher
) -> None:
    """What is no record stops the dispatch with file, position and bytes; nothing behind it is guessed at."""
    first, second = small.append(), small.append()
    small.append()
    small.log.files.files[0].region.write(second.physical_offset + 4, b"ROTT")
    assert dispatcher.run_once() == first.store_size
    with pytest.raises(CorruptRecord) as caught:
        dispatcher.catch_up(small.log.max_offset)
    assert caught.value.position == second.physical_offset
    assert "52 4f 54 54" in str(caught.value)
    assert isinstance(dispatcher.error, CorruptRecord)


def test_it_shows_how_far_it_is(small: SmallLog, dispatcher: Dispatcher) -> None:
    """Its name, and the offset that is reached."""
    small.append()
    small.append()
    dispatcher.catch_up(small.log.max_offset)
    assert repr(dispatcher) == f"Dispatcher('noting', dispatched_offset={small.log.max_offset}, error=None)"


def test_threads_share_the_work(small: SmallLog, sink: NotingSink, dispatcher: Dispatcher) -> None:
    """Four readers and a writer: each record is dispatched once, in order."""
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            dispatcher.catch_up(small.log.visible_offset)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    offsets = [small.append(b"x" * 200).physical_offset for _ in range(2000)]
    dispatcher.catch_up(small.log.max_offset)
    stop.set()
    for reader in readers:
        reader.join()
    assert sink.offsets == offsets
