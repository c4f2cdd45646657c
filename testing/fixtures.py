"""The fixtures: what they give a test, and what it costs.

    conftest.py      pytest_plugins = ["mqstore.testing"]
    a test           def test_orders(mqstore_server): client.set_namesrv_addr(mqstore_server.address)

    mqstore_config   settings of both; a fixture of the same name in a conftest.py replaces it
    mqstore_store    an open store in the test's directory
    mqstore_server   the same, served on a free port of the loopback; `store` looks into it

Each test has a directory of its own, which pytest keeps for a while: `mqstore verify` and `tail` read it.
Durability: as in any store; what a test leaves behind is closed cleanly.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from mqstore.message_store import MessageStore
from mqstore.server.serving import running_over
from mqstore.store.config import StoreConfig
from mqstore.store.record.host import Host

__all__ = ["ServedStore", "mqstore_config", "mqstore_server", "mqstore_store"]

_SEGMENT_BYTES = 16 << 20
_QUEUE_FILE_BYTES = 20 * 10_000


class ServedStore(NamedTuple):
    """A store that is served.

    address: `ip:port`, what clients are given as their name server. store: it is open; any thread may look
    into it and put. path: its directory.
    """

    address: str
    store: MessageStore
    path: Path


@pytest.fixture
def mqstore_config() -> StoreConfig:
    """Small files, so that a test costs little: segments of 16 MiB, 10,000 entries a queue file."""
    return StoreConfig(
        mapped_file_size_commit_log=_SEGMENT_BYTES, mapped_file_size_consume_queue=_QUEUE_FILE_BYTES
    )


@pytest.fixture
def mqstore_store(tmp_path: Path, mqstore_config: StoreConfig) -> Iterator[MessageStore]:
    """An open store."""
    with MessageStore.open(tmp_path / "mqstore", mqstore_config) as store:
        yield store


@pytest.fixture
def mqstore_server(tmp_path: Path, mqstore_config: StoreConfig) -> Iterator[ServedStore]:
    """A name server and broker for unmodified clients of RocketMQ."""
    path, opened = tmp_path / "mqstore-served", list[MessageStore]()

    def open_store(host: Host) -> MessageStore:
        opened.append(MessageStore.open(path, replace(mqstore_config, store_host=host)))
        return opened[0]

    with running_over(open_store) as server:
        yield ServedStore(server.address, opened[0], path)
