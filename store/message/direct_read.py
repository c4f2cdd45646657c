"""The direct read: messages of the log and their fields by compiled code, as far as they are ordinary.

This is Python that Cython compiles when a wheel is built (store/direct/build.py). Nothing imports this file
as it is. The annotations say which values are machine integers and pointers, so that a read makes few
Python objects.

    MessageView     the fields of a StoredMessage, and those of its properties that are read most
    messages_at     the messages of a pull, from their places; has_byte asks their records something before
    DirectReader    the message at a physical offset, and whether it has a key

A record is ordinary if it is one of V1 with IPv4 hosts, its body is not compressed, and its lengths add up.
For all others, and for whatever is not there, the interpreted way answers (stored_message.py, log_reader.py,
index/keys/key_kernels.py). It gives the same answers in many steps; tests hold the two together.

Memory is read while this module holds a buffer of the view that shows it, and only within its length. A
buffer is given back before a method returns: nothing is kept that the garbage collector or a released view
could take away. Threads: any; no lock. No other thread of the interpreter runs meanwhile.
"""

import cython
from cython.cimports.cpython.buffer import (
    PyBUF_SIMPLE,
    PyBUF_STRIDED,
    PyBUF_STRIDED_RO,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.libc.stdint import int8_t, int16_t, int32_t, uint8_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memchr, memcmp
from cython.cimports.mqstore.store.message.memory import PyObject_GC_UnTrack, PyObject_IS_GC, fetch

from mqstore.store.record.properties_format import KEY_SEPARATOR, KEYS, UNIQ_KEY
from mqstore.store.record.record_format import (
    FIXED_BYTES,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MESSAGE_MAGIC_CODE,
    PHYSICAL_OFFSET_POSITION,
    QUEUE_ID_POSITION,
    QUEUE_OFFSET_POSITION,
    STORE_TIMESTAMP_POSITION,
    SYS_FLAG_POSITION,
)
from mqstore.store.record.sys_flag import BORN_HOST_V6, COMPRESSED, INNER_BATCH, STORE_HOST_V6

__all__ = ["DirectReader", "MessageView", "has_byte", "messages_at"]

_FIXED_BYTES = cython.declare(cython.longlong, FIXED_BYTES)
_HEADER_BYTES = cython.declare(cython.longlong, HEADER_BYTES)
_MAGIC = cython.declare(cython.longlong, MESSAGE_MAGIC_CODE)
_QUEUE_ID_AT = cython.declare(cython.longlong, QUEUE_ID_POSITION)
_QUEUE_OFFSET_AT = cython.declare(cython.longlong, QUEUE_OFFSET_POSITION)
_PHYSICAL_OFFSET_AT = cython.declare(cython.longlong, PHYSICAL_OFFSET_POSITION)
_SYS_FLAG_AT = cython.declare(cython.longlong, SYS_FLAG_POSITION)
_STORE_TIMESTAMP_AT = cython.declare(cython.longlong, STORE_TIMESTAMP_POSITION)
_BODY_LENGTH_AT = cython.declare(cython.longlong, HEADER_BYTES - 4)
_LOW_BITS = cython.declare(cython.longlong, 0xFFFF_FFFF)
# With one of these, a body begins elsewhere, or must be decompressed.
_RARE_BITS = cython.declare(cython.longlong, BORN_HOST_V6 | STORE_HOST_V6 | COMPRESSED)
_INNER_BATCH = cython.declare(cython.longlong, INNER_BATCH)
# Of a queue entry: physical offset, size, tags code.
_ENTRY_BYTES = cython.declare(cython.Py_ssize_t, 20)
_BORN_HOST_BIT = cython.declare(cython.longlong, BORN_HOST_V6)
_IPV6_EXTRA_BYTES = cython.declare(cython.longlong, IPV6_EXTRA_BYTES)
_UNKNOWN = cython.declare(cython.int, -1)
_EARLIER = cython.declare(cython.int, 0)
_LATER = cython.declare(cython.int, 1)
# Below so many entries a bisection is as quick as a guess.
_GUESSED_FROM = cython.declare(cython.longlong, 64)
_FIRST_STEP = cython.declare(cython.longlong, 16)
# Messages of a pull for whose places there is room without asking for memory.
_FEW_PLACES = cython.declare(cython.Py_ssize_t, 64)
# So many records are fetched from memory at the same time.
_RECORDS_AHEAD = cython.declare(cython.Py_ssize_t, 8)
_LINE_BYTES = cython.declare(cython.longlong, 64)
# The body of a longer record is fetched when it is asked for: that is quicker than to fetch too much at once.
_FETCHED_BYTES = cython.declare(cython.longlong, 2_048)
_KEYS_NAME = cython.declare(bytes, KEYS.encode() + b"\x01")
_UNIQ_KEY_NAME = cython.declare(bytes, UNIQ_KEY.encode() + b"\x01")
_KEY_SEPARATOR = cython.declare(cython.int, ord(KEY_SEPARATOR))

# A record that was found: positions in the bytes of its segment.
_Found = cython.struct(
    start=cython.longlong,
    stop=cython.longlong,
    body_stop=cython.longlong,
)


# What is searched by time. data, end: a segment whose first byte has this physical offset, and how much of it
# may be read.
_Times = cython.struct(
    entries=cython.pointer[uint8_t],
    count=cython.longlong,
    data=cython.pointer[uint8_t],
    start_offset=cython.longlong,
    end=cython.longlong,
    timestamp_ms=cython.longlong,
    is_upper=cython.bint,
)


class _WithoutDict(type):
    """Of a class whose subclasses have no fields but those of `Fields`.

    The arguments of a Struct's class are left out, and the default of the field that one of them has.
    """

    def __new__(cls, name, bases, members, **_):
        members = {key: value for key, value in members.items() if key != "local_reconsume_times"}
        return type.__new__(cls, name, bases, {"__slots__": (), **members})

    def __init__(cls, name, bases, members, **_):
        type.__init__(cls, name, bases, members)


@cython.no_gc
@cython.cclass
class Fields:
    """What a StoredMessage keeps; see there. It is in no cycle: bytes, numbers and texts lead nowhere."""

    data = cython.declare(object, visibility="public")
    start = cython.declare(cython.Py_ssize_t, visibility="public")
    stop = cython.declare(cython.Py_ssize_t, visibility="public")
    body_start = cython.declare(cython.Py_ssize_t, visibility="public")
    body_stop = cython.declare(cython.Py_ssize_t, visibility="public")
    _header = cython.declare(object, visibility="public")
    _layout = cython.declare(object, visibility="public")
    _topic = cython.declare(object, visibility="public")
    _properties = cython.declare(object, visibility="public")
    # Of a ReceivedMessage; a class that Python makes has no room for it.
    local_reconsume_times = cython.declare(cython.Py_ssize_t, visibility="public")

    def __cinit__(self):
        # Objects of a class that Python makes are tracked; these lead to nothing that could be a cycle.
        if PyObject_IS_GC(self):
            PyObject_GC_UnTrack(self)
        self.body_start = self.body_stop = -1

    def __init__(
        self,
        data,
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        body_start: cython.Py_ssize_t = -1,
        body_stop: cython.Py_ssize_t = -1,
    ) -> None:
        self.data = data
        self.start, self.stop = start, stop
        self.body_start, self.body_stop = body_start, body_stop

    def __copy__(self):
        """As a Struct is copied: the same record, with what is known of it."""
        copied: Fields = _new_view(type(self), self.data)
        copied.start, copied.stop = self.start, self.stop
        copied.body_start, copied.body_stop = self.body_start, self.body_stop
        copied._header, copied._layout = self._header, self._layout
        copied._topic, copied._properties = self._topic, self._properties
        copied.local_reconsume_times = self.local_reconsume_times
        return copied

    @property
    def body(self):
        """StoredMessage.body."""
        if self.body_start < 0:
            self.layout  # noqa: B018 - it finds the body
            if self.body_start < 0:
                return self.decompressed_body()
        return _copied(self.data, self.body_start, self.body_stop)

    @property
    def body_view(self):
        """StoredMessage.body_view."""
        if self.body_start < 0:
            self.layout  # noqa: B018 - it finds the body
            if self.body_start < 0:
                return memoryview(self.decompressed_body())
        return self.data[self.body_start : self.body_stop]

    @property
    def queue_id(self):
        """StoredMessage.queue_id."""
        return self.header.queue_id if self.body_start < 0 else self._number_at(_QUEUE_ID_AT, 4)

    @property
    def queue_offset(self):
        """StoredMessage.queue_offset."""
        return self.header.queue_offset if self.body_start < 0 else self._number_at(_QUEUE_OFFSET_AT, 8)

    @property
    def physical_offset(self):
        """StoredMessage.physical_offset."""
        return self.header.physical_offset if self.body_start < 0 else self._number_at(_PHYSICAL_OFFSET_AT, 8)

    @cython.cfunc
    @cython.exceptval(check=True)
    def _number_at(self, position: cython.longlong, size_bytes: cython.int) -> cython.longlong:
        """A number of the header."""
        buffer = cython.declare(cython.Py_buffer)
        PyObject_GetBuffer(self.data, cython.address(buffer), PyBUF_SIMPLE)
        number: cython.longlong = 0
        # Whoever makes a message may give any start: a sum with it may overflow.
        is_there: cython.bint = 0 <= self.start <= buffer.len - position - size_bytes
        if is_there:
            found: cython.pointer[uint8_t] = cython.cast(cython.pointer[uint8_t], buffer.buf)
            found += self.start + position
            number = _long_at(found) if size_bytes == 8 else _int_at(found)
        PyBuffer_Release(cython.address(buffer))
        if not is_there:
            raise IndexError("a record that ends before its header")
        return number


class MessageView(Fields, metaclass=_WithoutDict):
    """The base class of StoredMessage."""


@cython.cfunc
def _new_view(kind: object, data: object) -> Fields:
    """A message without places."""
    view: Fields = Fields.__new__(kind)
    view.data = data
    return view


@cython.cfunc
def _copied(data: object, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> bytes:
    """data[start:stop], as bytes."""
    buffer = cython.declare(cython.Py_buffer)
    PyObject_GetBuffer(data, cython.address(buffer), PyBUF_SIMPLE)
    try:
        stop = min(stop, buffer.len)
        if not 0 <= start < stop:
            return b""
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, buffer.buf) + start, stop - start)
    finally:
        PyBuffer_Release(cython.address(buffer))


