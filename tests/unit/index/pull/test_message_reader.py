"""The pull: every status with its next offset, the limits, both steps of the tag filter, and removed records.

Method: a real small log with its queues. The loop is also compared, for any queue contents and any limits,
with a plain transcription of the rules of docs/spec/consumequeue.md section 10.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.index.pull import message_collector
from mqstore.index.pull.message_reader import GetMessageResult, MessageReader
from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.store.errors import CorruptRecord
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.java_hash import string_hash
from mqstore.store.status import GetMessageStatus
from support.stores.filled_queues import FilledQueues
from support.stores.small_log import SEGMENT_BYTES

FOUND = GetMessageStatus.FOUND
NO_MATCHED_MESSAGE = GetMessageStatus.NO_MATCHED_MESSAGE


@pytest.fixture
def filled(file_system: FileSystem, root: Path) -> FilledQueues:
    return FilledQueues(file_system, root)


def offsets(result: GetMessageResult) -> list[int]:
    return [message.queue_offset for message in result.messages]


def test_messages_come_back_as_they_were_put(filled: FilledQueues) -> None:
    """Body, tags and places of each message; the next offset is behind the last."""
    puts = [filled.put(b"body %d" % at, tags=f"t{at}") for at in range(5)]
    result = filled.get(1, 3)
    assert result.status is FOUND
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (4, 0, 5)
    assert [(message.body, message.tags) for message in result.messages] == [
        (b"body 1", "t1"),
        (b"body 2", "t2"),
        (b"body 3", "t3"),
    ]
    assert [message.physical_offset for message in result.messages] == [
        put.physical_offset for put in puts[1:4]
    ]


@pytest.mark.parametrize(
    ("offset", "status", "next_begin_offset"),
    [
        (-1, GetMessageStatus.OFFSET_TOO_SMALL, 2),
        (1, GetMessageStatus.OFFSET_TOO_SMALL, 2),
        (2, FOUND, 5),
        (5, GetMessageStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 5),
        (10**12, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 5),
    ],
)
def test_offsets_outside_the_queue(
    filled: FilledQueues, offset: int, status: GetMessageStatus, next_begin_offset: int
) -> None:
    """Below the minimum, at the end, beyond it: where to go on is said each time."""
    puts = [filled.put() for _ in range(5)]
    filled.queues.correct_min_offset(puts[2].physical_offset)
    result = filled.get(offset)
    assert (result.status, result.next_begin_offset) == (status, next_begin_offset)
    assert (result.min_offset, result.max_offset) == (2, 5)


def test_queues_without_entries(filled: FilledQueues) -> None:
    """Nothing was ever put to it, or it is known and empty: begin at 0."""
    result = filled.get(7)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)
    filled.queues.find_or_create("orders", 0)
    result = filled.get(7)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_an_entry_that_cannot_be_had(filled: FilledQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention took the file between two looks: go on with the next file."""
    for _ in range(5):
        filled.put()
    queue = filled.queues.find("orders", 0)
    monkeypatch.setattr(queue, "view_from", lambda offset, count: memoryview(b""))
    result = filled.get(3)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 100)


