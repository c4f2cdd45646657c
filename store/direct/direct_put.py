"""The direct put: an ordinary message, from its fields into the mapping, in one compiled step.

This is Python that Cython compiles when a wheel is built (build.py). Nothing imports this file as it is. The
annotations say which values are machine integers and pointers, so that a put makes few Python objects. What
comes from `cython.cimports` is C's own.

A message is ordinary if nothing about it has to be refused, replaced or chosen: topic, queue, body, tags,
keys, properties and born timestamp, of which the topic and the properties fit into 2 KiB and the body into
HELD_BYTES. For all others `append` returns None and has changed nothing; so it does where something rare is
due under the append lock: a refusal, the first message of a queue, a new segment, room to reserve. The
interpreted way puts those, and words the errors (mqstore/put/put_path.py, message_encoder.py,
log_appender.py). It makes the same bytes in many steps; tests hold the two together.

Threads: any. No other thread of the interpreter runs while a record is written, and an interrupt (Ctrl-C)
cannot strike between two lines. Durability: none when `append` returns; see flusher.py.
"""

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import uint8_t, uint32_t, uintptr_t
from cython.cimports.libc.string import memchr, memcpy
from cython.cimports.mqstore.store.direct.crc32 import crc32_of, crc32_prepare, publish_first_bytes
from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec

from mqstore.store.checksum.crc32 import HELD_BYTES
from mqstore.store.clock import SystemClock
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.record.properties_format import CRC32, DELAY, KEYS, TAGS, TIMER_REQUESTS
from mqstore.store.record.record_format import (
    BLANK_MIN_BYTES,
    CRC_NAME,
    CRC_PROPERTY_BYTES,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MESSAGE_MAGIC_CODE,
    STORE_TIMESTAMP_POSITION,
)
from mqstore.store.status import PutMessageStatus

__all__ = ["DirectPut", "checksum"]

crc32_prepare()

_PUT_OK = PutMessageStatus.PUT_OK
_ZERO = 0
# Properties that mean more than they say, or that the fields of the message may replace.
_SPECIAL_NAMES = frozenset([CRC32, DELAY, KEYS, TAGS, *TIMER_REQUESTS])

_HELD_BYTES = cython.declare(cython.Py_ssize_t, HELD_BYTES)
_BLANK_BYTES = cython.declare(cython.longlong, BLANK_MIN_BYTES)
_CRC_BYTES = cython.declare(cython.Py_ssize_t, CRC_PROPERTY_BYTES)
_CRC_NAME = cython.declare(bytes, CRC_NAME)
# Bytes of the topic, the properties and their length that a direct put takes; on the stack.
_ROOM_BYTES = cython.declare(cython.Py_ssize_t, 2048)
_NOT_ORDINARY = cython.declare(cython.Py_ssize_t, -1)

assert HEADER_BYTES + 2 * IPV6_EXTRA_BYTES <= 112
assert len(CRC_NAME) == 9
assert HELD_BYTES < 1 << 20


def checksum(data: bytes, crc: int = 0) -> int:
    """CRC-32, as zlib's; for tests."""
    given: bytes = data
    return crc32_of(cython.cast(cython.pointer[uint8_t], cython.cast(cython.p_char, given)), len(given), crc)


