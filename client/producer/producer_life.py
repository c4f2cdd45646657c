"""The life of a producer: what it is made of, its start, its close, and what it may do in between.

Its sends are in producer.py. A producer is started once, and one that was closed stays closed.
Threads: any thread may call any method; those that it has are told in producer.py.
Source: DefaultMQProducerImpl#start, #shutdown, #makeSureStateOK of Apache RocketMQ.
"""

import abc
import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from mqstore.broker.broker import Broker, MessageQueue
from mqstore.client.errors import ClientNotRunning
from mqstore.client.producer.message.unique_id import local_address
from mqstore.client.producer.message_accumulator import MessageAccumulator
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.request_reply import Requests
from mqstore.client.producer.sends.async_sends import AsyncSends
from mqstore.client.producer.sends.batch_sends import BatchSends
from mqstore.client.producer.sends.send_hooks import SendMessageHook
from mqstore.client.producer.sends.send_kernel import SendKernel
from mqstore.client.producer.sends.send_parts import SendParts
from mqstore.client.producer.sends.send_retry import SendRetry
from mqstore.store.clock import Clock, SystemClock
from mqstore.store.errors import GroupIllegal
from mqstore.store.message.topic_names import check_group

__all__ = ["ProducerLife"]

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
# Tells two producers apart: of this process, and of processes with the same number elsewhere.
_numbers = itertools.count(time.monotonic_ns())


class ProducerLife(abc.ABC):
    """A producer without its sends.

    group, settings: as given. client_id: by which brokers know it, while it takes checks or replies.
    """

    def __init__(
        self,
        brokers: Broker | Sequence[Broker],
        group: str,
        settings: ProducerSettings | None = None,
        *,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
        choice: random.Random | None = None,
    ) -> None:
        """Raises GroupIllegal, NoBroker, ConfigIllegal; ValueError for two brokers of one name."""
        self.group = _checked_group(group)
        self.settings = settings = settings or ProducerSettings()
        self.client_id = _client_id(settings)
        clock = clock or SystemClock()
        self._parts = SendParts.of(
            brokers, repr(self), group, settings, clock, timer, choice or random.Random()
        )
        self._state = "CREATE_JUST"
        self._kernel = SendKernel(self._parts)
        self._retry = SendRetry(self._parts, self._kernel)
        self._async_sends = AsyncSends(self._parts, self._kernel)
        self._batches = BatchSends(self._parts, self._kernel, self._retry, self._async_sends)
        self._requests = Requests(self._parts, self._kernel, self._async_sends, self.client_id, clock)
        self._timeout_ms = timeout_ms = settings.send_msg_timeout
        self._accumulator: MessageAccumulator | None = None
        if settings.auto_batch:
            self._accumulator = MessageAccumulator(
                self._parts,
                lambda messages, queue: self._batches.send(messages, queue, timeout_ms),
                lambda messages, queue: self._batches.send_async(messages, queue, timeout_ms),
            )
        # Says whether sends may be plain (plain_send.py).
        self._allow_plain: Callable[[bool], None]
        self._make_send()

    @abc.abstractmethod
    def _make_send(self) -> None:
        """Called once, when the parts are there."""

    # -- life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Let it send. Raises ClientNotRunning if it was started before: a closed one stays closed."""
        if self._state != "CREATE_JUST":
            raise ClientNotRunning(repr(self), self._state)
        self._parts.faults.start()
        self._state = "RUNNING"
        self._choose_send()

    def close(self) -> None:
        """End its threads. Sends raise ClientNotRunning from then on. Safe to call twice."""
        if self.is_running:
            if self._accumulator is not None:
                self._accumulator.close()
            self._state = "SHUTDOWN_ALREADY"
            self._allow_plain(False)
            self._requests.close(repr(self), self._state)
            self._async_sends.close()
            self._parts.faults.stop()

    @property
    def is_running(self) -> bool:
        """Whether it was started and not closed."""
        return self._state == "RUNNING"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fetch_publish_message_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that messages of `topic` are sent to. Raises TopicRouteNotFound."""
        self._check_running()
        return list(self._parts.routes.find(topic, self._parts.timer()).queues)

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        """Call `hook` before and after each attempt from now on (send_hooks.py)."""
        self._parts.hooks.register(hook)
        if self.is_running:
            self._choose_send()

    # -- inside ---------------------------------------------------------------------------------------

    def _timeout(self, timeout_ms: int | None) -> int:
        if timeout_ms is None:
            return self._timeout_ms
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms is {timeout_ms}, but must be 0 or more")
        return timeout_ms

    def _check_running(self) -> None:
        if not self.is_running:
            raise ClientNotRunning(repr(self), self._state)

    def _choose_send(self) -> None:
        self._allow_plain(
            self._accumulator is None
            and not self._parts.hooks.registered
            and not self._parts.faults.is_enabled
            and self.settings.send_msg_max_timeout_per_request < 0
        )

    def __repr__(self) -> str:
        return f"Producer({self.group!r})"


def _checked_group(group: str) -> str:
    check_group(group)
    if group == DEFAULT_PRODUCER_GROUP:
        raise GroupIllegal(
            f"the producer group may not be {group!r}, which stands for none: give it a name of its own",
            value=group,
        )
    return group


def _client_id(settings: ProducerSettings) -> str:
    """`address@instance`; two producers of one process need ids of their own."""
    name = settings.instance_name
    if name == "DEFAULT":
        name = f"{os.getpid()}#{next(_numbers)}"
    address = settings.client_ip or ".".join(map(str, local_address()))
    return f"{address}@{name}"
