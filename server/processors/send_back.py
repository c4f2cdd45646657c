"""Send-back (36): a message that a consumer has failed on comes again later, or becomes a dead letter.

Threads: a worker's, which waits for the disk. Durability: as the store's send-back.
Source: docs/spec/remoting.md section 8.1; AbstractSendMessageProcessor#consumerSendMsgBack.
"""

from typing import Final

from mqstore.remoting.headers import SendBackHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import Answer
from mqstore.server.parts import ServerParts, Table, in_worker
from mqstore.server.request import Request

__all__ = ["SendBackProcessor"]

_FIRST_WITH_LIMIT: Final = 121
"""RocketMQ 3.4.9: from this version on a client says how often it retries."""


class SendBackProcessor:
    """Takes messages back."""

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store
        self._check_group = parts.check_group

    def table(self) -> Table:
        """The codes that it answers."""
        return {RequestCode.CONSUMER_SEND_MSG_BACK: in_worker(self.send_back)}

    def send_back(self, request: Request) -> Answer:
        """36."""
        fields = request.fields_as(SendBackHeader)
        self._check_group(fields.group)
        has_limit = request.command.version >= _FIRST_WITH_LIMIT
        result = self._store.consumer_send_msg_back(
            fields.group,
            fields.offset,
            fields.delay_level,
            max_reconsume_times=fields.max_reconsume_times if has_limit else None,
            unit_mode=fields.unit_mode,
        )
        return Answer(result.response_code, result.remark or None)
