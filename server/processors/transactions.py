"""The end of a transaction (37): its producer commits it, rolls it back, or does not know yet.

Halves come by 310 (sends.py); producers are asked by 39 (producer_calls.py).
Threads: a worker's, which waits for the disk. Durability: what ended is durable as a put is.
Source: docs/spec/remoting.md section 9; EndTransactionProcessor of Apache RocketMQ.
"""

from typing import Final

from mqstore.broker.broker import TransactionState
from mqstore.remoting.headers import EndTransactionHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import DONE, Answer
from mqstore.server.parts import ServerParts, Table, in_worker
from mqstore.server.request import Request
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.topic_names import TRANS_HALF_TOPIC
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from mqstore.store.status import PutMessageStatus

__all__ = ["TransactionProcessor"]

_STATES: Final = {
    TRANSACTION_COMMIT: TransactionState.COMMIT_MESSAGE,
    TRANSACTION_ROLLBACK: TransactionState.ROLLBACK_MESSAGE,
}


class TransactionProcessor:
    """Ends transactions."""

    def __init__(self, parts: ServerParts) -> None:
        self._broker = parts.broker

    def table(self) -> Table:
        """The codes that it answers."""
        return {RequestCode.END_TRANSACTION: in_worker(self.end)}

    def end(self, request: Request) -> Answer:
        """37."""
        fields = request.fields_as(EndTransactionHeader)
        half = PutMessageResult(
            status=PutMessageStatus.PUT_OK,
            topic=TRANS_HALF_TOPIC,
            queue_id=0,
            queue_offset=fields.tran_state_table_offset,
            physical_offset=fields.commit_log_offset,
            store_size=0,
            store_timestamp=0,
            flushed_offset=0,
            store_host=b"",
        )
        state = _STATES.get(fields.commit_or_rollback, TransactionState.UNKNOW)
        self._broker.end_transaction(half, fields.producer_group, state)
        return DONE