def messages_at(kind: object, data: object, places: object, count: cython.Py_ssize_t) -> list:
    """The first `count` messages at `places` of a segment: int64[4, n], as the loops of a pull fill it.

    kind: StoredMessage.
    """
    buffer = cython.declare(cython.Py_buffer)
    index: cython.Py_ssize_t = 0
    row: cython.pointer[cython.char]
    view: Fields
    messages: list = []
    PyObject_GetBuffer(places, cython.address(buffer), PyBUF_STRIDED_RO)
    try:
        if (
            buffer.ndim != 2
            or buffer.itemsize != 8
            or buffer.shape[0] != 4
            or not 0 <= count <= buffer.shape[1]
        ):
            raise ValueError(f"places of {buffer.ndim} dimensions, {count} messages")
        row = cython.cast(cython.pointer[cython.char], buffer.buf)
        while index < count:
            index += 1
            view = _new_view(kind, data)
            view.start = cython.cast(cython.pointer[cython.longlong], row)[0]
            view.stop = cython.cast(cython.pointer[cython.longlong], row + buffer.strides[0])[0]
            view.body_start = cython.cast(cython.pointer[cython.longlong], row + 2 * buffer.strides[0])[0]
            view.body_stop = cython.cast(cython.pointer[cython.longlong], row + 3 * buffer.strides[0])[0]
            messages.append(view)
            row += buffer.strides[1]
    finally:
        PyBuffer_Release(cython.address(buffer))
    return messages


