"""Orders that a group has given up, for the tests of `mqstore dlq`."""

from pathlib import Path

import pytest

from mqstore.message_store import MessageStore


@pytest.fixture
def dead(orders: Path) -> Path:
    """The orders, of which `billing` has given up o-0 and o-1."""
    with MessageStore.open(orders) as store:
        for queue_id in (0, 1):
            (message, *_) = store.get_message("billing", "orders", queue_id, 0).messages
            store.consumer_send_msg_back("billing", message.physical_offset, delay_level=-1)
    return orders
