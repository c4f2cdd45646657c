"""Groups: heartbeats (34), clients that leave (35), the members of a group (38), a client's filter (46).

A heartbeat makes a client a member of its groups, and creates groups and retry topics where that is allowed.
Members are told when others come or go (40), the new one too: it then shares the queues at once.

Threads: the loop's. The broker calls back in the loop's thread, or in its own for transactions and replies.
Source: docs/spec/remoting.md section 7; ClientManageProcessor, DefaultConsumerIdsChangeListener of RocketMQ.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from mqstore.broker.broker import ConsumerData, MessageModel
from mqstore.remoting.bodies import (
    ConsumerIds,
    HeartbeatConsumer,
    HeartbeatData,
    SubscriptionData,
    decode_body,
    encode_body,
)
from mqstore.remoting.headers import GroupHeader, UnregisterHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.client_registry import Consumer, Producer
from mqstore.server.connection import Connection
from mqstore.server.parts import ServerParts, Table, in_loop
from mqstore.server.processors.producer_calls import ProducerCalls
from mqstore.server.request import Request
from mqstore.store.errors import SubscriptionGroupNotExist
from mqstore.store.status import ResponseCode

__all__ = ["GroupProcessor"]

_logger = logging.getLogger(__name__)

_HEARD: Final = Answer(fields={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})
"""The second makes clients send whole heartbeats, not fingerprints of them."""
_TAG: Final = "TAG"


class GroupProcessor:
    """Knows the clients."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        self._loop = parts.loop
        self._broker = parts.broker
        self._groups = parts.store.subscription_groups
        self._clients = parts.clients
        self._settings = parts.settings
        self._calls = ProducerCalls(parts)

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.HEART_BEAT: in_loop(self.heartbeat),
            RequestCode.UNREGISTER_CLIENT: in_loop(self.unregister),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: in_loop(self.members),
            RequestCode.CHECK_CLIENT_CONFIG: in_loop(self.check_client),
        }

    def heartbeat(self, request: Request) -> Answer:
        """34."""
        data = decode_body(HeartbeatData, request.body)
        command, connection = request.command, request.connection
        now_s = self._loop.time()
        if self._clients.count_of(connection) >= self._settings.max_memberships:
            _logger.warning(
                "%r is in %d groups: no more are taken", connection, self._clients.count_of(connection)
            )
        for consumer in data.consumer_data_set or ():
            # A group that is missing and may not be created is passed over, as with RocketMQ.
            with suppress(SubscriptionGroupNotExist):
                self._add_consumer(
                    Consumer(
                        consumer.group_name,
                        data.client_id,
                        connection,
                        command.language,
                        command.version,
                        consumer,
                        now_s,
                    )
                )
        for producer in data.producer_data_set or ():
            group = producer.group_name
            client = Producer(group, data.client_id, connection, command.language, command.version, now_s)
            if self._has_enough(connection, self._clients.producers(group)):
                continue
            if self._clients.add_producer(client):
                self._calls.register(client)
        return _HEARD

    def _has_enough(self, connection: Connection, members: Sequence[Consumer | Producer]) -> bool:
        """Whether a connection may be in no more groups, and is not in this one."""
        is_full = self._clients.count_of(connection) >= self._settings.max_memberships
        return is_full and all(member.connection is not connection for member in members)

    def _add_consumer(self, consumer: Consumer) -> None:
        group, connection = consumer.group, consumer.connection
        if self._has_enough(connection, self._clients.consumers(group)):
            return
        self._parts.check_group(group)

        def on_change() -> None:
            _notify(connection, group)

        data = _consumer_data(consumer.data)
        self._broker.register_consumer(group, consumer.client_id, data, on_change)
        has_changed = self._clients.add_consumer(consumer)
        settings = self._groups.get(group)
        notifies = settings is None or settings.notify_consumer_ids_changed_enable
        if has_changed and notifies and data.message_model is MessageModel.CLUSTERING:
            on_change()

    def unregister(self, request: Request) -> Answer:
        """35."""
        fields = request.fields_as(UnregisterHeader)
        self._clients.remove(
            fields.client_id, consumer_group=fields.consumer_group, producer_group=fields.producer_group
        )
        return DONE

    def members(self, request: Request) -> Answer:
        """38."""
        group = request.fields_as(GroupHeader).name
        ids = self._broker.consumer_ids(group)
        if not ids:
            return Answer(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        return Answer(body=encode_body(ConsumerIds(ids)))

    def check_client(self, request: Request) -> Answer:
        """46: whether a filter can be served, which a consumer asks before it starts."""
        body = decode_body(_ClientCheck, request.body)
        if body.subscription_data is not None and (body.subscription_data.expression_type or _TAG) != _TAG:
            reason = "The broker does not support consumer to filter message by SQL92"
            return Answer(ResponseCode.SYSTEM_ERROR, reason)
        return DONE


class _ClientCheck(msgspec.Struct, frozen=True, rename="camel"):
    subscription_data: SubscriptionData | None = None


def _consumer_data(data: HeartbeatConsumer) -> ConsumerData:
    is_broadcasting = data.message_model == MessageModel.BROADCASTING.value
    model = MessageModel.BROADCASTING if is_broadcasting else MessageModel.CLUSTERING
    wanted = {
        subscription.topic: subscription.sub_string if (subscription.expression_type or _TAG) == _TAG else "*"
        for subscription in data.subscription_data_set
    }
    return ConsumerData(model, wanted)


def _notify(connection: Connection, group: str) -> None:
    connection.notify(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
