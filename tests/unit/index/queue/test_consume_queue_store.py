"""All queues of a store: chunks of the log turned into entries, lazy opening, flushing, retention.

Method: a small real log is filled through the encoder and dispatched; what the queues then hold is compared
with what each append answered. On memory and on disk.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest

from mqstore.index.queue import consume_queue, consume_queue_store
from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.index.queue.queue_manifest_format import decode_queue_names, encode_queue_names
from mqstore.store.errors import SegmentSizeMismatch
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.record.java_hash import string_hash
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from support.disks.interrupts import interrupted_at
from support.disks.watched_file_system import WatchedFileSystem
from support.stores.filled_queues import FilledQueues
from support.twins.plain_records import V2, record


@pytest.fixture
def filled(file_system: FileSystem, root: Path) -> FilledQueues:
    return FilledQueues(file_system, root)


def test_every_append_gets_its_entry(filled: FilledQueues) -> None:
    """Place, size and tags code of each message, in the queue and under the offset that it was given."""
    appended = [
        (filled.append(b"x" * at, topic, queue_id=at % 3, tags=tags), topic, at % 3, tags)
        for at, (topic, tags) in enumerate([("a", "t1"), ("b", None), ("a", "标签"), ("c", "t2")] * 30)
    ]
    filled.dispatcher.catch_up(filled.log.max_offset)
    for place, topic, queue_id, tags in appended:
        queue = filled.queues.find(topic, queue_id)
        assert queue is not None
        code = string_hash(tags) if tags else 0
        assert queue.entry_at(place.queue_offset) == (place.physical_offset, place.store_size, code)
    assert filled.queues.max_physical_offset == filled.log.max_offset
    assert filled.queues.last_store_timestamp == filled.small.clock.now_ms()


def test_half_and_rollback_messages_have_no_entry(filled: FilledQueues) -> None:
    """Only messages that consumers may see count; the others take no queue offset either."""
    for sys_flag in (0, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT, 0):
        filled.put(sys_flag=sys_flag)
    assert filled.queues.next_queue_offset("orders", 0) == 3


def test_a_chunk_absorbed_twice_changes_nothing(filled: FilledQueues) -> None:
    """The same bytes again, as after an error in the middle: same files."""
    for at in range(250):
        filled.append(topic=f"topic-{at % 7}")
    chunk = filled.log.chunk(0, 10**6)
    assert chunk is not None
    consumed = filled.queues.absorb(chunk)
    before = filled.files()
    assert filled.queues.absorb(chunk) == consumed
    assert filled.files() == before


def test_a_blank_takes_the_rest_of_the_segment(filled: FilledQueues) -> None:
    """The bytes done with run to the segment's end behind a BLANK, and to the last record otherwise."""
    filled.small.fill_to(20)
    end_of_records = filled.log.max_offset
    filled.append()
    chunk = filled.log.chunk(0, 10**6)
    assert chunk is not None
    assert end_of_records < chunk.segment_end
    assert filled.queues.absorb(chunk) == chunk.segment_end


def test_a_cut_record_is_left_for_later(filled: FilledQueues) -> None:
    """A chunk that ends inside a record is consumed up to that record; less than one record is nothing."""
    first, second = filled.append(b"x" * 100), filled.append(b"y" * 100)
    for limit, consumed in [(first.store_size - 1, 0), (second.physical_offset + 50, second.physical_offset)]:
        chunk = filled.log.chunk(0, limit)
        assert chunk is not None
        assert filled.queues.absorb(chunk) == consumed


@pytest.mark.parametrize("topic", ["a/b", "..", ".", "a\0b", "", "é" * 128])
def test_a_topic_that_is_no_directory_name_has_no_queue(filled: FilledQueues, topic: str) -> None:
    """A foreign log cannot make us write outside the directory; its other messages are dispatched."""
    odd = record(0, topic=topic, body=b"body", magic=V2)
    data = odd + record(len(odd), topic="orders")
    assert filled.queues.absorb(LogChunk(0, np.frombuffer(data, np.uint8), 1000)) == len(data)
    assert filled.queues.queues() == [("orders", 0)]


# -- opening ------------------------------------------------------------------------------------------


