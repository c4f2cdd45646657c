"""Entries of many queues appended by one compiled loop: the same files and ends as those made by Python.

Method: the same chunks go to two stores of queues. One lies on memory whose addresses the compiled loop
writes to; the other behind a watched file system, which gives no address, so that each entry passes through
Python. After each step both must hold the same bytes and say the same. The loop alone is compared with its
plain twin.
"""

import itertools
import linecache
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore.index.queue import consume_queue, consume_queue_store, entry_kernels, queue_end_row, queue_ends
from mqstore.index.queue.consume_queue import ConsumeQueue, QueueOffsetConflict
from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.index.queue.queue_end_row import ADDRESS, COLUMNS, MAX_OFFSET, MAX_PHYSICAL_OFFSET
from mqstore.index.queue.queue_ends import CAPACITY, QueueEnds
from mqstore.store.errors import StoreError
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.mapped_file import MappedFileSettings
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.log_reader import LogChunk
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.small_log import small_config
from support.twins import index_kernels as plain
from support.twins.plain_records import record

ROOT = Path("/store/consumequeue")
QUEUES = [("orders", 0), ("orders", 1), ("order", 0), ("s", 0), ("标签", 7)]


class Queues:
    """Queues on one file system, fed with records that are built here."""

    def __init__(self, file_system: FileSystem, root: Path = ROOT, **config: Any) -> None:
        self.file_system, self.root = file_system, root
        self.store = ConsumeQueueStore(file_system, root, small_config(**config), np.zeros((1, 1), np.int64))

    def absorb(self, base_offset: int, data: bytes) -> str:
        """Absorb, or the error in words."""
        try:
            done = self.store.absorb(LogChunk(base_offset, np.frombuffer(data, np.uint8), 2**40))
        except (StoreError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return f"{done} bytes"

    def picture(self) -> dict[str, Any]:
        """Ends and entries of all queues, and all files."""
        found: dict[str, Any] = {}
        for topic, queue_id in self.store.queues():
            queue = self.store.find(topic, queue_id)
            assert queue is not None
            ends = queue.min_offset, queue.max_offset, queue.max_physical_offset
            found[f"{topic}/{queue_id}"] = ends
            for entry in self.file_system.list(self.root / topic / str(queue_id)):
                path = self.root / topic / str(queue_id) / entry.name
                found[str(path)] = self.file_system.read(path)
        found["unflushed"] = sorted((queue.topic, queue.queue_id) for queue in self.store._ends.unflushed())
        return found


def chunk_of(rows: list[tuple[tuple[str, int], int]], base_offset: int) -> bytes:
    """Records: each of a queue, with its queue offset."""
    data = b""
    for (topic, queue_id), queue_offset in rows:
        data += record(
            base_offset + len(data), topic=topic, queue_id=queue_id, queue_offset=queue_offset, body=b"body"
        )
    return data


class BothWays:
    """The two stores, the next offset of each queue, and what the log would hold."""

    def __init__(self, file_bytes: int, *, follow_log: bool) -> None:
        self.disks = MemoryFileSystem(), MemoryFileSystem()
        watched = WatchedFileSystem(self.disks[1])
        self.compiled = Queues(self.disks[0], mapped_file_size_consume_queue=file_bytes)
        self.by_python = Queues(watched, mapped_file_size_consume_queue=file_bytes)
        self.both = self.compiled, self.by_python
        for queues in self.both:
            queues.store.follow_log = follow_log
        self.next_offsets = dict.fromkeys(QUEUES, 0)
        self.end, self.last = 0, (0, b"")

    def put(self, queues: list[tuple[str, int]]) -> str:
        """A chunk with one message for each."""
        rows = []
        for queue in queues:
            rows.append((queue, self.next_offsets[queue]))
            self.next_offsets[queue] += 1
        self.last = self.end, chunk_of(rows, self.end)
        self.end += len(self.last[1])
        return self.again()

    def again(self) -> str:
        """Absorb the last chunk (once more): the same answer, or the same error."""
        answer = self.compiled.absorb(*self.last)
        assert self.by_python.absorb(*self.last) == answer
        return answer

    def jump(self, queue: tuple[str, int], by: int) -> str:
        """Two messages whose numbers do not follow those before them."""
        self.next_offsets[queue] = max(0, self.next_offsets[queue] + by)
        return self.put([queue, queue])

    def full_disk(self) -> str:
        """The same chunk once more when there is room again; both answers."""
        free_bytes = self.disks[0].free_bytes
        for disk in self.disks:
            disk.free_bytes = 0
        answer = self.put(QUEUES * 3)
        for disk in self.disks:
            disk.free_bytes = free_bytes
        return answer + self.again()

    def delete_topic(self, topic: str) -> None:
        for queue in QUEUES:
            if queue[0] == topic:
                self.next_offsets[queue] = 0
        for queues in self.both:
            queues.store.delete_topic(topic)

    def flush(self) -> None:
        for queues in self.both:
            queues.store.flush()

    def expire(self, part: float) -> None:
        for queues in self.both:
            queues.store.delete_expired(int(self.end * part))


steps = st.one_of(
    st.tuples(st.just("put"), st.lists(st.sampled_from(QUEUES), min_size=1, max_size=60)),
    st.tuples(st.just("again")),
    st.tuples(st.just("jump"), st.sampled_from(QUEUES), st.integers(-3, 3)),
    st.tuples(st.just("full_disk")),
    st.tuples(st.just("delete_topic"), st.sampled_from([topic for topic, _ in QUEUES])),
    st.tuples(st.just("flush")),
    st.tuples(st.just("expire"), st.floats(0, 1)),
)


@pytest.mark.slow
@given(st.lists(steps, max_size=14), st.sampled_from([200, 10_000]), st.booleans())
@example([("full_disk",), ("delete_topic", "orders"), ("again",), ("full_disk",)], 200, False)
@settings(max_examples=150)
def test_both_ways_write_the_same(plan: list[tuple[Any, ...]], file_bytes: int, follow_log: bool) -> None:
    """Puts to all queues, known records, jumps in the numbering, deletions, a full disk: no difference."""
    ways = BothWays(file_bytes, follow_log=follow_log)
    for step, *details in plan:
        answer = getattr(ways, step)(*details)
        if answer is not None and "Conflict" in answer:
            # Final; which of the other queues have their entries of that chunk is left open.
            return
        assert ways.compiled.picture() == ways.by_python.picture()


def test_what_is_ordinary_passes_by_python(
    file_system: FileSystem, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first entry of a queue the loop alone writes the next ones, as far as there is room."""
    queues = Queues(file_system, root / "consumequeue", mapped_file_size_consume_queue=10_000)
    first = chunk_of([(queue, 0) for queue in QUEUES], 0)
    queues.absorb(0, first)
    appended: list[int] = []
    append_entries = ConsumeQueue.append_entries

    def watched(queue: ConsumeQueue, *arguments: Any, **settings: Any) -> int:
        appended.append(queue.max_offset)
        return append_entries(queue, *arguments, **settings)

    monkeypatch.setattr(ConsumeQueue, "append_entries", watched)
    end = len(first)
    for offset in range(1, 500):
        data = chunk_of([(queue, offset) for queue in QUEUES], end)
        queues.absorb(end, data)
        end += len(data)
    # Windows of 4,096 bytes have room for 204 entries and for 409, a file for 500.
    assert appended == [204] * len(QUEUES) + [409] * len(QUEUES)
    reader = Queues(file_system, root / "consumequeue", mapped_file_size_consume_queue=10_000)
    reader.store.load()
    for topic, queue_id in QUEUES:
        queue = reader.store.find(topic, queue_id)
        assert queue is not None
        assert (queue.max_offset, len(queue.entries_from(0, 1_000))) == (500, 500)


def test_queues_for_which_there_is_no_row_are_queues_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are appended to, flushed and deleted as before."""
    monkeypatch.setattr(consume_queue_store, "QueueEnds", partial(QueueEnds, 2))
    few = Queues(MemoryFileSystem())
    monkeypatch.undo()
    many = Queues(MemoryFileSystem())
    for queues in (few, many):
        data = chunk_of([(queue, offset) for queue in QUEUES for offset in range(3)], 0)
        queues.absorb(0, data)
    assert few.picture() == many.picture()
    for queues in (few, many):
        queues.store.flush()
        assert queues.picture()["unflushed"] == []
        queues.store.delete_topic("s")
        queues.absorb(len(data), chunk_of([(QUEUES[0], 3), (QUEUES[4], 3), (QUEUES[3], 0)], len(data)))
    assert few.picture() == many.picture()


def test_a_deleted_file_is_never_written_to(file_system: FileSystem, root: Path) -> None:
    """No row leads to a mapping that is gone; who still holds the queue sees an empty one."""
    queues = Queues(file_system, root / "consumequeue")
    data = chunk_of([(QUEUES[0], 0), (QUEUES[1], 0)], 0)
    queues.absorb(0, data)
    old = queues.store.find(*QUEUES[0])
    assert old is not None
    assert np.count_nonzero(queues.store._ends.rows[:, ADDRESS]) == 2
    queues.store.delete_topic("orders")
    assert not queues.store._ends.rows[:, ADDRESS].any()
    queues.absorb(len(data), chunk_of([(QUEUES[0], 0)], len(data)))
    new = queues.store.find(*QUEUES[0])
    assert new is not None
    assert (old.max_offset, new.max_offset) == (0, 1)
    assert len(queues.store._ends._queues) == 2


class Interrupted:
    """Raises KeyboardInterrupt before one line of the code that appends; `lines` is how many were begun.

    Not where a `with` ends: no signal is looked for between its body and the release of its lock.
    """

    MODULES = (consume_queue, consume_queue_store, queue_ends, queue_end_row)
    SOURCES = tuple(str(module.__file__) for module in MODULES)

    def __init__(self, at_line: int) -> None:
        self.lines, self._at_line = 0, at_line

    def __call__(self, frame: FrameType, event: str, argument: object) -> "Interrupted | None":
        if frame.f_code.co_filename not in self.SOURCES:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and not line.lstrip().startswith("with "):
            self.lines += 1
            if self.lines == self._at_line:
                raise KeyboardInterrupt
        return self


def twice_if_interrupted(do: Callable[[], object], interrupted: Interrupted) -> None:
    before = sys.gettrace()
    sys.settrace(interrupted)
    try:
        do()
        return
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    do()


@pytest.mark.slow
@pytest.mark.parametrize("follow_log", [False, True])
def test_an_interrupt_between_any_two_lines_loses_no_entry(follow_log: bool) -> None:
    """The chunk is absorbed anew, and the queues are what they would have been."""
    chunks = []
    end = 0
    for first in (0, 7, 14):
        rows = [(queue, first + index) for queue in QUEUES[:2] for index in range(7)]
        chunks.append((end, chunk_of(rows, end)))
        end += len(chunks[-1][1])
    expected = Queues(MemoryFileSystem(), mapped_file_size_consume_queue=200)
    for chunk in chunks:
        expected.absorb(*chunk)
    for at_line in itertools.count(1):
        queues = Queues(MemoryFileSystem(), mapped_file_size_consume_queue=200)
        queues.store.follow_log = follow_log
        interrupted = Interrupted(at_line)
        for chunk in chunks:
            twice_if_interrupted(partial(queues.absorb, *chunk), interrupted)
        assert queues.picture() == expected.picture(), f"interrupted at line {at_line}"
        if interrupted.lines < at_line:
            break
    assert at_line > 100


@pytest.mark.slow
def test_an_interrupted_deletion_can_be_done_again() -> None:
    """No row of a queue that is half deleted leads new entries to files that nobody reads."""
    rows = [(queue, index) for queue in QUEUES[:3] for index in range(12)]
    first = chunk_of(rows, 0)
    second = chunk_of([(queue, index) for queue in QUEUES[:3] for index in range(3)], len(first))
    end = len(first) + len(second)
    third = chunk_of([(queue, index) for queue in QUEUES[:3] for index in range(3, 5)], end)

    def life(interrupted: Interrupted) -> dict[str, Any]:
        queues = Queues(MemoryFileSystem(), mapped_file_size_consume_queue=200)
        queues.absorb(0, first)
        for topic in ("orders", "order"):
            twice_if_interrupted(partial(queues.store.delete_topic, topic), interrupted)
        queues.absorb(len(first), second)
        queues.absorb(end, third)
        return queues.picture()

    expected = life(Interrupted(0))
    assert expected["orders/1"][:2] == (0, 5)
    for at_line in itertools.count(1):
        interrupted = Interrupted(at_line)
        assert life(interrupted) == expected, f"interrupted at line {at_line}"
        if interrupted.lines < at_line:
            break
    assert at_line > 100


# -- the loop alone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 31, 32, 33, 500])
def test_any_number_of_names_leads_to_its_row(count: int) -> None:
    """The slots grow; names that begin alike, and equal topics with other numbers, are told apart."""
    ends = QueueEnds(512)
    queues = [
        ConsumeQueue(
            MemoryFileSystem(),
            ROOT,
            "t" * (at % 5 + 1),
            at // 5,
            MappedFileSettings(file_size_bytes=200, reserve_window_bytes=4096, is_derived_row=True),
        )
        for at in range(count)
    ]
    for queue in queues * 2:
        ends.adopt(queue)
    for row, queue in enumerate(queues):
        topic = np.frombuffer(queue.topic.encode(), np.uint8)
        assert entry_kernels.find_row(topic, queue.queue_id, ends.names, ends.slots, ends.rows) == row
    nobody = np.frombuffer(b"nobody", np.uint8)
    assert entry_kernels.find_row(nobody, 0, ends.names, ends.slots, ends.rows) == -1
    assert repr(ends) == f"QueueEnds({count} queues)"


@st.composite
def tables(draw: st.DrawFn) -> dict[tuple[bytes, int], plain.QueueEnd]:
    """Ends of some queues, ordinary and odd ones."""
    ends = {}
    for topic, queue_id in draw(st.lists(st.sampled_from(QUEUES), unique=True)):
        first = draw(st.integers(0, 3))
        file = bytearray(200) if draw(st.booleans()) else None
        room_end, max_offset = first + draw(st.integers(0, 10)), draw(st.integers(0, 12))
        ends[topic.encode(), queue_id] = plain.QueueEnd(
            file, first, room_end, max_offset, draw(st.integers(-1, 300))
        )
    return ends


@pytest.mark.slow
@given(tables(), st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(0, 12)), max_size=30))
@settings(max_examples=300)
def test_the_loop_is_its_twin(
    ends: dict[tuple[bytes, int], plain.QueueEnd], rows: list[tuple[tuple[str, int], int]]
) -> None:
    """The same runs are written, to the same places, and the same are left."""
    data = np.frombuffer(chunk_of(rows, 0), np.uint8)
    entries, runs, *_ = entry_kernels.consume_queue_entries(data, 0, np.zeros((1, 1), np.int64))
    table = np.zeros((8, COLUMNS), np.int64)
    names = np.frombuffer(b"".join(topic for topic, _ in ends) + b"end", np.uint8)
    files = []
    name_at = 0
    for row, ((topic, queue_id), end) in enumerate(ends.items()):
        file = np.zeros(200, np.uint8)
        files.append(file)
        address = file.__array_interface__["data"][0] if end.file is not None else 0
        table[row, :8] = name_at, len(topic), queue_id, address, *end[1:]
        name_at += len(topic)
    slots = entry_kernels.slots_of(names, table, len(ends), 64)
    before = table.copy()
    appended, new_ends, left = entry_kernels.append_runs(data, entries, runs, names, slots, table)
    plain_runs = [
        (
            data[topic_at : topic_at + length].tobytes(),
            queue_id,
            offset,
            [entries[at * 20 : at * 20 + 20].tobytes() for at in range(first, first + count)],
        )
        for first, count, offset, topic_at, length, queue_id in runs.tolist()
    ]
    expected, expected_left = plain.append_runs(plain_runs, ends)
    queues = list(ends)
    assert left.tolist() == expected_left
    assert {
        queues[row]: tuple(end) for row, end in zip(appended.tolist(), new_ends.tolist(), strict=True)
    } == expected
    assert np.array_equal(table, before)
    for file, end in zip(files, ends.values(), strict=True):
        assert file.tobytes() == bytes(end.file or bytes(200))


