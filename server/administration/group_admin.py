"""Groups as mqadmin and the dashboard ask for them: settings, progress, connections, resets.

    200 create · 207 delete · 201, 352 settings · 208 progress · 222 move · 203, 204 connections
    300 who consumes a topic · 345 what a group consumes · 307, 309 passed on to a consumer

Threads: a worker's for what reads or writes much; the loop's for what is about connections.
Source: docs/spec/remoting.md sections 11, 13; AdminBrokerProcessor of Apache RocketMQ.
"""

import asyncio
from typing import Any, Final

import msgspec

from mqstore.metadata.consumer_offsets import NO_OFFSET
from mqstore.metadata.subscription_groups import SubscriptionGroupConfig
from mqstore.remoting import fastjson
from mqstore.remoting.bodies import QueueName, TopicList, encode_body
from mqstore.remoting.command import Command
from mqstore.remoting.errors import BodyIllegal
from mqstore.remoting.headers import (
    ConsumeDirectlyHeader,
    GroupHeader,
    ResetOffsetHeader,
    StatsHeader,
    TopicHeader,
)
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.client_registry import Consumer, Producer
from mqstore.server.parts import ServerParts, Table, in_loop, in_worker
from mqstore.server.request import Request
from mqstore.store.errors import SubscriptionGroupNotExist, TopicNotExist
from mqstore.store.message.topic_names import retry_topic
from mqstore.store.record.message_id import decode_message_id
from mqstore.store.status import ResponseCode

__all__ = ["GroupAdmin"]

_PATIENCE_S: Final = 10.0
"""How long a consumer may take to tell of itself."""
_END: Final = -1


