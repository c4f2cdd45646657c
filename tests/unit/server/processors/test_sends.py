"""Sends over the wire: what is stored, what is answered, and what is refused with which code."""

import json
from pathlib import Path

import pytest

from mqstore import StoredMessage
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.processors.sends import properties_of
from mqstore.store.record.batch_format import BatchElement, encode_batch
from mqstore.store.record.message_id import decode_message_id
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, pull_fields, send_fields

V1 = {"producerGroup": "p", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4}
V1 |= {"queueId": 1, "sysFlag": 0, "bornTimestamp": 1_700_000_000_000, "flag": 7}


def stored(client: WireClient, topic: str = "orders", queue_id: int = 0, offset: int = 0) -> StoredMessage:
    """The message there, as a pull brings it."""
    answer = client.ask(Code.PULL_MESSAGE, pull_fields(topic, queue_id, offset, maxMsgNums=1))
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return StoredMessage.of(answer.body)


def test_a_message_is_stored_as_it_was_sent(client: WireClient) -> None:
    """With its properties, those of a broker, and the producer's address."""
    fields = send_fields(queue_id=2, properties="TAGS\x01A\x02KEYS\x01k1 k2\x02own\x01x\x02", h=9, j=1)
    answer = client.ask(Code.SEND_MESSAGE_V2, fields, b"body")
    told = answer.fields_as_texts()
    assert (answer.code, told["queueId"], told["queueOffset"]) == (ResponseCode.SUCCESS, "2", "0")
    assert (told["MSG_REGION"], told["TRACE_ON"]) == ("DefaultRegion", "true")
    message = stored(client, queue_id=2)
    assert (message.body, message.tags, message.keys, message.flag) == (b"body", "A", ("k1", "k2"), 9)
    assert (message.born_timestamp, message.reconsume_times) == (1_700_000_000_000, 1)
    assert message.born_host.port == client.port
    own = {"own": "x", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    assert own.items() <= message.properties.items()
    assert told["transactionId"] == message.unique_key
    assert told["msgId"] == message.msg_id
    assert decode_message_id(told["msgId"])[0] == message.store_host


def test_the_long_names_store_the_same(client: WireClient) -> None:
    """10, which Go and C++ send, and a UNIQ_KEY that its producer has made."""
    answer = client.ask(Code.SEND_MESSAGE, V1 | {"properties": "UNIQ_KEY\x01U1"}, b"body")
    assert answer.fields_as_texts()["transactionId"] == "U1"
    assert (stored(client, queue_id=1).unique_key, stored(client, queue_id=1).flag) == ("U1", 7)


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_a_topic_is_on_the_disk_when_its_first_message_is_acknowledged(
    client: WireClient, tmp_path: Path, code: Code
) -> None:
    """A recovery finds the message and not what its producer asked for: four queues would become eight."""
    body = b"x" if code == Code.SEND_MESSAGE_V2 else encode_batch([BatchElement(b"x")])
    assert client.ask(code, send_fields("fresh", d=4), body).code == ResponseCode.SUCCESS
    saved = json.loads((tmp_path / "store" / "config" / "topics.json").read_text())["topicConfigTable"]
    assert (saved["fresh"]["readQueueNums"], saved["fresh"]["writeQueueNums"]) == (4, 4)


def test_a_topic_comes_to_be_as_its_producer_asks(client: WireClient) -> None:
    """So many queues, at most those of the default topic; none without a default topic."""
    for topic, asked, made in (("few", 3, 3), ("many", 99, 8)):
        assert client.ask(Code.SEND_MESSAGE_V2, send_fields(topic, d=asked)).code == ResponseCode.SUCCESS
        refused = client.ask(Code.SEND_MESSAGE_V2, send_fields(topic, made))
        assert refused.code == ResponseCode.INVALID_PARAMETER
        assert client.ask(Code.SEND_MESSAGE_V2, send_fields(topic, made - 1)).code == ResponseCode.SUCCESS
    refused = client.ask(Code.SEND_MESSAGE_V2, send_fields("lost", c="nowhere"))
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRACE_TOPIC", "BenchmarkTest", "DefaultCluster_REPLY_TOPIC"])
def test_clients_may_send_to_these_of_rocketmqs_own(client: WireClient, topic: str) -> None:
    """Producers that trace send to the first, RocketMQ's benchmark to the second."""
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(topic, 0, d=1)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        (send_fields("bad topic"), b"", ResponseCode.INVALID_PARAMETER),
        (send_fields("t" * 128), b"", ResponseCode.INVALID_PARAMETER),
        (send_fields("SCHEDULE_TOPIC_XXXX"), b"", ResponseCode.NO_PERMISSION),
        (send_fields("SELF_TEST_TOPIC"), b"", ResponseCode.NO_PERMISSION),
        (send_fields(), bytes((1 << 20) + 1), ResponseCode.MESSAGE_ILLEGAL),
        (send_fields(properties="x\x01" + "y" * 40_000), b"", ResponseCode.MESSAGE_ILLEGAL),
        (send_fields(properties="TIMER_DELAY_SEC\x015"), b"", ResponseCode.SYSTEM_ERROR),
        (send_fields(g="soon"), b"", ResponseCode.SYSTEM_ERROR),
        ({"b": "orders"}, b"", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_refusals_have_rocketmqs_codes(
    client: WireClient, fields: dict[str, object], body: bytes, code: ResponseCode
) -> None:
    """Nothing is stored, and the connection goes on."""
    assert client.ask(Code.SEND_MESSAGE_V2, fields, body).code == code
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"good").code == ResponseCode.SUCCESS
    assert stored(client).body == b"good"


def test_a_negative_queue_is_chosen(client: WireClient) -> None:
    """The answer says which."""
    told = client.ask(Code.SEND_MESSAGE_V2, send_fields(queue_id=-1), b"x").fields_as_texts()
    assert stored(client, queue_id=int(told["queueId"])).body == b"x"


def test_a_batch_is_taken_apart(client: WireClient) -> None:
    """Each element is a message with its own properties; the answer has the ids of all."""
    elements = [BatchElement(b"%d" % n, b"KEYS\x01k%d\x02" % n, n) for n in range(30)]
    fields = send_fields(properties="both\x01yes", m="true")
    answer = client.ask(Code.SEND_BATCH_MESSAGE, fields, encode_batch(elements))
    told = answer.fields_as_texts()
    assert (answer.code, told["queueOffset"], len(told["msgId"].split(","))) == (0, "0", 30)
    for n in (0, 29):
        message = stored(client, offset=n)
        assert (message.body, message.keys, message.flag) == (b"%d" % n, (f"k{n}",), n)
        assert message.properties.keys() == {"KEYS", "UNIQ_KEY"}
        assert message.msg_id == told["msgId"].split(",")[n]
    assert client.ask(Code.SEND_BATCH_MESSAGE, fields, b"\0\0\0\7torn").code == ResponseCode.MESSAGE_ILLEGAL
    retry = client.ask(Code.SEND_BATCH_MESSAGE, send_fields("%RETRY%g"), encode_batch(elements))
    assert retry.code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("own", [b"UNIQ_KEY\x01%d", b"UNIQ_KEY\x01%d\x02\x02"])
def test_a_batch_of_java_has_a_key_of_its_own(client: WireClient, own: bytes) -> None:
    """It is told as the transaction's id, and no message is called by it, on the quick way as one by one."""
    elements = [BatchElement(b"%d" % n, own % n) for n in range(30)]
    fields = send_fields(properties="UNIQ_KEY\x01BATCH\x02WAIT\x01true\x02", m="true")
    answer = client.ask(Code.SEND_BATCH_MESSAGE, fields, encode_batch(elements))
    assert answer.fields_as_texts()["transactionId"] == "BATCH"
    assert [stored(client, offset=n).properties for n in (0, 29)] == [{"UNIQ_KEY": "0"}, {"UNIQ_KEY": "29"}]


def test_one_way_is_not_answered(client: WireClient) -> None:
    """It is stored, and the next answer is that to the next request."""
    client.send(Code.SEND_MESSAGE_V2, send_fields(), b"quiet", is_one_way=True)
    answer = client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"loud")
    assert answer.fields_as_texts()["queueOffset"] == "1"
    assert stored(client).body == b"quiet"


