"""Transactions and replies over the wire: what the server asks of producers, and what becomes of answers."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqstore import StoredMessage
from mqstore.broker.transaction_checks import TransactionSettings
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.broker_server import BrokerServer
from mqstore.server.serving import running
from mqstore.store.clock import SystemClock
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, pull_fields, send_fields

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF = "TRAN_MSG\x01true\x02PGROUP\x01tellers\x02UNIQ_KEY\x01U1"


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[BrokerServer]:
    """A server that asks producers at once, and again ten times a second."""
    settings = TransactionSettings(transaction_timeout=0, transaction_check_interval=100)
    with running(tmp_path, transaction_settings=settings) as server:
        yield server


def heartbeat(client: WireClient, *groups: str) -> None:
    body = {"clientID": "teller@1", "producerDataSet": [{"groupName": group} for group in groups]}
    assert client.ask(Code.HEART_BEAT, {}, json.dumps(body).encode()).code == ResponseCode.SUCCESS


def send_half(client: WireClient, body: bytes = b"pay") -> dict[str, object]:
    # A half that is older than its log is kept would be given up.
    fields = send_fields("money", 2, HALF, a="tellers", f=4, g=SystemClock().now_ms())
    answer = client.ask(Code.SEND_MESSAGE_V2, fields, body)
    told = answer.fields_as_texts()
    assert (answer.code, told["queueId"], told["transactionId"]) == (ResponseCode.SUCCESS, "2", "U1")
    return {
        "producerGroup": "tellers",
        "tranStateTableOffset": told["queueOffset"],
        "commitLogOffset": int(told["msgId"][16:], 16),
    }


def bodies(client: WireClient) -> bytes:
    return bytes(client.ask(Code.PULL_MESSAGE, pull_fields("money", 2)).body)


@pytest.mark.parametrize(("state", "is_there"), [(COMMIT, True), (ROLLBACK, False), (UNKNOWN, False)])
def test_the_producer_decides(client: WireClient, state: int, is_there: bool) -> None:
    """Nobody sees the half before that."""
    half = send_half(client)
    assert b"pay" not in bodies(client)
    ended = client.ask(Code.END_TRANSACTION, half | {"commitOrRollback": state})
    assert ended.code == ResponseCode.SUCCESS
    assert (b"pay" in bodies(client)) == is_there


def test_a_half_of_another_group_is_left_alone(client: WireClient) -> None:
    """And so is a place without a half."""
    half = send_half(client) | {"commitOrRollback": COMMIT}
    for wrong in ({"producerGroup": "thieves"}, {"commitLogOffset": 1 << 40}, {"tranStateTableOffset": 9}):
        assert client.ask(Code.END_TRANSACTION, half | wrong).code == ResponseCode.SYSTEM_ERROR
    assert b"pay" not in bodies(client)


def test_a_producer_is_asked_and_answers(asking: BrokerServer) -> None:
    """With its message under its own topic, and the half to end."""
    with WireClient(asking.address) as client:
        heartbeat(client, "tellers")
        send_half(client)
        question = client.next_request(Code.CHECK_TRANSACTION_STATE)
        fields = question.fields_as_texts()
        assert question.is_one_way
        assert (fields["msgId"], fields["transactionId"]) == ("U1", "U1")
        message = StoredMessage.of(question.body)
        assert (message.topic, message.queue_id, message.body) == ("money", 2, b"pay")
        assert str(message.physical_offset) == fields["commitLogOffset"]
        answer = {name: fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        answer |= {
            "producerGroup": "tellers",
            "commitOrRollback": str(COMMIT),
            "fromTransactionCheck": "true",
        }
        client.send(Code.END_TRANSACTION, answer, is_one_way=True)
        found = client.answer_to(client.send(Code.PULL_MESSAGE, pull_fields("money", 2, suspend_ms=60_000)))
        assert b"pay" in bytes(found.body)


def test_a_reply_goes_to_the_client_that_has_asked(connect: Callable[[], WireClient]) -> None:
    """It is stored once that client has taken it, and not if it refuses, or is not there."""
    asker, replier = connect(), connect()
    heartbeat(asker, "askers")
    topic = "DefaultCluster_REPLY_TOPIC"
    properties = "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01teller@1\x02CORRELATION_ID\x01c1"
    answers = []
    for code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
        thread = threading.Thread(
            target=lambda: answers.append(
                replier.ask(Code.SEND_REPLY_MESSAGE_V2, send_fields(topic, 0, properties), b"because").code
            )
        )
        thread.start()
        pushed = asker.next_request(Code.PUSH_REPLY_MESSAGE_TO_CLIENT)
        assert bytes(pushed.body) == b"because"
        assert "CORRELATION_ID\x01c1" in pushed.fields_as_texts()["properties"]
        asker.answer(pushed, code)
        thread.join()
    assert answers == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]
    unknown = properties.replace("teller@1", "nobody")
    lost = replier.ask(Code.SEND_REPLY_MESSAGE_V2, send_fields(topic, 0, unknown), b"because")
    assert lost.code == ResponseCode.SYSTEM_ERROR
    stored = replier.ask(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    assert stored.fields_as_texts() == {"offset": "1"}
