"""The direct search for a key: the steps of a query of LmdbKeyIndex, and the search in sorted runs of hashes.

This is Python that Cython compiles when a wheel is built (store/direct/build.py). Nothing imports this file
as it is. The loop of run_kernels.py needs its text and its answer as arrays, and to make those takes longer
than the search; the calls around it take as long again. `query` answers what is ordinary: a snapshot is kept,
and every hit is an ordinary record. For all else it returns None, and the interpreted way begins again. Tests
hold the two together.

Runs are read at their addresses: the caller keeps their memory (run_table.py). Threads: any. The search
releases the GIL: a run may have to come from the disk.
"""

import cython
from cython.cimports.libc.stdint import uint8_t, uint64_t, uintptr_t
from cython.cimports.libc.stdlib import free, malloc

from mqstore.index.keys.key_index_format import (
    COLUMN_BYTES,
    ENTRY_BYTES,
    HASH,
    PHYSICAL_OFFSET,
    STORE_TIMESTAMP,
)
from mqstore.index.keys.run_row import (
    ADDRESS,
    COLUMNS,
    COUNT,
    GREATEST_TIMESTAMP,
    IS_BIG_ENDIAN,
    LEAST_TIMESTAMP,
    NEWEST_OFFSET,
    OLDEST_OFFSET,
)
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.log.log_offsets import END_OF_LOG

__all__ = ["newest_offsets", "query"]

_ENTRY_BYTES = cython.declare(cython.longlong, ENTRY_BYTES)
_HASH_AT = cython.declare(cython.longlong, HASH * COLUMN_BYTES)
_STORE_TIMESTAMP_AT = cython.declare(cython.longlong, STORE_TIMESTAMP * COLUMN_BYTES)
_PHYSICAL_OFFSET_AT = cython.declare(cython.longlong, PHYSICAL_OFFSET * COLUMN_BYTES)
_COLUMNS = cython.declare(cython.Py_ssize_t, COLUMNS)
_ADDRESS = cython.declare(cython.Py_ssize_t, ADDRESS)
_COUNT = cython.declare(cython.Py_ssize_t, COUNT)
_IS_BIG_ENDIAN = cython.declare(cython.Py_ssize_t, IS_BIG_ENDIAN)
_OLDEST_OFFSET = cython.declare(cython.Py_ssize_t, OLDEST_OFFSET)
_NEWEST_OFFSET = cython.declare(cython.Py_ssize_t, NEWEST_OFFSET)
_LEAST_TIMESTAMP = cython.declare(cython.Py_ssize_t, LEAST_TIMESTAMP)
_GREATEST_TIMESTAMP = cython.declare(cython.Py_ssize_t, GREATEST_TIMESTAMP)
# As key_index.key_hash.
_FNV_OFFSET_BASIS = cython.declare(uint64_t, 0xCBF2_9CE4_8422_2325)
_FNV_PRIME = cython.declare(uint64_t, 0x100_0000_01B3)

_END_OF_TIME_MS = cython.declare(cython.longlong, END_OF_TIME_MS)
# Above any physical offset. More messages of one key than are asked for at once.
_END_OF_LOG: object = END_OF_LOG
_MOST_MESSAGES = cython.declare(cython.longlong, 1 << 20)

# What is searched for.
_Wanted = cython.struct(
    code=cython.longlong,
    begin_ms=cython.longlong,
    end_ms=cython.longlong,
    least_offset=cython.longlong,
    below_offset=cython.longlong,
    limit=cython.longlong,
)
_Run = cython.struct(address=cython.pointer[uint8_t], is_big_endian=cython.bint)


