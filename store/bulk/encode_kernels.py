"""Compiled loops that encode records in bulk: thousands of rows a call, without a Python object per row.

A text is a buffer (uint8) with the positions where it begins and ends, both int64, so that rows may share
bytes. All arrays are C-contiguous. A kernel writes only the arrays that are marked as filled, and accesses
nothing outside the given ranges. text_column.py checks the ranges; everything else is checked here.

Two steps, as in record_template.py: `encode_rows` does all that does not need the place in the log, then
`complete_records` the rest, under the append lock. Both fill a buffer of the caller: only the mapped file
copies into the log.

Callers need not hold the GIL: the kernels release it. Import this module inside the function that first needs
it; compiled code is cached on disk. The plain twins are in tests/support/twins/plain_rows.py.
"""

import numpy as np

from mqstore.store.byte_kernels import (
    borrowed,
    copy_bytes,
    read_int,
    same_bytes,
    write_int,
    write_long,
    write_short,
)
from mqstore.store.checksum.crc32_kernels import crc32
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import (
    BOOL,
    BYTES,
    BYTES_OUT,
    FLAGS_OUT,
    INT64,
    INTS,
    INTS_OUT,
    LONG_ROWS,
    LONG_ROWS_OUT,
    LONGS,
    LONGS_OUT,
)
from mqstore.store.record.properties_format import MAX_PROPERTIES_BYTES
from mqstore.store.record.record_format import (
    BODY_CRC_POSITION,
    BODY_LENGTH_BEFORE_BODY,
    BORN_TIMESTAMP_POSITION,
    CRC_DIGITS,
    CRC_PROPERTY_BYTES,
    FLAG_POSITION,
    MAGIC_CODE_POSITION,
    PHYSICAL_OFFSET_POSITION,
    PROPERTIES_LENGTH_BYTES,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    SYS_FLAG_POSITION,
    crc_property,
)
from mqstore.store.record.record_kernels import store_timestamp_at
from mqstore.store.record.sys_flag import TRANSACTION_PREPARED

__all__ = [
    "BODY_TOO_LARGE",
    "BORN_WHEN_STORED",
    "HAS_CRC",
    "MAX_PAIRS",
    "MIMICS_CRC",
    "NAME_TWICE",
    "NOTHING_ILLEGAL",
    "PAIR_ILLEGAL",
    "PROPERTIES_TOO_LARGE",
    "complete_records",
    "encode_rows",
    "end_properties",
    "find_values",
    "group_rows",
    "holds_separator",
    "join_pairs",
    "write_fields",
    "write_pair",
]

# The reasons for which `encode_rows` refuses a row.
NOTHING_ILLEGAL = 0
BODY_TOO_LARGE = 1
PROPERTIES_TOO_LARGE = 2
PAIR_ILLEGAL = 3
NAME_TWICE = 4
MIMICS_CRC = 5

# Bits of `marks`: what `complete_records` fills in besides the offsets and the store time.
HAS_CRC = 1
BORN_WHEN_STORED = 2

_CRC_ENDING = np.frombuffer(crc_property(0), np.uint8)
_CRC_NAME_BYTES = 9
# A pair has at least four bytes.
MAX_PAIRS = MAX_PROPERTIES_BYTES // 4 + 1


# -- properties ---------------------------------------------------------------------------------------


@compiled_into_caller
def holds_separator(data, start, stop):  # type: ignore[no-untyped-def]
    """Whether a text holds 0x01 or 0x02."""
    found = False
    for at in range(np.uint64(start), np.uint64(stop)):
        found |= data[at] == 1 or data[at] == 2
    return found


@compiled_into_caller
def _end_of_name(data, start, stop):  # type: ignore[no-untyped-def]
    """The position of the first 0x01 or 0x02 from `start` on, or `stop`."""
    at = np.uint64(start)
    while at < np.uint64(stop) and data[at] != 1 and data[at] != 2:
        at += np.uint64(1)
    return np.int64(at)


