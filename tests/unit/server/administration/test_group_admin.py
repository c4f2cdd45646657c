"""Administration over the wire: topics, groups, progress, connections, as mqadmin reads them."""

import json
import threading
from collections.abc import Callable

import pytest

from mqstore.remoting import fastjson
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, consumer_heartbeat, send_fields


def test_groups_are_kept_as_they_are_sent(client: WireClient) -> None:
    """With settings that this release does not use."""
    asked = {"groupName": "billing", "retryMaxTimes": 5, "brokerId": 0, "consumeBroadcastEnable": False}
    answer = client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(asked).encode())
    assert answer.code == ResponseCode.SUCCESS
    found = fastjson.decode(client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "billing"}).body)
    assert asked.items() <= found.items()
    table = fastjson.decode(client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert table["subscriptionGroupTable"] == {"billing": found}
    for wrong in (b"", b"[]", b'{"groupName":"a b"}', b'{"groupName":"g","retryMaxTimes":-7}'):
        assert client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, wrong).code != ResponseCode.SUCCESS
    client.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing", "cleanOffset": "true"})
    gone = client.ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "billing"})
    assert gone.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(("named", "kept"), [("cleanOffset", []), ("removeOffset", []), ("no", ["billing"])])
def test_a_group_goes_with_its_offsets_if_asked(client: WireClient, named: str, kept: list[str]) -> None:
    """By the name of the field in 5.x, and that of 4.x."""
    client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "commitOffset": 1}
    client.ask(Code.UPDATE_CONSUMER_OFFSET, place)
    client.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing", named: "true"})
    who = fastjson.decode(client.ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"}).body)
    assert who["groupList"] == kept


def test_topics_are_made_changed_and_deleted(client: WireClient) -> None:
    """Bad names and numbers are refused, and system topics left alone."""
    create = {"topic": "orders", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    create |= {"attributes": "+message.type=NORMAL"}
    assert client.ask(Code.UPDATE_AND_CREATE_TOPIC, create).code == ResponseCode.SUCCESS
    found = fastjson.decode(client.ask(Code.GET_TOPIC_CONFIG, {"topic": "orders"}).body)
    assert (found["writeQueueNums"], found["attributes"]) == (2, {"message.type": "NORMAL"})
    for wrong in ({"topic": "TBW102"}, {"topic": "a b"}, {"perm": 99}, {"readQueueNums": 1 << 20}):
        assert client.ask(Code.UPDATE_AND_CREATE_TOPIC, create | wrong).code != ResponseCode.SUCCESS
    client.ask(Code.SEND_MESSAGE_V2, send_fields(queue_id=1), b"x")
    stats = fastjson.decode(client.ask(Code.GET_TOPIC_STATS_INFO, {"topic": "orders"}).body)
    ends = {json.loads(queue)["queueId"]: row["maxOffset"] for queue, row in stats["offsetTable"].items()}
    assert ends == {0: 0, 1: 1}
    assert client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}).code == ResponseCode.SUCCESS
    assert client.ask(Code.GET_TOPIC_CONFIG, {"topic": "orders"}).code == ResponseCode.TOPIC_NOT_EXIST
    refused = client.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "SCHEDULE_TOPIC_XXXX"})
    assert refused.code == ResponseCode.INVALID_PARAMETER


def test_progress_and_who_consumes(client: WireClient) -> None:
    """Of a group in all its topics, in one, and of a topic's groups."""
    for _ in range(3):
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "commitOffset": 2}
    client.ask(Code.UPDATE_CONSUMER_OFFSET, place)
    stats = fastjson.decode(client.ask(Code.GET_CONSUME_STATS, {"consumerGroup": "billing"}).body)
    rows = {json.loads(queue)["queueId"]: row for queue, row in stats["offsetTable"].items()}
    assert (rows[0]["brokerOffset"], rows[0]["consumerOffset"]) == (3, 2)
    who = fastjson.decode(client.ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"}).body)
    assert who == {"groupList": ["billing"]}
    what = fastjson.decode(client.ask(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "billing"}).body)
    assert what["topicList"] == ["orders"]


