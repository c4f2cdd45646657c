"""The dispatch: which processor answers which code.

A code that nobody serves is answered REQUEST_CODE_NOT_SUPPORTED, as RocketMQ answers one that it does not
know. docs/serve.md lists all that are served. Before that, a request may have to be signed
(security/access_control.py).

Threads: the loop's. Source: docs/spec/remoting.md section 2; NettyRemotingAbstract#processRequestCommand.
"""

from typing import Protocol

from mqstore.server.administration.broker_admin import BrokerAdmin
from mqstore.server.administration.group_admin import GroupAdmin
from mqstore.server.administration.retention_admin import RetentionAdmin
from mqstore.server.administration.topic_admin import TopicAdmin
from mqstore.server.answer import Answer, answer_of
from mqstore.server.connection import AnswerAtOnce
from mqstore.server.parts import Served, ServerParts, Table
from mqstore.server.processors.groups import GroupProcessor
from mqstore.server.processors.offsets import OffsetProcessor
from mqstore.server.processors.plain_sends import PlainSends
from mqstore.server.processors.pulls import PullProcessor
from mqstore.server.processors.queries import QueryProcessor
from mqstore.server.processors.queue_locks import QueueLockProcessor
from mqstore.server.processors.replies import ReplyProcessor
from mqstore.server.processors.routes import RouteProcessor
from mqstore.server.processors.send_back import SendBackProcessor
from mqstore.server.processors.sends import SendProcessor
from mqstore.server.processors.transactions import TransactionProcessor
from mqstore.server.request import Request
from mqstore.server.security.access_control import AccessControl
from mqstore.store.status import ResponseCode

__all__ = ["Dispatch"]


class _Processor(Protocol):
    def table(self) -> Table: ...


class Dispatch:
    """Answers requests by their codes. table: how each code is served. counts: requests by code.

    answer_at_once: asked first; None if no frame can be answered so.
    """

    def __init__(self, parts: ServerParts) -> None:
        self._workers = parts.workers
        self._access = AccessControl(parts.settings.access_keys)
        sends = SendProcessor(parts)
        processors: tuple[_Processor, ...] = (
            RouteProcessor(parts),
            sends,
            PullProcessor(parts),
            GroupProcessor(parts),
            OffsetProcessor(parts),
            QueueLockProcessor(parts),
            SendBackProcessor(parts),
            TransactionProcessor(parts),
            ReplyProcessor(parts),
            QueryProcessor(parts),
            TopicAdmin(parts),
            GroupAdmin(parts),
            RetentionAdmin(parts),
            BrokerAdmin(parts),
        )
        self.table: dict[int, Served] = {}
        for processor in processors:
            self.table |= {int(code): served for code, served in processor.table().items()}
        self.counts: dict[int, int] = dict.fromkeys(self.table, 0)
        self.answer_at_once: AnswerAtOnce | None = None
        if not parts.settings.access_keys and not parts.store.config.is_sync_flush:
            self.answer_at_once = PlainSends(parts, sends, self.counts).answer

    def dispatch(self, request: Request) -> None:
        """Answer a request, now or later."""
        code = request.command.code
        served = self.table.get(code)
        if served is None:
            reason = f" request type {code} not supported"
            request.send(Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, reason))
            return
        self.counts[code] += 1
        try:
            self._access.check(request.command)
            if served.is_slow:
                self._workers.answer_later(request, lambda: served.handle(request))
                return
            answer = served.handle(request)
        except Exception as error:  # noqa: BLE001 - `answer_of` logs what is a bug
            answer = answer_of(error)
        if answer is not None:
            request.send(answer)