def test_entries_that_expire_between_two_looks(filled: FilledQueues, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the same file that are left are not passed over."""
    puts = [filled.put() for _ in range(5)]
    queue = filled.queues.find("orders", 0)
    assert queue is not None

    def expire_before(offset: int, count: int) -> memoryview:
        monkeypatch.undo()
        filled.queues.correct_min_offset(puts[2].physical_offset)
        return queue.view_from(offset, count)

    monkeypatch.setattr(queue, "view_from", expire_before)
    result = filled.get(1)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 2)
    assert offsets(filled.get(2)) == [2, 3, 4]


def test_a_file_that_went_before_it_was_mapped(filled: FilledQueues) -> None:
    """Retention of another process takes what a reader knows by name only: it goes on with the next file."""
    for _ in range(1_000):
        filled.put()
    # Which searches for its first entry from the middle of the row down: it has not mapped what is behind.
    reader = filled.open_queues()
    queue = reader.find("orders", 0)
    assert queue is not None
    filled.file_system.delete(filled.directory / "orders" / "0" / f"{700 * ENTRY.size:020d}")
    assert len(queue.view_from(700, 5)) == 0
    result = MessageReader(filled.log, reader, filled.config).get_message("orders", 0, 700)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 800)


def test_entries_behind_the_readers_end_of_the_log(filled: FilledQueues) -> None:
    """A reader beside a live writer sees queues grow before the log: it skips nothing that it cannot read."""
    puts = [filled.put() for _ in range(5)]
    filled.log.set_end(puts[3].physical_offset, 0)
    result = filled.get(0)
    assert (offsets(result), result.next_begin_offset, result.max_offset) == ([0, 1, 2], 3, 3)
    result = filled.get(3)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_OVERFLOW_ONE, 3)


@pytest.mark.parametrize(("asked", "given_out"), [(0, 1), (1, 1), (31, 31), (32, 32), (33, 32), (1000, 32)])
def test_the_count_is_limited(filled: FilledQueues, asked: int, given_out: int) -> None:
    """By the caller and by max_transfer_count_on_message_in_memory; one message always."""
    for _ in range(40):
        filled.put()
    result = filled.get(0, asked)
    assert (len(result.messages), result.next_begin_offset) == (given_out, given_out)


def test_the_bytes_are_limited(filled: FilledQueues) -> None:
    """By max_transfer_bytes_on_message_in_memory, but a first message of any size is returned."""
    for _ in range(12):
        filled.put(b"x" * 50_000)
    assert offsets(filled.get()) == [0, 1, 2, 3, 4]
    small = FilledQueues(MemoryFileSystem(), Path("/store"), max_transfer_bytes_on_message_in_memory=100)
    small.put(b"x" * 1000)
    small.put(b"y")
    assert offsets(small.get()) == [0]


def test_a_call_ends_with_its_file(filled: FilledQueues) -> None:
    """Entries of the next file are for the next call: 100 are in one file here."""
    for _ in range(130):
        filled.put()
    result = filled.get(90)
    assert (offsets(result), result.next_begin_offset) == (list(range(90, 100)), 100)
    assert offsets(filled.get(100, 5)) == [100, 101, 102, 103, 104]


def test_a_filter_passes_over_what_it_does_not_want(filled: FilledQueues) -> None:
    """The next offset is behind everything that was looked at, wanted or not."""
    for at in range(20):
        filled.put(tags="abc"[at % 3])
    assert offsets(filled.get(0, tags="b || c")) == [at for at in range(20) if at % 3]
    result = filled.get(0, 2, tags="b")
    assert (offsets(result), result.next_begin_offset) == ([1, 4], 5)
    result = filled.get(0, tags="none")
    assert (result.status, result.next_begin_offset, result.messages) == (NO_MATCHED_MESSAGE, 20, [])


def test_equal_hashes_are_told_apart(filled: FilledQueues) -> None:
    """`Aa` and `BB` share a hash; asking for one never gives the other."""
    for at in range(6):
        filled.put(tags=("Aa", "BB")[at % 2])
    assert string_hash("Aa") == string_hash("BB")
    assert offsets(filled.get(0, tags="BB")) == [1, 3, 5]
    result = filled.get(4, tags="BB")
    assert (offsets(result), result.next_begin_offset) == ([5], 6)
    filled.put(tags="Aa")
    result = filled.get(6, tags="BB")
    assert (result.status, result.next_begin_offset) == (NO_MATCHED_MESSAGE, 7)


def test_a_filter_looks_at_a_limited_number(file_system: FileSystem, root: Path) -> None:
    """At most max_filter_message_size bytes of entries, or max_msg_nums entries if that is more."""
    filled = FilledQueues(file_system, root, max_filter_message_size=210)
    for at in range(90):
        filled.put(tags="last" if at == 89 else "x")
    assert filled.get(0, 5, tags="last").next_begin_offset == 11
    result = filled.get(0, 89, tags="last")
    assert (result.status, result.next_begin_offset) == (NO_MATCHED_MESSAGE, 89)
    assert filled.get(89, tags="last").status is FOUND


def fill_two_segments(filled: FilledQueues) -> int:
    """Messages of two segments; returns the queue offset of the second segment's first."""
    first_of_second = 0
    for at in range(20):
        if filled.put(b"x" * 10_000, tags="ab"[at % 2]).physical_offset == SEGMENT_BYTES:
            first_of_second = at
    assert 0 < first_of_second < 19
    return first_of_second


def test_records_that_are_gone(filled: FilledQueues) -> None:
    """The entries are still there, their segment is not: what remains is found behind it."""
    first_kept = fill_two_segments(filled)
    filled.log.files.delete_first()
    result = filled.get(3)
    assert result.status is FOUND
    assert offsets(result) == list(range(first_kept, 20))
    result = filled.get(3, tags="b")
    assert offsets(result) == [at for at in range(first_kept, 20) if at % 2]


def test_only_records_that_are_gone(file_system: FileSystem, root: Path) -> None:
    """Nothing but missing records within reach: MESSAGE_WAS_REMOVING, and the offset goes on."""
    filled = FilledQueues(file_system, root, max_filter_message_size=60)
    fill_two_segments(filled)
    filled.log.files.delete_first()
    result = filled.get(2, 1)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.MESSAGE_WAS_REMOVING, 5)