def has_byte(data: object, places: object, position: cython.Py_ssize_t, value: cython.int) -> bool:
    """Whether a record has this byte at a position. data, places: as `messages_at` takes them."""
    buffer = cython.declare(cython.Py_buffer)
    segment = cython.declare(cython.Py_buffer)
    _: cython.Py_ssize_t
    at: cython.longlong
    row: cython.pointer[cython.char]
    is_there: cython.bint = False
    PyObject_GetBuffer(places, cython.address(buffer), PyBUF_STRIDED_RO)
    try:
        if buffer.ndim != 2 or buffer.itemsize != 8 or buffer.shape[0] != 4:
            raise ValueError(f"places of {buffer.ndim} dimensions")
        PyObject_GetBuffer(data, cython.address(segment), PyBUF_SIMPLE)
        row = cython.cast(cython.pointer[cython.char], buffer.buf)
        for _ in range(buffer.shape[1]):
            at = cython.cast(cython.pointer[cython.longlong], row)[0]
            # Within the bytes, whatever the places say.
            if (
                0 <= at < segment.len
                and 0 <= position < segment.len - at
                and cython.cast(cython.pointer[uint8_t], segment.buf)[at + position] == value
            ):
                is_there = True
                break
            row += buffer.strides[1]
        PyBuffer_Release(cython.address(segment))
    finally:
        PyBuffer_Release(cython.address(buffer))
    return is_there