@compiled_into_caller
def write_pair(target, at, name, name_start, name_stop, text, start, stop):  # type: ignore[no-untyped-def]
    """Append one pair; returns where it ends."""
    length = name_stop - name_start
    copy_bytes(target, at, name, name_start, length)
    target[at + length] = 1
    at += length + 1
    copy_bytes(target, at, text, start, stop - start)
    at += stop - start
    target[at] = 2
    return at + 1


@compiled_into_caller
def _override_of(data, start, stop, names, name_starts):  # type: ignore[no-untyped-def]
    """Index of the override with the name data[start:stop], or -1."""
    for index in range(len(name_starts) - 1):
        name_at = name_starts[index]
        length = name_starts[index + 1] - name_at
        if length == stop - start and same_bytes(names, name_at, data, start, length):
            return index
    return -1


@compiled_into_caller
def _is_among(target, pairs, pair_count, data, start, stop):  # type: ignore[no-untyped-def]
    """Whether one of the pairs written to `target` has the name data[start:stop]."""
    length = stop - start
    for index in range(pair_count):
        if pairs[index, 1] == length and same_bytes(target, pairs[index, 0], data, start, length):
            return True
    return False


@compiled_into_caller
def _write_properties(  # type: ignore[no-untyped-def]
    target, at, data, start, stop, names, name_starts, texts, text_starts, text_stops, row, pairs, is_done
):
    """Append the properties data[start:stop] of one row with its overrides; (where they end, reason).

    An override whose text is not empty replaces the value of its name, or is added behind all others. If
    its text begins at -1, it removes the pair. If its text is empty, it changes nothing.
    """
    for index in range(len(is_done)):
        is_done[index] = text_starts[index, row] >= text_stops[index, row]
        if not is_done[index] and holds_separator(texts, text_starts[index, row], text_stops[index, row]):
            return at, PAIR_ILLEGAL
    pair_count = 0
    while start < stop:
        name_stop = _end_of_name(data, start, stop)
        value_stop = _end_of_name(data, name_stop + 1, stop)
        lacks_value = value_stop <= name_stop + 1 or (value_stop < stop and data[value_stop] == 1)
        if name_stop == start or name_stop >= stop or data[name_stop] == 2 or lacks_value:
            return at, PAIR_ILLEGAL
        if _is_among(target, pairs, pair_count, data, start, name_stop):
            return at, NAME_TWICE
        index = _override_of(data, start, name_stop, names, name_starts)
        is_removed = index >= 0 and text_starts[index, row] < 0
        if not is_removed:
            pairs[pair_count, 0] = at
            pairs[pair_count, 1] = name_stop - start
            pair_count += 1
            if index >= 0 and not is_done[index]:
                text_at, text_stop = text_starts[index, row], text_stops[index, row]
                at = write_pair(target, at, data, start, name_stop, texts, text_at, text_stop)
                is_done[index] = True
            else:
                at = write_pair(target, at, data, start, name_stop, data, name_stop + 1, value_stop)
        start = value_stop + 1
    for index in range(len(is_done)):
        if not is_done[index]:
            at = write_pair(
                target,
                at,
                names,
                name_starts[index],
                name_starts[index + 1],
                texts,
                text_starts[index, row],
                text_stops[index, row],
            )
    return at, NOTHING_ILLEGAL


@compiled(BYTES, LONGS, LONGS, BYTES, LONGS_OUT, LONGS_OUT)
def find_values(data, starts, stops, name, value_starts, value_stops):  # type: ignore[no-untyped-def]
    """Where in each row's properties the value of `name` is; returns how many rows have one.

    value_starts, value_stops: filled; equal where there is none.
    """
    data, starts, stops, name, value_starts, value_stops = borrowed(
        (data, starts, stops, name, value_starts, value_stops)
    )
    count = 0
    for row in range(len(starts)):
        value_starts[row] = value_stops[row] = at = starts[row]
        while at < stops[row]:
            name_stop = _end_of_name(data, at, stops[row])
            value_stop = name_stop
            while value_stop < stops[row] and data[value_stop] != 2:
                value_stop += 1
            is_it = name_stop - at == len(name) and same_bytes(name, 0, data, at, len(name))
            if is_it and value_stop > name_stop + 1:
                value_starts[row], value_stops[row] = name_stop + 1, value_stop
                count += 1
                break
            at = value_stop + 1
    return count


