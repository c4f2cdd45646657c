"""Compiled walks from the log to keys.

Two hashes of `topic#key`: FNV-1a of 64 bits for our own key index (index/keys/lmdb_key_index.py), Java's
String#hashCode for the index files (index/index_file/index_file_key_index.py). The walk is that of
index/queue/entry_kernels.py: the same rules for arrays, bounds and what counts as a record. Nothing is
written but the arrays that the caller gives to be filled. Callers hold no lock: the kernels release the GIL.
Import this module inside the function that first needs it.
Source: IndexService#buildIndex. The plain twins are in tests/support/twins/plain_index_files.py
and index/keys/memory_key_index.py.
"""

import numpy as np

from mqstore.index.keys.key_index_format import HASH, PHYSICAL_OFFSET, STORE_TIMESTAMP
from mqstore.store.byte_kernels import borrowed, matches, read_int, read_long, same_bytes
from mqstore.store.compiled import compiled
from mqstore.store.loops.kinds import BOOL, BYTES, INT64, LONG_ROWS_OUT
from mqstore.store.record.properties_format import KEY_SEPARATOR, KEYS, TAGS, TAGS_PREFIX, UNIQ_KEY
from mqstore.store.record.property_kernels import java_hash_on
from mqstore.store.record.record_format import PHYSICAL_OFFSET_POSITION, SYS_FLAG_POSITION
from mqstore.store.record.record_kernels import NO_LAYOUT, record_layout, store_timestamp_at
from mqstore.store.record.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

__all__ = [
    "ENDING_BLANK",
    "ENDING_NO_RECORD",
    "ENDING_NO_ROOM",
    "has_key",
    "hash_of_text",
    "java_key_entries",
    "key_entries",
]

ENDING_NO_RECORD = 0
"""`key_entries` stopped where no whole record begins: behind the last one, or at damage."""
ENDING_BLANK = 1
"""It stopped at a BLANK."""
ENDING_NO_ROOM = 2
"""It stopped before a record whose keys might not fit into the rows that are left."""

_KEYS = np.frombuffer(KEYS.encode(), np.uint8)
_UNIQ_KEY = np.frombuffer(UNIQ_KEY.encode(), np.uint8)
_KEY_SEPARATOR = ord(KEY_SEPARATOR)
_TAGS = np.frombuffer(TAGS.encode(), np.uint8)
_TOPIC_SEPARATOR = np.frombuffer(b"#", np.uint8)
# The bytes between `topic#` and the tags.
_TAGS_SEPARATOR = np.frombuffer(TAGS_PREFIX.encode(), np.uint8)
_FNV_OFFSET_BASIS = 0xCBF2_9CE4_8422_2325
_FNV_PRIME = 0x100_0000_01B3


@compiled
def _fnv_1a(data, at, length, code):  # type: ignore[no-untyped-def]
    """FNV-1a of 64 bits over some bytes, continued from `code`."""
    for index in range(at, at + length):
        code = (code ^ np.uint64(data[index])) * np.uint64(_FNV_PRIME)
    return code


@compiled(BYTES)
def hash_of_text(text):  # type: ignore[no-untyped-def]
    """As key_index.key_hash. text: uint8, UTF-8 of `topic#key`."""
    return np.int64(_fnv_1a(text, 0, len(text), np.uint64(_FNV_OFFSET_BASIS)))


@compiled
def _hash_on(data, at, length, code, is_java):  # type: ignore[no-untyped-def]
    """The hash, of one kind or the other, of a text that ends with the bytes at `at`."""
    if is_java:
        return np.uint64(java_hash_on(data, at, length, np.uint32(code)))
    return _fnv_1a(data, at, length, code)


@compiled
def _finished(code, is_java):  # type: ignore[no-untyped-def]
    """The stored form of a hash: FNV-1a as it is; Java's as its absolute value, 0 where it has none."""
    if not is_java:
        return np.int64(code)
    signed = np.int64(np.int32(np.uint32(code)))
    return np.int64(0) if signed == -0x8000_0000 else abs(signed)


