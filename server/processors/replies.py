"""Replies (324, 325): handed to the client that has asked, and stored.

Threads: a worker's, which waits for that client and for the disk.
Source: docs/spec/remoting.md section 10; ReplyMessageProcessor of Apache RocketMQ.
"""

from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import Answer
from mqstore.server.parts import ServerParts, Table, in_worker
from mqstore.server.processors.sends import message_of, properties_of, send_fields_of
from mqstore.server.request import Request

__all__ = ["ReplyProcessor"]


class ReplyProcessor:
    """Passes replies on."""

    def __init__(self, parts: ServerParts) -> None:
        self._broker = parts.broker

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.SEND_REPLY_MESSAGE: in_worker(self.send_reply),
            RequestCode.SEND_REPLY_MESSAGE_V2: in_worker(self.send_reply),
        }

    def send_reply(self, request: Request) -> Answer:
        """324, 325."""
        fields = send_fields_of(request)
        born_host, properties = request.connection.born_host, properties_of(fields.properties)
        message = message_of(fields, request.body, born_host, properties)
        put = self._broker.send_reply(message, timeout_ms=0)
        # As RocketMQ does: where the reply lies is nobody's business.
        told = {"msgId": "0", "queueId": str(put.queue_id), "queueOffset": "0"}
        return Answer(put.status.response_code, fields=told)
