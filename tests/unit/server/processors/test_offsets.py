"""Offsets, send-back, queries and routes over the wire."""

import json

from mqstore.remoting import fastjson
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, send_fields

PLACE = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}


def put(client: WireClient, body: bytes = b"x", properties: str = "") -> str:
    """Store a message; its offset message id."""
    answer = client.ask(Code.SEND_MESSAGE_V2, send_fields(properties=properties), body)
    return answer.fields_as_texts()["msgId"]


def offset_of(client: WireClient, code: Code, **fields: object) -> str:
    return client.ask(code, {"topic": "orders", "queueId": 0} | fields).fields_as_texts()["offset"]


def test_a_group_without_an_offset(client: WireClient) -> None:
    """In a young queue it begins at 0, unless it asks not to be told so."""
    put(client)
    assert client.ask(Code.QUERY_CONSUMER_OFFSET, PLACE).fields_as_texts() == {"offset": "0"}
    unhelped = PLACE | {"setZeroIfNotFound": "false"}
    assert client.ask(Code.QUERY_CONSUMER_OFFSET, unhelped).code == ResponseCode.QUERY_NOT_FOUND


def test_an_offset_is_kept(client: WireClient) -> None:
    """As it is told; of a topic that does not exist it is refused, and the topic is not made."""
    put(client)
    told = client.ask(Code.UPDATE_CONSUMER_OFFSET, PLACE | {"commitOffset": 1})
    assert told.code == ResponseCode.SUCCESS
    assert client.ask(Code.QUERY_CONSUMER_OFFSET, PLACE).fields_as_texts() == {"offset": "1"}
    nowhere = PLACE | {"topic": "nowhere", "commitOffset": 1}
    assert client.ask(Code.UPDATE_CONSUMER_OFFSET, nowhere).code == ResponseCode.TOPIC_NOT_EXIST
    assert client.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "nowhere"}).code == ResponseCode.TOPIC_NOT_EXIST


def test_where_a_queue_begins_and_ends(client: WireClient) -> None:
    """And where it stood at a time."""
    for _ in range(3):
        put(client)
    assert offset_of(client, Code.GET_MIN_OFFSET) == "0"
    assert offset_of(client, Code.GET_MAX_OFFSET) == "3"
    assert offset_of(client, Code.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=1) == "0"
    assert offset_of(client, Code.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=2**60, boundaryType="UPPER") in (
        "2",
        "3",
    )
    earliest = client.ask(Code.GET_EARLIEST_MSG_STORETIME, {"topic": "orders", "queueId": 0})
    assert int(earliest.fields_as_texts()["timestamp"]) > 0


def test_a_failed_message_is_taken_back(client: WireClient) -> None:
    """It waits for its group; one that may not be tried again is dead; one that is not there is refused."""
    put(client)
    back = {"offset": 0, "group": "billing", "delayLevel": 1, "maxReconsumeTimes": 3}
    assert client.ask(Code.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.SUCCESS
    assert client.ask(Code.CONSUMER_SEND_MSG_BACK, back | {"delayLevel": -1}).code == ResponseCode.SUCCESS
    dead = client.ask(Code.GET_MAX_OFFSET, {"topic": "%DLQ%billing", "queueId": 0})
    assert dead.fields_as_texts() == {"offset": "1"}
    assert client.ask(Code.CONSUMER_SEND_MSG_BACK, back | {"offset": 5}).code == ResponseCode.SYSTEM_ERROR


def test_messages_are_found(client: WireClient) -> None:
    """By key, by the producer's id, by their place; one that is not there is told so."""
    message_id = put(client, b"found", "KEYS\x01k1\x02UNIQ_KEY\x01U1")
    query = {"topic": "orders", "maxNum": 10, "beginTimestamp": 0, "endTimestamp": 2**62}
    for asked in ({"key": "k1"}, {"key": "U1", "_UNIQUE_KEY_QUERY": "true"}, {"key": "U1", "indexType": "U"}):
        assert b"found" in bytes(client.ask(Code.QUERY_MESSAGE, query | asked).body)
    assert client.ask(Code.QUERY_MESSAGE, query | {"key": "k2"}).code == ResponseCode.QUERY_NOT_FOUND
    place = int(message_id[16:], 16)
    assert b"found" in bytes(client.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": place}).body)
    for lost in (place + 1, 1 << 40, -1):
        assert client.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": lost}).code == ResponseCode.SYSTEM_ERROR


def test_an_answer_fits_into_a_frame(client: WireClient) -> None:
    """Of many long messages with one key the newest are sent; a client takes no longer frame than 16 MiB."""
    for number in range(12):
        put(client, bytes([number]) * 1_000_000, "KEYS\x01k1")
    query = {"topic": "orders", "key": "k1", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 2**62}
    body = bytes(client.ask(Code.QUERY_MESSAGE, query).body)
    assert 7_000_000 < len(body) < 9 << 20
    assert bytes([11]) * 1_000_000 in body
    assert bytes([0]) * 1_000_000 not in body


def test_routes_name_this_server(client: WireClient) -> None:
    """Of a topic, of the cluster; and the order of an ordered topic."""
    create = {"topic": "orders", "readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "order": "true"}
    assert client.ask(Code.UPDATE_AND_CREATE_TOPIC, create).code == ResponseCode.SUCCESS
    route = json.loads(bytes(client.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).body))
    (queues,), (broker,) = route["queueDatas"], route["brokerDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 6)
    assert route["orderTopicConf"] == "broker-a:2"
    cluster = fastjson.decode(client.ask(Code.GET_BROKER_CLUSTER_INFO).body)
    assert cluster["brokerAddrTable"]["broker-a"]["brokerAddrs"] == broker["brokerAddrs"]
    assert cluster["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    topics = fastjson.decode(client.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body)
    assert {"orders", "TBW102"} <= set(topics["topicList"])