def test_opening_lists_queues_and_maps_what_is_asked_for(
    filled: FilledQueues, file_system: FileSystem
) -> None:
    """A thousand queues are a listing: no file is mapped before its queue is asked for."""
    for at in range(50):
        filled.put(topic=f"topic-{at}", queue_id=at % 3)
    filled.file_system = watched = WatchedFileSystem(file_system)
    file_system.make_directories(filled.directory / "topic-1" / "not-a-queue")
    opened = filled.open_queues()
    assert opened.queues() == sorted((f"topic-{at}", at % 3) for at in range(50))
    assert opened.find("topic-1", 7) is None
    assert opened.find("none", 0) is None
    assert opened.next_queue_offset("topic-1", 1) == 1
    assert opened.next_queue_offset("topic-1", 0) == 0
    assert watched.steps == [("map", filled.directory / "topic-1" / "1" / f"{0:020d}")]


def test_a_second_load_sees_what_another_process_added(filled: FilledQueues) -> None:
    """New entries and new queues: what a read-only store needs."""
    filled.put()
    reader = filled.open_queues()
    queue = reader.find("orders", 0)
    assert queue is not None
    filled.put()
    filled.put(topic="billing")
    assert (queue.max_offset, reader.find("billing", 0)) == (1, None)
    reader.load(0)
    assert (queue.max_offset, reader.next_queue_offset("billing", 0)) == (2, 1)
    assert reader.queues() == [("billing", 0), ("orders", 0)]


def test_an_unopened_queue_learns_the_minimum(filled: FilledQueues) -> None:
    """correct_min_offset reaches queues that are loaded later."""
    filled.put()
    second = filled.put()
    opened = filled.open_queues()
    opened.correct_min_offset(second.physical_offset)
    queue = opened.find("orders", 0)
    assert queue is not None
    assert queue.min_offset == 1


def test_another_file_size_is_refused(filled: FilledQueues) -> None:
    """A queue of another file size is an error when it is asked for."""
    filled.put()
    path = filled.directory / "orders" / "0" / f"{2000:020d}"
    filled.file_system.map(path, 100, create=True)
    with pytest.raises(SegmentSizeMismatch):
        filled.open_queues().find("orders", 0)


# -- flushing and cutting -----------------------------------------------------------------------------


def test_flush_syncs_the_queues_that_have_something_new(root: Path, file_system: FileSystem) -> None:
    """Two queues of three got messages: two syncs; nothing new: none."""
    watched = WatchedFileSystem(file_system)
    filled = FilledQueues(watched, root)
    for topic in "abc":
        filled.put(topic=topic)
    filled.queues.flush()
    watched.steps.clear()
    filled.put(topic="a")
    filled.put(topic="c")
    filled.put(topic="c")
    for expected in (["a", "c"], []):
        watched.steps.clear()
        filled.queues.flush()
        assert sorted(path.parts[-3] for step, path in watched.steps if step == "sync") == expected


def test_a_failed_sync_is_never_taken_back(root: Path, file_system: FileSystem) -> None:
    """After one failure every flush fails, so nobody writes down that the queues are durable."""
    watched = WatchedFileSystem(file_system)
    filled = FilledQueues(watched, root)
    filled.put()

    def fail(step: str, path: Path) -> None:
        if step == "sync":
            raise OSError(5, "Input/output error", str(path))

    watched.before = fail
    with pytest.raises(OSError, match="Input/output"):
        filled.queues.flush()
    watched.before = lambda step, path: None
    with pytest.raises(OSError, match="Input/output"):
        filled.queues.flush()
    assert len(filled.get().messages) == 1


def test_truncate_cuts_every_queue(filled: FilledQueues) -> None:
    """Loaded or not, each queue ends before the offset, and the next dispatch fills it again."""
    places = [filled.put(topic=f"topic-{at % 5}") for at in range(40)]
    before = filled.files()
    opened = filled.open_queues()
    opened.truncate(places[17].physical_offset, filled.log)
    assert sum(opened.next_queue_offset(*queue) for queue in opened.queues()) == 17
    chunk = filled.log.chunk(places[17].physical_offset, 10**6)
    assert chunk is not None
    opened.absorb(chunk)
    assert filled.files() == before


def test_a_queue_that_a_crash_left_without_its_beginning_begins_anew(filled: FilledQueues) -> None:
    """The name of its second file reached the disk, that of the first did not, and nor did the log."""
    first = filled.put()
    for _ in range(149):
        filled.put()
    filled.file_system.delete(filled.directory / "orders" / "0" / f"{0:020d}")
    opened = filled.open_queues()
    assert opened.next_queue_offset("orders", 0) == 150
    opened.truncate(first.physical_offset, filled.log)
    assert opened.next_queue_offset("orders", 0) == 0


