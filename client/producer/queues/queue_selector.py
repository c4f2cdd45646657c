"""The choice of a queue: the next one in turn, or what a selector says.

In turn: each thread begins at a random queue of a topic, and each look goes on by one. The strategy with
latency faults (latency_faults.py) looks for a queue of a broker that is available, then of one that is
reachable, each time not of the broker of the previous attempt; then it takes the next.

A selector is any callable `(queues, message, arg) -> MessageQueue`. Two of RocketMQ's are here.
Threads: any.
Source: docs/spec/client_produce.md section 3; TopicPublishInfo#selectOneMessageQueue, ThreadLocalIndex,
MQFaultStrategy#selectOneMessageQueue, SelectMessageQueueByHash, SelectMessageQueueByRandom.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mqstore.broker.broker import MessageQueue
from mqstore.client.producer.queues.latency_faults import LatencyFaults
from mqstore.client.producer.queues.publish_routes import PublishRoute
from mqstore.store.message.message import Message
from mqstore.store.record.java_hash import string_hash

__all__ = [
    "MessageQueueSelector",
    "QueueSelector",
    "SelectMessageQueueByRandom",
    "java_hash_of",
    "select_message_queue_by_hash",
]

MessageQueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]
"""Chooses one of the queues for a message; the last argument is what the sender gave as `arg`."""


class QueueSelector:
    """Chooses among the queues of a route in turn."""

    def __init__(self, faults: LatencyFaults) -> None:
        self._faults = faults

    def select(
        self, route: PublishRoute, last_broker_name: str | None = None, *, is_again: bool = False
    ) -> MessageQueue:
        """The queue for the next attempt of a send.

        last_broker_name: of the previous attempt, None at the first. is_again: whether the index begins anew
        when faults are kept, as in all attempts of a SYNC send but the first.
        """
        faults = self._faults

        def is_other(queue: MessageQueue) -> bool:
            return queue.broker_name != last_broker_name

        if not faults.is_enabled:
            return _look(route, is_other) or route.turns.next()
        if is_again:
            route.turns.begin_anew()
        return (
            _look(route, lambda queue: faults.is_available(queue.broker_name) and is_other(queue))
            or _look(route, lambda queue: faults.is_reachable(queue.broker_name) and is_other(queue))
            or route.turns.next()
        )


def _look(route: PublishRoute, fits: Callable[[MessageQueue], bool]) -> MessageQueue | None:
    """The next queue that fits, after at most one look at each."""
    for _ in route.queues:
        queue = route.turns.next()
        if fits(queue):
            return queue
    return None


def select_message_queue_by_hash(
    queues: Sequence[MessageQueue], message: Message, arg: str | int
) -> MessageQueue:
    """The queue by Java's hash of `arg`: the one that RocketMQ's SelectMessageQueueByHash would choose.

    Raises TypeError for an argument that has no such hash here.
    """
    code = java_hash_of(arg)
    # Java's remainder has the sign of the number.
    return queues[abs(code) % len(queues)]


def java_hash_of(value: str | int) -> int:
    """Java's `hashCode` of a String, an Integer or, where it does not fit one, a Long.

    >>> java_hash_of("order-1"), java_hash_of(-7), java_hash_of(2**32)
    (-1207111310, -7, 1)
    """
    if isinstance(value, str):
        return string_hash(value)
    if type(value) is int and -(2**63) <= value < 2**63:
        if -(2**31) <= value < 2**31:
            return value
        code = (value ^ ((value & 0xFFFF_FFFF_FFFF_FFFF) >> 32)) & 0xFFFF_FFFF
        return code - 2**32 if code >> 31 else code
    raise TypeError(f"{value!r} has no hash of Java's here: give a str, or an int of at most 64 bits")


class SelectMessageQueueByRandom:
    """Chooses any queue, all with the same probability."""

    def __init__(self, choice: random.Random | None = None) -> None:
        self._choice = choice or random.Random()

    def __call__(self, queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
        """Any of the queues."""
        return self._choice.choice(queues)

    def __repr__(self) -> str:
        return "SelectMessageQueueByRandom()"