@compiled
def _put_key(rows, row_count, code, store_timestamp, physical_offset):  # type: ignore[no-untyped-def]
    rows[row_count, HASH] = code
    rows[row_count, STORE_TIMESTAMP] = store_timestamp
    rows[row_count, PHYSICAL_OFFSET] = physical_offset
    return row_count + 1


@compiled
def _has_value(data, start, stop, name):  # type: ignore[no-untyped-def]
    """Whether the property from `start` to `stop` has this name, and a value that is not empty."""
    value_at = start + len(name) + 1
    return value_at < stop and data[value_at - 1] == 1 and matches(data, start, name)


@compiled
def _find_keys(data, properties_at, properties_length):  # type: ignore[no-untyped-def]
    """Where the values of UNIQ_KEY, KEYS and TAGS lie, as `find_property` finds each, in one search.

    (unique_at, unique_stop, keys_at, keys_stop, tags_at, tags_stop); a missing value ends where it begins.
    """
    unique_at = unique_stop = keys_at = keys_stop = tags_at = tags_stop = properties_at
    stop = properties_at + properties_length
    while stop > properties_at:
        start = stop
        while start > properties_at and data[start - 1] != 2:
            start -= 1
        if start < stop:
            first = data[start]
            if (
                first == _UNIQ_KEY[0]
                and unique_at == unique_stop
                and _has_value(data, start, stop, _UNIQ_KEY)
            ):
                unique_at, unique_stop = start + len(_UNIQ_KEY) + 1, stop
            elif first == _KEYS[0] and keys_at == keys_stop and _has_value(data, start, stop, _KEYS):
                keys_at, keys_stop = start + len(_KEYS) + 1, stop
            elif first == _TAGS[0] and tags_at == tags_stop and _has_value(data, start, stop, _TAGS):
                tags_at, tags_stop = start + len(_TAGS) + 1, stop
        stop = start - 1
    return unique_at, unique_stop, keys_at, keys_stop, tags_at, tags_stop


@compiled
def _put_keys(  # type: ignore[no-untyped-def]
    data, topic_code, is_java, with_tags, properties_at, properties_length, timestamp, offset, rows, row_count
):
    """A row for the unique key, each word of KEYS, repeated ones too, and the tags; returns rows in use."""
    unique_at, unique_stop, key_at, stop, tags_at, tags_stop = _find_keys(
        data, properties_at, properties_length
    )
    if unique_at < unique_stop:
        code = _finished(_hash_on(data, unique_at, unique_stop - unique_at, topic_code, is_java), is_java)
        row_count = _put_key(rows, row_count, code, timestamp, offset)
    while key_at < stop:
        key_end = key_at
        while key_end < stop and data[key_end] != _KEY_SEPARATOR:
            key_end += 1
        if key_end > key_at:
            code = _finished(_hash_on(data, key_at, key_end - key_at, topic_code, is_java), is_java)
            row_count = _put_key(rows, row_count, code, timestamp, offset)
        key_at = key_end + 1
    if with_tags and tags_at < tags_stop:
        code = _hash_on(_TAGS_SEPARATOR, 0, 2, topic_code, is_java)
        code = _finished(_hash_on(data, tags_at, tags_stop - tags_at, code, is_java), is_java)
        row_count = _put_key(rows, row_count, code, timestamp, offset)
    return row_count