def test_entries_below(filled: FilledQueues) -> None:
    """How many entries of a queue speak of the log before an offset; 0 for a queue that is not there."""
    places = [filled.put() for _ in range(5)]
    assert filled.queues.entries_below("orders", 0, places[3].physical_offset) == 3
    assert filled.queues.entries_below("orders", 0, filled.log.max_offset) == 5
    assert filled.queues.entries_below("orders", 9, filled.log.max_offset) == 0


def test_delete_expired_and_topics(filled: FilledQueues) -> None:
    """Retention deletes whole files of each queue; a deleted topic leaves nothing behind."""
    for at in range(400):
        filled.put(topic="ab"[at % 2])
    queue = filled.queues.find("a", 0)
    assert queue is not None
    expired = queue.entry_at(150)
    assert expired is not None
    assert filled.queues.delete_expired(expired[0]) == 2
    assert (queue.min_offset, queue.max_offset) == (150, 200)
    filled.queues.delete_topic("a")
    assert filled.queues.queues() == [("b", 0)]
    assert [entry.name for entry in filled.file_system.list(filled.directory)] == ["b"]
    filled.queues.destroy()
    assert filled.queues.queues() == []
    assert filled.file_system.list(filled.directory) == []


def test_the_schedule_queue_holds_deliver_times(filled: FilledQueues) -> None:
    """In SCHEDULE_TOPIC_XXXX the third field is when the message is due."""
    filled.append(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties={"DELAY": "3"})
    filled.dispatcher.catch_up(filled.log.max_offset)
    queue = filled.queues.find("SCHEDULE_TOPIC_XXXX", 2)
    assert queue is not None
    (code,) = queue.entries_from(0, 1)["tags_code"].tolist()
    assert code == filled.small.clock.now_ms() + 10_000
    assert ENTRY.size == 20


@pytest.mark.parametrize("at_sync", [1, 2, 3])
def test_a_flush_that_is_interrupted_forgets_no_queue(
    root: Path, file_system: FileSystem, at_sync: int
) -> None:
    """Or the next recovery point would speak of entries that were never synced."""
    watched = WatchedFileSystem(file_system)
    filled = FilledQueues(watched, root)
    for queue_id in range(3):
        filled.put(queue_id=queue_id)

    def interrupt(step: str, path: Path) -> None:
        if step == "sync" and watched.count("sync") == at_sync - 1:
            raise KeyboardInterrupt

    watched.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        filled.queues.flush()
    watched.before = lambda step, path: None
    watched.steps.clear()
    filled.queues.flush()
    assert sorted(path.parts[-2] for step, path in watched.steps if step == "sync") == ["0", "1", "2"]
    watched.steps.clear()
    filled.queues.flush()
    assert watched.steps == []


def test_a_flush_that_is_interrupted_forgets_no_name(root: Path) -> None:
    """Wherever Ctrl-C comes: what no later flush looks at is known to be on the disk."""
    for place in itertools.count(1):
        filled = FilledQueues(MemoryFileSystem(), root)
        filled.put(queue_id=0)
        filled.put(queue_id=1)
        was_interrupted = interrupted_at(place, (consume_queue_store, consume_queue), filled.queues.flush)
        filled.queues.flush()
        assert filled.queues.durable_manifest.files.keys() == {("orders", 0), ("orders", 1)}, place
        if not was_interrupted:
            break


def test_a_directory_that_can_be_no_topics_is_passed_over(root: Path, file_system: FileSystem) -> None:
    """Its name is no text; whatever writes the names of queues down could not write this one."""
    filled = FilledQueues(file_system, root)
    filled.put()
    for directory in ("\udcff", "標籤"):
        for entry in file_system.list(filled.directory / "orders" / "0"):
            file_system.make_directories(filled.directory / directory / "0")
            content = file_system.read(filled.directory / "orders" / "0" / entry.name)
            file_system.write(filled.directory / directory / "0" / entry.name, content)
    opened = filled.open_queues()
    assert opened.queues() == [("orders", 0), ("標籤", 0)]
    assert decode_queue_names(encode_queue_names(opened.durable_manifest)) == opened.durable_manifest