@cython.final
@cython.cclass
class DirectReader:
    """Finds ordinary messages of one log."""

    _files: object
    _offsets: object
    _is_sync_flush: cython.bint
    _file_size_bytes: cython.longlong
    _kind: object
    _slowly: object

    def __init__(self, files, offsets, kind, slowly) -> None:
        """files, offsets: of the log. kind: StoredMessage. slowly: looks what is not ordinary up."""
        self._files = files
        self._offsets = offsets
        self._is_sync_flush = offsets._is_sync_flush
        self._file_size_bytes = files.file_size_bytes
        self._kind = kind
        self._slowly = slowly

    def look_message_by_offset(self, physical_offset):
        """As LogReader.look_message_by_offset."""
        buffer = cython.declare(cython.Py_buffer)
        found = cython.declare(_Found)
        view = self._view_at(physical_offset, cython.address(found))
        if view is None:
            return self._slowly(physical_offset)
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_SIMPLE)
        is_found: cython.bint = _find(
            cython.cast(cython.pointer[uint8_t], buffer.buf),
            buffer.len,
            physical_offset,
            cython.address(found),
        )
        PyBuffer_Release(cython.address(buffer))
        if not is_found:
            return self._slowly(physical_offset)
        return self._message(view, cython.address(found))

    def message_with_key(
        self,
        physical_offset,
        text: bytes,
        topic_length: cython.Py_ssize_t,
        begin_ms: cython.longlong,
        end_ms: cython.longlong,
    ):
        """The message at an offset, if it has a topic, a key, and a store time between two, both included.

        text: UTF-8 of `topic#key`, the topic of this many bytes. None if it has not; False if it is not
        ordinary: then the interpreted way decides. As index/keys/key_index.message_with_key.
        """
        buffer = cython.declare(cython.Py_buffer)
        found = cython.declare(_Found)
        view = self._view_at(physical_offset, cython.address(found))
        if view is None or not 0 <= topic_length < len(text):
            return False
        has_key: cython.bint = False
        PyObject_GetBuffer(view, cython.address(buffer), PyBUF_SIMPLE)
        data: cython.pointer[uint8_t] = cython.cast(cython.pointer[uint8_t], buffer.buf)
        is_found: cython.bint = _find(data, buffer.len, physical_offset, cython.address(found))
        if is_found:
            has_key = begin_ms <= _long_at(data + found.start + _STORE_TIMESTAMP_AT) <= end_ms and _has_key(
                data, cython.address(found), text, topic_length
            )
        PyBuffer_Release(cython.address(buffer))
        if not is_found:
            return False
        return self._message(view, cython.address(found)) if has_key else None

    def messages_of(self, entries: object, max_count: cython.Py_ssize_t, max_bytes: cython.longlong):
        """The messages of consecutive queue entries, up to the first that is not ordinary; (messages, bytes).

        entries: packed, as index/queue/consume_queue_format.py has them. At most `max_count` messages of one
        segment, whose records have `max_bytes` together; the first is taken whatever its size. As
        `locate_records` of index/pull/pull_kernels.py.
        """
        few = cython.declare(_Found[64])
        places: cython.pointer[_Found] = few
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        taken_bytes: cython.longlong = 0
        messages: list = []
        if max_count > _FEW_PLACES:
            places = cython.cast(cython.pointer[_Found], malloc(max_count * cython.sizeof(_Found)))
            if places == cython.NULL:
                raise MemoryError(f"places of {max_count:,} messages")
        try:
            view = self._find_places(entries, max_count, max_bytes, places, cython.address(count))
            for index in range(count):
                taken_bytes += places[index].stop - places[index].start
                messages.append(self._message(view, places + index))
        finally:
            if places != few:
                free(places)
        return messages, taken_bytes

    def places_of(self, entries: object, places: object, max_bytes: cython.longlong) -> tuple:
        """As `messages_of`, without making them: (bytes of their segment, how many, bytes of their records).

        places: int64[4, n], filled for at most n messages, and at most 64, as `messages_at` takes it.
        """
        buffer = cython.declare(cython.Py_buffer)
        few = cython.declare(_Found[64])
        row: cython.pointer[cython.char]
        index: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        taken_bytes: cython.longlong = 0
        PyObject_GetBuffer(places, cython.address(buffer), PyBUF_STRIDED)
        try:
            if buffer.ndim != 2 or buffer.itemsize != 8 or buffer.shape[0] != 4:
                raise ValueError(f"places of {buffer.ndim} dimensions")
            view = self._find_places(
                entries, min(buffer.shape[1], _FEW_PLACES), max_bytes, few, cython.address(count)
            )
            row = cython.cast(cython.pointer[cython.char], buffer.buf)
            for index in range(count):
                taken_bytes += few[index].stop - few[index].start
                _set_long(row, few[index].start)
                _set_long(row + buffer.strides[0], few[index].stop)
                _set_long(row + 2 * buffer.strides[0], few[index].start + _HEADER_BYTES)
                _set_long(row + 3 * buffer.strides[0], few[index].body_stop)
                row += buffer.strides[1]
        finally:
            PyBuffer_Release(cython.address(buffer))
        return view, count, taken_bytes

    @cython.cfunc
    def _find_places(
        self,
        entries: object,
        max_count: cython.Py_ssize_t,
        max_bytes: cython.longlong,
        places: cython.pointer[_Found],
        count: cython.pointer[cython.Py_ssize_t],
    ) -> object:
        """Fill `places`, of which there are `max_count`, for `count` messages of one segment; its bytes.

        The bytes are None if it is not there.
        """
        buffer = cython.declare(cython.Py_buffer)
        segment = cython.declare(cython.Py_buffer)
        found = cython.declare(_Found)
        view: object = None
        PyObject_GetBuffer(entries, cython.address(buffer), PyBUF_SIMPLE)
        try:
            entry: cython.pointer[uint8_t] = cython.cast(cython.pointer[uint8_t], buffer.buf)
            max_count = min(max_count, buffer.len // _ENTRY_BYTES)
            if max_count <= 0:
                return None
            offset: cython.longlong = _long_at(entry)
            view = self._view_at(offset, cython.address(found))
            if view is None:
                return None
            PyObject_GetBuffer(view, cython.address(segment), PyBUF_SIMPLE)
            with cython.nogil:
                # A record may have to come from the disk.
                count[0] = _find_all(
                    entry,
                    max_count,
                    max_bytes,
                    cython.cast(cython.pointer[uint8_t], segment.buf),
                    min(segment.len, found.stop),
                    offset - found.start,
                    places,
                )
            PyBuffer_Release(cython.address(segment))
        finally:
            PyBuffer_Release(cython.address(buffer))
        return view

    def narrowed(
        self,
        entries: object,
        timestamp_ms: cython.longlong,
        is_upper: cython.bint,
        high: cython.longlong,
    ) -> tuple:
        """Narrow entries 0 to `high` by the store time of their records, as far as these lie in one segment.

        (low, high) that enclose the first entry stored at or after `timestamp_ms`; if `is_upper`, after it.
        The segment is that of the entry in the middle. As `narrow_by_time` of index/pull/pull_kernels.py.
        """
        buffer = cython.declare(cython.Py_buffer)
        segment = cython.declare(cython.Py_buffer)
        found = cython.declare(_Found)
        times = cython.declare(_Times)
        low: cython.longlong = 0
        PyObject_GetBuffer(entries, cython.address(buffer), PyBUF_SIMPLE)
        try:
            times.entries = cython.cast(cython.pointer[uint8_t], buffer.buf)
            times.count = buffer.len // _ENTRY_BYTES
            middle: cython.longlong = high >> 1
            if middle >= times.count:
                return low, high
            offset: cython.longlong = _long_at(times.entries + middle * _ENTRY_BYTES)
            view = self._view_at(offset, cython.address(found))
            if view is None:
                return low, high
            PyObject_GetBuffer(view, cython.address(segment), PyBUF_SIMPLE)
            times.data = cython.cast(cython.pointer[uint8_t], segment.buf)
            times.start_offset = offset - found.start
            times.end = min(found.stop, segment.len)
            times.timestamp_ms, times.is_upper = timestamp_ms, is_upper
            with cython.nogil:
                if high > _GUESSED_FROM:
                    _guess(cython.address(times), cython.address(low), cython.address(high))
                _bisect(cython.address(times), cython.address(low), cython.address(high))
            PyBuffer_Release(cython.address(segment))
        finally:
            PyBuffer_Release(cython.address(buffer))
        return low, high

    @cython.cfunc
    def _view_at(self, physical_offset: object, found: cython.pointer[_Found]) -> object:
        """The bytes of the segment of a physical offset, and in `found` where the record may lie; or None."""
        overflow: cython.int = 0
        if type(physical_offset) is not int:
            return None
        offset: cython.longlong = PyLong_AsLongLongAndOverflow(physical_offset, cython.address(overflow))
        files: tuple = self._files.files
        current = self._offsets.current
        if overflow or not files or current is None:
            return None
        first: cython.longlong = files[0].start_offset
        # Far below 2**63: offsets count bytes of files.
        index: cython.longlong = (offset - first) // self._file_size_bytes if offset >= first else -1
        if not 0 <= index < len(files):
            return None
        mapped_file = files[index]
        view = mapped_file._view
        if view is None:
            return None
        start_offset: cython.longlong = mapped_file.start_offset
        visible: cython.longlong
        if self._is_sync_flush:
            visible = self._offsets.flushed_offset
        else:
            visible = current.start_offset + current.wrote_position
        found.start = offset - start_offset
        found.stop = min(visible - start_offset, cython.cast(cython.longlong, mapped_file.size_bytes))
        return view

    @cython.cfunc
    def _message(self, view: object, found: cython.pointer[_Found]) -> object:
        message: Fields = _new_view(self._kind, view)
        message.start, message.stop = found.start, found.stop
        message.body_start, message.body_stop = found.start + _HEADER_BYTES, found.body_stop
        return message


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _compare(
    times: cython.pointer[_Times], index: cython.longlong, stored: cython.pointer[cython.longlong]
) -> cython.int:
    """_LATER if an entry was stored at or after the time, else _EARLIER; its time.

    _UNKNOWN for an entry that is behind those given, or whose record is not in this segment.
    """
    if index >= times.count:
        return _UNKNOWN
    offset: cython.longlong = _long_at(times.entries + index * _ENTRY_BYTES)
    if offset < times.start_offset or offset - times.start_offset > times.end - _HEADER_BYTES:
        return _UNKNOWN
    record: cython.pointer[uint8_t] = times.data + (offset - times.start_offset)
    at: cython.longlong = _STORE_TIMESTAMP_AT
    if _int_at(record + _SYS_FLAG_AT) & _BORN_HOST_BIT:
        at += _IPV6_EXTRA_BYTES
    stored[0] = _long_at(record + at)
    if stored[0] > times.timestamp_ms or (stored[0] == times.timestamp_ms and not times.is_upper):
        return _LATER
    return _EARLIER


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _guess(
    times: cython.pointer[_Times],
    low: cython.pointer[cython.longlong],
    high: cython.pointer[cython.longlong],
) -> cython.void:
    """Narrow around where the entry is if messages came at an even rate, in steps that grow."""
    first: cython.longlong = 0
    last: cython.longlong = 0
    stored: cython.longlong = 0
    if _compare(times, low[0], cython.address(first)) != _EARLIER:
        return
    if _compare(times, high[0] - 1, cython.address(last)) != _LATER:
        return
    # Two large times may differ, and be the same number here.
    span: cython.double = cython.cast(cython.double, last) - cython.cast(cython.double, first)
    if span <= 0:
        return
    share: cython.double = cython.cast(cython.double, times.timestamp_ms) - cython.cast(cython.double, first)
    share /= span
    index: cython.longlong = low[0] + cython.cast(
        cython.longlong, share * cython.cast(cython.double, high[0] - 1 - low[0])
    )
    index = min(index, high[0] - 1)
    found: cython.int = _compare(times, index, cython.address(stored))
    direction: cython.int = found
    step: cython.longlong = -_FIRST_STEP if found == _LATER else _FIRST_STEP
    while found != _UNKNOWN:
        if found == _LATER:
            high[0] = index
        else:
            low[0] = index + 1
        index += step
        step *= 4
        if found != direction or not low[0] <= index < high[0]:
            return
        found = _compare(times, index, cython.address(stored))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bisect(
    times: cython.pointer[_Times],
    low: cython.pointer[cython.longlong],
    high: cython.pointer[cython.longlong],
) -> cython.void:
    """Narrow until low and high meet, or to an entry of which nothing is known."""
    middle: cython.longlong
    stored: cython.longlong = 0
    found: cython.int
    while low[0] < high[0]:
        middle = (low[0] + high[0]) >> 1
        found = _compare(times, middle, cython.address(stored))
        if found == _UNKNOWN:
            return
        if found == _LATER:
            high[0] = middle
        else:
            low[0] = middle + 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_all(
    entry: cython.pointer[uint8_t],
    max_count: cython.Py_ssize_t,
    max_bytes: cython.longlong,
    data: cython.pointer[uint8_t],
    stop: cython.longlong,
    start_offset: cython.longlong,
    places: cython.pointer[_Found],
) -> cython.Py_ssize_t:
    """How many of the entries have an ordinary record in this segment, up to one that has not: `places`."""
    index: cython.Py_ssize_t
    size: cython.longlong
    offset: cython.longlong
    taken_bytes: cython.longlong = 0
    for index in range(min(max_count, _RECORDS_AHEAD)):
        _fetch(entry + index * _ENTRY_BYTES, data, stop, start_offset)
    for index in range(max_count):
        if index + _RECORDS_AHEAD < max_count:
            _fetch(entry + _RECORDS_AHEAD * _ENTRY_BYTES, data, stop, start_offset)
        offset, size = _long_at(entry), _int_at(entry + 8)
        # An entry may contain any number.
        if offset < start_offset or offset - start_offset > stop or size < _FIXED_BYTES:
            return index
        if index and size > max_bytes - taken_bytes:
            return index
        places[index].start, places[index].stop = offset - start_offset, stop
        if (
            not _find(data, stop, offset, places + index)
            or places[index].stop - places[index].start != size
            or _int_at(data + places[index].start + _SYS_FLAG_AT) & _INNER_BATCH
        ):
            return index
        taken_bytes += size
        entry += _ENTRY_BYTES
    return max_count


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _fetch(
    entry: cython.pointer[uint8_t],
    data: cython.pointer[uint8_t],
    stop: cython.longlong,
    start_offset: cython.longlong,
) -> cython.void:
    """Start to fetch the record of an entry: header, topic and properties, and a body that is short."""
    offset: cython.longlong = _long_at(entry)
    # An entry may contain any number, and a difference may overflow.
    if offset < start_offset or offset - start_offset >= stop:
        return
    at: cython.longlong = offset - start_offset
    end: cython.longlong = at + _int_at(entry + 8)
    if at < end <= stop:
        fetch(data + end - _LINE_BYTES)
        if end - at > _FETCHED_BYTES:
            end = at + 2 * _LINE_BYTES
        while at < end:
            fetch(data + at)
            at += _LINE_BYTES


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find(
    data: cython.pointer[uint8_t],
    size_bytes: cython.longlong,
    physical_offset: cython.longlong,
    found: cython.pointer[_Found],
) -> cython.bint:
    """Whether an ordinary record lies at found.start; if so, the other places are filled.

    data: a segment, readable up to found.stop.
    """
    start: cython.longlong = found.start
    stop: cython.longlong = min(found.stop, size_bytes)
    if start < 0 or start > stop - _FIXED_BYTES:
        return False
    record: cython.pointer[uint8_t] = data + start
    total_size: cython.longlong = _int_at(record)
    if (
        _int_at(record + 4) != _MAGIC
        or _long_at(record + _PHYSICAL_OFFSET_AT) != physical_offset
        or _int_at(record + _SYS_FLAG_AT) & _RARE_BITS
        or not _FIXED_BYTES <= total_size <= stop - start
    ):
        return False
    stop = start + total_size
    body_stop: cython.longlong = start + _HEADER_BYTES + _int_at(record + _BODY_LENGTH_AT)
    if body_stop < start + _HEADER_BYTES or body_stop > stop - 3:
        return False
    topic_length: cython.longlong = cython.cast(int8_t, data[body_stop])
    at: cython.longlong = body_stop + 1 + topic_length
    if topic_length < 0 or at + 2 > stop:
        return False
    properties_length: cython.longlong = _short_at(data + at)
    if properties_length < 0 or at + 2 + properties_length != stop:
        return False
    found.stop, found.body_stop = stop, body_stop
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _has_key(
    data: cython.pointer[uint8_t], found: cython.pointer[_Found], text: bytes, topic_length: cython.longlong
) -> cython.bint:
    """Whether a record that was found has a topic and a key; as `has_key` of index/keys/key_kernels.py."""
    wanted: cython.p_char = text
    key: cython.p_char = wanted + topic_length + 1
    key_length: cython.longlong = len(text) - topic_length - 1
    at: cython.longlong = found.body_stop + 1
    if data[at - 1] != topic_length or memcmp(data + at, wanted, topic_length) != 0 or key_length == 0:
        return False
    at += topic_length + 2
    # The last property of a name that has a value counts.
    unique_at: cython.longlong = 0
    unique_stop: cython.longlong = 0
    keys_at: cython.longlong = 0
    keys_stop: cython.longlong = 0
    while at < found.stop:
        stop: cython.longlong = _end_of_text(data, at, found.stop, 2)
        if _is_named(data, at, stop, _KEYS_NAME):
            keys_at, keys_stop = at + len(_KEYS_NAME), stop
        elif _is_named(data, at, stop, _UNIQ_KEY_NAME):
            unique_at, unique_stop = at + len(_UNIQ_KEY_NAME), stop
        at = stop + 1
    if unique_stop - unique_at == key_length and memcmp(data + unique_at, key, key_length) == 0:
        return True
    while keys_at < keys_stop:
        stop = _end_of_text(data, keys_at, keys_stop, _KEY_SEPARATOR)
        if stop - keys_at == key_length and memcmp(data + keys_at, key, key_length) == 0:
            return True
        keys_at = stop + 1
    return False


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _end_of_text(
    data: cython.pointer[uint8_t], at: cython.longlong, stop: cython.longlong, closing: cython.int
) -> cython.longlong:
    """Where the text at `at` ends: before the next such byte, or at `stop`."""
    end: cython.p_void = memchr(data + at, closing, stop - at)
    return stop if end == cython.NULL else cython.cast(cython.pointer[uint8_t], end) - data


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_named(
    data: cython.pointer[uint8_t], at: cython.longlong, stop: cython.longlong, name: bytes
) -> cython.bint:
    """Whether the property from `at` to `stop` has this name, and a value that is not empty."""
    length: cython.Py_ssize_t = len(name)
    return stop - at > length and memcmp(data + at, cython.cast(cython.p_char, name), length) == 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _set_long(target: cython.pointer[cython.char], value: cython.longlong) -> cython.void:
    """A number of an array, as this machine has it."""
    cython.cast(cython.pointer[cython.longlong], target)[0] = value


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _short_at(data: cython.pointer[uint8_t]) -> cython.longlong:
    return cython.cast(int16_t, (data[0] << 8) | data[1])


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _int_at(data: cython.pointer[uint8_t]) -> cython.longlong:
    """Four bytes, the most significant first."""
    return cython.cast(
        int32_t, (cython.cast(cython.uint, data[0]) << 24) | (data[1] << 16) | (data[2] << 8) | data[3]
    )


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _long_at(data: cython.pointer[uint8_t]) -> cython.longlong:
    """Eight bytes, the most significant first."""
    return (_int_at(data) << 32) | (_int_at(data + 4) & _LOW_BITS)
