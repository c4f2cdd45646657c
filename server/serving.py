"""Serving a directory: binds the port, opens the store under that address, serves, and closes in order.

The port is bound first: the address stands in each record as the store host, and clients connect to it.
`serve` runs in the caller's thread until `stop` is set; `running` serves in a thread of its own, for tests.

Durability: when either has ended, the store is closed, and everything in it is durable.
"""

import asyncio
import functools
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.broker.transaction_checks import TransactionSettings
from mqstore.message_store import MessageStore
from mqstore.server.broker_server import BrokerServer
from mqstore.server.settings import ServerSettings
from mqstore.store.config import StoreConfig
from mqstore.store.record.host import Host

__all__ = ["LOOPBACK", "address_of", "bind", "running", "running_over", "serve"]

_logger = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
"""Where a server listens unless it is told otherwise."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket's place: port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def address_of(bound: socket.socket) -> str:
    """`ip:port` of a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def serve(
    store: MessageStore,
    bound: socket.socket,
    settings: ServerSettings,
    stop: asyncio.Event,
    *,
    transaction_settings: TransactionSettings | None = None,
    on_ready: Callable[[BrokerServer], None] = lambda _: None,
) -> bool:
    """Serve an open store until `stop` is set; whether all that was under way has ended in time.

    The socket is closed, the store is not.
    """
    broker = EmbeddedBroker(
        store,
        settings.broker_name,
        cluster_name=settings.cluster_name,
        transaction_settings=transaction_settings,
    )
    _import_loops()
    with broker:
        server = BrokerServer(asyncio.get_running_loop(), store, broker, settings)
        try:
            await server.start(bound)
            on_ready(server)
            await stop.wait()
        finally:
            is_drained = await server.stop()
    return is_drained


def _import_loops() -> None:
    """Import what a store imports when it first needs it: in a checkout that may compile for seconds.

    No client shall wait for that.
    """
    import mqstore.index.keys.run_kernels
    import mqstore.index.pull.pull_kernels
    import mqstore.schedule.delivery.delivery_kernels
    import mqstore.store.bulk.encode_kernels
    import mqstore.store.bulk.message_kernels
    import mqstore.store.bulk.msgpack_kernels
    import mqstore.store.bulk.sent.batch_kernels  # noqa: F401 - imported for what it does when it is loaded


@contextmanager
def running(
    path: str | Path,
    config: StoreConfig | None = None,
    *,
    port: int = 0,
    settings: ServerSettings | None = None,
    transaction_settings: TransactionSettings | None = None,
) -> Iterator[BrokerServer]:
    """Serve a directory on a loopback port, in a thread of its own, until the block ends.

    settings: its address is replaced by the port that was bound; `address` of the server says where clients
    find it. Raises as `MessageStore.open`, and OSError.
    """

    def open_store(host: Host) -> MessageStore:
        return MessageStore.open(path, replace(config or StoreConfig(), store_host=host))

    with running_over(open_store, port, settings, transaction_settings) as server:
        yield server


@contextmanager
def running_over(
    open_store: Callable[[Host], AbstractContextManager[MessageStore]],
    port: int = 0,
    settings: ServerSettings | None = None,
    transaction_settings: TransactionSettings | None = None,
) -> Iterator[BrokerServer]:
    """As `running`; `open_store` is called in the server's thread, with the address that clients see."""
    bound = bind(LOOPBACK, port)
    address = address_of(bound)
    settings = replace(settings or ServerSettings(address=address), address=address)
    ready: Future[tuple[BrokerServer, Callable[[], object]]] = Future()

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def is_ready(server: BrokerServer) -> None:
            ready.set_result((server, functools.partial(loop.call_soon_threadsafe, stop.set)))

        with open_store(Host.parse(address)) as store:
            await serve(
                store, bound, settings, stop, transaction_settings=transaction_settings, on_ready=is_ready
            )

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if ready.done():
                _logger.exception("the server at %s has failed", address)
            else:
                ready.set_exception(error)
        finally:
            bound.close()

    thread = threading.Thread(target=run, name="mqstore server", daemon=True)
    thread.start()
    server, end = ready.result()
    try:
        yield server
    finally:
        with suppress(RuntimeError):
            end()
        thread.join()
