"""Orders that a group has given up, for the tests of `mqstore dlq`."""

from pathlib import Path

import pytest

from mqstore.client import DeadLetters
from mqstore.message_store import MessageStore
from mqstore.repair import repair_in_place


@pytest.fixture
def dead(orders: Path) -> Path:
    """The orders, of which `billing` has given up o-0 and o-1."""
    with MessageStore.open(orders) as store:
        for queue_id in (0, 1):
            (message, *_) = store.get_message("billing", "orders", queue_id, 0).messages
            store.consumer_send_msg_back("billing", message.physical_offset, delay_level=-1)
    return orders


@pytest.fixture
def with_placeholder(dead: Path) -> Path:
    """The same and a third dead letter, o-2; the second was damaged, and a repair has replaced it."""
    with MessageStore.open(dead) as store:
        message = store.get_message("billing", "orders", 0, 1).messages[0]
        store.consumer_send_msg_back("billing", message.physical_offset, delay_level=-1)
        lost = DeadLetters(store, "billing").get(1).message.physical_offset
    segment = dead / "commitlog" / f"{0:020d}"
    data = bytearray(segment.read_bytes())
    data[lost + 100] ^= 1
    segment.write_bytes(data)
    plan, _ = repair_in_place(dead)
    assert plan.placeholders == 1
    return dead