def test_messages_outlive_their_segment(filled: FilledQueues) -> None:
    """Retention deletes files, not what a reader holds."""
    fill_two_segments(filled)
    held = filled.get(0, 3).messages
    while len(filled.log.files.files) > 1:
        filled.log.files.delete_first()
    assert [message.body for message in held] == [b"x" * 10_000] * 3


def test_blank_entries_are_no_messages(filled: FilledQueues) -> None:
    """A queue that begins above 0 and has a hole: only messages are handed out."""
    records = [filled.append() for _ in range(12)]
    puts = [records[6], records[11]]
    queue = filled.queues.find_or_create("orders", 0)
    entries = [ENTRY.pack(put.physical_offset, put.store_size, 0) for put in puts]
    queue.append_entries(5, entries[0], follow_log=True)
    queue.append_entries(9, entries[1], follow_log=True)
    result = filled.get(0)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, 5)
    result = filled.get(5)
    assert [message.physical_offset for message in result.messages] == [put.physical_offset for put in puts]
    assert result.next_begin_offset == 10


def test_an_entry_that_points_elsewhere_is_an_error(filled: FilledQueues) -> None:
    """Damage is told, and no other message is handed out in its place."""
    put = filled.put()
    filled.append()
    queue = filled.queues.find("orders", 0)
    assert queue is not None
    queue.append_entries(1, ENTRY.pack(put.end_offset + 1, put.store_size - 1, 0))
    with pytest.raises(CorruptRecord):
        filled.get(1)


@pytest.mark.parametrize("body_length", [-1, 7, 10**6])
def test_a_filter_does_not_pass_over_damage(
    filled: FilledQueues, monkeypatch: pytest.MonkeyPatch, body_length: int
) -> None:
    """A record whose lengths do not add up may have a wanted tag: it is told, and no message skipped."""
    put = filled.put(b"body", tags="a")
    monkeypatch.setattr(filled.log, "record_at", partial(with_body_length, body_length, filled.log.record_at))
    with pytest.raises(CorruptRecord, match=f"at byte {put.physical_offset}"):
        filled.get(0, tags="a")


def with_body_length(
    body_length: int, record_at: Callable[[int, int], memoryview], physical_offset: int, size: int
) -> memoryview:
    record = bytearray(record_at(physical_offset, size))
    record[84:88] = body_length.to_bytes(4, "big", signed=True)
    return memoryview(record)


def test_no_limit_is_too_high(file_system: FileSystem, root: Path) -> None:
    """All messages there are, and no room is asked of memory for those there are not."""
    filled = FilledQueues(file_system, root, max_transfer_count_on_message_in_memory=2**31 - 1)
    for _ in range(5):
        filled.put(tags="a")
    for tags in ("*", "a"):
        assert offsets(filled.get(0, 2**40, tags)) == [0, 1, 2, 3, 4]


# -- the rules of the spec, transcribed ---------------------------------------------------------------

kinds = st.lists(
    st.tuples(st.sampled_from(["Aa", "BB", "c"]), st.sampled_from([100, 900, 2500])), min_size=1, max_size=60
)


