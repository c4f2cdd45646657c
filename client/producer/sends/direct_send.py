"""The direct send: plain_send.py once more, for compiled code alone.

This is Python that Cython compiles when a wheel is built (store/direct/build.py). Nothing imports this file
as it is. What a send is, and which are plain, is said in plain_send.py. It does the same in the same order;
the tests of the plain send run on both. What is different here:

    fields   of a `Message` are read where its class keeps them; one of a subclass is sent otherwise
    time     is asked of the system, if the producer's timer is `time.monotonic`
    turns    of the thread that sent last are kept: to find those of a thread is a search
    ids      are of a block that is drawn for these sends alone: their last digits need no iterator

Threads: any may send. What is kept of the last send is one object, which is replaced in one step. Between the
look at a block and the taking of its number no Python code runs, so no other thread has that number.
"""

import time
from types import MemberDescriptorType

import cython
from cython.cimports.cpython.pythread import PyThread_get_thread_ident
from cython.cimports.cpython.unicode import PyUnicode_1BYTE_DATA, PyUnicode_New
from cython.cimports.libc.string import memcpy
from cython.cimports.mqstore.store.direct.members import T_OBJECT_EX, PyMemberDescrObject
from cython.cimports.posix.time import CLOCK_MONOTONIC, clock_gettime, timespec
from msgspec.structs import replace

from mqstore.client.producer.send_result import SendResult
from mqstore.client.producer.sends.send_retry import FirstAttempt
from mqstore.store.errors import StoreError
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.record.properties_format import UNIQ_KEY
from mqstore.store.status import PutMessageStatus

__all__ = ["plain_send"]


def _place_of(member):
    """Where a Message keeps a field, as direct_put.py asks it."""
    if type(member) is MemberDescriptorType and member.__objclass__ is Message:
        described = cython.cast(cython.pointer[PyMemberDescrObject], cython.cast(cython.p_void, member))
        if described.d_member.type == T_OBJECT_EX:
            return described.d_member.offset
    raise ImportError(f"this msgspec keeps the fields of a message in another way: {member!r}")


_TOPIC = cython.declare(cython.Py_ssize_t, _place_of(Message.topic))
_BODY = cython.declare(cython.Py_ssize_t, _place_of(Message.body))
_PROPERTIES = cython.declare(cython.Py_ssize_t, _place_of(Message.properties))
# Kept as variables of C: a name of a module is looked up in its table each time.
_MESSAGE = cython.declare(object, Message)
_NO_PROPERTIES = cython.declare(object, NO_PROPERTIES)
_SEND_RESULT = cython.declare(object, SendResult)
_PUT_OK = cython.declare(object, PutMessageStatus.PUT_OK)

_PREFIX_DIGITS = cython.declare(cython.Py_ssize_t, 30)
_IDS_OF_BLOCK = cython.declare(cython.Py_ssize_t, 256)


def plain_send(parts, retry, send_otherwise):
    """As plain_send.plain_send."""
    sends = _PlainSends(parts, retry, send_otherwise)
    return sends.send, sends.allow


@cython.final
@cython.cclass
class _Turns:
    """The queues that a thread sends to in turn. turns: of all threads (QueueTurns)."""

    turns: object
    thread: cython.ulong
    targets: object


