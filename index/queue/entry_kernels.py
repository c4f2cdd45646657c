"""Compiled walks over the log: from its raw bytes to consume queue entries, and into the queues.

Arrays in: `data` is uint8, C-contiguous, bytes of one segment that begin with a record; positions are
indexes into it, int64. A kernel never reads outside `data`, whatever the lengths in the bytes claim, and
writes only the arrays that it fills; only append_runs writes to addresses, those of queue_ends.py. Loops
that Python calls return numbers: see store/compiled.py. Where arrays are wanted, a plain function makes them
and calls the loop.

Records are parsed by `record_layout` of store/record/record_kernels.py. It accepts a record whose magic is
right and whose lengths add up; its callers also compare the stored physical offset. CRCs are checked by
recovery (store/record/record_kernels.py), not here. store/record/property_kernels.py finds properties.

Callers hold no lock: the kernels release the GIL, all but raise_ends. Import this module inside the function
that first needs it; compiled code is cached on disk. The plain twins are in
tests/support/twins/index_kernels.py. From the log to keys: index/keys/key_kernels.py. Lookups in queues:
index/pull/pull_kernels.py.
Source: CommitLog#checkMessageAndReturnSize.
"""

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import (
    ENTRY_BYTES,
    MISSING_LEVEL_DELAY_MS,
    SIZE_POSITION,
    TAGS_CODE_POSITION,
)
from mqstore.index.queue.queue_end_row import (
    ADDRESS,
    FIRST_OFFSET,
    MAX_OFFSET,
    MAX_PHYSICAL_OFFSET,
    QUEUE_ID,
    ROOM_END,
    TOPIC_AT,
    TOPIC_LENGTH,
)
from mqstore.store.byte_kernels import (
    borrowed,
    copy_out,
    equals,
    parse_natural,
    read_int,
    read_long,
    same_bytes,
    write_int,
    write_long,
)
from mqstore.store.compiled import CHECKS_BOUNDS, compiled, compiled_holding_gil
from mqstore.store.loops.kinds import (
    BYTES,
    BYTES_OUT,
    INT64,
    INTS,
    INTS_OUT,
    LONG_ROWS,
    LONG_ROWS_OUT,
    LONGS,
    LONGS_OUT,
)
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.properties_format import DELAY, TAGS
from mqstore.store.record.property_kernels import find_property, java_hash
from mqstore.store.record.record_format import (
    FIXED_BYTES,
    PHYSICAL_OFFSET_POSITION,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.record_kernels import (
    NO_LAYOUT,
    record_layout,
    store_timestamp_at,
)
from mqstore.store.record.sys_flag import TRANSACTION_PREPARED

__all__ = [
    "append_runs",
    "consume_queue_entries",
    "enter_row",
    "find_row",
    "raise_ends",
    "slots_of",
]


# -- tags codes ---------------------------------------------------------------------------------------

_TAGS = np.frombuffer(TAGS.encode(), np.uint8)
_DELAY = np.frombuffer(DELAY.encode(), np.uint8)
_SCHEDULE_TOPIC = np.frombuffer(SCHEDULE_TOPIC.encode(), np.uint8)


@compiled
def _delay_level(data, at, length):  # type: ignore[no-untyped-def]
    """The level as Java reads an int: a plus sign may come first. -1 for anything else: no delay."""
    if length > 1 and data[at] == ord("+"):
        return parse_natural(data, at + 1, length - 1)
    return parse_natural(data, at, length)


@compiled
def _tags_code(  # type: ignore[no-untyped-def]
    data, topic_at, topic_length, properties_at, properties_length, store_timestamp, offset, delay_tables
):
    """The third field of a record's entry: when it is due if it is delayed, else the hash of its tags."""
    if equals(data, topic_at, topic_length, _SCHEDULE_TOPIC):
        value_at, value_length = find_property(data, properties_at, properties_length, _DELAY)
        if value_length > 0:
            level = min(_delay_level(data, value_at, value_length), np.int64(delay_tables.shape[1] - 1))
            if level > 0:
                table = len(delay_tables) - 1
                while table > 0 and delay_tables[table, 0] > offset:
                    table -= 1
                delay_ms = delay_tables[table, level]
                return store_timestamp + (delay_ms if delay_ms >= 0 else MISSING_LEVEL_DELAY_MS)
    value_at, value_length = find_property(data, properties_at, properties_length, _TAGS)
    return java_hash(data, value_at, value_length)


# -- consume queue entries ----------------------------------------------------------------------------


@compiled
def _hash_queue(data, topic_at, topic_length, queue_id):  # type: ignore[no-untyped-def]
    code = np.uint64(14695981039346656037) ^ np.uint64(queue_id)
    for index in range(topic_length):
        code = (code ^ np.uint64(data[topic_at + index])) * np.uint64(1099511628211)
    return code ^ code >> np.uint64(29)


@compiled
def _empty_slots(count):  # type: ignore[no-untyped-def]
    """Empty slots (-1) for the table of queues; `count` is a power of two."""
    slots = np.empty(count, np.int32)
    for slot in range(count):
        slots[slot] = -1
    return slots


@compiled
def _find_slot(names, slots, queues, data, topic_at, topic_length, queue_id):  # type: ignore[no-untyped-def]
    """The slot of this queue, or the empty slot for it. Topics are compared by their bytes, not the hash.

    names: the bytes that hold the topics of known queues. queues: in its first columns, position and length
    of each topic, and the queue id. data, topic_at: the topic to find.
    """
    mask = np.uint64(len(slots) - 1)
    slot = _hash_queue(data, topic_at, topic_length, queue_id) & mask
    while slots[slot] >= 0:
        known = slots[slot]
        same_lengths = queues[known, TOPIC_LENGTH] == topic_length and queues[known, QUEUE_ID] == queue_id
        if same_lengths and same_bytes(names, queues[known, TOPIC_AT], data, topic_at, topic_length):
            break
        slot = slot + np.uint64(1) & mask
    return slot


@compiled
def _enter(queue, names, slots, queues):  # type: ignore[no-untyped-def]
    topic_at, topic_length, queue_id = (
        queues[queue, TOPIC_AT],
        queues[queue, TOPIC_LENGTH],
        queues[queue, QUEUE_ID],
    )
    slots[_find_slot(names, slots, queues, names, topic_at, topic_length, queue_id)] = queue


@compiled
def _slots_of(names, queues, queue_count, slot_count):  # type: ignore[no-untyped-def]
    slots = _empty_slots(slot_count)
    for queue in range(queue_count):
        _enter(queue, names, slots, queues)
    return slots


@compiled
def _grow(data, queues, queue_count):  # type: ignore[no-untyped-def]
    """The queues with twice the room, and new slots."""
    larger = np.empty((2 * len(queues), 3), np.int64)
    for queue in range(queue_count):
        for field in range(3):
            larger[queue, field] = queues[queue, field]
    return larger, _slots_of(data, larger, queue_count, 4 * len(larger))


@compiled
def _pack_by_queue(rows, row_count, queue_count, base_offset, entries):  # type: ignore[no-untyped-def]
    """Counting sort by queue into `entries`, in the log's order; returns queue offset and queue of each."""
    starts = np.zeros(queue_count + 1, np.int64)
    for row in range(row_count):
        starts[rows[row, 4] + 1] += 1
    for queue in range(queue_count):
        starts[queue + 1] += starts[queue]
    places = np.empty((row_count, 2), np.int64)
    for row in range(row_count):
        queue = rows[row, 4]
        index = starts[queue]
        starts[queue] += 1
        places[index, 0] = rows[row, 3]
        places[index, 1] = queue
        at = index * ENTRY_BYTES
        write_long(entries, at, base_offset + rows[row, 0])
        write_int(entries, at + SIZE_POSITION, rows[row, 1])
        write_long(entries, at + TAGS_CODE_POSITION, rows[row, 2])
    return places


@compiled
def _begins_run(places, index):  # type: ignore[no-untyped-def]
    if index == 0 or places[index, 1] != places[index - 1, 1]:
        return True
    return places[index, 0] != places[index - 1, 0] + 1


@compiled
def _find_runs(places, queues, runs):  # type: ignore[no-untyped-def]
    """Fill `runs`: one begins where the queue changes or its offsets are not consecutive; their number."""
    run = -1
    for index in range(len(places)):
        if _begins_run(places, index):
            run += 1
            runs[run, 0] = index
            runs[run, 1] = 0
            runs[run, 2] = places[index, 0]
            for field in range(3):
                runs[run, 3 + field] = queues[places[index, 1], field]
        runs[run, 1] += 1
    return run + 1


def consume_queue_entries(
    data: npt.NDArray[np.uint8], base_offset: int, delay_tables: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], int, bool, int]:
    """Entries of all whole records from data[0] on, grouped by queue.

    base_offset: physical offset of data[0]. delay_tables: int64, a row for each table of delays: the physical
    offset from which on it holds, then the delay in ms of each level, negative for none.
    Half and rollback records get no entry. The walk ends at a BLANK, where no whole record begins, and at
    a record with another physical offset.

    Returns, in this order:

     entries     uint8[20 * n], packed, queue by queue, each in the order of the log
     runs        int64[r, 6]: index of the first entry, number of entries, queue offset of the first,
                 position of the topic in data, its length, queue id. Queue offsets in a run are
                 consecutive; a queue may have several runs, one after another.
     consumed    bytes walked over, without the BLANK
     at_blank    whether a BLANK ended the walk
     last_store_timestamp   of the last record walked over, epoch ms; -1 when there was none
    """
    # Only the pages that are filled take memory.
    most = len(data) // FIXED_BYTES + 1
    entries, runs = np.empty(most * ENTRY_BYTES, np.uint8), np.empty((most, 6), np.int64)
    entry_count, run_count, consumed, at_blank, last_store_timestamp = _fill_entries(
        data, base_offset, delay_tables, entries, runs
    )
    return entries[: entry_count * ENTRY_BYTES], runs[:run_count], consumed, at_blank, last_store_timestamp


