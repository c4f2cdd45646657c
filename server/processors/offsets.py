"""Offsets: where a group stands in a queue (14, 15), and where a queue begins and ends (29 to 32).

Threads: the loop's; a worker looks for a time, which reads many entries.
Source: docs/spec/remoting.md section 7.5; ConsumerManageProcessor, AdminBrokerProcessor of Apache RocketMQ.
"""

from typing import Literal

from mqstore.metadata.consumer_offsets import NO_OFFSET
from mqstore.remoting.headers import OffsetHeader, QueueHeader, SearchOffsetHeader, UpdateOffsetHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.parts import ServerParts, Table, in_loop, in_worker
from mqstore.server.request import Request
from mqstore.store.status import ResponseCode

__all__ = ["OffsetProcessor"]


class OffsetProcessor:
    """Answers where groups and queues stand."""

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store
        self._broker = parts.broker
        self._check_group = parts.check_group

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: in_loop(self.query),
            RequestCode.UPDATE_CONSUMER_OFFSET: in_loop(self.update),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: in_worker(self.search),
            RequestCode.GET_MAX_OFFSET: in_loop(self.max_offset),
            RequestCode.GET_MIN_OFFSET: in_loop(self.min_offset),
            RequestCode.GET_EARLIEST_MSG_STORETIME: in_loop(self.earliest_time),
        }

    def query(self, request: Request) -> Answer:
        """14."""
        fields = request.fields_as(OffsetHeader)
        place = fields.consumer_group, fields.topic, fields.queue_id
        if fields.set_zero_if_not_found is False:
            offset = self._store.consumer_offsets.query(*place)
        else:
            offset = self._broker.query_consumer_offset(*place)
        if offset == NO_OFFSET:
            return Answer(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
        return Answer(fields={"offset": str(offset)})

    def update(self, request: Request) -> Answer:
        """15."""
        fields = request.fields_as(UpdateOffsetHeader)
        if self._store.topics.lookup(fields.topic) is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, f"Topic {fields.topic} not exist!")
        self._check_group(fields.consumer_group)
        self._broker.update_consumer_offset(
            fields.consumer_group, fields.topic, fields.queue_id, fields.commit_offset
        )
        return DONE

    def search(self, request: Request) -> Answer:
        """29."""
        fields = request.fields_as(SearchOffsetHeader)
        boundary: Literal["LOWER", "UPPER"] = "UPPER" if fields.boundary_type.upper() == "UPPER" else "LOWER"
        offset = self._store.get_offset_in_queue_by_time(
            fields.topic, fields.queue_id, fields.timestamp, boundary
        )
        return Answer(fields={"offset": str(offset)})

    def max_offset(self, request: Request) -> Answer:
        """30."""
        fields = request.fields_as(QueueHeader)
        return Answer(fields={"offset": str(self._broker.max_offset(fields.topic, fields.queue_id))})

    def min_offset(self, request: Request) -> Answer:
        """31."""
        fields = request.fields_as(QueueHeader)
        return Answer(fields={"offset": str(self._broker.min_offset(fields.topic, fields.queue_id))})

    def earliest_time(self, request: Request) -> Answer:
        """32."""
        fields = request.fields_as(QueueHeader)
        time_ms = self._store.get_earliest_message_time(fields.topic, fields.queue_id)
        return Answer(fields={"timestamp": str(time_ms)})
