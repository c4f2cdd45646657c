"""What mqadmin has a broker delete: expired segments (329) and queues (306), topics without settings (316).

The server deletes expired segments by itself, too, at `delete_when`. What is deleted is logged, for the
answers have no room for it.

Threads: a worker's, for the log is flushed and files are deleted.
Source: docs/spec/remoting.md section 13; AdminBrokerProcessor of Apache RocketMQ.
"""

import logging

from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.parts import ServerParts, Table, in_worker
from mqstore.server.request import Request

__all__ = ["RetentionAdmin"]

_logger = logging.getLogger(__name__)


class RetentionAdmin:
    """Deletes what has expired, and what nobody has settings for."""

    def __init__(self, parts: ServerParts) -> None:
        self._store = parts.store

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.DELETE_EXPIRED_COMMITLOG: in_worker(self.delete_segments),
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: in_worker(self.delete_queues),
            RequestCode.CLEAN_UNUSED_TOPIC: in_worker(self.delete_topics),
        }

    def delete_segments(self, request: Request) -> Answer:
        """329."""
        _logger.info("%d expired segments were deleted", self._store.delete_expired_files())
        return DONE

    def delete_queues(self, request: Request) -> Answer:
        """306."""
        _logger.info("queues without messages were deleted: %s", self._store.delete_expired_queues())
        return DONE

    def delete_topics(self, request: Request) -> Answer:
        """316."""
        _logger.info("queues of topics without settings were deleted: %s", self._store.delete_unused_topics())
        return DONE
