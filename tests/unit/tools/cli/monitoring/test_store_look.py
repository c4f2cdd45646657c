"""Looks at a store: what one holds, and what was put between two, by topic, in bytes of the records."""

from pathlib import Path

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.tools.cli.monitoring.store_look import Puts, StoreLook, puts_since, take_look
from support.command_line import ORDER_CONFIG


def look(path: Path, before: StoreLook | None = None, at_s: float = 0.0) -> tuple[StoreLook, dict[str, Puts]]:
    with MessageStore.open(path, ORDER_CONFIG, read_only=True) as store:
        taken = take_look(store, path, at_s)
        return taken, {} if before is None else puts_since(store, before, taken)


def test_a_look_has_the_numbers_of_a_store(orders: Path) -> None:
    """Of the log, of topics, groups and levels, and of the disk; it outlives the store."""
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        store.consumer_offsets.commit("billing", "orders", 0, 1)
        store.put_message(Message("orders", b"later", delay_level=5))
        end = store.max_offset
    taken, _ = look(orders, at_s=7.0)
    assert (taken.path, taken.at_s, taken.min_offset, taken.max_offset) == (str(orders), 7.0, 0, end)
    assert taken.flushed_offset == end
    assert taken.queue_ends == {("orders", 0): 3, ("orders", 1): 3, ("SCHEDULE_TOPIC_XXXX", 4): 1}
    assert taken.messages == {"orders": 6, "SCHEDULE_TOPIC_XXXX": 1}
    assert [(lag.group, lag.lag) for lag in taken.lags] == [("billing", 2), ("billing", 3)]
    assert [(level.level, level.pending) for level in taken.levels] == [(5, 1)]
    assert 0 < taken.disk.free_bytes < taken.disk.total_bytes


def test_the_difference_is_what_was_put(orders: Path) -> None:
    """Messages and bytes of their records, also of a topic that was not there, beside the writer."""
    before, _ = look(orders)
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        begin = store.max_offset
        store.put_messages([Message("orders", b"x" * 100, queue_id=number % 2) for number in range(10)])
        middle = store.max_offset
        store.put_message(Message("bills", b"y"))
        store.flush()
        after, puts = look(orders, before)
        assert puts == {"orders": Puts(10, middle - begin), "bills": Puts(1, store.max_offset - middle)}
        assert look(orders, after)[1] == {}
        assert (after.max_offset, after.flushed_offset) == (store.max_offset, store.max_offset)


def test_what_is_in_many_files_of_a_queue_is_counted(orders: Path) -> None:
    """A file of a queue has a hundred entries here."""
    before, _ = look(orders)
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        begin = store.max_offset
        store.put_messages([Message("orders", b"", queue_id=0) for _ in range(350)])
        end = store.max_offset
    assert look(orders, before)[1] == {"orders": Puts(350, end - begin)}


def test_a_topic_that_began_again_is_counted_from_its_start(orders: Path) -> None:
    """Its queue ends below where it ended."""
    before, _ = look(orders)
    with MessageStore.open(orders, ORDER_CONFIG) as store:
        store.delete_topic("orders")
        store.put_message(Message("orders", b"again", queue_id=0))
    assert look(orders, before)[1]["orders"].messages == 1


def test_a_writer_that_has_not_told_what_is_durable(orders: Path) -> None:
    """A broker has no such file."""
    (orders / "mqstore" / "recovery-point").unlink()
    assert look(orders)[0].flushed_offset is None
