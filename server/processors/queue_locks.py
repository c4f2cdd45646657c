"""Queue locks (41, 42): a client of a group asks for queues that it alone may consume, in order.

Threads: the loop's. Source: docs/spec/remoting.md section 7.6; AdminBrokerProcessor#lockBatchMQ.
"""

from mqstore.broker.broker import MessageQueue
from mqstore.remoting.bodies import LockAnswer, LockRequest, QueueName, decode_body, encode_body
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.parts import ServerParts, Table, in_loop
from mqstore.server.request import Request

__all__ = ["QueueLockProcessor"]


class QueueLockProcessor:
    """Locks queues."""

    def __init__(self, parts: ServerParts) -> None:
        self._broker = parts.broker

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.LOCK_BATCH_MQ: in_loop(self.lock),
            RequestCode.UNLOCK_BATCH_MQ: in_loop(self.unlock),
        }

    def lock(self, request: Request) -> Answer:
        """41."""
        asked = decode_body(LockRequest, request.body)
        held = self._broker.lock_queues(asked.consumer_group, asked.client_id, _queues(asked))
        names = [QueueName(queue.broker_name, queue.queue_id, queue.topic) for queue in sorted(held)]
        return Answer(body=encode_body(LockAnswer(names)))

    def unlock(self, request: Request) -> Answer:
        """42."""
        asked = decode_body(LockRequest, request.body)
        self._broker.unlock_queues(asked.consumer_group, asked.client_id, _queues(asked))
        return DONE


def _queues(asked: LockRequest) -> list[MessageQueue]:
    return [MessageQueue(name.topic, name.broker_name, name.queue_id) for name in asked.mq_set]