@compiled(BYTES, INT64, LONG_ROWS, BYTES_OUT, LONG_ROWS_OUT)
def _fill_entries(data, base_offset, delay_tables, entries, runs):  # type: ignore[no-untyped-def]
    """The loop of consume_queue_entries; returns the numbers of entries and runs first."""
    data, delay_tables = borrowed((data, delay_tables))
    end = len(data)
    # Only the pages that are filled take memory.
    rows = np.empty((end // FIXED_BYTES + 1, 5), np.int64)
    row_count = 0
    queues = np.empty((16, 3), np.int64)
    slots = _empty_slots(64)
    queue_count = 0
    queue = np.int64(0)
    last_store_timestamp = np.int64(-1)
    at = np.int64(0)
    while True:
        layout = record_layout(data, at, end)
        total_size, _, _, topic_at, topic_length, properties_at, properties_length = layout
        if total_size <= NO_LAYOUT or read_long(data, at + PHYSICAL_OFFSET_POSITION) != base_offset + at:
            break
        last_store_timestamp = read_long(data, store_timestamp_at(data, at))
        # This bit is set in half and in rollback records.
        if not read_int(data, at + SYS_FLAG_POSITION) & TRANSACTION_PREPARED:
            queue_id = read_int(data, at + QUEUE_ID_POSITION)
            # Neighbours are often of the same queue.
            same_lengths = queue_count and queues[queue, 1] == topic_length and queues[queue, 2] == queue_id
            if not same_lengths or not same_bytes(data, queues[queue, 0], data, topic_at, topic_length):
                slot = _find_slot(data, slots, queues, data, topic_at, topic_length, queue_id)
                if slots[slot] < 0:
                    queues[queue_count, 0] = topic_at
                    queues[queue_count, 1] = topic_length
                    queues[queue_count, 2] = queue_id
                    slots[slot] = queue_count
                    queue_count += 1
                queue = np.int64(slots[slot])
                if queue_count == len(queues):
                    queues, slots = _grow(data, queues, queue_count)
            rows[row_count, 0] = at
            rows[row_count, 1] = total_size
            rows[row_count, 2] = _tags_code(
                data,
                topic_at,
                topic_length,
                properties_at,
                properties_length,
                last_store_timestamp,
                base_offset + at,
                delay_tables,
            )
            rows[row_count, 3] = read_long(data, at + QUEUE_OFFSET_POSITION)
            rows[row_count, 4] = queue
            row_count += 1
        at += total_size
    places = _pack_by_queue(rows, row_count, queue_count, base_offset, entries)
    run_count = _find_runs(places, queues, runs)
    return row_count, run_count, at, total_size < NO_LAYOUT, last_store_timestamp


# -- appending to many queues --------------------------------------------------------------------------


@compiled(BYTES, INT64, BYTES, INTS, LONG_ROWS)
def find_row(topic, queue_id, names, slots, rows):  # type: ignore[no-untyped-def]
    """The row of a queue in the table of queue_ends.py, or -1. topic: uint8, UTF-8."""
    return np.int64(slots[_find_slot(names, slots, rows, topic, 0, len(topic), queue_id)])


@compiled(INT64, BYTES, INTS_OUT, LONG_ROWS)
def enter_row(row, names, slots, rows):  # type: ignore[no-untyped-def]
    """Add this row to `slots`; at least half of them must stay empty."""
    _enter(row, names, slots, rows)


def slots_of(
    names: npt.NDArray[np.uint8], rows: npt.NDArray[np.int64], row_count: int, slot_count: int
) -> npt.NDArray[np.int32]:
    """Slots for the first `row_count` rows; of two rows of the same queue, for the later one."""
    slots = np.full(slot_count, -1, np.int32)
    _enter_rows(row_count, names, slots, rows)
    return slots


@compiled(INT64, BYTES, INTS_OUT, LONG_ROWS)
def _enter_rows(row_count, names, slots, rows):  # type: ignore[no-untyped-def]
    for row in range(row_count):
        _enter(row, names, slots, rows)


@compiled
def _end_of_run(entries, runs, run, rows, row):  # type: ignore[no-untyped-def]
    """End in the log of the last message of an ordinary run (see append_runs); -1 for any other run."""
    first, count, queue_offset = runs[run, 0], runs[run, 1], runs[run, 2]
    if rows[row, ADDRESS] == 0 or queue_offset != rows[row, MAX_OFFSET]:
        return np.int64(-1)
    if queue_offset < rows[row, FIRST_OFFSET] or queue_offset + count > rows[row, ROOM_END]:
        return np.int64(-1)
    if read_long(entries, first * ENTRY_BYTES) < rows[row, MAX_PHYSICAL_OFFSET]:
        return np.int64(-1)
    last_at = (first + count - 1) * ENTRY_BYTES
    return read_long(entries, last_at) + read_int(entries, last_at + SIZE_POSITION)


def append_runs(
    data: npt.NDArray[np.uint8],
    entries: npt.NDArray[np.uint8],
    runs: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    slots: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Write the entries of ordinary runs to the end of their queues, and leave the others.

    data, entries, runs: from consume_queue_entries. names, slots, rows: the table of queue_ends.py, whose
    addresses are writable from FIRST_OFFSET to ROOM_END; it is not changed.
    Ordinary: the queue has a row with an address, the run begins where the queue ends, the queue has none of
    its messages yet, the whole run fits, and no other run of its queue comes before it.

    Returns, in this order:

     appended    int64[n], the rows whose queues were written to, each once
     ends        int64[n, 2], what MAX_OFFSET and MAX_PHYSICAL_OFFSET of each will be
     left        int64[m], indexes of the runs that were not written
    """
    count = len(runs)
    appended, ends, left = (
        np.empty(count, np.int64),
        np.empty((count, 2), np.int64),
        np.empty(count, np.int64),
    )
    appended_count = _append_runs(data, entries, runs, names, slots, rows, appended, ends, left)
    if appended_count == count:
        return appended, ends, left[:0]
    return appended[:appended_count], ends[:appended_count], left[: count - appended_count]


@compiled(*(BYTES, BYTES, LONG_ROWS, BYTES, INTS, LONG_ROWS), *(LONGS_OUT, LONG_ROWS_OUT, LONGS_OUT))
def _append_runs(  # type: ignore[no-untyped-def]
    data, entries, runs, names, slots, rows, appended, ends, left
):
    """The loop of append_runs; returns how many queues were written to."""
    data, entries, runs, names, slots, rows = borrowed((data, entries, runs, names, slots, rows))
    appended_count = left_count = 0
    for run in range(len(runs)):
        topic_at, queue_id = runs[run, 3], runs[run, 5]
        # Runs of one queue are consecutive.
        is_first = run == 0 or topic_at != runs[run - 1, 3] or queue_id != runs[run - 1, 5]
        row = np.int64(-1)
        if is_first:
            row = np.int64(slots[_find_slot(names, slots, rows, data, topic_at, runs[run, 4], queue_id)])
        end = _end_of_run(entries, runs, run, rows, row) if row >= 0 else np.int64(-1)
        if end < 0:
            left[left_count] = run
            left_count += 1
            continue
        position = (runs[run, 2] - rows[row, FIRST_OFFSET]) * ENTRY_BYTES
        room_bytes = (rows[row, ROOM_END] - rows[row, FIRST_OFFSET]) * ENTRY_BYTES
        if CHECKS_BOUNDS and not 0 <= position <= room_bytes - runs[run, 1] * ENTRY_BYTES:
            raise IndexError("entries outside of a queue's room")
        copy_out(
            rows[row, ADDRESS] + position, entries, runs[run, 0] * ENTRY_BYTES, runs[run, 1] * ENTRY_BYTES
        )
        appended[appended_count] = row
        ends[appended_count, 0] = runs[run, 2] + runs[run, 1]
        ends[appended_count, 1] = end
        appended_count += 1
    return appended_count


@compiled_holding_gil(LONGS, LONG_ROWS, LONG_ROWS_OUT)
def raise_ends(appended, ends, rows):  # type: ignore[no-untyped-def]
    """Set `ends`, which append_runs returned, in the table of queue_ends.py.

    It holds the GIL, unlike an assignment by numpy: no thread of this process sees some rows changed and
    others not.
    """
    for index in range(len(appended)):
        rows[appended[index], MAX_OFFSET] = ends[index, 0]
        rows[appended[index], MAX_PHYSICAL_OFFSET] = ends[index, 1]
