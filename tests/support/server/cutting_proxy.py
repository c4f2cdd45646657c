"""A proxy that passes bytes between clients and a server, and cuts all its connections when it is told to.

A cut falls wherever the bytes are: within a frame, between a request and its answer. One thread.
"""

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["CuttingProxy"]

_TICK_S = 0.05


class CuttingProxy:
    """Listens at `address` and passes on to `target`. cuts: how many connections it has cut."""

    def __init__(self, target: str) -> None:
        self.cuts = 0
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        # Each socket, and its other end.
        self._ends: dict[socket.socket, socket.socket] = {}
        self._is_to_cut = self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Close all connections at once; new ones are taken."""
        self._is_to_cut = True

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._is_closed:
                for key, _ in selector.select(_TICK_S):
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    else:
                        assert isinstance(key.fileobj, socket.socket)
                        self._pass_on(selector, key.fileobj)
                if self._is_to_cut:
                    self._is_to_cut = False
                    self.cuts += len(self._ends) // 2
                    for end in list(self._ends):
                        self._drop(selector, end)
            for end in list(self._ends):
                self._drop(selector, end)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client, _ = self._listener.accept()
        host, _, port = self.target.rpartition(":")
        try:
            server = socket.create_connection((host, int(port)), 1)
        except OSError:
            client.close()
            return
        for end, other in ((client, server), (server, client)):
            self._ends[end] = other
            selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, selector: selectors.BaseSelector, end: socket.socket) -> None:
        if end not in self._ends:
            return
        try:
            data = end.recv(1 << 16)
            if data:
                self._ends[end].sendall(data)
                return
        except OSError:
            pass
        self._drop(selector, end)

    def _drop(self, selector: selectors.BaseSelector, end: socket.socket) -> None:
        """Close both ends of a connection."""
        for each in (end, self._ends.get(end)):
            if each is not None and self._ends.pop(each, None) is not None:
                selector.unregister(each)
                each.close()

    def close(self) -> None:
        """Cut all, and listen no more."""
        self._is_closed = True
        self._thread.join()
        with suppress(OSError):
            self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
