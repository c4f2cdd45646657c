"""The publish routes: for each topic, the queues that a producer may send to, of all its brokers.

Queues come in the order of the brokers' names, then of their ids; a broker on which nobody may write to the
topic has none. For a topic that no broker has, the queues of TBW102 are taken, at most
`default_topic_queue_nums` a broker: the first message then creates the topic. A route is kept for
`poll_name_server_interval`, and a broker that raises is left out of it.

Threads: any. Routes do not change; a newer one replaces them in the table in one step.
Source: docs/spec/client_produce.md sections 2 and 3; TopicPublishInfo,
MQClientInstance#topicRouteData2TopicPublishInfo, DefaultMQProducerImpl#tryToFindTopicPublishInfo.
"""

import itertools
import random
import threading
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from mqstore.broker.broker import Broker, MessageQueue, TopicRoute
from mqstore.client.errors import TopicRouteNotFound
from mqstore.client.producer.message.message_check import check_topic_to_send
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.store.errors import ConfigIllegal, StoreError
from mqstore.store.message.put_result import SentPut

__all__ = ["PublishRoute", "PublishRoutes", "QueueTurns", "Target"]


Target: TypeAlias = tuple[MessageQueue, int, Broker | None, SentPut | None]
"""What a send needs of a queue, taken apart in one step: the queue, its id, its broker (None: not given), and
how that puts usual messages directly."""


class QueueTurns(threading.local):
    """Hands out the queues of a topic in turn, to each thread by itself, from a random one on.

    That is RocketMQ's index of a thread, without the number. targets: an endless iterator, for who is in a
    hurry.
    """

    def __init__(self, targets: Sequence[Target], choice: random.Random) -> None:
        # Called for each thread.
        self._targets = targets
        self._choice = choice
        self.begin_anew()

    def begin_anew(self) -> None:
        """Go on from a random queue."""
        first = self._choice.getrandbits(31) % len(self._targets)
        self.targets = itertools.cycle((*self._targets[first:], *self._targets[:first]))

    def next(self) -> MessageQueue:
        """The next queue."""
        return next(self.targets)[0]


class PublishRoute(msgspec.Struct, frozen=True, gc=False):
    """The queues of one topic to send to, and until when they are believed, by the producer's timer.

    turns: hands out the queues in turn.
    """

    topic: str
    queues: tuple[MessageQueue, ...]
    expires_s: float
    turns: QueueTurns


class PublishRoutes:
    """The routes of one producer. `table` has what is known, by topic; `find` looks up what is not.

    A route to a topic of the brokers' own, or to one with an illegal name, is not kept: a plain send takes a
    route from the table, and does not check the topic again.
    plain: the same, taken apart in one step: until when a route is believed, its turns, and itself.
    """

    def __init__(
        self, brokers: Mapping[str, Broker], settings: ProducerSettings, choice: random.Random
    ) -> None:
        """brokers: by name. choice: of the queue to begin with.

        Raises ConfigIllegal when an order configuration cannot be read.
        """
        self.table: dict[str, PublishRoute] = {}
        self.plain: dict[str, tuple[float, QueueTurns, PublishRoute]] = {}
        self._by_name = brokers
        self._brokers = [brokers[name] for name in sorted(brokers)]
        self._choice = choice
        self._kept_s = settings.poll_name_server_interval / 1000
        self._default_topic = settings.create_topic_key
        self._default_queue_nums = settings.default_topic_queue_nums
        self._ordered = {
            topic: _parse_order(topic, conf) for topic, conf in settings.order_topic_conf.items()
        }

    def find(self, topic: str, now_s: float) -> PublishRoute:
        """The route of a topic, looked up if it is not known or too old. Raises TopicRouteNotFound."""
        route = self.table.get(topic)
        return self.look_up(topic, now_s) if route is None or now_s >= route.expires_s else route

    def look_up(self, topic: str, now_s: float) -> PublishRoute:
        """Ask all brokers anew. Raises TopicRouteNotFound, from what a broker raised."""
        errors: list[StoreError] = []
        queues = self._ordered.get(topic) or self._queues(topic, topic, errors)
        if not queues:
            queues = self._queues(self._default_topic, topic, errors, self._default_queue_nums)
        if not queues:
            self.forget(topic)
            raise TopicRouteNotFound(topic, [broker.name for broker in self._brokers]) from next(
                iter(errors), None
            )
        known = self.table.get(topic)
        if known is not None and known.queues == queues:
            turns = known.turns
        else:
            turns = QueueTurns([self._target_of(queue) for queue in queues], self._choice)
        route = PublishRoute(topic, queues, now_s + self._kept_s, turns)
        if _may_be_sent_to(topic):
            self.table[topic] = route
            self.plain[topic] = route.expires_s, turns, route
        return route

    def _target_of(self, queue: MessageQueue) -> Target:
        broker = self._by_name.get(queue.broker_name)
        return queue, queue.queue_id, broker, None if broker is None else broker.put_sent

    def forget(self, topic: str) -> None:
        """Look the topic up again before the next send to it."""
        self.plain.pop(topic, None)
        self.table.pop(topic, None)

    def _queues(
        self, asked_topic: str, topic: str, errors: list[StoreError], at_most: int = 2**31
    ) -> tuple[MessageQueue, ...]:
        """Queues of `topic`, as many a broker as `asked_topic` has there."""
        found: list[MessageQueue] = []
        for broker in self._brokers:
            try:
                route: TopicRoute | None = broker.topic_route(asked_topic)
            except StoreError as error:
                errors.append(error)
                continue
            if route is not None and route.is_writable:
                count = min(route.write_queue_nums, at_most)
                found += [MessageQueue(topic, broker.name, queue_id) for queue_id in range(count)]
        return tuple(found)

    def __repr__(self) -> str:
        return f"PublishRoutes({[broker.name for broker in self._brokers]}, {sorted(self.table)})"


def _may_be_sent_to(topic: str) -> bool:
    """Whether a message to the topic passes the checks of producers, whatever brokers have of it."""
    try:
        check_topic_to_send(topic)
    except StoreError:
        return False
    return True


def _parse_order(topic: str, conf: str) -> tuple[MessageQueue, ...]:
    """The queues of an order configuration, `broker-a:8;broker-b:4`."""
    try:
        counts = [
            (name, int(count)) for name, _, count in (part.partition(":") for part in conf.split(";") if part)
        ]
    except ValueError:
        counts = []
    if not counts or any(count < 1 or not name for name, count in counts):
        raise ConfigIllegal(
            f"order_topic_conf of topic {topic!r} is {conf!r}, but must be like broker-a:8;broker-b:4",
            key="order_topic_conf",
            value=conf,
        )
    return tuple(MessageQueue(topic, name, queue_id) for name, count in counts for queue_id in range(count))
