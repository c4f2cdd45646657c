"""A consumer that takes its steps when a test says so: the parts of the push consumer, without a thread.

It pulls with `Broker.pull`; cached messages, listener, send-back and offsets are the real ones.
"""

from collections.abc import Mapping

from mqstore.broker.broker import Broker, MessageQueue, PullRequest
from mqstore.client.consumer.consume_hooks import ConsumeHooks
from mqstore.client.consumer.consume_service import ConcurrentConsumeService
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.listener import MessageListener, RegisteredConcurrentListener
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.client.offsets.consume_from_where import first_offset
from mqstore.store.clock import Clock
from mqstore.store.message.topic_names import retry_topic
from support.clients.manual_timer import ManualTimer

__all__ = ["SteppedConsumer"]


class SteppedConsumer:
    """Consumes for `group` what `subscriptions` name: topic -> tags."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        subscriptions: Mapping[str, str],
        listener: MessageListener,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._broker = broker
        self._group = group
        self._subscriptions = {**subscriptions, retry_topic(group): "*"}
        self._settings = settings
        self._offsets = BrokerOffsetStore({broker.name: broker}, group)
        self._consuming = ConcurrentConsumeService(
            group,
            settings,
            RegisteredConcurrentListener(listener, None),
            self._offsets,
            SendBack({broker.name: broker}, group, settings.retries),
            ManualTimer(),
            clock,
            ConsumeHooks(),
        )
        self._pulled: dict[MessageQueue, PulledQueue] = {}

    def run_once(self) -> int:
        """Pull once from every queue; the number of messages handed to the listener."""
        return sum(self.consume(topic) for topic in self._subscriptions)

    def consume(self, topic: str) -> int:
        """Pull once from every queue of a topic, if it exists."""
        route = self._broker.topic_route(topic)
        queue_ids = range(route.read_queue_nums if route is not None else 0)
        return sum(
            self._pull_once(MessageQueue(topic, self._broker.name, queue_id)) for queue_id in queue_ids
        )

    def _pull_once(self, queue: MessageQueue) -> int:
        pulled = self._pulled.get(queue) or self._begin(queue)
        answer = self._broker.pull(
            PullRequest(
                self._group,
                queue.topic,
                queue.queue_id,
                pulled.next_offset,
                self._settings.pull_batch_size,
                pulled.subscription,
            )
        )
        pulled.next_offset = answer.next_begin_offset
        if answer.messages:
            messages = answer.messages
            if pulled.is_retry:
                messages = [ReceivedMessage.of(message.record) for message in messages]
            batch = pulled.process_queue.put(messages, answer.next_begin_offset)
            self._consuming.submit(pulled, batch, answer)
            for request in self._consuming._threads.take_all():
                self._consuming.run(request)
        else:
            self._offsets.update(queue, pulled.next_offset, increase_only=True)
        self._offsets.persist(queue)
        return len(answer.messages)

    def _begin(self, queue: MessageQueue) -> PulledQueue:
        offset = self._offsets.read_kept(queue)
        if offset < 0:
            where, begin_ms = self._settings.consume_from_where, self._settings.begin_ms(0)
            offset = first_offset(self._broker, queue, where, begin_ms)
        pulled = PulledQueue(queue, self._subscriptions[queue.topic], offset)
        self._pulled[queue] = pulled
        return pulled
