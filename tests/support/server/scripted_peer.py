"""A peer that listens on a free port and does what a test says with each request: answer, be silent, hang up.

It runs in threads of its own, which end with the `with` block.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeAlias

from mqstore.remoting.command import Command, decode_command, encode_answer
from mqstore.remoting.frame import FrameReader

__all__ = ["Script", "ScriptedPeer", "answering"]

Script: TypeAlias = Callable[["socket.socket", Command], None]


def answering(code: int = 0, remark: str | None = None, body: bytes = b"", **fields: str) -> Script:
    """A script that answers everything alike."""

    def script(connection: socket.socket, request: Command) -> None:
        connection.sendall(encode_answer(request, code, remark, fields, body))

    return script


class ScriptedPeer:
    """Listens. script: called for each request. requests: what has come. connections: how many were made."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self.script = script
        self.requests: list[Command] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        with suppress(OSError), connection:
            while data := connection.recv(1 << 16):
                for frame in reader.feed(data):
                    request = decode_command(frame)
                    self.requests.append(request)
                    self.script(connection, request)

    def send(self, data: bytes) -> None:
        """Send bytes of its own on the newest connection."""
        self._open[-1].sendall(data)

    def hang_up(self) -> None:
        """Close all connections; new ones are taken."""
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def stop_listening(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        """Listen no more, and close all connections."""
        self.stop_listening()
        self.hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
