"""A store with something for each page, and a client that asks as a browser on this machine does."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.ui.web_app import web_app
from support.command_line import ORDER_CONFIG

Browser = Callable[[Path], TestClient]


@pytest.fixture
def browser() -> Iterator[Browser]:
    """(directory of a store) -> a client for its pages."""
    clients: list[TestClient] = []
    # As the command does: a page collects garbage, which would search all that a run of tests has loaded.
    gc.freeze()

    def opened(path: Path) -> TestClient:
        client = TestClient(
            web_app(path),  # type: ignore[arg-type]
            base_url="http://127.0.0.1:9880",
            raise_server_exceptions=False,
            follow_redirects=False,
        )
        clients.append(client)
        return client

    yield opened
    for client in clients:
        client.close()
    gc.unfreeze()


@pytest.fixture
def billing(orders: Path) -> Path:
    """The store of orders, in which group billing has consumed one, failed on others, and given one up."""
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        store.subscription_groups.create("billing")
        store.consumer_offsets.commit("billing", "orders", 0, 1)
        failed = store.get_message("billing", "orders", 0, 1, 2).messages
        store.consumer_send_msg_back("billing", failed[0].physical_offset)
        store.consumer_send_msg_back("billing", failed[1].physical_offset, delay_level=-1)
        store.put_message(Message("orders", b"later", keys=("o-later",), queue_id=0, delay_level=18))
    return orders
