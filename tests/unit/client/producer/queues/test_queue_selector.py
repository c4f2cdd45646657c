"""The choice of a queue, with and without the strategy for faults, and RocketMQ's selectors.

Rows of docs/spec/client_produce.md section 3.
"""

import random
from collections import Counter
from typing import Any

import pytest

from mqstore import Message
from mqstore.broker.broker import MessageQueue
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.queues.latency_faults import LatencyFaults
from mqstore.client.producer.queues.publish_routes import PublishRoute, QueueTurns
from mqstore.client.producer.queues.queue_selector import (
    QueueSelector,
    SelectMessageQueueByRandom,
    java_hash_of,
    select_message_queue_by_hash,
)
from support.manual_seconds import ManualSeconds

MESSAGE = Message("orders", b"x")


def route_of(*brokers: str) -> PublishRoute:
    """Two queues of each broker; the turns begin at the first."""
    queues = tuple(MessageQueue("orders", name, queue_id) for name in brokers for queue_id in (0, 1))
    turns = QueueTurns([(queue, queue.queue_id, None, None) for queue in queues], random.Random(1))
    while turns.next() != queues[-1]:
        pass
    return PublishRoute("orders", queues, 0.0, turns)


def faults(*, is_enabled: bool, seconds: ManualSeconds | None = None) -> LatencyFaults:
    settings = ProducerSettings(send_latency_enable=is_enabled)
    return LatencyFaults(
        settings, lambda name: True, lambda name: None, seconds or ManualSeconds(), random.Random(1)
    )


def names(selector: QueueSelector, route: PublishRoute, last: str | None, count: int = 4) -> list[str]:
    return ["{1}{2}".format(*selector.select(route, last)) for _ in range(count)]


def test_off_the_next_queue_not_of_the_last_broker() -> None:
    """Row strategy off: next queue not of the last broker. Row "Last broker": null at the first attempt."""
    selector = QueueSelector(faults(is_enabled=False))
    route = route_of("a", "b")
    assert names(selector, route, None) == ["a0", "a1", "b0", "b1"]
    assert names(selector, route, "a") == ["b0", "b1", "b0", "b1"]
    assert names(selector, route, "b", 1) == ["a0"]


def test_off_with_one_broker_the_next_queue() -> None:
    """Row strategy off: with one broker only the next queue, after a look at each."""
    selector = QueueSelector(faults(is_enabled=False))
    route = route_of("a")
    assert names(selector, route, "a", 3) == ["a0", "a1", "a0"]


def test_a_filtered_choice_looks_once_at_each_queue() -> None:
    """Row Index: a filtered choice looks at most once at each queue, and each look moves the index."""
    selector = QueueSelector(faults(is_enabled=False))
    route = route_of("a", "b")
    assert names(selector, route, "a", 1) == ["b0"], "after looks at a0 and a1"
    assert names(selector, route, None, 1) == ["b1"]
    only = route_of("a")
    names(selector, only, "a", 1)
    assert names(selector, only, None, 1) == ["a1"], "three looks: two that did not fit, and the next"


def test_on_an_available_broker_first() -> None:
    """Row strategy on, 1: next queue whose broker is available, and not the last one."""
    kept = faults(is_enabled=True)
    kept.update("a", 600, is_isolated=False, is_reachable=True)
    selector = QueueSelector(kept)
    assert names(selector, route_of("a", "b", "c"), None) == ["b0", "b1", "c0", "c1"]
    assert names(selector, route_of("a", "b", "c"), "b", 2) == ["c0", "c1"]


def test_on_then_a_reachable_one() -> None:
    """Row strategy on, 2: next whose broker is reachable, and not the last one."""
    kept = faults(is_enabled=True)
    kept.update("a", 0, is_isolated=True, is_reachable=False)
    kept.update("b", 0, is_isolated=True, is_reachable=True)
    kept.update("c", 0, is_isolated=True, is_reachable=True)
    assert names(QueueSelector(kept), route_of("a", "b", "c"), "b", 2) == ["c0", "c1"]


def test_on_at_last_any() -> None:
    """Row strategy on, 3: next queue, whatever its broker."""
    kept = faults(is_enabled=True)
    for name in "ab":
        kept.update(name, 0, is_isolated=True, is_reachable=False)
    assert names(QueueSelector(kept), route_of("a", "b"), "a", 2) == ["a0", "a1"]


@pytest.mark.parametrize("is_enabled", [True, False])
def test_on_a_retry_begins_at_a_random_queue(is_enabled: bool) -> None:
    """Row strategy on: from the 2nd attempt on the index is set to a random number first; off: it is not."""
    selector = QueueSelector(faults(is_enabled=is_enabled))
    route = route_of("a", "b")
    chosen = [selector.select(route, "a", is_again=True).queue_id for _ in range(40)]
    assert (chosen == [0, 1] * 20) is not is_enabled


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", 0),
        ("order-1", -1207111310),
        ("polygenelubricants", -(2**31)),
        (7, 7),
        (-7, -7),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (2**32, 1),
        (-(2**63), -(2**31)),
        (-1 - 2**32, 1),
    ],
)
def test_javas_hash(value: str | int, code: int) -> None:
    """Of a String; of an Integer, and a Long where the number is too large for one."""
    assert java_hash_of(value) == code


@pytest.mark.parametrize("value", [None, 1.5, b"x", ("a",), True, 2**63])
def test_what_has_no_hash_of_javas_is_refused(value: Any) -> None:
    """A hash of Python's would differ from one process to the next."""
    with pytest.raises(TypeError, match="give a str, or an int"):
        java_hash_of(value)


@pytest.mark.parametrize(("arg", "queue_id"), [("order-1", 1207111310 % 5), (7, 2), (-7, 2), (-5, 0)])
def test_by_hash(arg: str | int, queue_id: int) -> None:
    """Row SelectMessageQueueByHash: Java hash of the argument modulo count (remainder, then absolute)."""
    queues = [MessageQueue("orders", "a", number) for number in range(5)]
    assert select_message_queue_by_hash(queues, MESSAGE, arg).queue_id == queue_id


def test_by_random() -> None:
    """Row ByRandom: uniform."""
    queues = [MessageQueue("orders", "a", number) for number in range(4)]
    select = SelectMessageQueueByRandom(random.Random(3))
    counts = Counter(select(queues, MESSAGE, None).queue_id for _ in range(4_000))
    assert all(850 < counts[number] < 1_150 for number in range(4))
