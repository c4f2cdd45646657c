"""What a send returns, made from what a broker says of its puts.

The table of response codes in docs/spec/client_consume.md section 7, and row "result" of
docs/spec/client_produce.md section 5.
"""

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.producer import send_result
from mqstore.client.producer.send_result import BatchSendResult, SendResult, SendStatus
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.status import PutMessageStatus, ResponseCode

QUEUE = MessageQueue("orders", "broker-a", 3)
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


def put(offset: int, status: PutMessageStatus = PutMessageStatus.PUT_OK) -> PutMessageResult:
    return PutMessageResult(status, "orders", 3, offset, 16 * offset, 100, 0, 0, HOST)


@pytest.mark.parametrize(
    ("code", "status"),
    [(0, "SEND_OK"), (10, "FLUSH_DISK_TIMEOUT"), (12, "FLUSH_SLAVE_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE")],
)
def test_the_status_by_the_brokers_code(code: int, status: str) -> None:
    """Rows response code: 0, 10, 12, 11."""
    assert send_result._STATUS_OF_ANSWER[ResponseCode(code)] is SendStatus(status)


def test_the_status_by_that_of_the_put() -> None:
    """The two that a store of this process has."""
    assert SendResult("id", QUEUE, put(7)).send_status is SendStatus.SEND_OK
    late = put(7, PutMessageStatus.FLUSH_DISK_TIMEOUT)
    assert SendResult("id", QUEUE, late).send_status is SendStatus.FLUSH_DISK_TIMEOUT


def test_the_ids_of_a_batch() -> None:
    """Row result: msgId and offsetMsgId are comma-separated lists, queueOffset that of the first."""
    batch = BatchSendResult("x,y", QUEUE, put(1), [put(1), put(2)])
    assert (batch.msg_id, batch.queue_offset) == ("x,y", 1)
    assert batch.offset_msg_id == "7F00000100002A9F0000000000000010,7F00000100002A9F0000000000000020"
    assert batch.each == [SendResult("x", QUEUE, put(1)), SendResult("y", QUEUE, put(2))]
    assert [each.offset_msg_id for each in batch.each] == batch.offset_msg_id.split(",")
