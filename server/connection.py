"""The connection to one client: cuts its stream into commands, and sends it answers and requests.

All answers that are made while the frames of one read are worked on leave in one write, and so do all that
are made in one turn of the loop.

All connections read into one buffer, and each keeps what came for it and no more. A buffer for each read,
as asyncio has by default, is cut down to what came, again and again, which leaves holes in the heap that
nothing fills: tens of MiB with hundreds of connections.

Back-pressure: while many of its requests are under way, or its answers are not read, no more of its requests
are worked on and nothing is read from the client, so that TCP makes it wait. If what was held for it piles up
all the same, it is cut off. A frame that breaks the protocol ends this connection, and no other.

It does not know what commands mean: `Commands` is handed in (broker_server.py).
Threads: the loop's alone. Other threads use `loop.call_soon_threadsafe`.
Source: docs/spec/remoting.md sections 1, 2, 14; NettyRemotingAbstract of Apache RocketMQ.
"""

import asyncio
import ipaddress
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

from mqstore.remoting.command import Command, decode_command, encode_request
from mqstore.remoting.errors import RemotingIllegal
from mqstore.remoting.frame import Frame, FrameReader
from mqstore.server.settings import ServerSettings
from mqstore.store.record.host import Host

__all__ = ["AnswerAtOnce", "Commands", "Connection"]

_logger = logging.getLogger(__name__)

# Requests of the server to one client that wait for its answer.
_MAX_ASKED = 64
_MAX_OPAQUE = 2**31 - 1
# Bytes of answers that are collected for one write.
_MOST_AT_ONCE = 1 << 20


AnswerAtOnce: TypeAlias = Callable[[Frame, Host], bytes | None]
"""The answer to a frame of a client with this born host; None, and nothing is done: it is to be decoded."""


