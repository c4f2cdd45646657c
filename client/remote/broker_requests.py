"""What a broker asks of a client, decoded: a transaction to check (39), a reply (326), moved offsets (220).

Pure, but for `ResetOffsets`, which any thread may use.
Source: docs/spec/remoting.md sections 9, 10, 11; ClientRemotingProcessor, ResetOffsetBody of Apache RocketMQ.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from mqstore.client.remote.pull_calls import messages_in
from mqstore.remoting.command import Command
from mqstore.remoting.errors import BodyIllegal
from mqstore.remoting.fastjson import decode
from mqstore.remoting.headers import CheckTransactionHeader, ReplyHeader, ResetOffsetHeader
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import TRANS_HALF_TOPIC
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import parse_properties
from mqstore.store.status import PutMessageStatus

__all__ = ["ResetOffsets", "half_of", "message_of_reply"]

_LEADING_SLASH: Final = re.compile(r"^.*/")


def half_of(request: Command) -> tuple[StoredMessage, PutMessageResult]:
    """The message of a check, and the half that is to be ended. Raises FieldsIllegal, BodyIllegal."""
    fields = request.fields_as(CheckTransactionHeader)
    messages = messages_in(request.body)
    if len(messages) != 1:
        raise BodyIllegal("record", f"it has {len(messages)} records, and 1 is expected")
    message = messages[0]
    half = PutMessageResult(
        status=PutMessageStatus.PUT_OK,
        topic=TRANS_HALF_TOPIC,
        queue_id=0,
        queue_offset=fields.tran_state_table_offset,
        physical_offset=fields.commit_log_offset,
        store_size=0,
        store_timestamp=0,
        flushed_offset=-1,
        store_host=message.store_host.encode(),
    )
    return message, half


def message_of_reply(request: Command) -> Message:
    """The reply, whose body may be compressed. Raises FieldsIllegal."""
    fields = request.fields_as(ReplyHeader)
    return Message(
        fields.topic,
        bytes(request.body),
        queue_id=fields.queue_id,
        properties=parse_properties((fields.properties or "").encode()),
        flag=fields.flag,
        sys_flag=fields.sys_flag,
        born_timestamp=fields.born_timestamp,
        born_host=_host_of(fields.born_host),
        reconsume_times=fields.reconsume_times,
    )


def _host_of(text: str | None) -> Host | None:
    """The host of `1.2.3.4:80`, as Java writes it also with a slash before it; None for anything else."""
    try:
        return Host.parse(_LEADING_SLASH.sub("", text or ""))
    except ValueError:
        return None


class ResetOffsets:
    """Offsets that an operator has set for groups, until their consumers take them over."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], int] = {}

    def take_in(self, request: Command) -> None:
        """Keep what a broker tells. Raises FieldsIllegal, BodyIllegal."""
        group = request.fields_as(ResetOffsetHeader).group
        for topic, queue_id, offset in _moved_queues(request.body):
            self._offsets[group, topic, queue_id] = offset

    def take(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset of a queue, once; None if there is none."""
        return self._offsets.pop((group, topic, queue_id), None)

    def __repr__(self) -> str:
        return f"ResetOffsets({len(self._offsets)} queues)"


class _Queue(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    queue_id: int


class _Moved(msgspec.Struct, frozen=True, rename="camel"):
    """As objects that are keys, or, for clients in C, as a list."""

    offset_table: dict[str, int] | list["_MovedQueue"]


class _MovedQueue(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    queue_id: int
    offset: int


def _moved_queues(body: memoryview) -> Iterator[tuple[str, int, int]]:
    try:
        table = msgspec.convert(decode(body), _Moved, strict=False).offset_table
        if isinstance(table, list):
            for moved in table:
                yield moved.topic, moved.queue_id, moved.offset
            return
        for key, offset in table.items():
            queue = msgspec.json.decode(key, type=_Queue, strict=False)
            yield queue.topic, queue.queue_id, offset
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BodyIllegal("offsetTable", str(error)) from error