@compiled(
    *(LONGS, LONGS),
    *(BYTES, LONGS, LONGS),
    *(BYTES, LONGS, LONGS),
    *(BYTES_OUT, LONGS_OUT),
)
def join_pairs(  # type: ignore[no-untyped-def]
    firsts, lasts, names, name_starts, name_stops, values, value_starts, value_stops, target, target_starts
):
    """Write rows of pairs in the stored form; returns the first row with an illegal pair, or -1.

    firsts, lasts: of each row, its first pair and the one behind its last. target: large enough for all names
    and values and two bytes a pair. target_starts: filled, one more than there are rows.
    """
    names, name_starts, name_stops = borrowed((names, name_starts, name_stops))
    values, value_starts, value_stops = borrowed((values, value_starts, value_stops))
    (target,) = borrowed((target,))
    at = np.int64(0)
    for row in range(len(firsts)):
        target_starts[row] = at
        for pair in range(firsts[row], lasts[row]):
            name_at, name_stop = name_starts[pair], name_stops[pair]
            value_at, value_stop = value_starts[pair], value_stops[pair]
            is_empty = name_at == name_stop or value_at == value_stop
            has_separator = holds_separator(names, name_at, name_stop) or holds_separator(
                values, value_at, value_stop
            )
            if is_empty or has_separator:
                return row
            at = write_pair(target, at, names, name_at, name_stop, values, value_at, value_stop)
    target_starts[len(firsts)] = at
    return -1


# -- records ------------------------------------------------------------------------------------------


@compiled_into_caller
def _mimics_crc(target, start, stop):  # type: ignore[no-untyped-def]
    """Whether the last 20 bytes of properties look like a record CRC."""
    at = stop - CRC_PROPERTY_BYTES
    return at >= start and same_bytes(_CRC_ENDING, 0, target, at, _CRC_NAME_BYTES)


@compiled_into_caller
def end_properties(target, start, at, append_crc):  # type: ignore[no-untyped-def]
    """Add room for the record CRC, and write the length of the properties; (where they end, reason)."""
    if append_crc:
        copy_bytes(target, at, _CRC_ENDING, 0, CRC_PROPERTY_BYTES)
        at += CRC_PROPERTY_BYTES
    elif _mimics_crc(target, start, at):
        return at, MIMICS_CRC
    if at - start > MAX_PROPERTIES_BYTES:
        return at, PROPERTIES_TOO_LARGE
    write_short(target, start - PROPERTIES_LENGTH_BYTES, at - start)
    return at, NOTHING_ILLEGAL


@compiled_into_caller
def write_fields(  # type: ignore[no-untyped-def]
    target, start, stop, body_at, body_bytes, body_crc, magic, queue_id, flag, born_timestamp
):
    """Fill in the fields of the header that differ from record to record."""
    write_int(target, start, stop - start)
    write_int(target, start + MAGIC_CODE_POSITION, magic)
    write_int(target, start + BODY_CRC_POSITION, body_crc)
    write_int(target, start + QUEUE_ID_POSITION, queue_id)
    write_int(target, start + FLAG_POSITION, flag)
    write_long(target, start + BORN_TIMESTAMP_POSITION, born_timestamp)
    write_int(target, body_at - BODY_LENGTH_BEFORE_BODY, body_bytes)