@cython.final
@cython.cclass
class _PlainSends:
    """The plain sends of one producer."""

    _ids: object
    # The block that was drawn last, as `UniqueIds.drawn` has it, until it is another or a fork takes it away.
    _drawn: list
    _block: tuple
    _next_id: cython.Py_ssize_t
    _routes: dict
    _timer: object
    _asks_system: cython.bint
    _plain_below: cython.Py_ssize_t
    _budget_ms: object
    _wants_all_ok: cython.bint
    _retry: object
    _otherwise: object
    _is_allowed: cython.bint
    # None before the first send, and after one that may have changed the turns.
    _latest: _Turns

    def __init__(self, parts, retry, send_otherwise) -> None:
        settings = parts.settings
        self._ids, self._drawn = parts.ids, parts.ids.drawn
        self._routes, self._timer = parts.routes.plain, parts.timer
        self._asks_system = parts.timer is time.monotonic
        self._plain_below = min(settings.compress_msg_body_over_howmuch, settings.max_message_size + 1)
        self._budget_ms = settings.send_msg_timeout
        self._wants_all_ok = settings.retry_another_broker_when_not_store_ok
        self._retry, self._otherwise = retry, send_otherwise

    def allow(self, is_plain) -> None:
        """Whether sends may be plain: at first not."""
        self._is_allowed = is_plain

    def send(self, message, *, queue=None, selector=None, arg=None, timeout_ms=None):
        """As `Producer.send`."""
        if (
            not self._is_allowed
            or queue is not None
            or selector is not None
            or timeout_ms is not None
            or type(message) is not _MESSAGE
        ):
            return self._send_otherwise(message, queue, selector, arg, timeout_ms)
        begin_s: cython.double = self._now_s()
        topic = _field(message, _TOPIC)
        body = _field(message, _BODY)
        if (
            type(topic) is not str
            or type(body) is not bytes
            or not 0 < len(cython.cast(bytes, body)) < self._plain_below
            or _field(message, _PROPERTIES) is not _NO_PROPERTIES
        ):
            return self._send_otherwise(message, None, None, None, None)
        known: tuple = self._routes.get(topic)
        if known is None or begin_s >= cython.cast(cython.double, known[0]):
            return self._send_otherwise(message, None, None, None, None)
        target: tuple = next(self._targets_of(known[1]))
        broker = target[2]
        if broker is None:
            return self._send_otherwise(message, None, None, None, None)
        queue = target[0]
        unique_key = self._unique_key(begin_s)
        put_sent = target[3]
        try:
            put = None if put_sent is None else put_sent(message, topic, body, target[1], unique_key)
            if put is None:
                sent = replace(message, queue_id=target[1], properties={UNIQ_KEY: unique_key})
                put = broker.send(sent, timeout_ms=self._budget_ms)
        except StoreError as error:
            outcome = error
        else:
            outcome = _SEND_RESULT(unique_key, queue, put)
            if not self._wants_all_ok or put.status is _PUT_OK:
                return outcome
        self._latest = None
        first = FirstAttempt(message, unique_key, queue, begin_s, known[2])
        return self._retry.go_on(first, self._budget_ms, outcome)

    @cython.cfunc
    def _send_otherwise(self, message, queue, selector, arg, timeout_ms):
        self._latest = None
        return self._otherwise(message, queue, selector, arg, timeout_ms)

    @cython.cfunc
    def _targets_of(self, turns: object) -> object:
        """What the turns of a topic have for this thread."""
        thread: cython.ulong = PyThread_get_thread_ident()
        latest: _Turns = self._latest
        if latest is None or latest.turns is not turns or latest.thread != thread:
            latest = _Turns()
            latest.turns, latest.thread, latest.targets = turns, thread, turns.targets
            self._latest = latest
        return latest.targets

    @cython.cfunc
    def _unique_key(self, now_s: cython.double) -> object:
        """As UniqueIds.create, of the block that is drawn."""
        block: tuple = self._block
        # A loop: while a block is drawn another thread may take all numbers of it.
        while (
            block is None
            or self._drawn[0] is not block
            or self._next_id == _IDS_OF_BLOCK
            or now_s >= cython.cast(cython.double, block[0])
        ):
            block = self._ids.draw(now_s)
            self._block, self._next_id = block, 0
        number: cython.Py_ssize_t = self._next_id
        self._next_id = number + 1
        unique_key = PyUnicode_New(_PREFIX_DIGITS + 2, 127)
        digits: cython.p_uchar = cython.cast(cython.p_uchar, PyUnicode_1BYTE_DATA(unique_key))
        memcpy(digits, PyUnicode_1BYTE_DATA(block[1]), _PREFIX_DIGITS)
        digits[_PREFIX_DIGITS] = _digit_of(number >> 4)
        digits[_PREFIX_DIGITS + 1] = _digit_of(number & 15)
        return unique_key

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=True)
    def _now_s(self) -> cython.double:
        """As the producer's timer, without a detour to the system's."""
        if not self._asks_system:
            return self._timer()
        now = cython.declare(timespec)
        clock_gettime(CLOCK_MONOTONIC, cython.address(now))
        now_ns: cython.longlong = cython.cast(cython.longlong, now.tv_sec) * 1_000_000_000 + now.tv_nsec
        return cython.cast(cython.double, now_ns) / 1e9


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _digit_of(number: cython.Py_ssize_t) -> cython.uchar:
    """A hex digit, in upper case."""
    return 48 + number if number < 10 else 55 + number


@cython.cfunc
@cython.inline
def _field(message: object, place: cython.Py_ssize_t) -> object:
    """A field of a Message, whose class is just that; None if it was never set."""
    begin: cython.p_char = cython.cast(cython.p_char, cython.cast(cython.p_void, message))
    value: cython.p_void = cython.cast(cython.pointer[cython.p_void], begin + place)[0]
    return None if value == cython.NULL else cython.cast(object, value)
