"""The life of a consumer: who it is, which brokers it has, what it subscribes to, and that it ends once.

Push and lite pull consumers are made of this and of what runs while they are started.
Threads: any thread may call any method. In a forked child the threads of a consumer are not there: it counts
as closed. Source: DefaultMQPushConsumerImpl, DefaultLitePullConsumerImpl, ClientConfig#buildMQClientId.
"""

import abc
import itertools
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from mqstore.broker.broker import Broker, ConsumerData, MessageModel, MessageQueue
from mqstore.client.brokers import Brokers
from mqstore.client.consumer.consumer_settings import ConsumerSettings
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue
from mqstore.client.errors import ConsumerClosed
from mqstore.client.offsets.broker_offset_store import BrokerOffsetStore
from mqstore.client.offsets.local_file_offset_store import LocalFileOffsetStore
from mqstore.client.offsets.offset_store import OffsetStore
from mqstore.index.pull.tag_filter import ALL_TAGS, parse_subscription
from mqstore.store.errors import StoreClosed, SubscriptionIllegal
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.message.topic_names import check_group, check_topic
from mqstore.store.threads.lock import RLock

__all__ = ["ConsumerLife", "check_expression"]

_logger = logging.getLogger(__name__)

_numbers = itertools.count(time.monotonic_ns())
"""Tells two consumers apart: those of this process, and those of processes with the same number elsewhere."""


class ConsumerLife(abc.ABC):
    """What all consumers have. client_id: by which the group knows this member."""

    def __init__(
        self,
        brokers: Broker | Sequence[Broker],
        group: str,
        settings: ConsumerSettings,
        file_system: FileSystem | None,
        subscriptions: Mapping[str, str],
    ) -> None:
        """file_system: for the offsets of BROADCASTING. subscriptions: those that it has by itself.

        Raises GroupIllegal, NoBroker; ValueError for two brokers of one name.
        """
        check_group(group)
        self.group = group
        self.client_id = _client_id(settings)
        self._brokers = Brokers(brokers, f"the consumer of group {group!r}")
        self._message_model = settings.message_model
        self._offsets: OffsetStore
        if self._is_clustering:
            self._offsets = BrokerOffsetStore(self._brokers, group)
        else:
            directory = Path(settings.local_offset_store_dir).expanduser().absolute()
            files = file_system or OsFileSystem()
            self._offsets = LocalFileOffsetStore(files, directory, self.client_id, group)
        # Replaced, never changed: read without a lock.
        self._subscriptions = dict(subscriptions)
        self._is_closed = False
        self._process_id = os.getpid()
        # Held by `start`, `subscribe` and `close`.
        self._lock = RLock()

    @property
    def _is_clustering(self) -> bool:
        return self._message_model is MessageModel.CLUSTERING

    # -- what it subscribes to --------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = ALL_TAGS) -> None:
        """Consume `topic`: all of it, or messages with one of the tags `TagA || TagB`. Also after `start`.

        A second subscription of a topic takes the place of the first; what was pulled before may still come.
        All members of a group must subscribe to the same. Raises TopicIllegal, SubscriptionIllegal.
        """
        check_topic(topic)
        check_expression(expression)
        self._replace_subscriptions("subscribe", self._subscriptions | {topic: expression or ALL_TAGS})

    def unsubscribe(self, topic: str) -> None:
        """Consume `topic` no more."""
        others = {known: tags for known, tags in self._subscriptions.items() if known != topic}
        self._replace_subscriptions("unsubscribe", others)

    def _replace_subscriptions(self, operation: str, subscriptions: dict[str, str]) -> None:
        self._check_open(operation)
        with self._lock:
            self._subscriptions = subscriptions
            self._on_subscribed()

    @abc.abstractmethod
    def _on_subscribed(self) -> None:
        """The subscriptions have changed; under the lock."""

    def _join_group(self, on_change: Callable[[], None]) -> None:
        """Be a member at every broker; one that is closed is left out, unless all are."""
        data = ConsumerData(self._message_model, self._subscriptions)
        closed: list[StoreClosed] = []
        for broker in self._brokers.values():
            try:
                broker.register_consumer(self.group, self.client_id, data, on_change)
            except StoreClosed as error:
                closed.append(error)
        if len(closed) == len(self._brokers):
            raise closed[0]
        for reason in closed:
            _logger.warning("group %s does without a broker: %s", self.group, reason)

    # -- its queues -------------------------------------------------------------------------------

    @abc.abstractmethod
    def _assigned(self) -> Collection[PulledQueue]:
        """The queues that it has now."""

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now."""
        return sorted(pulled.queue for pulled in self._assigned())

    @property
    def errors(self) -> dict[MessageQueue, BaseException]:
        """Why queues cannot be pulled now, by queue; each is tried again."""
        return {pulled.queue: pulled.error for pulled in self._assigned() if pulled.error is not None}

    # -- its end ----------------------------------------------------------------------------------

    @property
    def _is_in_child(self) -> bool:
        """Whether this is a forked child: it has none of the threads, and a lock may be held for ever."""
        return os.getpid() != self._process_id

    def _check_open(self, operation: str) -> None:
        if self._is_closed or self._is_in_child:
            raise ConsumerClosed(self.group, operation)


def check_expression(expression: str) -> None:
    """Raises SubscriptionIllegal for what selects no tags."""
    if not isinstance(expression, str):
        raise SubscriptionIllegal(expression)
    parse_subscription(expression)


def _client_id(settings: ConsumerSettings) -> str:
    """`address@instance`; members of a group need ids of their own, and a file of offsets the same again."""
    name = settings.instance_name
    if name == "DEFAULT" and settings.message_model is MessageModel.CLUSTERING:
        name = f"{os.getpid()}#{next(_numbers)}"
    return f"{settings.client_ip}@{name}"