class Commands(Protocol):
    """Whoever works on the commands of all connections."""

    @property
    def answer_at_once(self) -> AnswerAtOnce | None:
        """Asked first for each frame, if there is one."""
        ...

    def opened(self, connection: "Connection") -> bool:
        """A client has connected; False to close the connection."""
        ...

    def received(self, connection: "Connection", command: Command) -> None:
        """A request has come."""
        ...

    def closed(self, connection: "Connection") -> None:
        """The connection is gone."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One client's connection.

    held: how to end each pull of this client that waits, by a number. last_read_s: when bytes last came, in
    the loop's time. partial_since_s: since when a frame is incomplete; None if none is.
    """

    def __init__(
        self,
        commands: Commands,
        settings: ServerSettings,
        loop: asyncio.AbstractEventLoop,
        read_buffer: bytearray,
    ) -> None:
        """read_buffer: where the bytes of a read arrive; all connections of a loop may share it."""
        self.loop = loop
        self._read_buffer = memoryview(read_buffer)
        self.held: dict[int, Callable[[], None]] = {}
        self.last_read_s = loop.time()
        self.partial_since_s: float | None = None
        self.born_host = Host(b"\x7f\x00\x00\x01", 0)
        self.is_closed = False
        self._commands = commands
        self._settings = settings
        self._reader = FrameReader(settings.max_frame_bytes)
        self._transport: asyncio.Transport | None = None
        # Frames of the last read that are still to be worked on.
        self._frames: deque[Frame] = deque()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._is_working = False
        self._flushes_soon = False
        self._under_way = self._under_way_bytes = 0
        # Why nothing is read: too much under way, answers not read.
        self._is_busy = self._is_clogged = False
        self._last_opaque = 0
        self._asked: dict[int, asyncio.Future[Command]] = {}

    # -- of asyncio -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.born_host = Host(ipaddress.ip_address(peer[0].partition("%")[0]).packed, peer[1])
        if not self._commands.opened(self):
            self.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come. Copied out: the next read of any connection overwrites them."""
        self.last_read_s = self.loop.time()
        reader = self._reader
        self._frames += reader.feed(bytes(self._read_buffer[:nbytes]))
        if not reader.has_partial:
            self.partial_since_s = None
        elif self.partial_since_s is None:
            self.partial_since_s = self.last_read_s
        self._work()

    def _work(self) -> None:
        """Work on the frames that have come, as long as the client takes the answers."""
        if self._is_working or self.is_closed:
            return
        self._is_working = True
        try:
            while self._frames and not self.is_paused:
                frame = self._frames.popleft()
                answer_at_once = self._commands.answer_at_once
                if answer_at_once is not None:
                    answer = answer_at_once(frame, self.born_host)
                    if answer is not None:
                        self.send(answer)
                        continue
                command = decode_command(frame)
                if command.is_answer:
                    self._answered(command)
                else:
                    self._commands.received(self, command)
            if self._reader.failure is not None and not self._frames:
                raise self._reader.failure
        except RemotingIllegal as illegal:
            _logger.warning("the connection of %s is closed: %s", self.born_host, illegal)
            self._frames.clear()
            self.close()
        finally:
            self._is_working = False
        self._flush()

    def pause_writing(self) -> None:
        self._is_clogged = True
        self._pause_or_resume()

    def resume_writing(self) -> None:
        self._is_clogged = False
        self._pause_or_resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._unsent.clear()
        self._frames.clear()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(
                    exc or ConnectionResetError(f"{self.born_host} has closed its connection")
                )
        self._asked.clear()
        self._commands.closed(self)

    @property
    def is_paused(self) -> bool:
        """Whether no requests are taken from the client at the moment."""
        return self._is_busy or self._is_clogged

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the client has not taken."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return self._unsent_bytes + waiting

    # -- to the client --------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send a frame, soon; nothing happens if the connection is closed."""
        if self.is_closed:
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > _MOST_AT_ONCE:
            self._flush()
        elif not (self._is_working or self._flushes_soon):
            self._flushes_soon = True
            self.loop.call_soon(self._flush)

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send a one-way request."""
        self.send(encode_request(code, self._next_opaque(), fields, body, is_one_way=True))

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> "asyncio.Future[Command]":
        """Send a request; its answer comes with the future. Raises ConnectionError if too many are open."""
        if self.is_closed or len(self._asked) >= _MAX_ASKED:
            raise ConnectionResetError(f"{self.born_host} takes no more requests")
        opaque = self._next_opaque()
        future: asyncio.Future[Command] = self.loop.create_future()
        self._asked[opaque] = future
        future.add_done_callback(lambda _: self._asked.pop(opaque, None))
        self.send(encode_request(code, opaque, fields, body))
        return future

    def _next_opaque(self) -> int:
        self._last_opaque = self._last_opaque % _MAX_OPAQUE + 1
        return self._last_opaque

    def _answered(self, command: Command) -> None:
        future = self._asked.get(command.opaque)
        if future is not None and not future.done():
            future.set_result(command)

    def _flush(self) -> None:
        self._flushes_soon = False
        if not self._unsent or self._transport is None:
            return
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
        if self._is_clogged and self.unsent_bytes > self._settings.max_unsent_bytes:
            _logger.warning("%s does not read its answers: its connection is closed", self.born_host)
            self.abort()

    # -- limits ---------------------------------------------------------------------------------------

    def began(self, body_bytes: int) -> None:
        """A request with such a body waits for the disk or a thread."""
        self._under_way += 1
        self._under_way_bytes += body_bytes
        limits = self._settings
        is_reached = (
            self._under_way >= limits.max_under_way or self._under_way_bytes >= limits.max_under_way_bytes
        )
        if is_reached and not self._is_busy:
            self._is_busy = True
            self._pause_or_resume()

    def ended(self, body_bytes: int) -> None:
        """It waits no longer."""
        self._under_way -= 1
        self._under_way_bytes -= body_bytes
        limits = self._settings
        is_half = (
            self._under_way <= limits.max_under_way // 2
            and self._under_way_bytes <= limits.max_under_way_bytes // 2
        )
        if is_half and self._is_busy:
            self._is_busy = False
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self.is_paused:
            if self._transport.is_reading():
                self._transport.pause_reading()
            return
        if not self._transport.is_reading():
            self._transport.resume_reading()
        if self._frames and not self._is_working:
            self.loop.call_soon(self._work)

    def close(self) -> None:
        """Close it once what was sent has left."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def __repr__(self) -> str:
        return f"Connection({self.born_host}, {self._under_way} under way, {len(self.held)} pulls wait)"
