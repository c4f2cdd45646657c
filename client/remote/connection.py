"""A connection to a broker or a name server: requests go out, and answers are found by their numbers.

    any thread -> number, callback kept -> bytes to the socket
    its thread <- bytes from the socket -> an answer: its callback; a request: `on_request`

Many requests are under way at once, and answers come in any order. When the connection ends, all that wait
are told so: what they asked for may have been done.

It does not know what is asked (send_calls.py, pull_calls.py), nor does it connect again (channel.py).
Threads: any thread asks; callbacks come from the thread that reads, so they must be quick.
Source: docs/spec/remoting.md sections 1, 2, 14; NettyRemotingClient of Apache RocketMQ.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from mqstore.client.errors import BrokerConnectionLost, BrokerNotConnected, BrokerTimedOut
from mqstore.client.remote.stream import UNGUARDED, Security, Stream, open_stream
from mqstore.remoting.command import Command, decode_command, encode_answer, encode_request
from mqstore.remoting.errors import RemotingIllegal
from mqstore.remoting.frame import MAX_FRAME_BYTES, FrameReader
from mqstore.store.errors import MessageTooLarge, StoreError
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Connection", "Outcome"]

_logger = logging.getLogger(__name__)

Outcome: TypeAlias = Command | StoreError
"""An answer, or why there is none."""

_OPAQUE_MASK: Final = 0x7FFF_FFFF
# A frame that has begun to leave has so long at least: if its rest is not taken, the connection is dead.
_SEND_PATIENCE_S: Final = 5.0
# A connection that is silent for so long while requests have no answer in their time counts as dead.
_SILENCE_S: Final = 2.0
_ANSWER_IS_NEAR_S: Final = 0.1
_CLOSED_HERE: Final = "this client has closed the connection"
_CLOSED_THERE: Final = "it has closed the connection"


class _Waiting(NamedTuple):
    callback: Callable[[Outcome], None]
    asked_s: float
    timeout_ms: int

    @property
    def deadline_s(self) -> float:
        return self.asked_s + self.timeout_ms / 1000


class Connection:
    """One connection, from its opening to its end. is_closed: whether it has ended."""

    def __init__(
        self,
        peer: str,
        address: str,
        timeout_s: float,
        on_request: Callable[["Connection", Command], None],
        on_end: Callable[[], None],
        security: Security = UNGUARDED,
    ) -> None:
        """Connect. peer: the name in errors. on_request: called for each request of the other side.

        on_end: called once when it has ended, by the thread that reads. Raises BrokerNotConnected.
        """
        self.is_closed = False
        self.address = address
        self._peer = peer
        self._on_request = on_request
        self._on_end = on_end
        self._credentials = security.credentials
        self._numbers = itertools.count(1)
        # By number. Whoever takes one out calls its callback.
        self._waiting: dict[int, _Waiting] = {}
        self._sending = Lock()
        self._stream = _opened(peer, address, timeout_s, security)
        # When bytes came last, and since when a request waits that had no answer in its time.
        self._heard_s = self.used_s = time.monotonic()
        self._unheard_s: float | None = None
        # Why it was closed on this side; the first reason counts.
        self._why_closed: str | None = None
        thread = threading.Thread(target=self._read, name=f"mqstore remote {peer}", daemon=True)
        try:
            is_started = start_thread(thread)
        except BaseException:
            # Nobody will know of it: the thread, if it runs, ends.
            self.close()
            raise
        if not is_started:
            self._stream.close()
            raise BrokerNotConnected(peer, "no thread can be started to read its answers")

    # -- asking ---------------------------------------------------------------------------------------

    def ask(self, code: int, fields: Mapping[str, str], body: bytes, timeout_ms: int) -> Command:
        """The answer. Raises BrokerTimedOut, BrokerNotConnected, BrokerConnectionLost."""
        is_answered = AutoResetEvent()
        outcomes: list[Outcome] = []

        def take(outcome: Outcome) -> None:
            outcomes.append(outcome)
            is_answered.set()

        begin_s = time.monotonic()
        opaque = self.ask_later(code, fields, body, timeout_ms, take)
        try:
            is_answered.wait(max(0.0, begin_s + timeout_ms / 1000 - time.monotonic()))
        finally:
            unanswered = self._waiting.pop(opaque, None)
        if unanswered is not None:
            self._note_silence(unanswered)
            raise BrokerTimedOut(self._peer, timeout_ms)
        while not outcomes:
            # The answer is on its way from the thread that reads.
            is_answered.wait(_ANSWER_IS_NEAR_S)
        outcome = outcomes[0]
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    def ask_later(
        self,
        code: int,
        fields: Mapping[str, str],
        body: bytes,
        timeout_ms: int,
        callback: Callable[[Outcome], None],
    ) -> int:
        """Have `callback` called once with what comes of it; the number by which `forget` knows it.

        Raises BrokerNotConnected, MessageTooLarge; `callback` is not called then.
        """
        opaque = next(self._numbers) & _OPAQUE_MASK
        frame = self._frame(code, opaque, fields, body)
        now_s = self.used_s = time.monotonic()
        self._waiting[opaque] = _Waiting(callback, now_s, timeout_ms)
        try:
            self._send(frame, timeout_ms / 1000)
        except BaseException as error:
            # If it is gone, the thread that reads has told the callback already.
            is_untold = self._waiting.pop(opaque, None) is not None
            if is_untold or not isinstance(error, StoreError):
                raise
        return opaque

    def answer(self, request: Command, code: int, remark: str | None = None) -> None:
        """Answer a request of the other side, if it wants an answer. Raises BrokerNotConnected."""
        if not request.is_one_way:
            self._send(encode_answer(request, code, remark))

    def forget(self, opaque: int) -> None:
        """Wait for that answer no longer."""
        self._waiting.pop(opaque, None)

    def _frame(self, code: int, opaque: int, fields: Mapping[str, str], body: bytes) -> bytes:
        signed = dict(fields) if self._credentials is None else self._credentials.signed(fields, body)
        frame = encode_request(code, opaque, signed, body)
        if len(frame) > MAX_FRAME_BYTES:
            raise MessageTooLarge(
                f"the request has {len(frame):,} bytes, and brokers take at most {MAX_FRAME_BYTES:,}: send a "
                "smaller body, or fewer messages together",
                value=len(frame),
                limit=MAX_FRAME_BYTES,
            )
        return frame

    def _send(self, frame: bytes, patience_s: float = _SEND_PATIENCE_S) -> None:
        """Send a frame. patience_s: how long it may wait for those before it."""
        if self.is_closed:
            raise BrokerNotConnected(self._peer, self._why_closed or _CLOSED_THERE)
        is_mine = False
        try:
            is_mine = self._sending.acquire(timeout=patience_s)
            if is_mine:
                self._stream.sendall(frame, max(patience_s, _SEND_PATIENCE_S))
        except BaseException as error:
            # A part of the frame may have gone out, or an interrupt has left the lock taken.
            self.close(_reason(error))
            if isinstance(error, OSError):
                raise BrokerNotConnected(self._peer, _reason(error)) from error
            raise
        finally:
            if is_mine:
                self._sending.release()
        if not is_mine:
            raise BrokerNotConnected(self._peer, f"what others send was not taken for {patience_s:g} s")

    # -- what takes too long --------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waited for."""
        return not self._waiting

    def expire(self) -> None:
        """Tell those whose time is over."""
        now_s = time.monotonic()
        for opaque, waiting in list(self._waiting.items()):
            if waiting.deadline_s <= now_s and self._waiting.pop(opaque, None) is not None:
                self._note_silence(waiting)
                _call(waiting.callback, BrokerTimedOut(self._peer, waiting.timeout_ms))

    def _note_silence(self, unanswered: _Waiting) -> None:
        """A request had no answer: if nothing else has come for long, the other side may be gone for good.

        That no bytes came while nobody waited for any says nothing.
        """
        if self._unheard_s is None or self._unheard_s < self._heard_s:
            self._unheard_s = max(unanswered.asked_s, self._heard_s)
        if time.monotonic() - self._unheard_s > _SILENCE_S:
            self.close("it has answered nothing in time")

    # -- the thread that reads ------------------------------------------------------------------------

    def _read(self) -> None:
        reader, reason = FrameReader(), _CLOSED_THERE
        try:
            while data := self._stream.recv():
                self._heard_s = time.monotonic()
                for frame in reader.feed(data):
                    self._take(decode_command(frame))
                if reader.failure is not None:
                    raise reader.failure
        except (OSError, RemotingIllegal) as error:
            reason = _reason(error)
        finally:
            self._end(reason)

    def _take(self, command: Command) -> None:
        if command.is_answer:
            waiting = self._waiting.pop(command.opaque, None)
            if waiting is not None:
                _call(waiting.callback, command)
            return
        try:
            self._on_request(self, command)
        except Exception:
            _logger.exception("a request of broker %s failed: %r", self._peer, command)

    def _end(self, reason: str) -> None:
        reason = self._why_closed or reason
        self.close(reason)
        while self._waiting:
            with suppress(KeyError):
                _, waiting = self._waiting.popitem()
                _call(waiting.callback, BrokerConnectionLost(self._peer, reason))
        self._on_end()
        # Not while another thread sends: the number of the socket may be another's next.
        is_mine = self._sending.acquire(timeout=_SEND_PATIENCE_S)
        self._stream.close()
        if is_mine:
            self._sending.release()

    def close(self, reason: str = _CLOSED_HERE) -> None:
        """End it; the thread that reads tells those that wait."""
        self._why_closed = self._why_closed or reason
        self.is_closed = True
        self._stream.end()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{len(self._waiting)} requests wait"
        return f"Connection({self._peer!r} at {self.address}, {state})"


def _opened(peer: str, address: str, timeout_s: float, security: Security) -> Stream:
    try:
        return open_stream(address, timeout_s, security.tls)
    except (OSError, ValueError, OverflowError) as error:
        raise BrokerNotConnected(peer, f"{address}: {_reason(error)}") from error


def _call(callback: Callable[[Outcome], None], outcome: Outcome) -> None:
    try:
        callback(outcome)
    except BaseException:
        # Of a SystemExit as well: others are still to be told.
        _logger.exception("a callback failed on %r", outcome)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