def test_a_delayed_message_answers_for_its_own_queue(client: WireClient) -> None:
    """The offset is that of the queue in which it waits, as with RocketMQ."""
    told = client.ask(
        Code.SEND_MESSAGE_V2, send_fields(queue_id=3, properties="DELAY\x012")
    ).fields_as_texts()
    assert (told["queueId"], told["queueOffset"]) == ("3", "0")


def test_what_a_group_sends_back_itself_may_be_dead(client: WireClient) -> None:
    """By its properties, as with a broker: the client's way when 36 has failed."""
    properties = "RECONSUME_TIME\x013\x02MAX_RECONSUME_TIMES\x012"
    fields = send_fields("%RETRY%billing", properties=properties, j=3, l=2)
    assert client.ask(Code.SEND_MESSAGE_V2, fields, b"worn").code == ResponseCode.SUCCESS
    assert stored(client, "%DLQ%billing").body == b"worn"


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        (None, {}),
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02", {"a": "b"}),
        ("a\x01b\x01c\x02x\x02\x01y\x02z\x01", {"a": "b\x01c"}),
    ],
)
def test_the_text_of_properties_is_read_as_in_java(text: str | None, properties: dict[str, str]) -> None:
    """With and without the last separator; chunks that are no pair are dropped."""
    assert properties_of(text) == properties