@compiled
def _walk_keys(data, base_offset, rows, row_count, is_java, with_tags):  # type: ignore[no-untyped-def]
    end = len(data)
    at = np.int64(0)
    last_at = np.int64(-1)
    last_store_timestamp = np.int64(-1)
    while True:
        layout = record_layout(data, at, end)
        total_size, _, _, topic_at, topic_length, properties_at, properties_length = layout
        if total_size < NO_LAYOUT:
            return at, row_count, last_at, last_store_timestamp, ENDING_BLANK
        if total_size == NO_LAYOUT or read_long(data, at + PHYSICAL_OFFSET_POSITION) != base_offset + at:
            return at, row_count, last_at, last_store_timestamp, ENDING_NO_RECORD
        # A key takes at least two bytes: itself and the separator before it.
        if row_count + properties_length // 2 + 1 > len(rows):
            return at, row_count, last_at, last_store_timestamp, ENDING_NO_ROOM
        last_at = at
        last_store_timestamp = read_long(data, store_timestamp_at(data, at))
        if read_int(data, at + SYS_FLAG_POSITION) & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
            topic_code = np.uint64(0) if is_java else np.uint64(_FNV_OFFSET_BASIS)
            topic_code = _hash_on(data, topic_at, topic_length, topic_code, is_java)
            topic_code = _hash_on(_TOPIC_SEPARATOR, 0, 1, topic_code, is_java)
            row_count = _put_keys(
                data,
                topic_code,
                is_java,
                with_tags,
                properties_at,
                properties_length,
                last_store_timestamp,
                base_offset + at,
                rows,
                row_count,
            )
        at += total_size


@compiled(BYTES, INT64, LONG_ROWS_OUT, INT64)
def key_entries(data, base_offset, rows, row_count):  # type: ignore[no-untyped-def]
    """Rows of (hash, store timestamp, physical offset) of all keys of all whole records from data[0] on.

    base_offset: physical offset of data[0]. rows: int64[n, 3], filled from row `row_count` on; at least
    16,384 of them must be free, more than the keys of any record, or it may make no progress.
    Half records have keys, rollback records have none. The hash is that of key_index.key_hash. The walk
    ends where that of consume_queue_entries does, or before a record whose keys might not fit.

    Returns (bytes walked over, without the BLANK; rows in use; position of the last record walked over, or
    -1; its store time in epoch ms, or -1; one of ENDING_...).
    """
    data, rows = borrowed((data, rows))
    return _walk_keys(data, base_offset, rows, row_count, False, False)


@compiled(BYTES, INT64, LONG_ROWS_OUT, INT64, BOOL)
def java_key_entries(data, base_offset, rows, row_count, with_tags):  # type: ignore[no-untyped-def]
    """As `key_entries`, with the hash of RocketMQ's index files (index_file_format.key_hash).

    with_tags: a record's tags follow its keys, as the key TAGS_PREFIX + tags.
    """
    data, rows = borrowed((data, rows))
    return _walk_keys(data, base_offset, rows, row_count, True, with_tags)


@compiled(BYTES, INT64, INT64, BYTES, INT64, INT64, INT64)
def has_key(data, at, stop, text, topic_length, begin_ms, end_ms):  # type: ignore[no-untyped-def]
    """Whether the record from `at` to `stop` has a topic, a key, and a store time between two, both included.

    text: uint8, UTF-8 of `topic#key`, the topic of this many bytes. As key_index.message_with_key.
    """
    data, text = borrowed((data, text))
    total_size, _, _, topic_at, length, properties_at, properties_length = record_layout(data, at, stop)
    if total_size <= NO_LAYOUT or not begin_ms <= read_long(data, store_timestamp_at(data, at)) <= end_ms:
        return False
    if length != topic_length or not same_bytes(data, topic_at, text, 0, topic_length):
        return False
    unique_at, unique_stop, word_at, words_stop, _, _ = _find_keys(data, properties_at, properties_length)
    key_at, key_length = topic_length + 1, len(text) - topic_length - 1
    if unique_stop - unique_at == key_length and same_bytes(data, unique_at, text, key_at, key_length):
        return unique_at < unique_stop
    while word_at < words_stop:
        word_stop = word_at
        while word_stop < words_stop and data[word_stop] != _KEY_SEPARATOR:
            word_stop += 1
        if word_stop - word_at == key_length and same_bytes(data, word_at, text, key_at, key_length):
            return key_length > 0
        word_at = word_stop + 1
    return False
