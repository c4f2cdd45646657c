"""The compiled loop that turns waiting records into the records to deliver: `restore` for a whole batch.

`data` is uint8, a whole segment, of which bytes before `end` may be read; nothing outside it is read,
whatever the records in it claim. `target`, `starts`, `groups` and `group_places` are filled. All arrays are
C-contiguous.

It restores ordinary records and stops before any other, which delayed_message.py then restores or refuses: a
record that is not whole or does not match its entry, that has no REAL_TOPIC or REAL_QID or belongs to a
transaction, whose texts are not ASCII, or whose properties would change when they are parsed.

Callers need not hold the GIL: the kernel releases it. Import this module inside the function that first needs
it; compiled code is cached on disk. The plain twin is `restore` followed by store/message/message_encoder.py.
"""

import numpy as np

from mqstore.store.byte_kernels import (
    copy_bytes,
    equals,
    matches,
    parse_natural,
    read_int,
    read_long,
    same_bytes,
    write_int,
    write_long,
    write_short,
)
from mqstore.store.checksum.crc32_kernels import crc32
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import (
    BOOL,
    BYTES,
    BYTES_OUT,
    INT64,
    INTS,
    INTS_OUT,
    LONG_ROWS_OUT,
    LONGS,
    LONGS_OUT,
)
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record.properties_format import CRC32, MAX_PROPERTIES_BYTES, REAL_QID, REAL_TOPIC
from mqstore.store.record.property_kernels import find_property
from mqstore.store.record.record_format import (
    BODY_CRC_POSITION,
    BODY_LENGTH_BEFORE_BODY,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    PROPERTIES_LENGTH_BYTES,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    STORE_HOST_END_BEFORE_BODY,
    SYS_FLAG_POSITION,
    TRANSACTION_OFFSET_BEFORE_BODY,
    crc_property,
)
from mqstore.store.record.record_kernels import (
    body_position,
    record_layout,
    whole_record_size,
)
from mqstore.store.record.sys_flag import STORE_HOST_V6, TRANSACTION_MASK

__all__ = ["MAX_GROWTH_BYTES", "restore_rows"]

_SCHEDULE_TOPIC = np.frombuffer(SCHEDULE_TOPIC.encode(), np.uint8)
_HALF_TOPIC = np.frombuffer(TRANS_HALF_TOPIC.encode(), np.uint8)
_REAL_TOPIC = np.frombuffer(REAL_TOPIC.encode(), np.uint8)
_REAL_QID = np.frombuffer(REAL_QID.encode(), np.uint8)
_CRC_NAME = np.frombuffer(CRC32.encode(), np.uint8)
_CRC_ENDING = np.frombuffer(crc_property(0), np.uint8)
_NAME_END = 1
_PAIR_END = 2
# A longer topic makes a record of version 2.
_MAX_TOPIC_BYTES = 127
# A longer queue id is left to delayed_message.py.
_MAX_DIGITS = 9
MAX_GROWTH_BYTES = _MAX_TOPIC_BYTES - len(SCHEDULE_TOPIC) + CRC_PROPERTY_BYTES
"""By how much a delivered record may exceed the waiting one: a longer topic, and a CRC that it lacked."""
_IPV4_HOST_BYTES = 8


@compiled
def _copy(target, at, data, start, stop):  # type: ignore[no-untyped-def]
    """Copy data[start:stop] to target[at:]; returns where the copy ends."""
    copy_bytes(target, at, data, start, stop - start)
    return at + stop - start


@compiled
def _is_ordinary(data, start, stop):  # type: ignore[no-untyped-def]
    """Whether properties are closed ASCII pairs with distinct names: parsing changes none of them."""
    at = start
    while at < stop:
        name_stop = at
        while name_stop < stop and data[name_stop] > _PAIR_END and data[name_stop] < 128:
            name_stop += 1
        value_stop = name_stop + 1
        while value_stop < stop and data[value_stop] > _PAIR_END and data[value_stop] < 128:
            value_stop += 1
        if name_stop == at or value_stop <= name_stop + 1 or value_stop >= stop:
            return False
        if data[name_stop] != _NAME_END or data[value_stop] != _PAIR_END:
            return False
        length = name_stop - at
        if equals(data, at, length, _CRC_NAME) or _stands_before(data, start, at, length):
            return False
        at = value_stop + 1
    return True


@compiled
def _stands_before(data, start, at, length):  # type: ignore[no-untyped-def]
    """Whether a pair from `start` on, before `at`, has the name data[at : at + length]."""
    other = start
    while other < at:
        if data[other + length] == _NAME_END and same_bytes(data, other, data, at, length):
            return True
        while data[other] != _PAIR_END:
            other += 1
        other += 1
    return False


@compiled
def _group_of(target, group_places, group_count, topic_at, topic_length, queue_id):  # type: ignore[no-untyped-def]
    """Number of the group with this topic, in `target`, and queue id; `group_count` when there is none."""
    for group in range(group_count):
        is_alike = group_places[group, 1] == topic_length and group_places[group, 2] == queue_id
        if is_alike and same_bytes(target, group_places[group, 0], target, topic_at, topic_length):
            return group
    return group_count


@compiled
def _is_deliverable(data, at, size, start_offset, queue_id, queue_offset):  # type: ignore[no-untyped-def]
    """Whether the record at `at` is whole, with both CRCs, of this entry, and no part of a transaction."""
    stop = at + size
    if whole_record_size(data, at, stop, start_offset) != size:
        return False
    is_of_entry = read_int(data, at + QUEUE_ID_POSITION) == queue_id
    is_of_entry &= read_long(data, at + QUEUE_OFFSET_POSITION) == queue_offset
    if not is_of_entry or read_int(data, at + SYS_FLAG_POSITION) & TRANSACTION_MASK:
        return False
    _, body_at, body_bytes, topic_at, topic_length, _, _ = record_layout(data, at, stop)
    if body_bytes and crc32(data, body_at, body_at + body_bytes) != read_int(data, at + BODY_CRC_POSITION):
        return False
    return equals(data, topic_at, topic_length, _SCHEDULE_TOPIC)