class GroupAdmin:
    """Administers groups."""

    def __init__(self, parts: ServerParts) -> None:
        self._loop = parts.loop
        self._store = parts.store
        self._groups = parts.store.subscription_groups
        self._clients = parts.clients
        self._broker_name = parts.settings.broker_name

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: in_worker(self.create),
            RequestCode.DELETE_SUBSCRIPTIONGROUP: in_worker(self.delete),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: in_worker(self.all_settings),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: in_loop(self.settings),
            RequestCode.GET_CONSUME_STATS: in_worker(self.progress),
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: in_worker(self.reset),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: in_loop(self.consumer_connections),
            RequestCode.GET_PRODUCER_CONNECTION_LIST: in_loop(self.producer_connections),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: in_loop(self.groups_of_topic),
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: in_loop(self.topics_of_group),
            RequestCode.GET_CONSUMER_RUNNING_INFO: in_loop(self.running_info),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: in_loop(self.consume_directly),
        }

    # -- settings -------------------------------------------------------------------------------------

    def create(self, request: Request) -> Answer:
        """200. All settings that a client sends are kept."""
        try:
            asked = SubscriptionGroupConfig.decode(fastjson.decode(request.body))
        except ValueError as error:
            raise BodyIllegal("subscription group", str(error)) from error
        checked = self._groups.create(
            asked.group_name,
            retry_max_times=asked.retry_max_times,
            retry_queue_nums=asked.retry_queue_nums,
            consume_enable=asked.consume_enable,
            consume_message_orderly=asked.consume_message_orderly,
        )
        self._groups.replace(checked.group_name, msgspec.structs.replace(asked, unknown=checked.unknown))
        return DONE

    def delete(self, request: Request) -> Answer:
        """207."""
        fields = request.fields_as(GroupHeader)
        clean_offset = fields.clean_offset or fields.remove_offset
        self._store.delete_subscription_group(fields.name, clean_offset=clean_offset)
        return DONE

    def all_settings(self, request: Request) -> Answer:
        """201."""
        version = self._groups.data_version
        table = {config.group_name: config.encode() for config in self._groups}
        body = {"dataVersion": version.encode(), "forbiddenTable": {}, "subscriptionGroupTable": table}
        return Answer(body=fastjson.encode(body))

    def settings(self, request: Request) -> Answer:
        """352."""
        group = request.fields_as(GroupHeader).name
        config = self._groups.get(group)
        if config is None:
            raise SubscriptionGroupNotExist(group)
        return Answer(body=fastjson.encode(config.encode()))

    # -- progress -------------------------------------------------------------------------------------

    def progress(self, request: Request) -> Answer:
        """208."""
        fields = request.fields_as(StatsHeader)
        table = {
            QueueName(self._broker_name, queue_id, topic): self._progress_in(
                fields.consumer_group, topic, queue_id
            )
            for topic in self._topics_of(fields)
            for queue_id in range(self._queue_nums(topic))
        }
        return Answer(body=fastjson.encode({"consumeTps": 0.0, "offsetTable": table}))

    def _topics_of(self, fields: StatsHeader) -> list[str]:
        if fields.topic:
            return [fields.topic]
        group = fields.consumer_group
        topics = {row.topic for row in self._store.consumer_offsets if row.group == group}
        return sorted(topics | {retry_topic(group)})

    def _queue_nums(self, topic: str) -> int:
        config = self._store.topics.get(topic)
        return 0 if config is None else config.read_queue_nums

    def _progress_in(self, group: str, topic: str, queue_id: int) -> dict[str, int]:
        consumer_offset = self._store.consumer_offsets.query(group, topic, queue_id)
        last_time = self._store.get_message_store_timestamp(topic, queue_id, consumer_offset - 1)
        return {
            "brokerOffset": self._store.get_max_offset_in_queue(topic, queue_id),
            "consumerOffset": max(0, consumer_offset),
            "lastTimestamp": max(0, last_time),
            "pullOffset": max(0, consumer_offset),
        }

    def reset(self, request: Request) -> Answer:
        """222. Unless it is forced, a group only goes back."""
        fields = request.fields_as(ResetOffsetHeader)
        group, topic = fields.group, fields.topic
        config = self._store.topics.get(topic)
        if config is None:
            raise TopicNotExist(topic)
        if self._groups.get(group) is None:
            raise SubscriptionGroupNotExist(group)
        queue_ids = range(config.read_queue_nums) if fields.queue_id < 0 else [fields.queue_id]
        moved = {}
        for queue_id in queue_ids:
            offset = self._reset_offset(fields, queue_id)
            committed = self._store.consumer_offsets.query(group, topic, queue_id)
            if not fields.is_force and committed != NO_OFFSET:
                offset = min(offset, committed)
            self._store.reset_offset(group, topic, queue_id, offset=offset)
            moved[QueueName(self._broker_name, queue_id, topic)] = offset
        return Answer(body=fastjson.encode({"offsetTable": moved}))

    def _reset_offset(self, fields: ResetOffsetHeader, queue_id: int) -> int:
        if fields.offset is not None and fields.offset >= 0:
            return fields.offset
        if fields.timestamp == _END:
            return self._store.get_max_offset_in_queue(fields.topic, queue_id)
        return self._store.get_offset_in_queue_by_time(fields.topic, queue_id, fields.timestamp)

    # -- connections ----------------------------------------------------------------------------------

    def consumer_connections(self, request: Request) -> Answer:
        """203."""
        group = request.fields_as(GroupHeader).name
        members = self._clients.consumers(group)
        if not members:
            reason = f"the consumer group[{group}] not online"
            return Answer(ResponseCode.CONSUMER_NOT_ONLINE, reason)
        first = members[0].data
        body = {
            "connectionSet": [_connection(member) for member in members],
            "consumeFromWhere": first.consume_from_where,
            "consumeType": first.consume_type,
            "messageModel": first.message_model,
            "subscriptionTable": self._clients.subscriptions(group),
        }
        return Answer(body=fastjson.encode(body))

    def producer_connections(self, request: Request) -> Answer:
        """204."""
        group = request.fields_as(GroupHeader).name
        clients = self._clients.producers(group)
        if not clients:
            reason = f"the producer group[{group}] not exist"
            return Answer(ResponseCode.SYSTEM_ERROR, reason)
        return Answer(body=fastjson.encode({"connectionSet": [_connection(client) for client in clients]}))

    def groups_of_topic(self, request: Request) -> Answer:
        """300: the groups that are connected, and those that have offsets."""
        topic = request.fields_as(TopicHeader).topic
        groups = {row.group for row in self._store.consumer_offsets if row.topic == topic}
        found = sorted(groups.union(self._clients.groups_of(topic)))
        return Answer(body=fastjson.encode({"groupList": found}))

    def topics_of_group(self, request: Request) -> Answer:
        """345."""
        group = request.fields_as(GroupHeader).name
        topics = {row.topic for row in self._store.consumer_offsets if row.group == group}
        return Answer(body=encode_body(TopicList(sorted(topics))))

    # -- passed on ------------------------------------------------------------------------------------

    def running_info(self, request: Request) -> Answer | None:
        """307."""
        fields = request.fields_as(GroupHeader)
        return self._pass_on(request, fields.name, fields.client_id or "", b"")

    def consume_directly(self, request: Request) -> Answer | None:
        """309: with the record that the message id names."""
        fields = request.fields_as(ConsumeDirectlyHeader)
        try:
            _, physical_offset = decode_message_id(fields.msg_id)
        except ValueError as error:
            raise BodyIllegal("message id", str(error)) from error
        message = self._store.look_message_by_offset(physical_offset)
        if message is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"there is no message {fields.msg_id}")
        return self._pass_on(request, fields.consumer_group, fields.client_id, bytes(message.record))

    def _pass_on(self, request: Request, group: str, client_id: str, body: bytes) -> Answer | None:
        """Ask a consumer the same, and answer what it answers."""
        members = [member for member in self._clients.consumers(group) if member.client_id == client_id]
        if not members:
            reason = f"The Consumer <{group}> <{client_id}> not online"
            return Answer(ResponseCode.CONSUMER_NOT_ONLINE, reason)
        command = request.command
        asked = members[0].connection.ask(command.code, command.fields_as_texts(), body)
        timer = self._loop.call_later(_PATIENCE_S, asked.cancel)

        def passed_back(future: "asyncio.Future[Command]") -> None:
            timer.cancel()
            if future.cancelled() or future.exception() is not None:
                reason = f"the consumer <{group}> <{client_id}> has not answered"
                request.send(Answer(ResponseCode.CONSUME_MSG_TIMEOUT, reason))
            else:
                told = future.result()
                request.send(Answer(told.code, told.remark, None, bytes(told.body)))

        asked.add_done_callback(passed_back)
        return None


def _connection(client: Consumer | Producer) -> dict[str, Any]:
    return {
        "clientAddr": str(client.connection.born_host),
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }
