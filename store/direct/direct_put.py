"""The direct put: ordinary messages, from their fields into the mapping, in one compiled step.

This is Python that Cython compiles when a wheel is built (build.py). Nothing imports this file as it is. The
annotations say which values are machine integers and pointers, so that a put makes few Python objects. What
comes from `cython.cimports` is C's own.

    _prepare                    every check; header and ending into a buffer of the caller
    _append_under_lock, _append offsets and times, then all records into the mapping

A message is ordinary if nothing about it has to be refused or chosen, its topic and properties fit into
2 KiB, and its body into HELD_BYTES. One that asks for a delay level is addressed to SCHEDULE_TOPIC_XXXX, as
by schedule/delay/delayed_message.py. A list is ordinary if all its messages are. For all others the methods
return None and have changed nothing; so they do where something rare is due under the append lock: a refusal,
the first message of a queue, a new segment, room to reserve. The interpreted way puts those, and words the
errors (mqstore/put/put_path.py, message_encoder.py, log_appender.py). It makes the same bytes in many steps;
tests hold the two together.

Threads: any. No other thread of the interpreter runs while records are written, and an interrupt (Ctrl-C)
cannot strike between two lines. Durability: none when a method returns; see flusher.py.
"""

from threading import get_ident
from types import MemberDescriptorType

import cython
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import int32_t, uint8_t, uint32_t, uintptr_t
from cython.cimports.libc.string import memchr, memcpy
from cython.cimports.mqstore.store.direct.crc32 import (
    are_wide_registers_full,
    crc32_of,
    crc32_prepare,
    empty_wide_registers,
    publish_first_bytes,
)
from cython.cimports.mqstore.store.direct.members import T_OBJECT_EX, PyMemberDescrObject
from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec

from mqstore.store.checksum.crc32 import HELD_BYTES
from mqstore.store.clock import SystemClock
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.host import IPV4_HOST_BYTES, IPV6_HOST_BYTES, Host
from mqstore.store.record.properties_format import (
    CRC32,
    DELAY,
    KEYS,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_REQUESTS,
    UNIQ_KEY,
)
from mqstore.store.record.record_format import (
    BLANK_MIN_BYTES,
    BORN_HOST_POSITION,
    CRC_NAME,
    CRC_PROPERTY_BYTES,
    HEADER_BYTES,
    IPV6_EXTRA_BYTES,
    MESSAGE_MAGIC_CODE,
    STORE_HOST_END_BEFORE_BODY,
    STORE_TIMESTAMP_POSITION,
)
from mqstore.store.record.record_template import record_template
from mqstore.store.record.sys_flag import (
    BORN_HOST_V6,
    INNER_BATCH,
    STORE_HOST_V6,
    TRANSACTION_MASK,
)
from mqstore.store.status import PutMessageStatus

__all__ = ["DirectPut", "checksum", "wide_registers_are_full"]

crc32_prepare()

# Kept as variables of C: a name of a module is looked up in its table each time.
_MESSAGE = cython.declare(object, Message)
_HOST = cython.declare(object, Host)
_NO_PROPERTIES = cython.declare(object, NO_PROPERTIES)
_PUT_MESSAGE_RESULT = cython.declare(object, PutMessageResult)
_PUT_OK = cython.declare(object, PutMessageStatus.PUT_OK)
_ZERO = cython.declare(object, 0)
_UNSET = cython.declare(object, object())


def _place_of(member):
    """Where a Message keeps a field: bytes behind its beginning. member: the field's descriptor."""
    if type(member) is MemberDescriptorType and member.__objclass__ is Message:
        described = cython.cast(cython.pointer[PyMemberDescrObject], cython.cast(cython.p_void, member))
        if described.d_member.type == T_OBJECT_EX:
            return described.d_member.offset
    raise ImportError(f"this msgspec keeps the fields of a message in another way: {member!r}")


# A put reads fourteen fields. By its name each would cost a search through the class and a call.
_TOPIC = cython.declare(cython.Py_ssize_t, _place_of(Message.topic))
_BODY = cython.declare(cython.Py_ssize_t, _place_of(Message.body))
_TAGS = cython.declare(cython.Py_ssize_t, _place_of(Message.tags))
_KEYS = cython.declare(cython.Py_ssize_t, _place_of(Message.keys))
_QUEUE_ID = cython.declare(cython.Py_ssize_t, _place_of(Message.queue_id))
_DELAY_LEVEL = cython.declare(cython.Py_ssize_t, _place_of(Message.delay_level))
_PROPERTIES = cython.declare(cython.Py_ssize_t, _place_of(Message.properties))
_FLAG = cython.declare(cython.Py_ssize_t, _place_of(Message.flag))
_SYS_FLAG = cython.declare(cython.Py_ssize_t, _place_of(Message.sys_flag))
_BORN_TIMESTAMP = cython.declare(cython.Py_ssize_t, _place_of(Message.born_timestamp))
_BORN_HOST = cython.declare(cython.Py_ssize_t, _place_of(Message.born_host))
_RECONSUME_TIMES = cython.declare(cython.Py_ssize_t, _place_of(Message.reconsume_times))
_PREPARED_OFFSET = cython.declare(cython.Py_ssize_t, _place_of(Message.prepared_transaction_offset))
_WAIT_STORE_MSG_OK = cython.declare(cython.Py_ssize_t, _place_of(Message.wait_store_msg_ok))

_HELD_BYTES = cython.declare(cython.Py_ssize_t, HELD_BYTES)
_BLANK_BYTES = cython.declare(cython.longlong, BLANK_MIN_BYTES)
_CRC_BYTES = cython.declare(cython.Py_ssize_t, CRC_PROPERTY_BYTES)
_CRC_NAME = cython.declare(bytes, CRC_NAME)
_UNIQ_KEY_NAME = cython.declare(bytes, UNIQ_KEY.encode() + b"\x01")
_BORN_HOST_AT = cython.declare(cython.Py_ssize_t, BORN_HOST_POSITION)
_RECONSUME_TIMES_BEFORE_BODY = cython.declare(cython.Py_ssize_t, STORE_HOST_END_BEFORE_BODY)
_BORN_HOST_BIT = cython.declare(cython.longlong, BORN_HOST_V6)
_HOST_BITS = cython.declare(cython.longlong, BORN_HOST_V6 | STORE_HOST_V6)
# With one of these a message is not ordinary: a transaction's may not count in its queue, or must not wait.
_RARE_BITS = cython.declare(cython.longlong, TRANSACTION_MASK | INNER_BATCH)
# Bytes of the topic, the properties and their length that a direct put takes, and of a header.
_ENDING_ROOM_BYTES = cython.declare(cython.Py_ssize_t, 2048)
_HEADER_ROOM_BYTES = cython.declare(cython.Py_ssize_t, 112)
_ROOM_BYTES = cython.declare(cython.Py_ssize_t, 2160)
# Of one list. All its bytes are copied while no other thread of the interpreter runs.
_MOST_MESSAGES = cython.declare(cython.Py_ssize_t, 256)
_MOST_BYTES = cython.declare(cython.Py_ssize_t, 524_288)
_MOST_ROOM_BYTES = cython.declare(cython.Py_ssize_t, 262_144)
_NOT_ORDINARY = cython.declare(cython.Py_ssize_t, -1)
_NO_NUMBER = cython.declare(cython.longlong, -(2**62))

# Names of properties that mean more than they say, or that a field of the message or a delay may replace.
_DELAY_MARK = cython.declare(cython.int, 1)
_REAL_TOPIC_MARK = cython.declare(cython.int, 2)
_REAL_QID_MARK = cython.declare(cython.int, 4)
_KEYS_MARK = cython.declare(cython.int, 8)
_TAGS_MARK = cython.declare(cython.int, 16)
_OTHER_MARK = cython.declare(cython.int, 32)
_MARKS = cython.declare(
    dict,
    {DELAY: 1, REAL_TOPIC: 2, REAL_QID: 4, KEYS: 8, TAGS: 16, CRC32: 32, **dict.fromkeys(TIMER_REQUESTS, 32)},
)

assert HEADER_BYTES + 2 * IPV6_EXTRA_BYTES <= 112
assert len(CRC_NAME) == 9
assert HELD_BYTES < 1 << 20
assert IPV4_HOST_BYTES == 8
assert IPV6_HOST_BYTES == 20

# A message that was prepared: what its record is made of, but for its place and its time. header: in a buffer
# of the caller. ending: there too, or the topic's own. born_timestamp: -1 for the store time.
_Record = cython.struct(
    header=cython.pointer[uint8_t],
    header_bytes=cython.Py_ssize_t,
    born_timestamp=cython.longlong,
    body=cython.pointer[uint8_t],
    body_bytes=cython.Py_ssize_t,
    ending=cython.pointer[uint8_t],
    ending_bytes=cython.Py_ssize_t,
    size_bytes=cython.Py_ssize_t,
)


def checksum(data: bytes, crc: int = 0) -> int:
    """CRC-32, as zlib's; for tests."""
    given: bytes = data
    return crc32_of(cython.cast(cython.pointer[uint8_t], cython.cast(cython.p_char, given)), len(given), crc)