@compiled
def _properties_of(data, at, size):  # type: ignore[no-untyped-def]
    """Where the properties of the record at `at` begin and end, its CRC left out."""
    _, _, _, _, _, start, length = record_layout(data, at, at + size)
    stop = start + length
    crc_at = stop - CRC_PROPERTY_BYTES
    if crc_at >= start and matches(data, crc_at, _CRC_NAME):
        stop = crc_at
    return start, stop


@compiled
def _write_header(target, at, queue_id, store_host, head_bytes, body_bytes):  # type: ignore[no-untyped-def]
    """Turn the copied header (`head_bytes`) of a waiting record into that of the record to deliver."""
    write_int(target, at + MAGIC_CODE_POSITION, MESSAGE_MAGIC_CODE)
    if body_bytes == 0:
        write_int(target, at + BODY_CRC_POSITION, 0)
    write_int(target, at + QUEUE_ID_POSITION, queue_id)
    body_at = at + head_bytes
    store_host_at = body_at - STORE_HOST_END_BEFORE_BODY - len(store_host)
    copy_bytes(target, store_host_at, store_host, 0, len(store_host))
    # A delivered message completes no transaction.
    write_long(target, body_at - TRANSACTION_OFFSET_BEFORE_BODY, 0)


@compiled(
    BYTES,
    INT64,
    INT64,
    LONGS,
    INTS,
    INT64,
    INT64,
    BYTES,
    BOOL,
    INT64,
    BYTES_OUT,
    LONGS_OUT,
    INTS_OUT,
    LONG_ROWS_OUT,
)
def restore_rows(  # type: ignore[no-untyped-def]
    data,
    end,
    start_offset,
    physical_offsets,
    sizes,
    queue_id,
    queue_offset,
    store_host,
    append_crc,
    max_body_bytes,
    target,
    starts,
    groups,
    group_places,
):
    """Verify waiting records and encode those to deliver; returns (how many, number of groups).

    start_offset: physical offset of data[0]. physical_offsets: int64, sizes: int32, of consecutive entries,
    which begin at `queue_offset` of queue `queue_id` of SCHEDULE_TOPIC_XXXX. store_host: uint8, as stored.
    target: room for the `sizes` above 0, and MAX_GROWTH_BYTES for each. starts: int64, one longer than sizes.
    groups: int32, the number of each record's group, a (topic, queue). group_places: int64[g, 3], for each
    group where its topic is in `target`, the topic's length, and the queue id; at most g groups are made.
    """
    crc_bytes = CRC_PROPERTY_BYTES if append_crc else 0
    starts[0] = at_target = np.int64(0)
    group_count = 0
    for row in range(len(physical_offsets)):
        at, size = physical_offsets[row] - start_offset, np.int64(sizes[row])
        # An entry may hold any number, and a sum may overflow.
        if at < 0 or size < FIXED_BYTES or size > end - at:
            return row, group_count
        if not _is_deliverable(data, at, size, start_offset, queue_id, queue_offset + row):
            return row, group_count
        body_at = body_position(data, at)
        head_bytes, body_bytes = body_at - at, read_int(data, body_at - BODY_LENGTH_BEFORE_BODY)
        is_v6 = read_int(data, at + SYS_FLAG_POSITION) & STORE_HOST_V6 != 0
        if body_bytes > max_body_bytes or is_v6 != (len(store_host) > _IPV4_HOST_BYTES):
            return row, group_count
        start, stop = _properties_of(data, at, size)
        properties_bytes = stop - start + crc_bytes
        if properties_bytes > MAX_PROPERTIES_BYTES or not _is_ordinary(data, start, stop):
            return row, group_count
        home_at, home_bytes = find_property(data, start, stop - start, _REAL_TOPIC)
        id_at, id_digits = find_property(data, start, stop - start, _REAL_QID)
        home_queue_id = parse_natural(data, id_at, id_digits)
        is_odd = equals(data, home_at, home_bytes, _HALF_TOPIC) or equals(
            data, home_at, home_bytes, _SCHEDULE_TOPIC
        )
        if not 0 < home_bytes <= _MAX_TOPIC_BYTES or is_odd or home_queue_id < 0 or id_digits > _MAX_DIGITS:
            return row, group_count
        topic_at = _copy(target, at_target, data, at, body_at + body_bytes) + 1
        properties_at = _copy(target, topic_at, data, home_at, home_at + home_bytes) + PROPERTIES_LENGTH_BYTES
        group = _group_of(target, group_places, group_count, topic_at, home_bytes, home_queue_id)
        if group == len(group_places):
            return row, group_count
        if group == group_count:
            group_places[group, 0] = topic_at
            group_places[group, 1] = home_bytes
            group_places[group, 2] = home_queue_id
            group_count += 1
        groups[row] = group
        _write_header(target, at_target, home_queue_id, store_host, head_bytes, body_bytes)
        target[topic_at - 1] = np.uint8(home_bytes)
        write_short(target, properties_at - PROPERTIES_LENGTH_BYTES, properties_bytes)
        record_end = _copy(target, properties_at, data, start, stop)
        if append_crc:
            record_end = _copy(target, record_end, _CRC_ENDING, 0, CRC_PROPERTY_BYTES)
        write_int(target, at_target, record_end - at_target)
        starts[row + 1] = at_target = record_end
    return len(physical_offsets), group_count