def query(
    index: object, topic: object, key: object, begin_ms: object, end_ms: object, max_num: object
) -> list | None:
    """As LmdbKeyIndex.query, of an index whose log has a direct reader; None if it is not ordinary."""
    if (
        type(topic) is not str
        or type(key) is not str
        or type(begin_ms) is not int
        or type(end_ms) is not int
        or type(max_num) is not int
    ):
        return None
    if not -_END_OF_TIME_MS <= begin_ms <= end_ms <= _END_OF_TIME_MS or not 0 < max_num <= _MOST_MESSAGES:
        return None
    try:
        topic_bytes: bytes = cython.cast(str, topic).encode("utf-8")
        text: bytes = topic_bytes + b"#" + cython.cast(str, key).encode("utf-8")
    except UnicodeEncodeError:
        return None
    offsets: list = _offsets_of(index, text, begin_ms, end_ms, max_num)
    if offsets is None:
        return None
    if len(offsets) > 1:
        offsets = sorted(set(offsets), reverse=True)[:max_num]
    message_with_key = index._direct.message_with_key
    topic_length: object = len(topic_bytes)
    found: list = []
    for offset in offsets:
        message = message_with_key(offset, text, topic_length, begin_ms, end_ms)
        if message is False:
            return None
        if message is not None:
            found.append(message)
    if len(found) < len(offsets) and len(offsets) == max_num:
        # Another key has the same hash: there may be more, further back.
        return None
    found.reverse()
    return found


@cython.cfunc
def _offsets_of(index: object, text: bytes, begin_ms: object, end_ms: object, limit: object) -> list:
    """As LmdbKeyIndex._newest_offsets, of an open index; None if no snapshot is kept."""
    # Memory first: entries that are stored meanwhile are then seen twice instead of missed.
    with index._lock:
        environment = index._environment
        # In a forked child the gate below stays taken for ever.
        if index._is_closed or environment is None or environment.is_of_parent:
            return None
        waiting = index._waiting()
    wanted: tuple = (text, begin_ms, end_ms, index._files.min_offset, _END_OF_LOG, limit)
    offsets: list = []
    if waiting is not None:
        offsets = waiting.newest_offsets(*wanted)
    with environment._gate:
        kept = environment._kept
        if kept is None or not environment.has_writer:
            return None
        offsets += kept[1].newest_offsets(*wanted)
    return offsets


def newest_offsets(
    table: uintptr_t,
    run_count: cython.Py_ssize_t,
    text: bytes,
    begin_ms: cython.longlong,
    end_ms: cython.longlong,
    least_offset: cython.longlong,
    below_offset: cython.longlong,
    limit: cython.longlong,
) -> list:
    """Offsets of records with the hash of `text`, from the first run on until there are `limit`.

    table: address of int64[run_count, COLUMNS], of a RunTable, the newest run first. text: UTF-8 of
    `topic#key`. Ranges: times both included, offsets from the least to the one below. The newest of a run
    come first.
    """
    few = cython.declare(cython.longlong[64])
    offsets: cython.pointer[cython.longlong] = few
    wanted = cython.declare(_Wanted)
    room: cython.longlong = 64
    count: cython.longlong
    wanted.code = _hash_of(text, len(text))
    wanted.begin_ms, wanted.end_ms = begin_ms, end_ms
    wanted.least_offset, wanted.below_offset = least_offset, below_offset
    wanted.limit = limit
    rows: cython.pointer[cython.longlong] = cython.cast(cython.pointer[cython.longlong], table)
    try:
        while True:
            with cython.nogil:
                count = _search(rows, run_count, cython.address(wanted), offsets, room)
            if count >= 0:
                return _list_of(offsets, count)
            room = -count
            if offsets != few:
                free(offsets)
            offsets = cython.cast(cython.pointer[cython.longlong], malloc(room * 8))
            if offsets == cython.NULL:
                raise MemoryError(f"{room:,} offsets of one key")
    finally:
        if offsets != few:
            free(offsets)


@cython.cfunc
def _list_of(numbers: cython.pointer[cython.longlong], count: cython.longlong) -> list:
    index: cython.Py_ssize_t = 0
    found: list = []
    while index < count:
        found.append(numbers[index])
        index += 1
    return found