@cython.final
@cython.cclass
class DirectPut:
    """Puts the ordinary messages of one store."""

    _appender: object
    _offsets: object
    _gate: object
    _queue_offsets: dict
    _now_ms: object
    _asks_system: cython.bint
    _known_topic: object
    _add_topic: object
    _queues_to_put_to: object
    _template: object
    _header: bytes
    _store_timestamp_position: cython.Py_ssize_t
    _store_host: bytes
    _max_body_bytes: cython.Py_ssize_t
    _crc_bytes: cython.Py_ssize_t
    _waits: cython.bint
    _watched: object
    _slowly: object
    _finish: object

    def __init__(self, config, clock, encoder, appender, queues_to_put_to, watched, slowly, finish) -> None:
        """encoder, appender: of the interpreted way; their tables and fields are used.

        queues_to_put_to: topic -> number of queues to put to, or None. watched: an object whose `wanted` says
        that a put ends in `finish(result)`, as all do in SYNC_FLUSH. slowly: puts what is not ordinary.
        """
        self._appender = appender
        self._offsets = appender._offsets
        self._gate = appender._gate
        self._queue_offsets = appender._queue_offsets
        self._now_ms = clock.now_ms
        self._asks_system = type(clock) is SystemClock
        self._known_topic, self._add_topic = encoder.topics.get, encoder.topics.add
        self._queues_to_put_to = queues_to_put_to
        template = self._template = encoder.templates[MESSAGE_MAGIC_CODE]
        born_host = template.born_host
        self._header = template.pack_header(
            0, template.magic, 0, 0, template.flag, 0, 0, template.sys_flag, 0, born_host, 0,
            template.behind_store_time, 0,
        )  # fmt: skip
        self._store_timestamp_position = STORE_TIMESTAMP_POSITION - 8 + len(born_host)
        self._store_host = config.store_host.encode()
        self._max_body_bytes = min(config.max_message_size, HELD_BYTES)
        self._crc_bytes = CRC_PROPERTY_BYTES if template.has_crc else 0
        self._waits = config.is_sync_flush
        self._watched = watched
        self._slowly = slowly
        self._finish = finish

    def put(self, message):
        """Store one message, in one way or the other."""
        result = self.append(message)
        if result is None:
            return self._slowly(message)
        if self._waits or self._watched.wanted:
            return self._finish(result)
        return result

    @cython.ccall
    def append(self, message):
        """Append one message of a producer; None, and nothing is changed, if it is not ordinary."""
        if (
            type(message) is not Message
            # Compared by identity: False and 0.0 equal 0, but the thorough checks must decide about them.
            or message.delay_level is not _ZERO
            or message.flag is not _ZERO
            or message.sys_flag is not _ZERO
            or message.reconsume_times is not _ZERO
            or message.prepared_transaction_offset is not _ZERO
            or message.born_host is not None
            or message.wait_store_msg_ok is not True
        ):
            return None
        topic, body, queue_id = message.topic, message.body, message.queue_id
        if type(topic) is not str or type(body) is not bytes or type(queue_id) is not int:
            return None
        if len(cython.cast(bytes, body)) > self._max_body_bytes:
            return None
        overflow: cython.int = 0
        queue: cython.longlong = PyLong_AsLongLongAndOverflow(queue_id, cython.address(overflow))
        queue_nums = self._queues_to_put_to(topic)
        if queue_nums is None or overflow or not 0 <= queue < cython.cast(cython.longlong, queue_nums):
            return None
        born_timestamp: cython.longlong = -1
        given_time = message.born_timestamp
        if given_time is not None:
            if type(given_time) is not int:
                return None
            born_timestamp = PyLong_AsLongLongAndOverflow(given_time, cython.address(overflow))
            if overflow or born_timestamp < 0:
                return None
        known = self._known_topic(topic)
        if known is None:
            try:
                known = self._add_topic(topic)
            except Exception:  # noqa: BLE001 - the interpreted way raises it again
                return None
        if cython.cast(tuple, known)[0] is not self._template:
            return None
        tags, keys, properties = message.tags, message.keys, message.properties
        if type(keys) is not tuple and type(keys) is not str and type(keys) is not list:
            return None
        room = cython.declare(uint8_t[2048])
        ending: cython.pointer[cython.const[uint8_t]]
        ending_bytes: cython.Py_ssize_t
        if tags is None and properties is NO_PROPERTIES and not keys:
            whole: bytes = cython.cast(tuple, known)[1]
            ending = cython.cast(cython.pointer[uint8_t], cython.cast(cython.p_char, whole))
            ending_bytes = len(whole)
        else:
            field: bytes = cython.cast(tuple, known)[2]
            ending = room
            ending_bytes = _encode_ending(room, field, properties, keys, tags, self._crc_bytes)
            if ending_bytes == _NOT_ORDINARY:
                return None
        return self._append_under_lock(
            topic, queue_id, queue, (topic, queue_id), body, born_timestamp, ending, ending_bytes
        )

    @cython.cfunc
    def _append_under_lock(
        self,
        topic: str,
        queue_id: object,
        queue: cython.longlong,
        name: tuple,
        body: bytes,
        born_timestamp: cython.longlong,
        ending: cython.pointer[cython.const[uint8_t]],
        ending_bytes: cython.Py_ssize_t,
    ) -> object:
        data: cython.pointer[cython.const[uint8_t]] = cython.cast(
            cython.pointer[uint8_t], cython.cast(cython.p_char, body)
        )
        header = cython.declare(uint8_t[112])
        header_bytes: cython.Py_ssize_t = len(self._header)
        memcpy(header, cython.cast(cython.p_char, self._header), header_bytes)
        size_bytes: cython.Py_ssize_t = header_bytes + len(body) + ending_bytes + self._crc_bytes
        _put_int(header, size_bytes)
        _put_int(header + 8, crc32_of(data, len(body), 0) & 0x7FFF_FFFF)
        _put_int(header + 12, queue)
        _put_int(header + header_bytes - 4, len(body))
        gate = self._gate
        lock = gate._lock
        if not lock.acquire(False):
            gate.let_holder_finish()
            lock.acquire()
        try:
            return self._append(
                topic, queue_id, name, header, header_bytes, data, len(body), born_timestamp, ending,
                ending_bytes, size_bytes,
            )  # fmt: skip
        except OSError as error:
            raise gate.error_of(error) from error
        finally:
            lock.release()

    @cython.cfunc
    def _append(
        self,
        topic: str,
        queue_id: object,
        name: tuple,
        header: cython.pointer[uint8_t],
        header_bytes: cython.Py_ssize_t,
        body: cython.pointer[cython.const[uint8_t]],
        body_bytes: cython.Py_ssize_t,
        born_timestamp: cython.longlong,
        ending: cython.pointer[cython.const[uint8_t]],
        ending_bytes: cython.Py_ssize_t,
        size_bytes: cython.Py_ssize_t,
    ) -> object:
        """The steps of LogAppender._append_one, under its lock."""
        offsets = self._offsets
        current = offsets.current
        if current is None or self._gate._refusal is not None:
            return None
        queue_offset = self._queue_offsets.get(name)
        if queue_offset is None:
            return None
        store_timestamp: cython.longlong = self._time_ms()
        position: cython.longlong = current.wrote_position
        end: cython.longlong = position + size_bytes
        if (
            end > cython.cast(cython.longlong, current._attention_position)
            or end + _BLANK_BYTES > cython.cast(cython.longlong, current.size_bytes)
            or (region := current._region) is None
        ):
            return None
        physical_offset: cython.longlong = cython.cast(cython.longlong, current.start_offset) + position
        number: cython.longlong = queue_offset
        _put_long(header + 20, number)
        _put_long(header + 28, physical_offset)
        _put_long(header + 40, store_timestamp if born_timestamp < 0 else born_timestamp)
        _put_long(header + self._store_timestamp_position, store_timestamp)
        # All objects are made before the first change: then only the lack of memory can stop it halfway.
        next_offset, wrote_position, stored_at = number + 1, end, store_timestamp
        result = PutMessageResult(
            _PUT_OK, topic, queue_id, queue_offset, physical_offset, size_bytes, stored_at,
            offsets.flushed_offset, self._store_host,
        )  # fmt: skip
        address: uintptr_t = region.address
        target: cython.pointer[uint8_t]
        if address:
            try:
                # The counter moves before the record becomes visible: an offset is never given twice (I1).
                self._queue_offsets[name] = next_offset
                target = cython.cast(cython.pointer[uint8_t], address + cython.cast(uintptr_t, position))
                self._write(target, header, header_bytes, body, body_bytes, ending, ending_bytes)
                publish_first_bytes(target, header)
                current.wrote_position = wrote_position
            except BaseException:
                self._appender.undo_append(current, position, size_bytes, {name: queue_offset})
                raise
        else:
            # This file is written by calls.
            record: bytes = PyBytes_FromStringAndSize(cython.NULL, size_bytes)
            target = cython.cast(cython.pointer[uint8_t], cython.cast(cython.p_char, record))
            memcpy(target, header, 8)
            self._write(target, header, header_bytes, body, body_bytes, ending, ending_bytes)
            self._appender.publish(current, name, queue_offset, record)
        self._appender.last_store_timestamp = stored_at
        return result

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _write(
        self,
        target: cython.pointer[uint8_t],
        header: cython.pointer[uint8_t],
        header_bytes: cython.Py_ssize_t,
        body: cython.pointer[cython.const[uint8_t]],
        body_bytes: cython.Py_ssize_t,
        ending: cython.pointer[cython.const[uint8_t]],
        ending_bytes: cython.Py_ssize_t,
    ) -> cython.void:
        """Write a record to `target`, but for its first 8 bytes."""
        crc: uint32_t
        memcpy(target + 8, header + 8, header_bytes - 8)
        memcpy(target + header_bytes, body, body_bytes)
        memcpy(target + header_bytes + body_bytes, ending, ending_bytes)
        if self._crc_bytes:
            crc = crc32_of(header, header_bytes, 0)
            crc = crc32_of(body, body_bytes, crc)
            crc = crc32_of(ending, ending_bytes, crc)
            _put_crc(target + header_bytes + body_bytes + ending_bytes, crc & 0x7FFF_FFFF)

    @cython.cfunc
    def _time_ms(self) -> cython.longlong:
        """As the store's clock, without a detour to the system's."""
        if not self._asks_system:
            return self._now_ms()
        now = cython.declare(timespec)
        clock_gettime(CLOCK_REALTIME, cython.address(now))
        return cython.cast(cython.longlong, now.tv_sec) * 1000 + now.tv_nsec // 1_000_000


