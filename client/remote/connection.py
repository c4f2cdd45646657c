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
from mqstore.client.remote.stream import SEND_PATIENCE_S, UNGUARDED, Security, Stream, open_stream
from mqstore.remoting.command import Command, decode_command, encode_answer, encode_request
from mqstore.remoting.errors import RemotingIllegal
from mqstore.remoting.frame import MAX_FRAME_BYTES, FrameReader
from mqstore.store.errors import MessageTooLarge, StoreError
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.start_thread import start_thread

__all__ = ["Connection", "Outcome"]

_logger = logging.getLogger(__name__)

Outcome: TypeAlias = Command | StoreError
"""An answer, or why there is none."""

_OPAQUE_MASK: Final = 0x7FFF_FFFF
# A connection that has been silent for so long, and then leaves a request without answer, counts as dead.
_SILENCE_S: Final = 2.0


class _Waiting(NamedTuple):
    callback: Callable[[Outcome], None]
    deadline_s: float
    timeout_ms: int


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
        self._sending = threading.Lock()
        self._stream = _opened(peer, address, timeout_s, security)
        self._heard_s = self.used_s = time.monotonic()
        thread = threading.Thread(target=self._read, name=f"mqstore remote {peer}", daemon=True)
        if not start_thread(thread):
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

        opaque = self.ask_later(code, fields, body, timeout_ms, take)
        try:
            is_answered.wait(timeout_ms / 1000)
        finally:
            is_unanswered = self._waiting.pop(opaque, None) is not None
        if is_unanswered:
            self._note_silence()
            raise BrokerTimedOut(self._peer, timeout_ms)
        while not outcomes:
            # The answer is on its way from the thread that reads.
            is_answered.wait(_SILENCE_S)
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
        self._waiting[opaque] = _Waiting(callback, now_s + timeout_ms / 1000, timeout_ms)
        try:
            self._send(frame)
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

    def _send(self, frame: bytes) -> None:
        if self.is_closed:
            raise BrokerNotConnected(self._peer, "the connection was closed")
        with self._sending:
            try:
                self._stream.sendall(frame)
            except BaseException as error:
                # A part of the frame may have gone out: nothing can follow it.
                self.close()
                if isinstance(error, OSError):
                    raise BrokerNotConnected(self._peer, _reason(error)) from error
                raise

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
                self._note_silence()
                _call(waiting.callback, BrokerTimedOut(self._peer, waiting.timeout_ms))

    def _note_silence(self) -> None:
        """A request had no answer: if the other side was silent all the time, it may be gone for good."""
        if time.monotonic() - self._heard_s > _SILENCE_S:
            self.close()

    # -- the thread that reads ------------------------------------------------------------------------

    def _read(self) -> None:
        reader, reason = FrameReader(), "it has closed the connection"
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
        self.is_closed = True
        self._stream.close()
        while self._waiting:
            with suppress(KeyError):
                _, waiting = self._waiting.popitem()
                _call(waiting.callback, BrokerConnectionLost(self._peer, reason))
        self._on_end()

    def close(self) -> None:
        """End it; the thread that reads tells those that wait."""
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
    except Exception:
        _logger.exception("a callback failed on %r", outcome)


def _reason(error: Exception) -> str:
    if isinstance(error, BlockingIOError):
        return f"it has taken nothing for {SEND_PATIENCE_S} s"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