def test_a_reader_sees_all_ends_raised_or_none() -> None:
    """Between two lines of a reader's own, nobody has raised the first end and not yet the last."""
    table, count = QueueEnds(1 << 14), 1 << 14
    rows = np.arange(count, dtype=np.int64)
    view = table.rows.reshape(-1).data
    rounds = 300

    def raise_all() -> None:
        for end in range(1, rounds + 1):
            table.raise_ends(rows, np.full((count, 2), end, np.int64))

    writer = threading.Thread(target=raise_all)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        seen = set()
        while writer.is_alive():
            first = view[MAX_OFFSET]
            last = view[(count - 1) * COLUMNS + MAX_PHYSICAL_OFFSET]
            seen.add(last - first)
    finally:
        sys.setswitchinterval(interval_s)
        writer.join()
    # What was raised between the two looks is ahead, never behind.
    assert min(seen) >= 0
    assert view[MAX_OFFSET] == view[(count - 1) * COLUMNS + MAX_PHYSICAL_OFFSET] == rounds


def test_the_files_of_a_real_disk_are_written_in_place(tmp_path: Path) -> None:
    """Another process sees what the loop wrote: the mapping is shared with the file."""
    queues = Queues(OsFileSystem(), tmp_path)
    end = 0
    for offset in range(3):
        data = chunk_of([(QUEUES[0], offset)], end)
        queues.absorb(end, data)
        end += len(data)
    stored = (tmp_path / "orders" / "0" / f"{0:020d}").read_bytes()
    size = end // 3
    assert stored[:60] == b"".join(ENTRY.pack(size * at, size, 0) for at in range(3))
    assert not any(stored[60:])


def test_a_conflict_is_found_and_the_other_queues_go_on(file_system: FileSystem, root: Path) -> None:
    """What the compiled loop leaves is refused by Python, with the error of the queue."""
    queues = Queues(file_system, root / "consumequeue")
    data = chunk_of([(QUEUES[0], 0), (QUEUES[1], 0)], 0)
    queues.absorb(0, data)
    bad = chunk_of([(QUEUES[0], 5), (QUEUES[1], 1)], len(data))
    with pytest.raises(QueueOffsetConflict):
        queues.store.absorb(LogChunk(len(data), np.frombuffer(bad, np.uint8), 2**40))
    assert [queues.store.next_queue_offset(*queue) for queue in QUEUES[:2]] == [1, 2]


def test_a_table_takes_no_memory_until_it_is_used() -> None:
    """Not even after as much was freed, of which malloc would use some again."""

    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(3):
        np.ones(CAPACITY * COLUMNS, np.int64)
    before = resident_bytes()
    tables = [QueueEnds() for _ in range(8)]
    assert resident_bytes() - before < CAPACITY * COLUMNS * 8
    assert not any(table.rows[-1].any() for table in tables)
