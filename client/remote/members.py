"""The members: which clients of this process are in which groups of one broker, and their connections.

A broker knows a client by the connection that its heartbeats come by, so each client has one of its own. On
it the broker asks and tells:

    40   the members of a group have changed   -> on_change of that group
    39   what became of a transaction          -> check of that producer group
    326  a reply to a request of this client   -> its receiver
    220  an operator has moved a group         -> kept until the consumer asks (`take_reset`)

    a heartbeat     at once when something changes; every 30 s; when the connection was made again
    a lost broker   connected again as soon as it is there; its clients are members again by a heartbeat

Threads: any; callbacks come from threads of connections. In memory alone.
Source: docs/spec/remoting.md sections 7, 9, 10, 11; MQClientInstance#sendHeartbeatToAllBroker,
ClientRemotingProcessor of Apache RocketMQ.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from mqstore.broker.broker import ConsumerData
from mqstore.client.errors import BrokerRefused
from mqstore.client.remote.broker_requests import ResetOffsets, half_of, message_of_reply
from mqstore.client.remote.channel import Channel, refuse_requests
from mqstore.client.remote.connection import Connection
from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.remoting.bodies import (
    HeartbeatConsumer,
    HeartbeatData,
    HeartbeatProducer,
    SubscriptionData,
    encode_body,
)
from mqstore.remoting.command import Command
from mqstore.remoting.headers import GroupHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.store.clock import Clock
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import ResponseCode
from mqstore.store.threads.lock import Lock

__all__ = ["Members", "OpenChannel"]

_logger = logging.getLogger(__name__)

_HEARTBEAT_PERIOD_S: Final = 30.0
# A broker that takes each connection and ends it at once is not connected to without end.
_LEAST_BETWEEN_TRIES_S: Final = 0.5
# The group of a client that only waits for replies: a broker finds clients among its producers.
_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"

Check = Callable[[StoredMessage, PutMessageResult], None]
Receive = Callable[[Message], None]
OpenChannel = Callable[[str, Callable[[Connection, Command], None]], Channel]
"""(client id, what answers the broker's requests) -> a channel."""


class _Consumer(NamedTuple):
    data: ConsumerData
    on_change: Callable[[], None]
    version: int


class _Member:
    """One client: its groups, and its connection."""

    def __init__(
        self, client_id: str, open_channel: OpenChannel, resets: ResetOffsets, timeout_ms: int
    ) -> None:
        self.client_id = client_id
        self.consumers: dict[str, _Consumer] = {}
        self.producers: dict[str, Check] = {}
        self.receive: Receive | None = None
        self.beaten_s = 0.0
        # None: whoever adds it is about to.
        self.tried_s: float | None = None
        self.channel = open_channel(client_id, self._answer)
        self._resets = resets
        self._timeout_ms = timeout_ms

    @property
    def is_in_no_group(self) -> bool:
        return not self.consumers and not self.producers and self.receive is None

    @property
    def is_due(self) -> bool:
        """Whether the broker is to be told now: again, or after a loss."""
        now_s = time.monotonic()
        if self.tried_s is None or now_s - self.tried_s < _LEAST_BETWEEN_TRIES_S:
            return False
        return now_s - self.beaten_s >= _HEARTBEAT_PERIOD_S or not self.channel.is_connected

    def beat(self) -> None:
        """Tell the broker of all groups. Raises what the channel raises, BrokerRefused."""
        self.tried_s = time.monotonic()
        producers = [*self.producers, *([_INNER_PRODUCER] if self.receive is not None else [])]
        told = HeartbeatData(
            self.client_id,
            [_heartbeat_of(group, consumer) for group, consumer in self.consumers.items()],
            [HeartbeatProducer(group) for group in producers],
        )
        body, timeout_ms = encode_body(told), self._timeout_ms
        answer = self.channel.ask(RequestCode.HEART_BEAT, body=body, timeout_ms=timeout_ms)
        self.beaten_s = time.monotonic()
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(repr(self.channel), answer.code, answer.remark)

    def _answer(self, connection: Connection, request: Command) -> None:
        """A request of the broker."""
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            consumer = self.consumers.get(request.fields_as(GroupHeader).name)
            if consumer is not None:
                consumer.on_change()
            connection.answer(request, ResponseCode.SUCCESS)
        elif request.code == RequestCode.CHECK_TRANSACTION_STATE:
            message, half = half_of(request)
            check = self.producers.get(message.properties.get("PGROUP", ""))
            if check is not None:
                check(message, half)
        elif request.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT and self.receive is not None:
            self.receive(message_of_reply(request))
            connection.answer(request, ResponseCode.SUCCESS)
        elif request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            self._resets.take_in(request)
        else:
            refuse_requests(connection, request)


class Members:
    """The clients of this process at one broker."""

    def __init__(self, open_channel: OpenChannel, clock: Clock, timeout_ms: int) -> None:
        """timeout_ms: for a heartbeat, and for a farewell."""
        self._timeout_ms = timeout_ms
        self.resets = ResetOffsets()
        self._clock = clock
        self._open_channel = open_channel
        self._members: dict[str, _Member] = {}
        self._is_closed = False
        self._lock = Lock()

    # -- coming and leaving ---------------------------------------------------------------------------

    def add_consumer(
        self, group: str, client_id: str, data: ConsumerData, on_change: Callable[[], None]
    ) -> None:
        """A client is of a consumer group. If the broker cannot be reached, it will hear of it later."""
        # Greater than that of the heartbeat before, or the broker keeps its old subscription.
        consumer = _Consumer(data, on_change, self._clock.now_ms())
        with self._lock:
            member = self._member(client_id)
            member.consumers[group] = consumer
        self._beat(member)

    def remove_consumer(self, group: str, client_id: str) -> None:
        """A client leaves a consumer group."""
        with self._lock:
            member = self._members.get(client_id)
            if member is None or member.consumers.pop(group, None) is None:
                return
        self._leave(member, {"clientID": client_id, "consumerGroup": group})

    def add_producer(self, group: str, client_id: str, check: Check) -> None:
        """A client is of a producer group, and can be asked about its transactions."""
        with self._lock:
            member = self._member(client_id)
            member.producers[group] = check
        self._beat(member)

    def remove_producer(self, group: str, client_id: str) -> None:
        """A client leaves a producer group."""
        with self._lock:
            member = self._members.get(client_id)
            if member is None or member.producers.pop(group, None) is None:
                return
        self._leave(member, {"clientID": client_id, "producerGroup": group})

    def add_receiver(self, client_id: str, receive: Receive) -> None:
        """A client waits for replies. Raises what the channel raises: without it none would come."""
        with self._lock:
            member = self._member(client_id)
            member.receive = receive
        member.beat()

    def remove_receiver(self, client_id: str) -> None:
        """A client waits for replies no more."""
        with self._lock:
            member = self._members.get(client_id)
            if member is None or member.receive is None:
                return
            member.receive = None
        self._leave(member, {"clientID": client_id, "producerGroup": _INNER_PRODUCER})

    def _member(self, client_id: str) -> _Member:
        member = self._members.get(client_id)
        if member is None:
            member = _Member(client_id, self._open_channel, self.resets, self._timeout_ms)
            self._members[client_id] = member
            if self._is_closed:
                # Nobody will end its connection: it shall make none.
                member.channel.close()
        return member

    def _leave(self, member: _Member, fields: dict[str, str]) -> None:
        """Tell the broker; one that cannot be reached notices it by the connection."""
        try:
            if member.channel.is_connected:
                member.channel.ask(RequestCode.UNREGISTER_CLIENT, fields, timeout_ms=self._timeout_ms)
        except StoreError as error:
            _logger.info("client %s has left a group, and cannot say so: %s", member.client_id, error)
        with self._lock:
            if member.is_in_no_group:
                self._members.pop(member.client_id, None)
                member.channel.close()

    # -- heartbeats -----------------------------------------------------------------------------------

    def _beat(self, member: _Member) -> None:
        try:
            member.beat()
        except StoreError as error:
            _logger.warning(
                "client %s cannot tell the broker its groups, and will try again: %s", member.client_id, error
            )

    def look_after(self) -> None:
        """Heartbeats that are due, and connections that were lost."""
        for member in self._listed():
            if member.is_due:
                with suppress(StoreError):
                    self._beat_again(member)

    def expire(self) -> None:
        """Tell those whose answers are late."""
        for member in self._listed():
            member.channel.expire()

    def _beat_again(self, member: _Member) -> None:
        was_connected = member.channel.is_connected
        try:
            member.beat()
        except BrokerRefused as error:
            _logger.warning("client %s is not a member: %s", member.client_id, error)
            return
        if not was_connected:
            _logger.info("client %s is connected again", member.client_id)
            # Others may have come or gone meanwhile.
            for consumer in list(member.consumers.values()):
                consumer.on_change()

    def _listed(self) -> list[_Member]:
        with self._lock:
            return list(self._members.values())

    def close(self) -> None:
        """End the connections; the broker then takes the clients out of their groups."""
        with self._lock:
            self._is_closed = True
        for member in self._listed():
            member.channel.close()

    def __repr__(self) -> str:
        return f"Members({sorted(self._members)})"


def _heartbeat_of(group: str, consumer: _Consumer) -> HeartbeatConsumer:
    data = consumer.data
    return HeartbeatConsumer(
        group,
        message_model=data.message_model.value,
        subscription_data_set=[
            _subscription_of(topic, tags, consumer.version) for topic, tags in data.subscriptions.items()
        ],
    )


def _subscription_of(topic: str, expression: str, version: int) -> SubscriptionData:
    wanted = parse_subscription(expression)
    return SubscriptionData(
        topic,
        expression,
        version,
        tags_set=sorted(wanted.tags) if wanted else [],
        code_set=wanted.codes.tolist() if wanted else [],
    )
