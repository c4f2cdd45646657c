"""Queries: a message by its place in the log (33), or by a key (12).

Threads: a worker's; both may read far back. Source: docs/spec/remoting.md section 12; QueryMessageProcessor.
"""

from typing import Final

from mqstore.remoting.headers import KeyQueryHeader, ViewHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import Answer
from mqstore.server.parts import ServerParts, Table, in_worker
from mqstore.server.request import Request
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import ResponseCode

__all__ = ["QueryProcessor"]

_MOST: Final = 64
"""RocketMQ's maxMsgsNumBatch: no query is answered with more."""
_MOST_BYTES: Final = 8 << 20
"""A client takes no longer frame than 16 MiB. Of more records the newest are sent, at least one."""
_OF_UNIQUE_KEY: Final = 32
"""As RocketMQ asks for, whatever the client does: a unique key has few messages."""


class QueryProcessor:
    """Finds messages."""

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.QUERY_MESSAGE: in_worker(self.query),
            RequestCode.VIEW_MESSAGE_BY_ID: in_worker(self.view),
        }

    def query(self, request: Request) -> Answer:
        """12."""
        fields = request.fields_as(KeyQueryHeader)
        is_unique = fields.is_unique_key or fields.index_type == "U"
        found = self._store.query_message(
            fields.topic,
            fields.key,
            max(0, fields.begin_timestamp),
            min(END_OF_TIME_MS, fields.end_timestamp),
            _OF_UNIQUE_KEY if is_unique else max(1, min(_MOST, fields.max_num)),
        )
        if not found:
            return Answer(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        last = found[-1]
        told = {
            "indexLastUpdateTimestamp": str(last.store_timestamp),
            "indexLastUpdatePhyoffset": str(last.physical_offset),
        }
        return Answer(fields=told, body=b"".join(_fitting(found)))

    def view(self, request: Request) -> Answer:
        """33."""
        offset = request.fields_as(ViewHeader).offset
        message = self._store.look_message_by_offset(offset) if offset >= 0 else None
        if message is None:
            return Answer(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return Answer(body=bytes(message.record))


def _fitting(found: list[StoredMessage]) -> list[memoryview]:
    """The records of the newest messages that fit into one answer, oldest first."""
    records: list[memoryview] = []
    left = _MOST_BYTES
    for message in reversed(found):
        record = message.record
        left -= len(record)
        if left < 0 and records:
            break
        records.append(record)
    return records[::-1]