@compiled(
    BYTES_OUT,
    LONGS_OUT,
    BYTES,
    BYTES,
    LONGS,
    INTS,
    INTS,
    INTS,
    INTS,
    LONGS,
    *(BYTES, LONGS, LONGS),
    *(BYTES, LONGS, LONGS),
    *(BYTES, LONGS),
    *(BYTES, LONG_ROWS, LONG_ROWS),
    LONG_ROWS_OUT,
    FLAGS_OUT,
    INT64,
    BOOL,
)
def encode_rows(  # type: ignore[no-untyped-def]
    target,
    starts,
    header,
    topic_fields,
    topic_field_starts,
    magics,
    topics,
    queue_ids,
    flags,
    born_timestamps,
    bodies,
    body_starts,
    body_stops,
    properties,
    property_starts,
    property_stops,
    names,
    name_starts,
    texts,
    text_starts,
    text_stops,
    pairs,
    is_done,
    max_body_bytes,
    append_crc,
):
    """Encode one record a row, one after another; (row, reason) of the first illegal row, or (-1, 0).

    target: filled; large enough for all. starts: filled; where each record begins, and the end of the last.
    header: fields 1 to 15 of a record, with sys flag and hosts, the rest zero. topics: for each row an index
    into `topic_fields` (see `encode_topic`), whose starts (one more) and magics are given.
    names, name_starts, texts, text_starts[override, row], text_stops: see `_write_properties`.
    pairs, is_done: work space for MAX_PAIRS pairs of numbers, and for one bool for each override.
    """
    target, starts, header, topic_fields, topic_field_starts, magics = borrowed(
        (target, starts, header, topic_fields, topic_field_starts, magics)
    )
    topics, queue_ids, flags, born_timestamps = borrowed((topics, queue_ids, flags, born_timestamps))
    bodies, body_starts, body_stops = borrowed((bodies, body_starts, body_stops))
    properties, property_starts, property_stops = borrowed((properties, property_starts, property_stops))
    names, name_starts, texts = borrowed((names, name_starts, texts))
    text_starts, text_stops, pairs, is_done = borrowed((text_starts, text_stops, pairs, is_done))
    header_bytes = np.int64(len(header))
    at = np.int64(0)
    for row in range(len(topics)):
        body_at, body_bytes = body_starts[row], body_stops[row] - body_starts[row]
        if body_bytes > max_body_bytes:
            return row, BODY_TOO_LARGE
        if property_stops[row] - property_starts[row] > MAX_PROPERTIES_BYTES:
            return row, PROPERTIES_TOO_LARGE
        starts[row] = start = at
        copy_bytes(target, at, header, 0, header_bytes)
        at += header_bytes
        copy_bytes(target, at, bodies, body_at, body_bytes)
        # The CRC of the copy: another thread may write into the caller's buffer meanwhile.
        crc = crc32(target, at, at + body_bytes)
        at += body_bytes
        topic = topics[row]
        topic_bytes = topic_field_starts[topic + 1] - topic_field_starts[topic]
        copy_bytes(target, at, topic_fields, topic_field_starts[topic], topic_bytes)
        at += topic_bytes
        properties_at = at + PROPERTIES_LENGTH_BYTES
        at, reason = _write_properties(
            target,
            properties_at,
            properties,
            property_starts[row],
            property_stops[row],
            names,
            name_starts,
            texts,
            text_starts,
            text_stops,
            row,
            pairs,
            is_done,
        )
        if reason != NOTHING_ILLEGAL:
            return row, reason
        at, reason = end_properties(target, properties_at, at, append_crc)
        if reason != NOTHING_ILLEGAL:
            return row, reason
        write_fields(
            target,
            start,
            at,
            start + header_bytes,
            body_bytes,
            crc,
            magics[topic],
            queue_ids[row],
            flags[row],
            born_timestamps[row],
        )
    starts[len(topics)] = at
    return -1, NOTHING_ILLEGAL


