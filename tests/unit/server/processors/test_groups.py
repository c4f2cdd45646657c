"""Groups over the wire: who is a member, who is told, and every way to leave."""

import json
from collections.abc import Callable

from mqstore.remoting.bodies import ConsumerIds, decode_body
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, consumer_heartbeat, send_fields

GROUP = {"consumerGroup": "billing"}


def members(client: WireClient) -> list[str]:
    answer = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, GROUP)
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return []
    return decode_body(ConsumerIds, answer.body).consumer_id_list


def beat(client: WireClient, name: str, group: str = "billing", **others: object) -> None:
    answer = client.ask(Code.HEART_BEAT, {}, consumer_heartbeat(name, group, **others))
    assert answer.fields_as_texts() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}


def told(client: WireClient) -> int:
    """How often a client was told that a group has changed, once all that is under way has come."""
    client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, GROUP)
    count = sum(request.code == Code.NOTIFY_CONSUMER_IDS_CHANGED for request in client.requests)
    client.requests.clear()
    return count


def test_members_come_and_all_are_told(connect: Callable[[], WireClient]) -> None:
    """A new member is told as well, for it then shares the queues at once; a mere heartbeat tells nobody."""
    left, right = connect(), connect()
    assert members(left) == []
    beat(left, "a")
    assert (members(left), told(left)) == (["a"], 1)
    beat(right, "b")
    assert (members(left), told(left), told(right)) == (["a", "b"], 1, 1)
    beat(left, "a")
    assert (told(left), told(right)) == (0, 0)
    beat(left, "a", topics={"orders": "*", "returns": "*"})
    assert (told(left), told(right)) == (1, 1)


def test_a_heartbeat_makes_the_retry_topic(client: WireClient) -> None:
    """And its route is known before that."""
    route = {"topic": "%RETRY%billing"}
    assert client.ask(Code.GET_ROUTEINFO_BY_TOPIC, route).code == ResponseCode.SUCCESS
    assert client.ask(Code.GET_TOPIC_STATS_INFO, route).code == ResponseCode.TOPIC_NOT_EXIST
    beat(client, "a")
    assert client.ask(Code.GET_TOPIC_STATS_INFO, route).code == ResponseCode.SUCCESS


def test_members_leave_by_request_and_with_their_connection(connect: Callable[[], WireClient]) -> None:
    """Those that stay are told."""
    stays, leaves, breaks = connect(), connect(), connect()
    for client, name in ((stays, "a"), (leaves, "b"), (breaks, "c")):
        beat(client, name)
    told(stays)
    gone = {"clientID": "b", "consumerGroup": "billing", "producerGroup": ""}
    assert leaves.ask(Code.UNREGISTER_CLIENT, gone).code == ResponseCode.SUCCESS
    assert (members(stays), told(stays)) == (["a", "c"], 1)
    breaks.close()
    stays.next_request(Code.NOTIFY_CONSUMER_IDS_CHANGED)
    assert members(stays) == ["a"]


def test_a_client_that_has_connected_anew_stays(connect: Callable[[], WireClient]) -> None:
    """Its old connection may be noticed late, and takes nothing with it."""
    old, new, other = connect(), connect(), connect()
    beat(other, "b")
    beat(old, "a")
    beat(new, "a")
    old.close()
    beat(connect(), "c")
    assert members(other) == ["a", "b", "c"]


def test_a_broadcasting_group_is_told_nothing(connect: Callable[[], WireClient]) -> None:
    """Its members have nothing to share."""
    left, right = connect(), connect()
    for client, name in ((left, "a"), (right, "b")):
        beat(client, name, messageModel="BROADCASTING")
    assert (told(left), told(right)) == (0, 0)


def test_locks_are_given_to_one_member(connect: Callable[[], WireClient]) -> None:
    """Until it gives them up, or leaves."""
    left, right = connect(), connect()
    client_of = {"a": left, "b": right}
    for name, client in client_of.items():
        beat(client, name)
    left.ask(Code.SEND_MESSAGE_V2, send_fields())

    def ask(name: str, code: Code) -> int:
        queues = [{"topic": "orders", "brokerName": "broker-a", "queueId": 0}]
        body = {"consumerGroup": "billing", "clientId": name, "mqSet": queues, "onlyThisBroker": False}
        answer = client_of[name].ask(code, {}, json.dumps(body).encode())
        assert answer.code == ResponseCode.SUCCESS
        return len(json.loads(bytes(answer.body))["lockOKMQSet"]) if code == Code.LOCK_BATCH_MQ else 0

    assert (ask("a", Code.LOCK_BATCH_MQ), ask("b", Code.LOCK_BATCH_MQ)) == (1, 0)
    ask("b", Code.UNLOCK_BATCH_MQ)
    assert ask("b", Code.LOCK_BATCH_MQ) == 0
    ask("a", Code.UNLOCK_BATCH_MQ)
    assert (ask("b", Code.LOCK_BATCH_MQ), ask("a", Code.LOCK_BATCH_MQ)) == (1, 0)
    gone = {"clientID": "b", "consumerGroup": "billing"}
    right.ask(Code.UNREGISTER_CLIENT, gone)
    assert ask("a", Code.LOCK_BATCH_MQ) == 1


def test_an_sql_filter_is_refused_before_its_consumer_starts(client: WireClient) -> None:
    """46; tags are fine."""
    for kind, code in (("TAG", ResponseCode.SUCCESS), ("SQL92", ResponseCode.SYSTEM_ERROR)):
        check = {"subscriptionData": {"topic": "orders", "subString": "a", "expressionType": kind}}
        assert client.ask(Code.CHECK_CLIENT_CONFIG, {}, json.dumps(check).encode()).code == code


def test_a_body_that_is_no_heartbeat_is_refused(client: WireClient) -> None:
    """And the connection goes on."""
    for body in (b"", b"{}", b"\xff", b'{"clientID":7}'):
        assert client.ask(Code.HEART_BEAT, {}, body).code == ResponseCode.SYSTEM_ERROR
    beat(client, "a")
