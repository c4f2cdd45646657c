"""What all ways to send have in common: the parts of one producer.

Threads: any; each part says what it lets several threads do.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from mqstore.broker.broker import Broker
from mqstore.client.brokers import Brokers
from mqstore.client.errors import BrokerRefused
from mqstore.client.producer.message.body_compression import BodyCompression
from mqstore.client.producer.message.message_check import check_message
from mqstore.client.producer.message.outgoing import OutgoingMessage, prepare
from mqstore.client.producer.message.unique_id import UniqueIds
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.queues.latency_faults import LatencyFaults
from mqstore.client.producer.queues.publish_routes import PublishRoutes
from mqstore.client.producer.queues.queue_selector import QueueSelector
from mqstore.client.producer.sends.send_hooks import SendHooks
from mqstore.store.clock import Clock
from mqstore.store.errors import QueueIllegal, TopicNotExist
from mqstore.store.message.message import Message
from mqstore.store.status import ResponseCode

__all__ = ["SendParts"]

_OTHER_QUEUES = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER})
"""Answers that say that the topic has not the queues that this producer thinks."""


@dataclass(frozen=True, slots=True)
class SendParts:
    """The parts of one producer. timer: seconds of a clock that only goes forward."""

    settings: ProducerSettings
    brokers: Mapping[str, Broker]
    routes: PublishRoutes
    selector: QueueSelector
    faults: LatencyFaults
    hooks: SendHooks
    ids: UniqueIds
    compression: BodyCompression
    timer: Callable[[], float]

    @classmethod
    def of(
        cls,
        brokers: Broker | Sequence[Broker],
        client: str,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
        timer: Callable[[], float],
        choice: random.Random,
    ) -> Self:
        """The parts of a new producer. client: its name in errors.

        Raises NoBroker, ConfigIllegal; ValueError for two brokers of one name.
        """
        by_name = Brokers(brokers, client)
        routes = PublishRoutes(by_name, settings, choice)

        def ask(broker_name: str) -> object:
            """About any known topic, for the detector."""
            return by_name[broker_name].max_offset(next(iter(routes.table)), 0)

        faults = LatencyFaults(settings, by_name.__contains__, ask, timer, choice)
        return cls(
            settings,
            by_name,
            routes,
            QueueSelector(faults),
            faults,
            SendHooks(group),
            UniqueIds(clock, timer),
            BodyCompression(
                settings.compress_type, settings.compress_level, settings.compress_msg_body_over_howmuch
            ),
            timer,
        )

    def check(self, message: Message) -> None:
        """Raise for a message that no broker would take (message_check.py)."""
        check_message(message, self.settings.max_message_size)

    def outgoing(self, message: Message) -> OutgoingMessage:
        """The message ready to be sent, with its UNIQ_KEY, compressed."""
        return OutgoingMessage(*prepare(message, self.ids, self.compression))

    def heed(self, topic: str, error: Exception) -> None:
        """Look the topic up again before the next send, if a broker says that its queues are others."""
        is_refused = isinstance(error, BrokerRefused) and error.response_code in _OTHER_QUEUES
        if is_refused or isinstance(error, QueueIllegal | TopicNotExist):
            self.routes.forget(topic)

    def cost_ms(self, begin_s: float) -> int:
        """Milliseconds that have passed since then."""
        return round((self.timer() - begin_s) * 1000)
