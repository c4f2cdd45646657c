"""The bodies: as real clients send them, and as Java and Go read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.remoting.bodies import (
    BrokerData,
    HeartbeatConsumer,
    HeartbeatData,
    HeartbeatProducer,
    LockAnswer,
    LockRequest,
    QueueData,
    QueueName,
    RouteData,
    SubscriptionData,
    decode_body,
    encode_body,
)
from mqstore.remoting.errors import BodyIllegal

HEARTBEAT = b"""{"clientID":"10.0.0.1@7#1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",
"consumeType":"CONSUME_PASSIVELY","groupName":"billing","messageModel":"CLUSTERING","subscriptionDataSet":[
{"classFilterMode":false,"codeSet":["65"],"expressionType":"TAG","subString":"A","subVersion":17,"tagsSet":["A"],
"topic":"orders"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[
{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}"""


def test_a_heartbeat_is_read() -> None:
    """Names that are not known are ignored, and codes are taken as texts, as Go sends them."""
    wanted = SubscriptionData("orders", "A", 17, "TAG", ["A"], ["65"], False)
    consumer = HeartbeatConsumer(
        "billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [wanted], False
    )
    producers = [HeartbeatProducer("CLIENT_INNER_PRODUCER")]
    assert decode_body(HeartbeatData, HEARTBEAT) == HeartbeatData("10.0.0.1@7#1", [consumer], producers)


CPP_HEARTBEAT = b"""{"clientID":"13014-127.0.0.1@DEFAULT","consumerDataSet":[
{"consumeFromWhere":0,"consumeType":1,
"groupName":"cpp-c","messageModel":1,"subscriptionDataSet":[{"subString":"*","subVersion":"1795412182450",
"topic":"%RETRY%cpp-c"},{"subString":"*","subVersion":"1795412182450","topic":"CPP"}]}],"producerDataSet":[
{"groupName":"cpp-p"}]}\n"""


def test_a_heartbeat_of_cpp_is_read() -> None:
    """It has numbers for names, texts for numbers, and a line end behind it: as its client sent it."""
    (consumer,) = decode_body(HeartbeatData, CPP_HEARTBEAT).consumer_data_set or ()
    assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert consumer.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert [wanted.sub_version for wanted in consumer.subscription_data_set] == [1795412182450] * 2
    with pytest.raises(BodyIllegal, match="message_model is 2"):
        decode_body(HeartbeatData, CPP_HEARTBEAT.replace(b'"messageModel":1', b'"messageModel":2'))


def test_locks_are_named_as_in_java() -> None:
    """The request of a Java consumer, and the answer that it reads."""
    request = decode_body(
        LockRequest,
        b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":"t"}],"onlyThisBroker":false}',
    )
    assert request == LockRequest("g", "c", [QueueName("b", 1, "t")])
    assert (
        encode_body(LockAnswer(request.mq_set))
        == b'{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"t"}]}'
    )


def test_a_route_has_no_blanks_and_quoted_ids() -> None:
    """Go cuts brokerAddrs at commas and colons; orderTopicConf is left out unless there is one."""
    broker = BrokerData({"0": "127.0.0.1:9876"}, "broker-a", "DefaultCluster")
    route = RouteData([broker], {}, [QueueData("broker-a", 6, 4, 0, 4)])
    assert encode_body(route) == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:9876"},"brokerName":"broker-a","cluster":"DefaultCluster"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
        b'"topicSysFlag":0,"writeQueueNums":4}]}'
    ).replace(b'"DefaultCluster"}', b'"DefaultCluster","enableActingMaster":false}')
    assert decode_body(RouteData, encode_body(route)) == route


@given(st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_a_body_or_a_typed_error(data: bytes) -> None:
    """Nothing else is raised."""
    for form in (HeartbeatData, LockRequest, RouteData):
        with pytest.raises(BodyIllegal):
            decode_body(form, data)
