"""What all ways to send have in common: the parts of one producer.

Threads: any; each part says what it lets several threads do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqstore.broker.broker import Broker
from mqstore.client.producer.message.body_compression import BodyCompression
from mqstore.client.producer.message.message_check import check_message
from mqstore.client.producer.message.outgoing import OutgoingMessage, prepare
from mqstore.client.producer.message.unique_id import UniqueIds
from mqstore.client.producer.producer_config import ProducerConfig
from mqstore.client.producer.queues.latency_faults import LatencyFaults
from mqstore.client.producer.queues.publish_routes import PublishRoutes
from mqstore.client.producer.queues.queue_selector import QueueSelector
from mqstore.client.producer.send_hooks import SendHooks
from mqstore.store.message.message import Message

__all__ = ["SendParts"]


@dataclass(frozen=True, slots=True)
class SendParts:
    """The parts of one producer. timer: seconds of a clock that only goes forward."""

    config: ProducerConfig
    brokers: Mapping[str, Broker]
    routes: PublishRoutes
    selector: QueueSelector
    faults: LatencyFaults
    hooks: SendHooks
    ids: UniqueIds
    compression: BodyCompression
    timer: Callable[[], float]

    def check(self, message: Message) -> None:
        """Raise for a message that no broker would take (message_check.py)."""
        check_message(message, self.config.max_message_size)

    def outgoing(self, message: Message) -> OutgoingMessage:
        """The message ready to be sent, with its UNIQ_KEY, compressed."""
        return OutgoingMessage(*prepare(message, self.ids, self.compression))

    def cost_ms(self, begin_s: float) -> int:
        """Milliseconds that have passed since then."""
        return round((self.timer() - begin_s) * 1000)