@compiled_into_caller
def _write_record_crc(target, start, stop):  # type: ignore[no-untyped-def]
    """Write the ten digits, least significant first, of the CRC of all bytes before the last property."""
    crc = np.uint32(crc32(target, start, stop - CRC_PROPERTY_BYTES))
    # Two chains of divisions side by side take half the time of one.
    low, high = crc % np.uint32(100_000), crc // np.uint32(100_000)
    first = np.uint64(stop - 1 - CRC_DIGITS)
    for digit in range(CRC_DIGITS // 2):
        target[first + np.uint64(digit)] = np.uint8(48 + low % np.uint32(10))
        target[first + np.uint64(digit + CRC_DIGITS // 2)] = np.uint8(48 + high % np.uint32(10))
        low //= np.uint32(10)
        high //= np.uint32(10)


@compiled(
    BYTES_OUT,
    LONGS,
    BYTES,
    INTS,
    LONGS_OUT,
    LONGS_OUT,
    INT64,
    INT64,
    INT64,
    INT64,
)
def complete_records(  # type: ignore[no-untyped-def]
    target, starts, marks, groups, next_offsets, queue_offsets, first, stop, base_offset, store_timestamp
):
    """Fill in the fields known only under the append lock, for rows `first` to `stop` (not included).

    base_offset: physical offset of target[0]. marks: bits for each row. groups: the queue of each row, as an
    index into next_offsets, which are raised. queue_offsets: filled, for each row.
    """
    target, starts, marks, groups, next_offsets, queue_offsets = borrowed(
        (target, starts, marks, groups, next_offsets, queue_offsets)
    )
    for row in range(first, stop):
        at = starts[row]
        # This bit is set in half and in rollback records, which get no queue offset.
        queue_offset = np.int64(0)
        if not read_int(target, at + SYS_FLAG_POSITION) & TRANSACTION_PREPARED:
            queue_offset = next_offsets[groups[row]]
            next_offsets[groups[row]] = queue_offset + 1
        queue_offsets[row] = queue_offset
        write_long(target, at + QUEUE_OFFSET_POSITION, queue_offset)
        write_long(target, at + PHYSICAL_OFFSET_POSITION, base_offset + at)
        if marks[row] & BORN_WHEN_STORED:
            write_long(target, at + BORN_TIMESTAMP_POSITION, store_timestamp)
        write_long(target, store_timestamp_at(target, at), store_timestamp)
        if marks[row] & HAS_CRC:
            _write_record_crc(target, at, starts[row + 1])


# -- queues -------------------------------------------------------------------------------------------


@compiled_into_caller
def _slot_of(slots, topics, queue_ids, first_rows, topic, queue_id):  # type: ignore[no-untyped-def]
    """The slot of this queue, or the empty slot for it; the number of slots is a power of two."""
    mask = np.uint64(len(slots) - 1)
    mixed = (np.uint64(topic) << np.uint64(32) | np.uint64(queue_id)) * np.uint64(0x9E37_79B9_7F4A_7C15)
    slot = mixed >> np.uint64(32) & mask
    while slots[slot] >= 0:
        row = first_rows[slots[slot]]
        if topics[row] == topic and queue_ids[row] == queue_id:
            break
        slot = slot + np.uint64(1) & mask
    return slot


@compiled(INTS, INTS, INTS_OUT, LONGS_OUT)
def group_rows(topics, queue_ids, groups, first_rows):  # type: ignore[no-untyped-def]
    """Number the queues in order of their first rows; returns how many there are.

    groups: filled; the number of each row's (topic, queue id). first_rows: filled; the first row of each.
    """
    count = 0
    slots = np.full(64, -1, np.int32)
    for row in range(len(topics)):
        topic, queue_id = topics[row], queue_ids[row]
        if row and topic == topics[row - 1] and queue_id == queue_ids[row - 1]:
            groups[row] = groups[row - 1]
            continue
        if 2 * count >= len(slots):
            slots = np.full(4 * len(slots), -1, np.int32)
            for known in range(count):
                known_row = first_rows[known]
                slot = _slot_of(slots, topics, queue_ids, first_rows, topics[known_row], queue_ids[known_row])
                slots[slot] = known
        slot = _slot_of(slots, topics, queue_ids, first_rows, topic, queue_id)
        if slots[slot] < 0:
            slots[slot] = count
            first_rows[count] = row
            count += 1
        groups[row] = slots[slot]
    return count
