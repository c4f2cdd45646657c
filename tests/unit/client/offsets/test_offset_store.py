"""Offsets in memory: the rules of updateOffset in section 6 of the spec."""

from mqstore.broker.broker import MessageQueue
from mqstore.client.offsets.offset_store import NO_OFFSET, OffsetTable

QUEUE, OTHER = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def test_none() -> None:
    """Row readOffset: none is -1."""
    assert OffsetTable().read(QUEUE) == NO_OFFSET == -1


def test_increase_only() -> None:
    """Row updateOffset: increaseOnly is max(old, new); otherwise the new one counts."""
    table = OffsetTable()
    seen = []
    for offset, increase_only in ((5, True), (3, True), (7, True), (2, False), (0, True)):
        table.update(QUEUE, offset, increase_only=increase_only)
        seen.append(table.read(QUEUE))
    assert seen == [5, 5, 7, 2, 2]


def test_zero_is_an_offset() -> None:
    """A queue of which nothing is done yet."""
    table = OffsetTable()
    table.update(QUEUE, 0, increase_only=True)
    assert table.read(QUEUE) == 0


def test_frozen() -> None:
    """Row updateOffset: frozen entries ignore updates, until the queue is removed."""
    table = OffsetTable()
    table.update_and_freeze(QUEUE, 4)
    table.update(QUEUE, 9, increase_only=True)
    table.update(QUEUE, 1, increase_only=False)
    assert table.read(QUEUE) == 4
    table.remove(QUEUE)
    table.update(QUEUE, 9, increase_only=True)
    assert table.read(QUEUE) == 9


def test_retain() -> None:
    """Row persistAll: not-owned entries are dropped, frozen or not."""
    table = OffsetTable()
    table.update(QUEUE, 1, increase_only=True)
    table.update_and_freeze(OTHER, 2)
    table.retain([QUEUE])
    table.update(OTHER, 1, increase_only=True)
    assert table.snapshot() == {QUEUE: 1, OTHER: 1}