def wide_registers_are_full() -> bool | None:
    """Whether they slow this thread down (crc32.h); None if the processor does not tell. For tests."""
    full: cython.int = are_wide_registers_full()
    return None if full < 0 else bool(full)


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
    _takes_own: object
    _template: object
    _header: bytes
    _header_ipv4: bytes
    _header_ipv6: bytes
    _own_host_bits: cython.longlong
    _store_timestamp_before_body: cython.Py_ssize_t
    _store_host: bytes
    _max_body_bytes: cython.Py_ssize_t
    _crc_bytes: cython.Py_ssize_t
    _waiting_field: bytes
    _waiting: tuple
    _waits: cython.bint
    _watched: object
    _slowly: object
    _finish: object
    # Whether the gate knows this thread, which Python code may need that runs within a step. Under the lock.
    _is_told: cython.bint

    def __init__(
        self,
        config,
        clock,
        encoder,
        appender,
        queues_to_put_to,
        takes_own,
        max_delay_level,
        watched,
        slowly,
        finish,
    ) -> None:
        """encoder, appender: of the interpreted way; their tables and fields are used.

        queues_to_put_to: topic -> number of queues that producers may put to, or None. takes_own: topic ->
        whether it is there and takes the store's own messages. watched: an object whose `wanted` says that a
        put ends in `finish(result)`, as all do in SYNC_FLUSH. slowly: puts what is not ordinary.
        """
        self._appender = appender
        self._offsets = appender._offsets
        self._gate = appender._gate
        self._queue_offsets = appender._queue_offsets
        self._now_ms = clock.now_ms
        self._asks_system = type(clock) is SystemClock
        self._known_topic, self._add_topic = encoder.topics.get, encoder.topics.add
        self._queues_to_put_to, self._takes_own = queues_to_put_to, takes_own
        template = self._template = encoder.templates[MESSAGE_MAGIC_CODE]
        self._store_host = config.store_host.encode()
        self._header = _header_of(template)
        store_bits = STORE_HOST_V6 if config.store_host.is_ipv6 else 0
        self._own_host_bits = store_bits | (BORN_HOST_V6 if config.store_host.is_ipv6 else 0)
        self._header_ipv4, self._header_ipv6 = (
            _header_of(
                record_template(
                    template.magic,
                    0,
                    bits | store_bits,
                    bytes(length),
                    self._store_host,
                    0,
                    0,
                    template.has_crc,
                )
            )
            for length, bits in ((IPV4_HOST_BYTES, 0), (IPV6_HOST_BYTES, BORN_HOST_V6))
        )
        self._store_timestamp_before_body = len(self._header_ipv4) - STORE_TIMESTAMP_POSITION
        self._max_body_bytes = min(config.max_message_size, HELD_BYTES)
        self._crc_bytes = CRC_PROPERTY_BYTES if template.has_crc else 0
        self._waiting_field = encoder.topics.add(SCHEDULE_TOPIC)[2]
        # By level: its queue, and its number as text.
        self._waiting = tuple(
            ((SCHEDULE_TOPIC, level - 1), str(level)) for level in range(max_delay_level + 1)
        )
        self._waits = config.is_sync_flush
        self._watched = watched
        self._slowly = slowly
        self._finish = finish

    def put(self, message):
        """Store one message of a producer, in one way or the other."""
        result = self.append(message)
        if result is None:
            return self._slowly(message)
        if self._waits or self._watched.wanted:
            return self._finish(result)
        return result

    def sent_puts(self):
        """Puts for the producers of a broker, until it is closed."""
        return SentPuts(self)

    @cython.cfunc
    def _put_sent(
        self, message: object, topic: object, body: object, queue_id: object, unique_key: object
    ) -> object:
        """See SentPuts.put."""
        room = cython.declare(uint8_t[2160])
        record = cython.declare(_Record)
        if type(unique_key) is not str:
            return None
        owner: tuple = self._prepare(
            message, False, topic, body, queue_id, unique_key, room, cython.address(record)
        )
        if owner is None:
            return None
        result = self._append_under_lock(owner, None, cython.address(record))
        if result is not None and (self._waits or self._watched.wanted):
            return self._finish(result)
        return result

    @cython.ccall
    def append(self, message):
        """Append one message of a producer; None, and nothing is changed, if it is not ordinary."""
        return self._append_one(message, False)

    @cython.ccall
    def append_own(self, message):
        """As `append`, one of the store's own: any topic takes it that is there and kept here."""
        return self._append_one(message, True)

    @cython.cfunc
    def _append_one(self, message: object, is_own: cython.bint) -> object:
        room = cython.declare(uint8_t[2160])
        record = cython.declare(_Record)
        owner: tuple = self._prepare(message, is_own, None, None, None, None, room, cython.address(record))
        if owner is None:
            return None
        return self._append_under_lock(owner, None, cython.address(record))

    @cython.ccall
    def append_all(self, messages: list):
        """Append messages of producers, all or none: None, and nothing is changed, if one is not ordinary.

        All become visible in one step, and have one store time.
        """
        count: cython.Py_ssize_t = len(messages)
        if not 0 < count <= _MOST_MESSAGES:
            return None
        table: bytes = PyBytes_FromStringAndSize(cython.NULL, count * cython.sizeof(_Record))
        records: cython.pointer[_Record] = cython.cast(cython.pointer[_Record], _data_of(table))
        room_bytes: cython.Py_ssize_t = min(count * _ROOM_BYTES, _MOST_ROOM_BYTES)
        rooms: bytes = PyBytes_FromStringAndSize(cython.NULL, room_bytes)
        room: cython.pointer[uint8_t] = _data_of(rooms)
        size_bytes: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        owner: tuple = None
        owners: list = []
        for index in range(count):
            message = messages[index]
            if room - _data_of(rooms) > room_bytes - _ROOM_BYTES:
                return None
            if index and _differs_in_its_body_only(message, messages[index - 1]):
                owner = self._prepare_again(owner, message, room, records + index)
            else:
                owner = self._prepare(message, False, None, None, None, None, room, records + index)
            if owner is None:
                return None
            owners.append(owner)
            size_bytes += records[index].size_bytes
            if size_bytes > _MOST_BYTES:
                return None
            # Endings are often short, or those of the message before: so all of them lie close together.
            if records[index].ending == room + _HEADER_ROOM_BYTES:
                room += records[index].ending_bytes
            room += _HEADER_ROOM_BYTES
        return self._append_under_lock(None, owners, records)

    # -- before the lock ------------------------------------------------------------------------------

    @cython.cfunc
    def _prepare(
        self,
        message: object,
        is_own: cython.bint,
        topic: object,
        given_body: object,
        queue_id: object,
        unique_key: str | None,
        room: cython.pointer[uint8_t],
        record: cython.pointer[_Record],
    ) -> tuple:
        """Fill `record`; None if the message is not ordinary. room: _ROOM_BYTES that outlive the record.

        topic, given_body, queue_id: if there is a `unique_key`, which is then the only property; else the
        message's own are taken.

        Returns (queue, body, entry of the topic): the queue's topic and number, and what `record` points to.
        """
        empty_wide_registers()
        if (
            type(message) is not _MESSAGE
            # Compared by identity: False and 0.0 equal 0, but the thorough checks must decide about them.
            or _field(message, _PREPARED_OFFSET) is not _ZERO
            or _field(message, _WAIT_STORE_MSG_OK) is not True
        ):
            return None
        properties = _NO_PROPERTIES
        if unique_key is None:
            topic = _field(message, _TOPIC)
            given_body = _field(message, _BODY)
            queue_id = _field(message, _QUEUE_ID)
            properties = _field(message, _PROPERTIES)
        if type(topic) is not str or type(queue_id) is not int:
            return None
        queue: cython.longlong = _int_of(queue_id)
        if queue < 0:
            return None
        if not is_own:
            queue_nums = self._queues_to_put_to(topic)
            if queue_nums is None or queue >= cython.cast(cython.longlong, queue_nums):
                return None
        body: bytes = self._body_of(given_body)
        if body is None:
            return None
        record.born_timestamp = _born_timestamp_of(_field(message, _BORN_TIMESTAMP))
        if record.born_timestamp == _NO_NUMBER:
            return None
        known = self._known_topic(topic)
        if known is None:
            try:
                known = self._add_topic(topic)
            except Exception:  # noqa: BLE001 - the interpreted way raises it again
                return None
        if cython.cast(tuple, known)[0] is not self._template:
            return None
        keys = _field(message, _KEYS)
        tags = _field(message, _TAGS)
        if type(keys) is not tuple and type(keys) is not str and type(keys) is not list:
            return None
        if tags is not None and type(tags) is not str:
            return None
        level: cython.longlong = _level_of(_field(message, _DELAY_LEVEL), properties)
        if level < 0:
            return None
        waiting: tuple = None
        name: tuple = None
        if level:
            waiting = self._waiting[min(level, cython.cast(cython.longlong, len(self._waiting) - 1))]
            name = waiting[0]
            queue = cython.cast(cython.longlong, name[1])
        else:
            name = (topic, queue_id)
        if is_own and not self._takes_own(name[0]):
            return None
        if (
            waiting is None
            and tags is None
            and properties is _NO_PROPERTIES
            and not keys
            and unique_key is None
        ):
            whole: bytes = cython.cast(tuple, known)[1]
            record.ending = _data_of(whole)
            record.ending_bytes = len(whole)
        else:
            field: bytes = cython.cast(tuple, known)[2] if waiting is None else self._waiting_field
            record.ending = room + _HEADER_ROOM_BYTES
            record.ending_bytes = _encode_ending(
                record.ending,
                field,
                properties,
                unique_key,
                keys,
                tags,
                waiting,
                topic,
                queue_id,
                self._crc_bytes,
            )
            if record.ending_bytes == _NOT_ORDINARY:
                return None
        record.header = room
        record.header_bytes = self._encode_header(room, message)
        if record.header_bytes == _NOT_ORDINARY:
            return None
        _put_int(room + 12, queue)
        self._set_body(record, body)
        return (name, body, known)

    @cython.cfunc
    def _prepare_again(
        self,
        owner: tuple,
        message: object,
        room: cython.pointer[uint8_t],
        record: cython.pointer[_Record],
    ) -> tuple:
        """As `_prepare`, of a message that differs in its body only from that of the record before.

        owner: what was returned for that one.
        """
        body: bytes = self._body_of(_field(message, _BODY))
        if body is None:
            return None
        record[0] = (record - 1)[0]
        memcpy(room, record.header, record.header_bytes)
        record.header = room
        self._set_body(record, body)
        return (owner[0], body, owner[2])

    @cython.cfunc
    @cython.exceptval(check=False)
    def _set_body(self, record: cython.pointer[_Record], body: bytes) -> cython.void:
        """Complete a record whose header and ending are there."""
        header: cython.pointer[uint8_t] = record.header
        record.body = _data_of(body)
        record.body_bytes = len(body)
        record.size_bytes = record.header_bytes + record.body_bytes + record.ending_bytes + self._crc_bytes
        _put_int(header, record.size_bytes)
        _put_int(header + 8, crc32_of(record.body, record.body_bytes, 0) & 0x7FFF_FFFF)
        _put_int(header + record.header_bytes - 4, record.body_bytes)

    @cython.cfunc
    def _body_of(self, body: object) -> bytes:
        """The body as bytes; None if it is too long, or not ordinary."""
        if type(body) is not bytes:
            if type(body) is not memoryview:
                return None
            try:
                # What it shows may have been released, or may change once another thread runs.
                body = bytes(body) if len(body) <= self._max_body_bytes else None
            except Exception:  # noqa: BLE001 - the interpreted way raises it again
                return None
            if body is None:
                return None
        return body if len(cython.cast(bytes, body)) <= self._max_body_bytes else None

    @cython.cfunc
    @cython.exceptval(-2)
    def _encode_header(self, header: cython.pointer[uint8_t], message: object) -> cython.Py_ssize_t:
        """Write a header with hosts, flags and reconsume times; its length, or _NOT_ORDINARY."""
        whole: bytes = self._header
        host_bits: cython.longlong = self._own_host_bits
        born_host = _field(message, _BORN_HOST)
        address: bytes = None
        port: cython.longlong = 0
        if born_host is not None:
            if type(born_host) is not _HOST or len(cython.cast(tuple, born_host)) != 2:
                return _NOT_ORDINARY
            if type(cython.cast(tuple, born_host)[0]) is not bytes:
                return _NOT_ORDINARY
            address = cython.cast(tuple, born_host)[0]
            port = _long_of(cython.cast(tuple, born_host)[1])
            host_bits &= ~_BORN_HOST_BIT
            if len(address) == 4:
                whole = self._header_ipv4
            elif len(address) == 16:
                whole = self._header_ipv6
                host_bits |= _BORN_HOST_BIT
            else:
                return _NOT_ORDINARY
            if not 0 <= port < 1 << 32:
                return _NOT_ORDINARY
        header_bytes: cython.Py_ssize_t = len(whole)
        memcpy(header, _data_of(whole), header_bytes)
        if address is not None:
            memcpy(header + _BORN_HOST_AT, _data_of(address), len(address))
            _put_int(header + _BORN_HOST_AT + len(address), port)
        number = _field(message, _FLAG)
        if number is not _ZERO and not _put_number(header + 16, _int_of(number)):
            return _NOT_ORDINARY
        number = _field(message, _RECONSUME_TIMES)
        if number is not _ZERO and not _put_number(
            header + header_bytes - _RECONSUME_TIMES_BEFORE_BODY, _int_of(number)
        ):
            return _NOT_ORDINARY
        number = _field(message, _SYS_FLAG)
        if number is not _ZERO:
            sys_flag: cython.longlong = _int_of(number)
            if sys_flag == _NO_NUMBER or sys_flag & _RARE_BITS:
                return _NOT_ORDINARY
            _put_int(header + 36, (sys_flag & ~_HOST_BITS) | host_bits)
        return header_bytes

    # -- under the lock -------------------------------------------------------------------------------

    @cython.cfunc
    def _append_under_lock(
        self, owner: tuple | None, owners: list | None, records: cython.pointer[_Record]
    ) -> object:
        """The result of one prepared message, or the results of several; None as `append`.

        owner, owners: what `_prepare` returned, for one or for all. A list for one would cost a tenth of a
        put.
        """
        gate = self._gate
        lock = gate._lock
        # Made here: a new list may set off the garbage collection, which may run whatever Python code.
        results: list = None if owners is None else []
        after: dict = None if owners is None else {}
        if not lock.acquire(False):
            gate.let_holder_finish()
            lock.acquire()
        try:
            return self._append(owner, owners, results, after, records)
        except OSError as error:
            raise gate.error_of(error) from error
        finally:
            if self._is_told:
                self._is_told = False
                gate._holder = 0
            lock.release()

    @cython.cfunc
    def _tell_holder(self) -> object:
        """Fill AppendGate._holder before Python code runs within a step. A plain put runs none."""
        self._is_told = True
        self._gate._holder = get_ident()

    @cython.cfunc
    def _append(
        self,
        owner: tuple | None,
        owners: list | None,
        results: list | None,
        after: dict | None,
        records: cython.pointer[_Record],
    ) -> object:
        """The steps of LogAppender._append_one and _append_rows, under its lock.

        results, after: empty, for those of `owners` and the counters of their queues.
        """
        if not self._asks_system:
            self._tell_holder()
        offsets = self._offsets
        current = offsets.current
        if current is None or self._gate._refusal is not None or offsets.unfinished is not None:
            return None
        count: cython.Py_ssize_t = 1 if owners is None else len(owners)
        size_bytes: cython.longlong = 0
        index: cython.Py_ssize_t
        for index in range(count):
            size_bytes += records[index].size_bytes
        stored_at: object = self._time_ms()
        position: cython.longlong = current.wrote_position
        end: cython.longlong = position + size_bytes
        wrote_position: object = end
        if (
            end > cython.cast(cython.longlong, current._attention_position)
            or end + _BLANK_BYTES > cython.cast(cython.longlong, current.size_bytes)
            or (region := current._region) is None
        ):
            return None
        physical_offset: cython.longlong = cython.cast(cython.longlong, current.start_offset) + position
        flushed_offset = offsets.flushed_offset
        address: uintptr_t = region.address
        written: bytes = None
        target: cython.pointer[uint8_t]
        result: object = None
        name: tuple
        number: cython.longlong
        try:
            # Each counter moves before the records become visible: an offset is never given twice (I1).
            if owners is None:
                name = owner[0]
                queue_offset = self._queue_offsets.get(name)
                if queue_offset is None:
                    return None
                number = queue_offset
                result = self._give_place(name, number, records, physical_offset, stored_at, flushed_offset)
                # Nothing can fail behind this.
                self._queue_offsets[name] = number + 1
            elif not self._give_places(
                owners, results, after, records, physical_offset, stored_at, flushed_offset
            ):
                return None
            if address:
                target = cython.cast(cython.pointer[uint8_t], address + cython.cast(uintptr_t, position))
                self._write(target, records, count)
                publish_first_bytes(target, records[0].header)
                current.wrote_position = wrote_position
            else:
                # This file is written by calls.
                self._tell_holder()
                written = PyBytes_FromStringAndSize(cython.NULL, size_bytes)
                target = _data_of(written)
                self._write(target, records, count)
                memcpy(target, records[0].header, 8)
                current.publish(written)
        except BaseException:
            self._tell_holder()
            given = [*(results or ()), *([] if result is None else [result])]
            offsets.unfinished = (current, position, size_bytes, _first_offsets(given))
            self._appender.undo_unfinished()
            raise
        self._appender.last_store_timestamp = stored_at
        return result if owners is None else results

    @cython.cfunc
    def _give_places(
        self,
        owners: list,
        results: list,
        after: dict,
        records: cython.pointer[_Record],
        physical_offset: cython.longlong,
        stored_at: object,
        flushed_offset: object,
    ) -> cython.bint:
        """Complete all headers, fill `results` and move the counters; False if a queue has none."""
        index: cython.Py_ssize_t
        number: cython.longlong = 0
        name: tuple = None
        for index in range(len(owners)):
            owner: tuple = owners[index]
            if owner[0] is not name:
                if name is not None:
                    after[name] = number
                name = owner[0]
                queue_offset = after.get(name)
                if queue_offset is None:
                    queue_offset = self._queue_offsets.get(name)
                if queue_offset is None:
                    return False
                number = queue_offset
            results.append(
                self._give_place(name, number, records + index, physical_offset, stored_at, flushed_offset)
            )
            number += 1
            physical_offset += records[index].size_bytes
        after[name] = number
        self._queue_offsets.update(after)
        return True

    @cython.cfunc
    def _give_place(
        self,
        name: tuple,
        number: cython.longlong,
        record: cython.pointer[_Record],
        physical_offset: cython.longlong,
        stored_at: object,
        flushed_offset: object,
    ) -> object:
        """Complete a header; the result. number: the queue offset."""
        store_timestamp: cython.longlong = stored_at
        header: cython.pointer[uint8_t] = record.header
        _put_long(header + 20, number)
        _put_long(header + 28, physical_offset)
        _put_long(header + 40, store_timestamp if record.born_timestamp < 0 else record.born_timestamp)
        _put_long(header + record.header_bytes - self._store_timestamp_before_body, store_timestamp)
        return _PUT_MESSAGE_RESULT(
            _PUT_OK, name[0], name[1], number, physical_offset, record.size_bytes, stored_at,
            flushed_offset, self._store_host,
        )  # fmt: skip

    @cython.cfunc
    @cython.exceptval(check=False)
    def _write(
        self, target: cython.pointer[uint8_t], records: cython.pointer[_Record], count: cython.Py_ssize_t
    ) -> cython.void:
        """Write records to `target`, but for the first 8 bytes of all."""
        index: cython.Py_ssize_t
        record: cython.pointer[_Record]
        behind: cython.pointer[uint8_t]
        crc: uint32_t
        for index in range(count):
            record = records + index
            if index:
                memcpy(target, record.header, 8)
            memcpy(target + 8, record.header + 8, record.header_bytes - 8)
            behind = target + record.header_bytes
            memcpy(behind, record.body, record.body_bytes)
            behind += record.body_bytes
            memcpy(behind, record.ending, record.ending_bytes)
            behind += record.ending_bytes
            if self._crc_bytes:
                crc = crc32_of(record.header, record.header_bytes, 0)
                crc = crc32_of(record.body, record.body_bytes, crc)
                crc = crc32_of(record.ending, record.ending_bytes, crc)
                _put_crc(behind, crc & 0x7FFF_FFFF)
            target += record.size_bytes

    @cython.cfunc
    def _time_ms(self) -> cython.longlong:
        """As the store's clock, without a detour to the system's."""
        if not self._asks_system:
            return self._now_ms()
        now = cython.declare(timespec)
        clock_gettime(CLOCK_REALTIME, cython.address(now))
        return cython.cast(cython.longlong, now.tv_sec) * 1000 + now.tv_nsec // 1_000_000


