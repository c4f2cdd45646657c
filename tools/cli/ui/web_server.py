"""The web server of the pages: uvicorn on a socket that ui.py has bound, until it is told to stop.

It is the whole process: ui.py replaces the command by it.
"""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from mqstore.tools.cli.ui.web_app import web_app

__all__ = ["main", "run_until_stopped"]

_MOST_CONNECTIONS = 64


def main() -> None:
    """Serve the store of the first argument on the socket whose number is the second."""
    path, bound = Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    # Each page collects garbage; what is loaded by now is none.
    gc.collect()
    gc.freeze()
    with bound:
        run_until_stopped(web_app(path), bound)


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
