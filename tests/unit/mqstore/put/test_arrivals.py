"""Arrivals: who waits is told, and an interrupted announcement or wait holds nobody up."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from mqstore import Message
from mqstore.put import arrivals as arrivals_module
from mqstore.put.arrivals import Arrival, Arrivals
from mqstore.store.errors import StoreClosed
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.java_hash import string_hash
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from support.disks.interrupts import interrupted_at
from support.stores.small_store import SmallStore
from support.twins.plain_records import record


class OneMessage:
    """A log with one message in it, all of which can be read."""

    message = StoredMessage.of(memoryview(record(0, topic="orders", queue_offset=6)))

    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None:
        return self.message

    def when_visible(self, end_offset: int, action: Callable[[], None]) -> None:
        action()


def arrivals_of_one() -> Arrivals:
    return Arrivals(OneMessage(), OneMessage())


def test_all_who_wait_are_told() -> None:
    """And nobody wants to know any more when they have gone."""
    arrivals = arrivals_of_one()
    arrived = threading.Event()
    answers: list[bool] = []
    waiting = [
        threading.Thread(target=lambda: answers.append(arrivals.wait(arrived.is_set, 60_000)))
        for _ in range(4)
    ]
    for thread in waiting:
        thread.start()
    while not arrivals.wanted:
        time.sleep(0.001)
    arrived.set()
    arrivals.announce([0], 1)
    for thread in waiting:
        thread.join(60)
    assert answers == [True] * 4
    assert not arrivals.wanted


def test_waiting_ends_when_time_is_up() -> None:
    """Also when there is none at all."""
    arrivals = arrivals_of_one()
    for timeout_ms in (0, 1, 15):
        assert not arrivals.wait(lambda: False, timeout_ms)
    assert arrivals.wait(lambda: True, 0)


def test_ctrl_c_between_any_two_lines_holds_nobody_up() -> None:
    """Those of the standard library among them: a lock that stayed taken would stop every put."""
    modules = (threading, arrivals_module)
    scenes = (
        lambda arrivals: arrivals.announce([0], 1),
        lambda arrivals: arrivals.wait(lambda: False, 0),
        lambda arrivals: arrivals.wait(lambda: False, 5),
        lambda arrivals: arrivals.add_listener(lambda arrival: None),
        lambda arrivals: arrivals.remove_listener(lambda arrival: None),
        lambda arrivals: arrivals.close(),
    )
    for scene in scenes:
        line, was_interrupted = 0, True
        while was_interrupted:
            line += 1
            arrivals = arrivals_of_one()
            was_interrupted = interrupted_at(line, modules, lambda: scene(arrivals))  # noqa: B023

            def others(arrivals: Arrivals = arrivals) -> None:
                arrivals.announce([0], 1)
                arrivals.wait(lambda: False, 1)
                arrivals.close()

            thread = threading.Thread(target=others, daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive(), line


def test_what_a_listener_raises_is_kept() -> None:
    """And the others are called."""
    arrivals = arrivals_of_one()
    told: list[int] = []

    def fail(arrival: Arrival) -> None:
        raise ValueError(arrival.topic)

    arrivals.add_listener(fail)
    arrivals.add_listener(lambda arrival: told.append(arrival.next_offset))
    arrivals.announce([0], 1)
    assert told == [7]
    with pytest.raises(ValueError, match="orders"):
        raise arrivals.error or AssertionError


def test_a_listener_hears_of_its_queues_alone() -> None:
    """They are asked at each put, so a listener may change its mind; who names none hears of all."""
    arrivals = arrivals_of_one()
    told: list[str] = []
    queues = {("orders", 1), ("others", 0)}
    arrivals.add_listener(lambda arrival: told.append("of queues"), queues=queues)
    assert not arrivals.wants("orders", 0)
    arrivals.announce([0], 1)
    assert told == []
    queues.add(("orders", 0))
    assert arrivals.wants("orders", 0)
    arrivals.announce([0], 1)
    arrivals.add_listener(lambda arrival: told.append("of all"))
    queues.clear()
    assert arrivals.wants("orders", 0)
    arrivals.announce([0], 1)
    assert told == ["of queues", "of all"]


def test_a_thread_that_waits_wants_every_queue() -> None:
    """It asks a condition of its own, which may be about any."""
    arrivals = arrivals_of_one()
    arrivals.add_listener(lambda arrival: None, queues=())
    wanted: list[bool] = []

    def arrived() -> bool:
        wanted.append(arrivals.wants("orders", 0))
        return True

    assert arrivals.wait(arrived, 0)
    assert wanted == [True]
    assert not arrivals.wants("orders", 0)


def test_a_listener_that_was_removed_hears_no_more() -> None:
    """The other one does; then a put asks nothing again."""
    arrivals = arrivals_of_one()
    first: list[Arrival] = []
    second: list[Arrival] = []
    arrivals.add_listener(first.append)
    arrivals.add_listener(second.append)
    arrivals.remove_listener(first.append)
    arrivals.announce([0], 1)
    assert (len(first), len(second)) == (0, 1)
    assert arrivals.wanted
    arrivals.remove_listener(second.append)
    arrivals.remove_listener(second.append)
    assert not arrivals.wanted


def test_a_listener_is_told_of_the_end() -> None:
    """Once the store closes, or at once where it has closed; one that was removed is not."""
    arrivals = arrivals_of_one()
    told: list[str] = []
    arrivals.add_listener(lambda arrival: None, on_close=lambda: told.append("first"))
    gone: list[Arrival] = []
    arrivals.add_listener(gone.append, on_close=lambda: told.append("gone"))
    arrivals.add_listener(lambda arrival: None)
    arrivals.remove_listener(gone.append)
    assert told == []
    arrivals.close()
    assert told == ["first"]
    arrivals.add_listener(lambda arrival: None, on_close=lambda: told.append("late"))
    assert told == ["first", "late"]


def test_waiting_ends_when_a_message_is_there(small: SmallStore) -> None:
    """At once if it is, else when another thread puts it."""
    with small.open() as store:
        waited: Future[bool] = Future()
        thread = threading.Thread(
            target=lambda: waited.set_result(store.wait_for_messages("orders", 0, 0, 60_000))
        )
        thread.start()
        store.put_message(Message("orders", b"x"))
        assert waited.result(60)
        thread.join()
        assert store.wait_for_messages("orders", 0, 0, 0)
        assert not store.wait_for_messages("orders", 0, 1, 1)


def test_waiting_ends_when_the_store_is_closed(small: SmallStore) -> None:
    """No thread is left behind."""
    store = small.open()
    entered = threading.Event()
    ended: Future[object] = Future()

    def wait() -> None:
        entered.set()
        try:
            ended.set_result(store.wait_for_messages("orders", 0, 0, 600_000))
        except StoreClosed as error:
            ended.set_result(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert entered.wait(60)
    store.close()
    assert ended.result(60) is False or isinstance(ended.result(60), StoreClosed)
    thread.join()


def test_listeners_are_told_of_each_message(small: SmallStore) -> None:
    """Topic, queue and next offset, after it can be got; a listener that fails fails nobody else."""
    with small.open() as store:
        told: list[tuple[str, int, int]] = []

        def broken(arrival: Arrival) -> None:
            raise RuntimeError("listener")

        def listener(arrival: Arrival) -> None:
            assert store.get_message(
                "test", arrival.topic, arrival.queue_id, arrival.next_offset - 1
            ).messages
            told.append((arrival.topic, arrival.queue_id, arrival.next_offset))

        store.add_arrival_listener(broken)
        store.add_arrival_listener(listener)
        store.put_message(Message("orders", b"x"))
        store.put_messages([Message("orders", b"x", queue_id=1), Message("orders", b"y")])
        store.put_message_async(Message("orders", b"z"))
        assert told == [("orders", 0, 1), ("orders", 1, 1), ("orders", 0, 2), ("orders", 0, 3)]


@pytest.mark.parametrize("way", ["put_message", "put_messages", "put_columns"])
def test_a_listener_gets_what_a_broker_asks_for(small: SmallStore, way: str) -> None:
    """The hash of the tags, the store time, the properties, and the message itself."""
    with small.open() as store:
        told: list[Arrival] = []
        store.add_arrival_listener(told.append)
        message = Message("orders", b"x", tags="created", keys="k", queue_id=1)
        if way == "put_message":
            store.put_message(message)
        elif way == "put_messages":
            store.put_messages([message] * 50)
        else:
            store.put_columns(
                {"topic": "orders", "body": [b"x"] * 50, "tags": "created", "keys": "k", "queue_id": 1}
            )
        assert [arrival.next_offset for arrival in told] == list(range(1, len(told) + 1))
        assert len(told) == (1 if way == "put_message" else 50)
        arrival = told[0]
        assert (arrival.topic, arrival.queue_id) == ("orders", 1)
        assert arrival.tags_code == string_hash("created")
        assert (
            arrival.store_timestamp == store.get_message("test", "orders", 1, 0).messages[0].store_timestamp
        )
        assert arrival.properties == {"KEYS": "k", "TAGS": "created"}
        assert arrival.message.body == b"x"
        store.put_message(Message("orders", b"y"))
        assert told[-1].tags_code == 0


def test_nobody_is_told_of_what_has_no_place_in_a_queue(small: SmallStore) -> None:
    """Half messages and rollbacks: no entry stands for them, so no consumer could get them."""
    with small.open() as store:
        told: list[tuple[int, int]] = []
        store.add_arrival_listener(
            lambda arrival: told.append((arrival.next_offset, arrival.message.sys_flag))
        )
        for sys_flag in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT):
            store.put_message(Message("orders", b"x", sys_flag=sys_flag))
            store.put_messages([Message("orders", b"x", sys_flag=sys_flag)] * 2)
        assert told == [(1, TRANSACTION_COMMIT), (2, TRANSACTION_COMMIT), (3, TRANSACTION_COMMIT)]


def test_in_sync_flush_a_listener_hears_once_a_message_is_durable(small: SmallStore) -> None:
    """Before, nobody can get it: also when its put does not wait for the disk."""
    with small.open(flush_disk_type="SYNC_FLUSH", start=False) as store:
        told: list[int] = []

        def listener(arrival: Arrival) -> None:
            assert store.get_message("test", "orders", 0, arrival.next_offset - 1).messages
            told.append(arrival.next_offset)

        store.add_arrival_listener(listener)
        store.put_message(Message("orders", b"x", wait_store_msg_ok=False))
        store.put_message_async(Message("orders", b"y"))
        assert told == []
        store.flush()
        assert told == [1, 2]
        store.put_message(Message("orders", b"z"))
        assert told == [1, 2, 3]


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_only_puts_to_its_queues_are_announced(small: SmallStore, flush_disk_type: str) -> None:
    """By every way to put, and whether or not the put waits for the disk."""
    with small.open(flush_disk_type=flush_disk_type) as store:
        told: list[tuple[str, int, int]] = []

        def listener(arrival: Arrival) -> None:
            told.append((arrival.topic, arrival.queue_id, arrival.next_offset))

        store.add_arrival_listener(listener, queues={("orders", 1)})
        both = [Message("orders", b"x", queue_id=queue_id) for queue_id in (0, 1)]
        for message in both:
            store.put_message(message)
            store.put_message_async(message)
        store.put_messages(both)
        store.put_messages(both * 20)
        store.put_columns({"topic": "orders", "body": [b"x"] * 4, "queue_id": [0, 1, 1, 0]})
        store.put_columns({"topic": "others", "body": [b"x"] * 4, "queue_id": 1})
        store.flush()
        assert sorted(told) == [("orders", 1, 1 + number) for number in range(2 + 1 + 20 + 2)]
        store.remove_arrival_listener(listener)
        store.put_message(both[1])
        assert len(told) == 25