@cython.final
@cython.cclass
class SentPuts:
    """Puts messages as producers send them, until it is closed."""

    _direct: DirectPut
    _is_open: cython.bint

    def __init__(self, direct: DirectPut) -> None:
        self._direct = direct
        self._is_open = True

    def put(self, message, topic, body, queue_id, unique_key):
        """Store one message as its producer sends it; None, and nothing is changed, if it is not ordinary.

        The producer has looked at `topic` and `body` of the message, and that it has no properties. It goes
        to `queue_id` instead of its own queue, and `unique_key`, a str, is its only property.
        """
        if not self._is_open:
            return None
        return self._direct._put_sent(message, topic, body, queue_id, unique_key)

    def close(self) -> None:
        """Answer None from now on."""
        self._is_open = False


def _first_offsets(results):
    """The queue offset that each queue had before `results` were given."""
    return {(result.topic, result.queue_id): result.queue_offset for result in reversed(results)}


def _header_of(template):
    """A header with the fields of a template; all others are zero."""
    return template.pack_header(
        0, template.magic, 0, 0, template.flag, 0, 0, template.sys_flag, 0, template.born_host, 0,
        template.behind_store_time, 0,
    )  # fmt: skip


@cython.cfunc
@cython.inline
def _field(message: object, place: cython.Py_ssize_t) -> object:
    """A field of a Message, whose class is just that; _UNSET, of no ordinary type, if it was never set."""
    begin: cython.p_char = cython.cast(cython.p_char, cython.cast(cython.p_void, message))
    value: cython.p_void = cython.cast(cython.pointer[cython.p_void], begin + place)[0]
    return _UNSET if value == cython.NULL else cython.cast(object, value)


