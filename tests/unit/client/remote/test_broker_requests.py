"""What a broker asks, decoded: hosts in both of Java's forms, and tables whose keys are objects."""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.client.remote.broker_requests import ResetOffsets, half_of, message_of_reply
from mqstore.remoting.command import ROCKETMQ, Command
from mqstore.remoting.errors import RemotingIllegal
from mqstore.store.record.host import Host


def request(code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    return Command(code, 1, 0, "JAVA", 513, None, fields, memoryview(body), ROCKETMQ)


def test_a_half_to_check(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path) as store:
        put = store.put_message(Message("orders", b"half", properties={"PGROUP": "booking"}))
        found = store.look_message_by_offset(put.physical_offset)
        assert found is not None
        record = bytes(found.record)
    fields = {"tranStateTableOffset": "5", "commitLogOffset": "4096", "msgId": "x", "bname": "broker-a"}
    message, half = half_of(request(39, fields, record))
    assert (message.body, message.properties["PGROUP"]) == (b"half", "booking")
    assert (half.queue_offset, half.physical_offset) == (5, 4096)
    for broken in (record[:-1], b"", record + b"x"):
        with pytest.raises(RemotingIllegal):
            half_of(request(39, fields, broken))
    with pytest.raises(RemotingIllegal):
        half_of(request(39, {}, record))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("127.0.0.1:80", Host.parse("127.0.0.1:80")),
        ("/127.0.0.1:80", Host.parse("127.0.0.1:80")),
        ("asker.local/127.0.0.1:80", Host.parse("127.0.0.1:80")),
        ("asker:80", None),
        ("", None),
    ],
)
def test_a_reply(text: str, host: Host | None) -> None:
    fields = {
        "topic": "DefaultCluster_REPLY_TOPIC",
        "queueId": "2",
        "sysFlag": "1",
        "bornTimestamp": "99",
        "flag": "3",
        "properties": "CORRELATION_ID\x017\x02TTL\x01100",
        "reconsumeTimes": "0",
        "bornHost": text,
        "storeHost": "127.0.0.1:10911",
    }
    reply = message_of_reply(request(326, fields, b"answer"))
    assert (reply.body, reply.queue_id, reply.sys_flag, reply.flag) == (b"answer", 2, 1, 3)
    assert reply.properties == {"CORRELATION_ID": "7", "TTL": "100"}
    assert (reply.born_timestamp, reply.born_host) == (99, host)


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{{"queueId":0,"topic":"orders"}:5,{"queueId":1,"topic":"orders"}:7}}',
        b'{"offsetTable":[{"offset":5,"queueId":0,"topic":"orders"},{"offset":7,"queueId":1,"topic":"orders"}]}',
    ],
)
def test_offsets_that_an_operator_has_set(body: bytes) -> None:
    """Each is taken once, by its group alone."""
    resets = ResetOffsets()
    resets.take_in(request(220, {"topic": "orders", "group": "billing", "timestamp": "1"}, body))
    assert resets.take("another", "orders", 0) is None
    assert [resets.take("billing", "orders", queue_id) for queue_id in (0, 1, 2, 0)] == [5, 7, None, None]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"offsetTable":{"x":1}}', b'{"offsetTable":{{"topic":1}:2}}', b"\xff"]
)
def test_tables_that_are_none(body: bytes) -> None:
    with pytest.raises(RemotingIllegal):
        ResetOffsets().take_in(request(220, {"topic": "t", "group": "g", "timestamp": "1"}, body))
