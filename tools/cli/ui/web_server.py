"""The web server of the pages: uvicorn on a socket of the loopback, until it is told to stop."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

__all__ = ["bind_loopback", "run_until_stopped"]

_MOST_CONNECTIONS = 64
_BACKLOG = 64


def bind_loopback(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; port 0 takes a free one. Raises OSError."""
    return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the caller's: uvicorn would raise them once more after it has stopped."""
        yield


def run_until_stopped(application: Any, bound: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; what is under way is answered. A second signal ends the process."""
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        loop="asyncio",
        http="h11",
        ws="none",
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=5,
    )
    asyncio.run(_serve(_Server(config), bound))


async def _serve(server: _Server, bound: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        server.should_exit = True
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, stop)
    await server.serve(sockets=[bound])