def test_a_reset_that_is_not_forced_goes_back_only(client: WireClient) -> None:
    """To a time, to the end, to an offset; of a group and a topic that exist."""
    for _ in range(3):
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    client.ask(Code.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 2})

    def reset(**fields: object) -> dict[str, int]:
        asked = {"group": "billing", "topic": "orders", "timestamp": -1, "isForce": "true"} | fields
        answer = client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, asked)
        if answer.code != ResponseCode.SUCCESS:
            return {"code": answer.code}
        table = fastjson.decode(answer.body)["offsetTable"]
        return {f"queue {json.loads(queue)['queueId']}": offset for queue, offset in table.items()}

    assert reset(isForce="false", queueId=0) == {"queue 0": 2}
    assert reset(queueId=0) == {"queue 0": 3}
    assert reset(timestamp=1)["queue 0"] == 0
    assert reset(queueId=0, offset=1) == {"queue 0": 1}
    assert reset(queueId=0, offset=9) == {"code": ResponseCode.INVALID_PARAMETER}
    assert reset(topic="nowhere") == {"code": ResponseCode.TOPIC_NOT_EXIST}
    assert reset(group="nobody") == {"code": ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}


def test_connections_are_shown(connect: Callable[[], WireClient]) -> None:
    """Of a group that is connected, and of producers."""
    client = connect()
    gone = client.ask(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "billing"})
    assert gone.code == ResponseCode.CONSUMER_NOT_ONLINE
    client.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me"))
    shown = fastjson.decode(client.ask(Code.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "billing"}).body)
    (connection,) = shown["connectionSet"]
    assert (connection["clientId"], connection["clientAddr"]) == ("me", f"127.0.0.1:{client.port}")
    assert shown["subscriptionTable"]["orders"]["subString"] == "*"
    assert (
        client.ask(Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"}).code
        == ResponseCode.SYSTEM_ERROR
    )
    body = {"clientID": "maker", "producerDataSet": [{"groupName": "p"}]}
    client.ask(Code.HEART_BEAT, {}, json.dumps(body).encode())
    makers = fastjson.decode(client.ask(Code.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"}).body)
    assert makers["connectionSet"][0]["clientId"] == "maker"


def test_a_consumer_is_asked_in_anothers_name(connect: Callable[[], WireClient]) -> None:
    """Its answer is passed back as it is; so is a message that it is to consume now."""
    asker, consumer = connect(), connect()
    message_id = asker.ask(Code.SEND_MESSAGE_V2, send_fields(), b"now").fields_as_texts()["msgId"]
    consumer.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me"))
    named = {"consumerGroup": "billing", "clientId": "me"}
    answers = []
    for code, fields in (
        (Code.GET_CONSUMER_RUNNING_INFO, named | {"jstackEnable": "false"}),
        (Code.CONSUME_MESSAGE_DIRECTLY, named | {"msgId": message_id, "topic": "orders"}),
    ):
        thread = threading.Thread(target=lambda: answers.append(asker.ask(code, fields)))  # noqa: B023 - joined
        thread.start()
        asked = consumer.next_request(code)
        assert asked.fields_as_texts() == {name: str(value) for name, value in fields.items()}
        assert (b"now" in bytes(asked.body)) == (code == Code.CONSUME_MESSAGE_DIRECTLY)
        consumer.answer(asked, 0, b"told")
        thread.join()
    assert [bytes(answer.body) for answer in answers] == [b"told", b"told"]
    absent = asker.ask(Code.GET_CONSUMER_RUNNING_INFO, named | {"clientId": "nobody"})
    assert absent.code == ResponseCode.CONSUMER_NOT_ONLINE


def test_the_state_of_the_broker(client: WireClient) -> None:
    """What mqadmin reads as numbers is there, and the settings as text."""
    table = fastjson.decode(client.ask(Code.GET_BROKER_RUNTIME_INFO).body)["table"]
    for name in (
        "commitLogMaxOffset",
        "earliestMessageTimeStamp",
        "sendThreadPoolQueueSize",
        "timerCongestNum",
    ):
        assert int(table[name]) >= -1
    assert [float(rate) for rate in table["getTransferredTps"].split()] == [0, 0, 0]
    text = bytes(client.ask(Code.GET_BROKER_CONFIG).body).decode()
    assert "brokerName=broker-a\n" in text
