"""A server of a fresh directory on a free port, and clients that speak bytes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mqstore import StoreConfig
from mqstore.server.broker_server import BrokerServer
from mqstore.server.serving import running
from support.server.wire_client import WireClient

Connect = Callable[[], WireClient]
CONFIG = StoreConfig(
    mapped_file_size_commit_log=8 << 20,
    max_message_size=1 << 20,
    reserve_window_commit_log=1 << 20,
    mapped_file_size_consume_queue=20_000,
    message_delay_level="1s 2s",
)


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def config(request: pytest.FixtureRequest) -> StoreConfig:
    """Small files, in both modes."""
    import dataclasses

    return dataclasses.replace(CONFIG, flush_disk_type=request.param)


@pytest.fixture
def served(tmp_path: Path, config: StoreConfig) -> Iterator[BrokerServer]:
    """A server."""
    with running(tmp_path / "store", config) as server:
        yield server


@pytest.fixture
def connect(served: BrokerServer) -> Iterator[Connect]:
    """Makes clients, which are closed at the end."""
    with ExitStack() as clients:
        yield lambda: clients.enter_context(WireClient(served.address))


@pytest.fixture
def client(connect: Connect) -> WireClient:
    """One client."""
    return connect()
