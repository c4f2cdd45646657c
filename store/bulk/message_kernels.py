"""Compiled loop that makes records of a list of `Message`s as msgspec packs it, in one pass.

For lists of one topic, of ordinary length: no arrays of texts or numbers are made in between, which would
take longer than the records. What the loop does not know (a sys flag, a property that the store replaces) and
what is illegal ends it. message_list.py and columns_encoder.py take such lists.

packed: as msgpack_kernels.py describes it. Arrays are C-contiguous; only those that are marked as filled are
written. The caller need not hold the GIL. The twin is a single put: tests/property/test_bulk_puts.py.
"""

import numpy as np

from mqstore.store.bulk.encode_kernels import (
    BORN_WHEN_STORED,
    HAS_CRC,
    NOTHING_ILLEGAL,
    end_properties,
    group_rows,
    holds_separator,
    write_fields,
    write_pair,
)
from mqstore.store.bulk.msgpack_kernels import (
    NO_NUMBER,
    NO_VALUE,
    OUT_OF_THE_ORDINARY,
    bytes_at,
    end_of_value,
    mark_of,
    number_at,
)
from mqstore.store.byte_kernels import (
    borrowed,
    copy_bytes,
    read_int,
    read_long,
    read_unsigned,
    same_bytes,
    write_int,
)
from mqstore.store.checksum.crc32_kernels import crc32
from mqstore.store.compiled import compiled, compiled_into_caller
from mqstore.store.loops.kinds import BOOL, BYTES, BYTES_OUT, INT64, INTS_OUT, LONGS_OUT
from mqstore.store.record.host import IPV4_HOST_BYTES, IPV6_HOST_BYTES
from mqstore.store.record.properties_format import (
    CRC32,
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_REQUESTS,
)
from mqstore.store.record.record_format import (
    BORN_HOST_POSITION,
    MAGIC_CODE_POSITION,
    MESSAGE_MAGIC_CODE,
    PROPERTIES_LENGTH_BYTES,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6

__all__ = [
    "BORN_HOSTS_FOUND",
    "BORN_TIMESTAMPS_FOUND",
    "DELAY_LEVELS_FOUND",
    "FLAGS_FOUND",
    "KEYS_FOUND",
    "PROPERTIES_FOUND",
    "QUEUE_IDS_FOUND",
    "ROW_BYTES",
    "encode_messages",
    "group_rows",
]

# Bits of the fields that were found, whose types the caller has to check.
KEYS_FOUND, PROPERTIES_FOUND, QUEUE_IDS_FOUND, FLAGS_FOUND = 1, 2, 4, 8
BORN_TIMESTAMPS_FOUND, BORN_HOSTS_FOUND, DELAY_LEVELS_FOUND = 16, 32, 64

_TOPIC, _BODY, _TAGS, _KEYS = mark_of("topic"), mark_of("body"), mark_of("tags"), mark_of("keys")
_QUEUE_ID, _PROPERTIES, _FLAG = mark_of("queue_id"), mark_of("properties"), mark_of("flag")
_BORN_TIMESTAMP, _BORN_HOST = mark_of("born_timestamp"), mark_of("born_host")
_DELAY_LEVEL = mark_of("delay_level")

_PORT_BYTES = 4
_SEPARATOR = ord(KEY_SEPARATOR)
_KEYS_NAME = np.frombuffer(KEYS.encode(), np.uint8)
_TAGS_NAME = np.frombuffer(TAGS.encode(), np.uint8)
_DELAY_NAME = np.frombuffer(DELAY.encode(), np.uint8)
_REAL_TOPIC_NAME = np.frombuffer(REAL_TOPIC.encode(), np.uint8)
_REAL_QID_NAME = np.frombuffer(REAL_QID.encode(), np.uint8)
# What the loop adds by itself.
_ADDED_NAMES = (KEYS, TAGS, DELAY, REAL_TOPIC, REAL_QID)
# Properties that are replaced, left out, or ask for a delay.
_SPECIAL_NAMES = (CRC32, *_ADDED_NAMES, *TIMER_REQUESTS)
_SPECIAL = np.frombuffer("".join(_SPECIAL_NAMES).encode(), np.uint8)
_SPECIAL_STARTS = np.cumsum([0, *map(len, _SPECIAL_NAMES)])
_KEYS_INDEX, _TAGS_INDEX = _SPECIAL_NAMES.index(KEYS), _SPECIAL_NAMES.index(TAGS)

_MAX_DIGITS = 10

ROW_BYTES = (
    (IPV6_HOST_BYTES - IPV4_HOST_BYTES)
    + PROPERTIES_LENGTH_BYTES
    + sum(len(name) + 2 for name in _ADDED_NAMES)
    + 2 * _MAX_DIGITS
)
"""A record takes at most so many bytes, beside its header, its topics, its CRC and what was packed."""


# -- values -------------------------------------------------------------------------------------------


@compiled_into_caller
def _text_at(packed, at):  # type: ignore[no-untyped-def]
    """(where a text begins, where it ends); NO_VALUE for any other value."""
    head = np.int64(packed[np.uint64(at)])
    if 0xA0 <= head <= 0xBF:
        return at + 1, at + 1 + (head & 0x1F)
    if not 0xD9 <= head <= 0xDB:
        return np.int64(NO_VALUE), np.int64(NO_VALUE)
    size = 1 << head - 0xD9
    start = at + 1 + size
    return start, start + read_unsigned(packed, at + 1, size)


@compiled_into_caller
def _count_at(packed, at, short, wide):  # type: ignore[no-untyped-def]
    """(how many values an array or a map holds, where they begin); NO_VALUE for any other value.

    short: the head of a short one without values. wide: that of one with a count of two bytes.
    """
    head = np.int64(packed[np.uint64(at)])
    if short <= head <= short + 15:
        return head & 15, at + 1
    if not wide <= head <= wide + 1:
        return np.int64(NO_VALUE), at
    size = 2 << head - wide
    return read_unsigned(packed, at + 1, size), at + 1 + size


@compiled_into_caller
def _time_at(packed, at):  # type: ignore[no-untyped-def]
    """(a number of 63 bits, where it ends); NO_VALUE for any other value."""
    if packed[np.uint64(at)] != 0xCF:
        number, stop = number_at(packed, at)
        return (number, stop) if 0 <= number < NO_NUMBER else (np.int64(NO_VALUE), stop)
    return max(read_long(packed, at + 1), np.int64(NO_VALUE)), at + 9


# -- parts of a record --------------------------------------------------------------------------------


@compiled_into_caller
def _is_special(packed, start, stop, has_keys, has_tags):  # type: ignore[no-untyped-def]
    for index in range(len(_SPECIAL_STARTS) - 1):
        if (index == _KEYS_INDEX and not has_keys) or (index == _TAGS_INDEX and not has_tags):
            # Nothing replaces them.
            continue
        name_at = _SPECIAL_STARTS[index]
        length = _SPECIAL_STARTS[index + 1] - name_at
        if length == stop - start and same_bytes(_SPECIAL, name_at, packed, start, length):
            return True
    return False


@compiled_into_caller
def _write_all_properties(target, to, packed, at, has_keys, has_tags):  # type: ignore[no-untyped-def]
    """Append the pairs of the map at `at`; where they end in `target`, NO_VALUE for what is special.

    has_keys, has_tags: whether the message has them as fields, which replace the properties.
    """
    pairs, at = _count_at(packed, at, 0x80, 0xDE)
    if pairs == NO_VALUE:
        return pairs
    for _ in range(pairs):
        name_at, name_stop = _text_at(packed, at)
        if name_at in (NO_VALUE, name_stop) or _is_special(packed, name_at, name_stop, has_keys, has_tags):
            return np.int64(NO_VALUE)
        value_at, at = _text_at(packed, name_stop)
        if value_at in (NO_VALUE, at):
            return np.int64(NO_VALUE)
        if holds_separator(packed, name_at, name_stop) or holds_separator(packed, value_at, at):
            return np.int64(NO_VALUE)
        to = write_pair(target, to, packed, name_at, name_stop, packed, value_at, at)
    return to


@compiled_into_caller
def _write_keys(target, to, packed, at):  # type: ignore[no-untyped-def]
    """As `_write_all_properties`, for one text of keys or an array of single ones."""
    start, stop = _text_at(packed, at)
    if start != NO_VALUE:
        if holds_separator(packed, start, stop):
            return np.int64(NO_VALUE)
        if start == stop:
            return to
        return write_pair(target, to, _KEYS_NAME, 0, len(_KEYS_NAME), packed, start, stop)
    keys, at = _count_at(packed, at, 0x90, 0xDC)
    if keys in (NO_VALUE, 0):
        return keys or to
    text_at = to + len(_KEYS_NAME) + 1
    to = text_at
    for key in range(keys):
        start, at = _text_at(packed, at)
        if start == NO_VALUE or holds_separator(packed, start, at):
            return np.int64(NO_VALUE)
        for place in range(start, at):
            if packed[place] == _SEPARATOR:
                return np.int64(NO_VALUE)
        if key:
            target[to] = _SEPARATOR
            to += 1
        copy_bytes(target, to, packed, start, at - start)
        to += at - start
    if to == text_at:
        return np.int64(NO_VALUE)
    copy_bytes(target, text_at - len(_KEYS_NAME) - 1, _KEYS_NAME, 0, len(_KEYS_NAME))
    target[text_at - 1] = 1
    target[to] = 2
    return to + 1


@compiled_into_caller
def _write_number(target, to, name, number):  # type: ignore[no-untyped-def]
    """Append a pair whose value is a whole number of at most 31 bits; where it ends."""
    copy_bytes(target, to, name, 0, len(name))
    to += len(name)
    target[to] = 1
    digits, rest = np.int64(1), number // 10
    while rest:
        digits += 1
        rest //= 10
    to += digits + 1
    target[to] = 2
    for place in range(digits):
        target[to - 1 - place] = 48 + number % 10
        number //= 10
    return to + 1


@compiled_into_caller
def _end_of_host(packed, at):  # type: ignore[no-untyped-def]
    """Where an array of an address and a port ends; NO_VALUE for any other value."""
    if packed[np.uint64(at)] != 0x92:
        return np.int64(NO_VALUE)
    address_at, stop = bytes_at(packed, at + 1)
    if address_at == NO_VALUE:
        return address_at
    port, stop = number_at(packed, stop)
    return stop if 0 <= port < 1 << 32 else np.int64(NO_VALUE)


@compiled_into_caller
def _write_header(target, start, front, header_bytes, packed, host_at):  # type: ignore[no-untyped-def]
    """Write the header, with the born host at `host_at` if there is one; where it ends.

    NO_VALUE for an address of another length.
    """
    if host_at == NO_VALUE:
        copy_bytes(target, start, front, 0, header_bytes)
        return start + header_bytes
    address_at, stop = bytes_at(packed, host_at + 1)
    size = stop - address_at + _PORT_BYTES
    if size not in (IPV4_HOST_BYTES, IPV6_HOST_BYTES):
        return np.int64(NO_VALUE)
    port, _ = number_at(packed, stop)
    flags = read_int(front, SYS_FLAG_POSITION)
    behind = BORN_HOST_POSITION + (IPV6_HOST_BYTES if flags & BORN_HOST_V6 else IPV4_HOST_BYTES)
    copy_bytes(target, start, front, 0, BORN_HOST_POSITION)
    flags = flags & ~BORN_HOST_V6 | (BORN_HOST_V6 if size == IPV6_HOST_BYTES else 0)
    write_int(target, start + SYS_FLAG_POSITION, flags)
    copy_bytes(target, start + BORN_HOST_POSITION, packed, address_at, stop - address_at)
    write_int(target, start + BORN_HOST_POSITION + size - _PORT_BYTES, port)
    copy_bytes(target, start + BORN_HOST_POSITION + size, front, behind, header_bytes - behind)
    return start + BORN_HOST_POSITION + size + header_bytes - behind


# -- records ------------------------------------------------------------------------------------------


@compiled(
    *(BYTES, BYTES, INT64, INT64, BYTES, INT64),
    *(BYTES_OUT, LONGS_OUT, BYTES_OUT, INTS_OUT, INTS_OUT),
    *(INT64, BOOL),
)
def encode_messages(  # type: ignore[no-untyped-def]
    packed,
    front,
    header_bytes,
    topic_bytes,
    waiting_topic,
    max_delay_level,
    target,
    starts,
    marks,
    topics,
    queue_ids,
    max_body_bytes,
    append_crc,
):
    """Encode one record a message: (which kinds of fields any has, least queue id, greatest queue id).

    front: fields 1 to 15 as `header_template` has them, with the magic, then the topic with its length field;
    its last `topic_bytes` are the topic of all messages. waiting_topic: the topic of delayed messages, with
    its length field. target: filled; `ROW_BYTES` tells how large it must be. starts: filled; where each
    record begins, and the end of the last. marks, topics, queue_ids: filled; topic 1 is the waiting topic.
    The least and the greatest queue id are those of the messages, whether delayed or not.

    (OUT_OF_THE_ORDINARY, 0, 0): a message has another topic, or anything that this loop does not encode, or
    cannot be stored. The contents of the arrays are undefined then.
    """
    packed, front, waiting_topic, target = borrowed((packed, front, waiting_topic, target))
    starts, marks, topics, queue_ids = borrowed((starts, marks, topics, queue_ids))
    refused = (np.int64(OUT_OF_THE_ORDINARY), np.int64(0), np.int64(0))
    count = len(marks)
    topic_at = len(front) - topic_bytes
    topic_field_bytes = len(front) - header_bytes
    mark = np.uint8((HAS_CRC if append_crc else 0) | BORN_WHEN_STORED)
    at = np.int64(1 if count < 1 << 4 else 3 if count < 1 << 16 else 5)
    to, found, least, greatest = np.int64(0), np.int64(0), np.int64(1 << 31), np.int64(-1)
    for row in range(count):
        body_at, body_stop = np.int64(NO_VALUE), np.int64(NO_VALUE)
        tags_at, tags_stop, keys_at = np.int64(0), np.int64(0), np.int64(NO_VALUE)
        properties_at, host_at = np.int64(NO_VALUE), np.int64(NO_VALUE)
        queue_id, flag, born_timestamp = np.int64(0), np.int64(0), np.int64(NO_VALUE)
        delay_level = np.int64(0)
        fields = packed[np.uint64(at)] & 0x0F
        at += 1
        for _ in range(fields):
            length = np.int64(packed[np.uint64(at)] & 0x1F)
            field = length << 8 | np.int64(packed[np.uint64(at + 1)])
            at += 1 + length
            if field == _TOPIC:
                start, at = _text_at(packed, at)
                if at - start != topic_bytes or not same_bytes(packed, start, front, topic_at, topic_bytes):
                    return refused
            elif field == _BODY:
                body_at, at = bytes_at(packed, at)
                body_stop = at
            elif field == _TAGS:
                tags_at, at = _text_at(packed, at)
                tags_stop = at
            elif field == _QUEUE_ID:
                queue_id, at = number_at(packed, at)
                if not 0 <= queue_id < 1 << 31:
                    return refused
                found |= QUEUE_IDS_FOUND
            elif field == _KEYS:
                keys_at, at = at, end_of_value(packed, at)
                found |= KEYS_FOUND
            elif field == _PROPERTIES:
                properties_at, at = at, end_of_value(packed, at)
                found |= PROPERTIES_FOUND
            elif field == _BORN_TIMESTAMP:
                born_timestamp, at = _time_at(packed, at)
                if born_timestamp == NO_VALUE:
                    return refused
                found |= BORN_TIMESTAMPS_FOUND
            elif field == _BORN_HOST:
                host_at, at = at, _end_of_host(packed, at)
                found |= BORN_HOSTS_FOUND
            elif field == _FLAG:
                flag, at = number_at(packed, at)
                if not -(1 << 31) <= flag < 1 << 31:
                    return refused
                found |= FLAGS_FOUND
            elif field == _DELAY_LEVEL:
                delay_level, at = number_at(packed, at)
                if not -(1 << 31) <= delay_level < 1 << 31:
                    return refused
                found |= DELAY_LEVELS_FOUND
            else:
                return refused
            if at == NO_VALUE:
                return refused
        body_bytes = body_stop - body_at
        if body_at == NO_VALUE or body_bytes > max_body_bytes:
            return refused
        starts[row] = start = to
        to = _write_header(target, start, front, header_bytes, packed, host_at)
        if to == NO_VALUE:
            return refused
        record_body_at = to
        copy_bytes(target, to, packed, body_at, body_bytes)
        crc = crc32(target, to, to + body_bytes)
        to += body_bytes
        least, greatest = min(least, queue_id), max(greatest, queue_id)
        delay_level = min(delay_level, max_delay_level)
        if delay_level > 0:
            magic = np.int64(MESSAGE_MAGIC_CODE)
            topics[row], queue_ids[row] = 1, delay_level - 1
            copy_bytes(target, to, waiting_topic, 0, len(waiting_topic))
            to += len(waiting_topic)
        else:
            magic = read_int(front, MAGIC_CODE_POSITION)
            topics[row], queue_ids[row] = 0, queue_id
            copy_bytes(target, to, front, header_bytes, topic_field_bytes)
            to += topic_field_bytes
        to += PROPERTIES_LENGTH_BYTES
        target_properties_at = to
        if properties_at != NO_VALUE:
            has_keys, has_tags = keys_at != NO_VALUE, tags_at < tags_stop
            to = _write_all_properties(target, to, packed, properties_at, has_keys, has_tags)
        if delay_level > 0 and to != NO_VALUE:
            to = _write_number(target, to, _DELAY_NAME, delay_level)
            name_bytes = len(_REAL_TOPIC_NAME)
            to = write_pair(target, to, _REAL_TOPIC_NAME, 0, name_bytes, front, topic_at, len(front))
            to = _write_number(target, to, _REAL_QID_NAME, queue_id)
        if NO_VALUE not in (keys_at, to):
            to = _write_keys(target, to, packed, keys_at)
        if to == NO_VALUE or holds_separator(packed, tags_at, tags_stop):
            return refused
        if tags_at < tags_stop:
            to = write_pair(target, to, _TAGS_NAME, 0, len(_TAGS_NAME), packed, tags_at, tags_stop)
        to, reason = end_properties(target, target_properties_at, to, append_crc)
        if reason != NOTHING_ILLEGAL:
            return refused
        write_fields(
            target,
            start,
            to,
            record_body_at,
            body_bytes,
            crc,
            magic,
            queue_ids[row],
            flag,
            max(born_timestamp, np.int64(0)),
        )
        marks[row] = mark if born_timestamp == NO_VALUE else mark & ~np.uint8(BORN_WHEN_STORED)
    starts[count] = to
    return found, least, greatest