@cython.cfunc
@cython.exceptval(-2)
def _encode_ending(
    target: cython.pointer[uint8_t],
    topic_field: bytes,
    properties: object,
    keys: object,
    tags: object,
    crc_bytes: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write topic, length of the properties, and properties; returns how many bytes, or _NOT_ORDINARY."""
    at: cython.Py_ssize_t = len(topic_field)
    if crc_bytes == 0 or at + 2 > _ROOM_BYTES:
        return _NOT_ORDINARY
    memcpy(target, cython.cast(cython.p_char, topic_field), at)
    at += 2
    begin: cython.Py_ssize_t = at
    if properties is not NO_PROPERTIES:
        if type(properties) is not dict:
            return _NOT_ORDINARY
        for name, value in cython.cast(dict, properties).items():
            if type(name) is not str or type(value) is not str or name in _SPECIAL_NAMES:
                return _NOT_ORDINARY
            at = _put_text(target, at, name, 1)
            at = _put_text(target, at, value, 2)
            if at == _NOT_ORDINARY:
                return _NOT_ORDINARY
    if keys:
        at = _put_text(target, at, KEYS, 1)
        at = _put_keys(target, at, keys)
    if tags is not None:
        if type(tags) is not str:
            return _NOT_ORDINARY
        if tags:
            at = _put_text(target, at, TAGS, 1)
            at = _put_text(target, at, tags, 2)
    if at == _NOT_ORDINARY:
        return _NOT_ORDINARY
    size_bytes: cython.Py_ssize_t = at - begin + crc_bytes
    target[begin - 2] = cython.cast(uint8_t, size_bytes >> 8)
    target[begin - 1] = cython.cast(uint8_t, size_bytes & 0xFF)
    return at


@cython.cfunc
@cython.exceptval(-2)
def _put_keys(target: cython.pointer[uint8_t], at: cython.Py_ssize_t, keys: object) -> cython.Py_ssize_t:
    """As `_put_text`, the value of KEYS: one text, or several without blanks, with blanks in between."""
    if type(keys) is str:
        return _put_text(target, at, keys, 2)
    for key in keys:
        if type(key) is not str or " " in cython.cast(str, key):
            return _NOT_ORDINARY
        at = _put_text(target, at, key, 32)
    if at > 0:
        target[at - 1] = 2
    return at


@cython.cfunc
@cython.exceptval(-2)
def _put_text(
    target: cython.pointer[uint8_t], at: cython.Py_ssize_t, text: str, closing: uint8_t
) -> cython.Py_ssize_t:
    """Write a text and the byte that closes it; returns where they end.

    _NOT_ORDINARY if there is no text or no room, for separators, and if `at` is _NOT_ORDINARY.
    """
    size_bytes: cython.Py_ssize_t = 0
    source: cython.pointer[cython.const[cython.char]]
    if at < 0:
        return _NOT_ORDINARY
    try:
        source = PyUnicode_AsUTF8AndSize(text, cython.address(size_bytes))
    except UnicodeEncodeError:
        return _NOT_ORDINARY
    if size_bytes == 0 or size_bytes > _ROOM_BYTES - 1 - at:
        return _NOT_ORDINARY
    if memchr(source, 1, size_bytes) != cython.NULL or memchr(source, 2, size_bytes) != cython.NULL:
        return _NOT_ORDINARY
    memcpy(target + at, source, size_bytes)
    target[at + size_bytes] = closing
    return at + size_bytes + 1


@cython.cfunc
@cython.inline
@cython.cdivision(True)
@cython.exceptval(check=False)
def _put_crc(target: cython.pointer[uint8_t], crc: uint32_t) -> cython.void:
    """The property with the record's CRC: ten digits, least significant first."""
    index: cython.Py_ssize_t
    memcpy(target, cython.cast(cython.p_char, _CRC_NAME), 9)
    for index in range(9, 19):
        target[index] = cython.cast(uint8_t, 48 + crc % 10)
        crc //= 10
    target[19] = 2


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_int(target: cython.pointer[uint8_t], value: cython.longlong) -> cython.void:
    """Four bytes, the most significant first."""
    target[0] = cython.cast(uint8_t, value >> 24)
    target[1] = cython.cast(uint8_t, value >> 16)
    target[2] = cython.cast(uint8_t, value >> 8)
    target[3] = cython.cast(uint8_t, value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_long(target: cython.pointer[uint8_t], value: cython.longlong) -> cython.void:
    """Eight bytes, the most significant first."""
    _put_int(target, value >> 32)
    _put_int(target + 4, value)