def transcribed(
    rows: list[tuple[str, int, int, bool]],
    offset: int,
    count: int,
    wanted: set[str],
    max_bytes: int,
    reach: int,
) -> tuple[GetMessageStatus, int, list[int]]:
    """Section 10's loop; rows are (tag, physical offset, size, is the record there)."""
    codes = {string_hash(tag) for tag in wanted}
    status, next_offset, total, got, gone_before = NO_MATCHED_MESSAGE, offset, 0, [], -1
    for at in range(offset, len(rows)):
        tag, physical_offset, size, is_there = rows[at]
        if (at - offset) * 20 >= max(reach, count * 20):
            break
        if total and (len(got) + 1 > count or len(got) > 31 or total + size > max_bytes):
            break
        next_offset = at + 1
        if physical_offset < gone_before:
            continue
        if wanted and string_hash(tag) not in codes:
            status = status if total else NO_MATCHED_MESSAGE
            continue
        if not is_there:
            status = status if total else GetMessageStatus.MESSAGE_WAS_REMOVING
            gone_before = physical_offset - physical_offset % SEGMENT_BYTES + SEGMENT_BYTES
            continue
        if wanted and tag not in wanted:
            status = status if total else NO_MATCHED_MESSAGE
            continue
        got.append(at)
        total += size
        status, gone_before = FOUND, -1
    return status, next_offset, got


@pytest.mark.slow
@given(
    kinds,
    st.integers(0, 59),
    st.integers(1, 40),
    st.sampled_from([set(), {"Aa"}, {"BB", "c"}, {"none"}]),
    st.booleans(),
    st.sampled_from([20, 130, 16_000]),
)
@settings(deadline=None, max_examples=60)
def test_the_loop_is_that_of_the_spec(
    kinds: list[tuple[str, int]], offset: int, count: int, wanted: set[str], removed: bool, reach: int
) -> None:
    """Status, next offset and messages, for any mixture of tags, sizes, limits and missing segments."""
    max_bytes = 5000
    filled = FilledQueues(
        MemoryFileSystem(),
        Path("/store"),
        max_transfer_bytes_on_message_in_memory=max_bytes,
        max_filter_message_size=reach,
    )
    filled.small.fill_to(20_000)
    filled.dispatcher.catch_up(filled.log.max_offset)
    first = filled.queues.next_queue_offset("orders", 0)
    puts = [filled.put(b"x" * size, "other", tags=tag) for tag, size in kinds]
    assert first
    if removed and len(filled.log.files.files) > 1:
        filled.log.files.delete_first()
    if not 0 <= offset < len(kinds):
        return
    rows = [
        (tag, put.physical_offset, put.store_size, put.physical_offset >= filled.log.min_offset)
        for put, (tag, _) in zip(puts, kinds, strict=True)
    ]
    result = filled.get(offset, count, "||".join(sorted(wanted)) or "*", topic="other")
    found = (result.status, result.next_begin_offset, offsets(result))
    assert found == transcribed(rows, offset, count, wanted, max_bytes, reach)


@pytest.mark.parametrize("max_bytes", [1, 30_500, 95_000, 100_000, 10**6])
@pytest.mark.parametrize("count", [3, 5, 9, 32])
def test_a_pull_goes_on_in_the_next_segments(
    file_system: FileSystem, root: Path, monkeypatch: pytest.MonkeyPatch, max_bytes: int, count: int
) -> None:
    """Messages of several segments in one answer, the same with and without the compiled loop."""
    filled = FilledQueues(file_system, root, max_transfer_bytes_on_message_in_memory=max_bytes)
    for at in range(40):
        filled.put(bytes([at]) * (15_000 if at % 3 else 30_000))
    compiled = [filled.get(offset, count) for offset in range(0, 40, 3)]
    monkeypatch.setattr(message_collector, "_FEW", 1_000)
    plain = [filled.get(offset, count) for offset in range(0, 40, 3)]
    for one, other in zip(compiled, plain, strict=True):
        assert one.status == other.status
        assert one.next_begin_offset == other.next_begin_offset
        assert [message.body for message in one.messages] == [message.body for message in other.messages]
    assert max(len(answer.messages) for answer in compiled) <= count
