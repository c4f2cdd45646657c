"""The stream of bytes below a connection: TCP, or TLS over it.

One thread reads while others write, one at a time. An object of TLS bears one thread only, so it stands
between two buffers: its lock is held while it turns bytes into others, and never while one waits for the
network.

    write  text -> TLS -> buffer -> socket          under the writers' lock, so that records leave in order
    read   socket -> buffer -> TLS -> text          what TLS has to say by itself leaves with the next write

Source: docs/spec/remoting.md section 14; `ssl.MemoryBIO` of Python.
"""

import socket
import ssl
import struct
import time
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from mqstore.remoting.signature import Credentials
from mqstore.store.threads.lock import Lock

__all__ = ["UNGUARDED", "Security", "Stream", "open_stream"]

_READ_BYTES: Final = 1 << 18
# A send that makes no progress looks so often whether its time is over. As the system's struct timeval.
_LOOK_US: Final = 200_000
_TIMEVAL: Final = struct.Struct("ll")


class Security(NamedTuple):
    """How requests are signed, and how the line is protected; None for not at all."""

    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None


UNGUARDED: Final = Security()
"""Neither signed nor protected, as on a machine's own loopback."""


class Stream(Protocol):
    """Bytes to a peer and from it. Methods raise OSError."""

    def recv(self) -> bytes:
        """Wait for bytes; none at the end of the stream. For one thread."""
        ...

    def sendall(self, data: bytes, patience_s: float) -> None:
        """Send all of it. For one thread at a time. Raises TimeoutError if that takes longer."""
        ...

    def end(self) -> None:
        """End both directions: who reads or writes is told. For any thread."""
        ...

    def close(self) -> None:
        """Free the descriptor; nobody may use the stream any more."""
        ...


def open_stream(address: str, timeout_s: float, tls: ssl.SSLContext | None) -> Stream:
    """A stream to `host:port`. Raises OSError, ValueError for an address that is none."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    connected = socket.create_connection((host, int(port)), timeout_s)
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = _TcpStream(connected) if tls is None else _TlsStream(connected, tls, host)
        # The thread that reads waits for ever; a send that makes no progress looks at its time.
        connected.settimeout(None)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(0, _LOOK_US))
    except BaseException:
        connected.close()
        raise
    return stream


class _TcpStream:
    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.close = connected.close

    def recv(self) -> bytes:
        return self._socket.recv(_READ_BYTES)

    def sendall(self, data: bytes, patience_s: float) -> None:
        _send_all(self._socket, data, patience_s)

    def end(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class _TlsStream:
    """As its file says. The handshake is done when it has been made."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._socket = connected
        self.close = connected.close
        self._from_peer, self._to_peer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._from_peer, self._to_peer, server_hostname=host if context.check_hostname else None
        )
        # Of the TLS object and its buffers; held for microseconds.
        self._lock = Lock()
        self._shake_hands()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._to_peer.read())
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise ConnectionResetError("it has closed the connection at the handshake") from None
                self._from_peer.write(data)
            else:
                self._socket.sendall(self._to_peer.read())
                return

    def sendall(self, data: bytes, patience_s: float) -> None:
        with self._lock:
            self._tls.write(data)
            records = self._to_peer.read()
        _send_all(self._socket, records, patience_s)

    def recv(self) -> bytes:
        while True:
            data = self._socket.recv(_READ_BYTES)
            with self._lock:
                if data:
                    self._from_peer.write(data)
                else:
                    self._from_peer.write_eof()
                text = self._read_all()
            # A record may not be whole yet, or hold no text.
            if text or not data:
                return text

    def _read_all(self) -> bytes:
        parts: list[bytes] = []
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
            while part := self._tls.read(_READ_BYTES):
                parts.append(part)
        return b"".join(parts)

    def end(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _send_all(connected: socket.socket, data: bytes, patience_s: float) -> None:
    rest, give_up_s = memoryview(data), time.monotonic() + patience_s
    while rest:
        # It is raised when _LOOK_US are over.
        with suppress(BlockingIOError):
            rest = rest[connected.send(rest) :]
        if rest and time.monotonic() > give_up_s:
            raise TimeoutError(f"it has not taken a request within {patience_s:g} s")