@cython.cfunc
@cython.exceptval(check=False)
def _hash_of(text: cython.p_char, length: cython.Py_ssize_t) -> cython.longlong:
    code: uint64_t = _FNV_OFFSET_BASIS
    index: cython.Py_ssize_t
    for index in range(length):
        code = (code ^ cython.cast(uint8_t, text[index])) * _FNV_PRIME
    return cython.cast(cython.longlong, code)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _search(
    rows: cython.pointer[cython.longlong],
    run_count: cython.Py_ssize_t,
    wanted: cython.pointer[_Wanted],
    offsets: cython.pointer[cython.longlong],
    room: cython.longlong,
) -> cython.longlong:
    """Fill `offsets`; how many, or minus the room that they may need."""
    taken: cython.longlong = 0
    index: cython.Py_ssize_t
    row: cython.pointer[cython.longlong]
    run = cython.declare(_Run)
    first: cython.longlong
    stop: cython.longlong
    needed: cython.longlong
    offset: cython.longlong
    store_timestamp: cython.longlong
    for index in range(run_count):
        row = rows + index * _COLUMNS
        if taken >= wanted.limit or row[_NEWEST_OFFSET] < wanted.least_offset:
            break
        if (
            row[_OLDEST_OFFSET] >= wanted.below_offset
            or row[_LEAST_TIMESTAMP] > wanted.end_ms
            or row[_GREATEST_TIMESTAMP] < wanted.begin_ms
        ):
            continue
        run.address = cython.cast(cython.pointer[uint8_t], cython.cast(uintptr_t, row[_ADDRESS]))
        run.is_big_endian = row[_IS_BIG_ENDIAN] != 0
        first = _first_row(cython.address(run), 0, row[_COUNT], _HASH_AT, wanted.code)
        stop = _end_of_hash(cython.address(run), first, row[_COUNT], wanted.code)
        stop = _first_row(cython.address(run), first, stop, _PHYSICAL_OFFSET_AT, wanted.below_offset)
        needed = taken + min(wanted.limit - taken, stop - first)
        if needed > room:
            return -needed
        while stop > first and taken < wanted.limit:
            stop -= 1
            store_timestamp = _long_at(cython.address(run), stop, _STORE_TIMESTAMP_AT)
            offset = _long_at(cython.address(run), stop, _PHYSICAL_OFFSET_AT)
            if offset < wanted.least_offset:
                break
            if wanted.begin_ms <= store_timestamp <= wanted.end_ms:
                offsets[taken] = offset
                taken += 1
    return taken


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _first_row(
    run: cython.pointer[_Run],
    low: cython.longlong,
    high: cython.longlong,
    column_at: cython.longlong,
    value: cython.longlong,
) -> cython.longlong:
    """The first of the rows low to high, which ascend by a column, that is not below `value` there."""
    middle: cython.longlong
    while low < high:
        middle = (low + high) >> 1
        if _long_at(run, middle, column_at) < value:
            low = middle + 1
        else:
            high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end_of_hash(
    run: cython.pointer[_Run], first: cython.longlong, count: cython.longlong, code: cython.longlong
) -> cython.longlong:
    """Where the rows with this hash end, of which `first` is the first, if there are any.

    In steps that grow, for nearly all keys have few rows; then by bisection.
    """
    low: cython.longlong = first
    high: cython.longlong = first
    step: cython.longlong = 1
    middle: cython.longlong
    while high < count and _long_at(run, high, _HASH_AT) == code:
        low = high + 1
        high += step
        step *= 2
    high = min(high, count)
    while low < high:
        middle = (low + high) >> 1
        if _long_at(run, middle, _HASH_AT) == code:
            low = middle + 1
        else:
            high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _long_at(
    run: cython.pointer[_Run], index: cython.longlong, column_at: cython.longlong
) -> cython.longlong:
    """A number of a row, as LMDB has it or as this machine has it: least significant byte first."""
    at: cython.pointer[uint8_t] = run.address + index * _ENTRY_BYTES + column_at
    if not run.is_big_endian:
        return cython.cast(cython.pointer[cython.longlong], at)[0]
    # Written out, the compiler makes one instruction of it.
    return cython.cast(
        cython.longlong,
        cython.cast(uint64_t, at[0]) << 56
        | cython.cast(uint64_t, at[1]) << 48
        | cython.cast(uint64_t, at[2]) << 40
        | cython.cast(uint64_t, at[3]) << 32
        | cython.cast(uint64_t, at[4]) << 24
        | cython.cast(uint64_t, at[5]) << 16
        | cython.cast(uint64_t, at[6]) << 8
        | cython.cast(uint64_t, at[7]),
    )