@cython.cfunc
@cython.exceptval(check=False)
def _differs_in_its_body_only(message: object, other: object) -> cython.bint:
    """Whether all other fields of two messages are the same objects. other: was prepared."""
    if type(message) is not _MESSAGE:
        return False
    return (
        _is_shared(message, other, _TOPIC)
        and _is_shared(message, other, _TAGS)
        and _is_shared(message, other, _KEYS)
        and _is_shared(message, other, _QUEUE_ID)
        and _is_shared(message, other, _DELAY_LEVEL)
        and _is_shared(message, other, _PROPERTIES)
        and _is_shared(message, other, _FLAG)
        and _is_shared(message, other, _SYS_FLAG)
        and _is_shared(message, other, _BORN_TIMESTAMP)
        and _is_shared(message, other, _BORN_HOST)
        and _is_shared(message, other, _RECONSUME_TIMES)
        and _is_shared(message, other, _PREPARED_OFFSET)
        and _is_shared(message, other, _WAIT_STORE_MSG_OK)
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_shared(message: object, other: object, place: cython.Py_ssize_t) -> cython.bint:
    """Whether two messages have the same object in a field."""
    begin: cython.p_char = cython.cast(cython.p_char, cython.cast(cython.p_void, message))
    begin_of_other: cython.p_char = cython.cast(cython.p_char, cython.cast(cython.p_void, other))
    return (
        cython.cast(cython.pointer[cython.p_void], begin + place)[0]
        == cython.cast(cython.pointer[cython.p_void], begin_of_other + place)[0]
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _data_of(data: bytes) -> cython.pointer[uint8_t]:
    """The bytes of an object, as long as it lives."""
    return cython.cast(cython.pointer[uint8_t], cython.cast(cython.p_char, data))


@cython.cfunc
@cython.exceptval(check=False)
def _long_of(value: object) -> cython.longlong:
    """An int; _NO_NUMBER if it is none, or has more than 63 bits."""
    overflow: cython.int = 0
    if type(value) is not int:
        return _NO_NUMBER
    number: cython.longlong = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
    return _NO_NUMBER if overflow else number


@cython.cfunc
@cython.exceptval(check=False)
def _int_of(value: object) -> cython.longlong:
    """As `_long_of`, an int of 32 bits."""
    number: cython.longlong = _long_of(value)
    return number if number == cython.cast(int32_t, number) else _NO_NUMBER


@cython.cfunc
@cython.exceptval(check=False)
def _put_number(target: cython.pointer[uint8_t], number: cython.longlong) -> cython.bint:
    """Four bytes of a number that `_int_of` found; False if it found none."""
    if number == _NO_NUMBER:
        return False
    _put_int(target, number)
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _born_timestamp_of(value: object) -> cython.longlong:
    """Epoch ms; -1 for the store time; _NO_NUMBER if it is not ordinary."""
    if value is None:
        return -1
    number: cython.longlong = _long_of(value)
    return _NO_NUMBER if number < 0 else number


@cython.cfunc
@cython.exceptval(-2)
def _level_of(delay_level: object, properties: object) -> cython.longlong:
    """The delay level that is asked for by the field, or else by the property DELAY; 0 for none.

    _NOT_ORDINARY for levels below, for texts that are not plain numbers, and for properties that are no dict.
    """
    level: cython.longlong = 0
    size_bytes: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    digits: cython.pointer[cython.const[cython.char]]
    if delay_level is not _ZERO:
        level = _int_of(delay_level)
        return level if level > 0 else _NOT_ORDINARY
    if properties is _NO_PROPERTIES:
        return 0
    if type(properties) is not dict:
        return _NOT_ORDINARY
    text = cython.cast(dict, properties).get(DELAY)
    if text is None:
        return 0
    if type(text) is not str:
        return _NOT_ORDINARY
    try:
        digits = PyUnicode_AsUTF8AndSize(text, cython.address(size_bytes))
    except UnicodeEncodeError:
        return _NOT_ORDINARY
    if not 0 < size_bytes < 10:
        return _NOT_ORDINARY
    for index in range(size_bytes):
        if not 48 <= digits[index] <= 57:
            return _NOT_ORDINARY
        level = level * 10 + digits[index] - 48
    return level


@cython.cfunc
@cython.exceptval(-2)
def _encode_ending(
    target: cython.pointer[uint8_t],
    topic_field: bytes,
    properties: object,
    unique_key: str | None,
    keys: object,
    tags: object,
    waiting: tuple | None,
    topic: str,
    queue_id: object,
    crc_bytes: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write topic, length of the properties, and properties; returns how many bytes, or _NOT_ORDINARY.

    unique_key: if it is given, there are no other properties. waiting: if the message is delayed, what
    `DirectPut._waiting` has of its level. Then DELAY, REAL_TOPIC and REAL_QID say where to deliver it: in
    place of what they said before, or behind the other properties.
    """
    at: cython.Py_ssize_t = len(topic_field)
    if crc_bytes == 0 or at + 2 > _ENDING_ROOM_BYTES:
        return _NOT_ORDINARY
    memcpy(target, _data_of(topic_field), at)
    at += 2
    begin: cython.Py_ssize_t = at
    before: cython.Py_ssize_t
    mark: cython.int
    missing: cython.int = 0
    replaced: cython.int = 0
    level: str = None
    queue: str = None
    if waiting is not None:
        replaced = missing = _DELAY_MARK | _REAL_TOPIC_MARK | _REAL_QID_MARK
        level, queue = waiting[1], str(queue_id)
    if keys:
        replaced |= _KEYS_MARK
    if tags:
        replaced |= _TAGS_MARK
    if unique_key is not None and at + len(_UNIQ_KEY_NAME) < _ENDING_ROOM_BYTES:
        memcpy(target + at, _data_of(_UNIQ_KEY_NAME), len(_UNIQ_KEY_NAME))
        at = _put_text(target, at + len(_UNIQ_KEY_NAME), unique_key, 2)
    elif unique_key is not None:
        return _NOT_ORDINARY
    if properties is not _NO_PROPERTIES:
        if type(properties) is not dict:
            return _NOT_ORDINARY
        for name, value in cython.cast(dict, properties).items():
            if type(name) is not str or type(value) is not str:
                return _NOT_ORDINARY
            at = _put_text(target, at, name, 1)
            before = at
            at = _put_text(target, at, value, 2)
            if at == _NOT_ORDINARY:
                return _NOT_ORDINARY
            found = _MARKS.get(name)
            if found is None:
                continue
            mark = found
            if mark == _OTHER_MARK:
                return _NOT_ORDINARY
            if mark & replaced:
                if mark & missing == 0:
                    return _NOT_ORDINARY
                missing ^= mark
                at = _put_text(
                    target,
                    before,
                    level if mark == _DELAY_MARK else topic if mark == _REAL_TOPIC_MARK else queue,
                    2,
                )
    if missing & _DELAY_MARK:
        at = _put_text(target, at, DELAY, 1)
        at = _put_text(target, at, level, 2)
    if missing & _REAL_TOPIC_MARK:
        at = _put_text(target, at, REAL_TOPIC, 1)
        at = _put_text(target, at, topic, 2)
    if missing & _REAL_QID_MARK:
        at = _put_text(target, at, REAL_QID, 1)
        at = _put_text(target, at, queue, 2)
    if keys:
        at = _put_text(target, at, KEYS, 1)
        at = _put_keys(target, at, keys)
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
        if at < 0 or type(key) is not str or " " in cython.cast(str, key):
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
    if size_bytes == 0 or size_bytes > _ENDING_ROOM_BYTES - 1 - at:
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
