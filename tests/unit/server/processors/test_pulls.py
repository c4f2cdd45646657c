"""Pulls over the wire: statuses as codes, waits that end by an arrival, a time, or a connection."""

import pytest

from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.broker_server import BrokerServer
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, consumer_heartbeat, pull_fields, send_fields

NAMES = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")


def put(client: WireClient, body: bytes = b"x", tags: str = "A", queue_id: int = 0) -> None:
    """Send a message that is stored when this returns."""
    answer = client.ask(Code.SEND_MESSAGE_V2, send_fields("orders", queue_id, f"TAGS\x01{tags}"), body)
    assert answer.code == ResponseCode.SUCCESS


def test_each_status_has_its_code(client: WireClient) -> None:
    """And all four fields, without which Java's client fails."""
    for _ in range(2):
        put(client)
    for queue_id, offset, code, next_offset in (
        (0, 0, ResponseCode.SUCCESS, "2"),
        (0, 2, ResponseCode.PULL_NOT_FOUND, "2"),
        (0, 9, ResponseCode.PULL_OFFSET_MOVED, "2"),
        (1, 0, ResponseCode.PULL_NOT_FOUND, "0"),
        (1, 5, ResponseCode.PULL_OFFSET_MOVED, "0"),
    ):
        answer = client.ask(Code.PULL_MESSAGE, pull_fields(queue_id=queue_id, offset=offset))
        assert (answer.code, answer.fields_as_texts()["nextBeginOffset"]) == (code, next_offset)
        assert set(NAMES) == set(answer.fields_as_texts())
    other = client.ask(Code.PULL_MESSAGE, pull_fields(subscription="B"))
    assert (other.code, other.fields_as_texts()["nextBeginOffset"]) == (
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        "2",
    )


def test_refusals(client: WireClient) -> None:
    """Unknown topics and queues, SQL, and groups that have not said what they want."""
    put(client)
    for fields, code in (
        (pull_fields("nowhere"), ResponseCode.TOPIC_NOT_EXIST),
        (pull_fields(queue_id=4), ResponseCode.INVALID_PARAMETER),
        (pull_fields(expressionType="SQL92", subscription="a > 1"), ResponseCode.SYSTEM_ERROR),
        (pull_fields(subscription="||"), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        (pull_fields(sysFlag=0), ResponseCode.SUBSCRIPTION_NOT_EXIST),
    ):
        assert client.ask(Code.PULL_MESSAGE, fields).code == code
    client.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me", topics={"other": "*"}))
    assert client.ask(Code.PULL_MESSAGE, pull_fields(sysFlag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    client.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me", topics={"orders": "B"}))
    older = client.ask(Code.PULL_MESSAGE, pull_fields(sysFlag=0, subVersion=2))
    assert older.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    filtered = client.ask(Code.PULL_MESSAGE, pull_fields(sysFlag=0, subVersion=1))
    assert filtered.code == ResponseCode.PULL_RETRY_IMMEDIATELY


def test_a_pull_waits_for_a_message_that_it_wants(client: WireClient) -> None:
    """One with another tag leaves it waiting; the next pull of the connection is answered meanwhile."""
    put(client, tags="B")
    waiting = client.send(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=60_000, subscription="A"))
    put(client, b"not this", tags="B")
    assert client.ask(Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0}).fields_as_texts() == {
        "offset": "2"
    }
    put(client, b"this", tags="A")
    answer = client.answer_to(waiting)
    assert (answer.code, answer.fields_as_texts()["nextBeginOffset"]) == (ResponseCode.SUCCESS, "3")
    assert b"this" in bytes(answer.body)


def test_a_wait_ends_with_its_time(client: WireClient) -> None:
    """As nothing found, with the offset that was asked for."""
    put(client)
    answer = client.ask(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=50))
    assert (answer.code, answer.fields_as_texts()["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "1")


def test_a_wait_ends_with_its_connection(served: BrokerServer, client: WireClient) -> None:
    """Nothing of it is left at the server."""
    put(client)
    with WireClient(served.address) as other:
        other.send(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=60_000))
        other.ask(Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
        assert sum(len(connection.held) for connection in served.connections) == 1
    while len(served.connections) > 1:
        client.ask(Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    assert sum(len(connection.held) for connection in served.connections) == 0


def test_a_pull_commits_the_offset_it_brings(client: WireClient) -> None:
    """Only with the bit that says so."""
    put(client)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "setZeroIfNotFound": "false"}
    client.ask(Code.PULL_MESSAGE, pull_fields(commitOffset=1))
    assert client.ask(Code.QUERY_CONSUMER_OFFSET, place).code == ResponseCode.QUERY_NOT_FOUND
    client.ask(Code.PULL_MESSAGE, pull_fields(sysFlag=7, commitOffset=1))
    assert client.ask(Code.QUERY_CONSUMER_OFFSET, place).fields_as_texts() == {"offset": "1"}


@pytest.mark.parametrize("code", [Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE])
def test_records_are_those_of_the_log(client: WireClient, code: Code) -> None:
    """One after another; each says how long it is."""
    for number in range(5):
        put(client, b"%d" % number)
    body = bytes(client.ask(code, pull_fields()).body)
    count, at = 0, 0
    while at < len(body):
        at += int.from_bytes(body[at : at + 4], "big")
        count += 1
    assert (count, at) == (5, len(body))


def test_a_reset_is_told_once(client: WireClient) -> None:
    """The next pull of the group is told where to go on, and the one after finds what is there."""
    for _ in range(3):
        put(client)
    client.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me"))
    reset = {"group": "billing", "topic": "orders", "timestamp": -1, "isForce": "true"}
    assert client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, reset).code == ResponseCode.SUCCESS
    moved = client.ask(Code.PULL_MESSAGE, pull_fields())
    assert (moved.code, moved.fields_as_texts()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "3")
    assert client.ask(Code.PULL_MESSAGE, pull_fields()).code == ResponseCode.SUCCESS
