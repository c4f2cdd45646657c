"""Plain sends: stored and answered as by the way that all others take, and nothing else is taken for one.

Method: Hypothesis draws sends. Each is sent to a server, and to one that answers nothing at once; answers,
and what is stored, are compared.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore.remoting.command import ROCKETMQ, Command, decode_command, encode_request
from mqstore.remoting.frame import FrameReader
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.broker_server import BrokerServer
from mqstore.server.processors.sends import properties_of
from mqstore.server.serving import running
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, pull_fields, send_fields
from unit.server.conftest import CONFIG

QUEUES = 4
PLAIN = send_fields(properties="UNIQ_KEY\x01K1\x02TAGS\x01t\x02")
BORN_HOST = Host.parse("127.0.0.1:4000")

TEXTS = st.text('ab%"\\\u20ac\x00 ', max_size=5)
NAMES = st.sampled_from(["UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "MSG_REGION", "POP_CK", "own", "", "%"])
VALUES = TEXTS | st.sampled_from(["true", "false", "1", "a\x01b"])
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs)
)
SENDS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["orders", "orders", "orders", "%RETRY%billing", "bad topic"]),
        "queue_id": st.integers(0, QUEUES),
        "properties": PROPERTIES.map("UNIQ_KEY\x01K\x02".__add__) | PROPERTIES | st.just("no separator"),
        "f": st.sampled_from([0, 0, 0, 1, 16, 32]),
        "h": st.integers(-(2**31), 2**31),
        "j": st.integers(0, 3),
    }
)


class Side(NamedTuple):
    """A server, and a client of it."""

    server: BrokerServer
    client: WireClient

    def send(self, fields: dict[str, Any], body: bytes) -> tuple[Any, ...]:
        """What is answered, without what differs from server to server."""
        answer = self.client.ask(Code.SEND_MESSAGE_V2, fields, body)
        told = answer.fields_as_texts() if answer.code == ResponseCode.SUCCESS else {}
        offset = told.pop("msgId", "")[-16:]
        if "UNIQ_KEY" not in properties_of(fields["i"]):
            # The server has drawn one.
            told.pop("transactionId", None)
        return answer.code, answer.remark, offset, told

    def stored(self, topic: str, queue_id: int, offset: int) -> tuple[Any, ...]:
        """A message as a pull brings it, without times and ports."""
        fields = pull_fields(topic, queue_id, offset, maxMsgNums=1)
        message = StoredMessage.of(self.client.ask(Code.PULL_MESSAGE, fields).body)
        return (
            bytes(message.stored_body_view),
            list(message.properties.items()),
            message.flag,
            message.sys_flag,
            message.reconsume_times,
            message.born_timestamp,
            message.born_host.address,
        )


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """A server that answers at once what it can, and one that does not."""
    # What is delayed stays so: a delivery would move the end of the log at any time.
    config = dataclasses.replace(CONFIG, message_delay_level="1d")
    with ExitStack() as stack:
        made = []
        for name in ("at once", "in steps"):
            server = stack.enter_context(running(tmp_path_factory.mktemp("served") / name, config))
            client = stack.enter_context(WireClient(server.address))
            client.ask(Code.SEND_MESSAGE_V2, send_fields(d=QUEUES))
            made.append(Side(server, client))
        made[1].server.answer_at_once = None
        yield made[0], made[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=SENDS, body=st.binary(max_size=40) | st.just(bytes(CONFIG.max_message_size + 1)))
def test_both_ways_store_and_answer_the_same(
    sides: tuple[Side, Side], fields: dict[str, Any], body: bytes
) -> None:
    """Whatever is sent."""
    sent = send_fields(**fields)
    answers = [side.send(sent, body) for side in sides]
    assert answers[0] == answers[1]
    code, _, _, told = answers[0]
    properties = properties_of(sent["i"])
    if code == ResponseCode.SUCCESS and "UNIQ_KEY" in properties and "DELAY" not in properties:
        place = fields["topic"], int(told["queueId"]), int(told["queueOffset"])
        assert sides[0].stored(*place) == sides[1].stored(*place)


def answer_at_once(
    server: BrokerServer, fields: dict[str, Any], code: int = Code.SEND_MESSAGE_V2, **others: Any
) -> Command | None:
    """The answer of a server to a frame, if it gives one at once."""
    texts = {name: str(value) for name, value in fields.items()}
    (frame,) = FrameReader().feed(encode_request(code, 7, texts, b"body", **others))
    assert server.answer_at_once is not None
    answer = server.answer_at_once(frame, BORN_HOST)
    if answer is None:
        return None
    (answered,) = FrameReader().feed(answer)
    return decode_command(answered)


def test_a_plain_send_is_answered_at_once(sides: tuple[Side, Side]) -> None:
    """It counts as any other, and a refusal is an answer, too."""
    server = sides[0].server
    before = server.dispatch.counts[Code.SEND_MESSAGE_V2]
    answer = answer_at_once(server, PLAIN)
    assert answer is not None
    assert (answer.code, answer.opaque, answer.is_answer) == (ResponseCode.SUCCESS, 7, True)
    refused = answer_at_once(server, PLAIN | {"e": QUEUES})
    assert refused is not None
    assert (refused.code, refused.opaque) == (ResponseCode.INVALID_PARAMETER, 7)
    assert server.dispatch.counts[Code.SEND_MESSAGE_V2] == before + 2


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        (PLAIN, {"code": Code.SEND_MESSAGE}),
        (PLAIN, {"code": Code.SEND_BATCH_MESSAGE}),
        (PLAIN, {"serialization": ROCKETMQ}),
        (PLAIN, {"is_one_way": True}),
        (PLAIN | {"m": "true"}, {}),
        (PLAIN | {"b": "of nobody"}, {}),
        (PLAIN | {"b": "%RETRY%billing"}, {}),
        (PLAIN | {"e": -1}, {}),
        (PLAIN | {"e": "first"}, {}),
        (PLAIN | {"i": "TAGS\x01t\x02"}, {}),
        (PLAIN | {"i": ""}, {}),
        (PLAIN | {"i": "UNIQ_KEY\x01K1\x02TRAN_MSG\x01true\x02"}, {}),
        (PLAIN | {"i": "UNIQ_KEY\x01K1\x02POP_CK\x01x\x02"}, {}),
    ],
)
def test_others_are_not(sides: tuple[Side, Side], fields: dict[str, Any], others: dict[str, Any]) -> None:
    """Nothing is stored, and nothing is counted."""
    side = sides[0]

    def next_place() -> int:
        _, _, offset, _ = side.send(PLAIN, b"")
        return int(offset, 16)

    first, second = next_place(), next_place()
    counts = dict(side.server.dispatch.counts)
    assert answer_at_once(side.server, fields, **others) is None
    assert side.server.dispatch.counts == counts
    assert next_place() - second == second - first


def test_a_name_that_comes_twice_counts_as_its_last(sides: tuple[Side, Side]) -> None:
    """As JSON is read everywhere: a header that begins as a send may be something else."""
    header = b'{"code":310,"code":105,"opaque":7,"extFields":{"topic":"orders"}}'
    data = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    (frame,) = FrameReader().feed(data)
    assert sides[0].server.answer_at_once is not None
    assert sides[0].server.answer_at_once(frame, BORN_HOST) is None
    sides[0].client.raw(data)
    assert sides[0].client.answer_to(7).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("properties", ['UNIQ_KEY\x01a"b\\\x02', "UNIQ_KEY\x01100%d\u20ac\x02"])
def test_any_key_comes_back_as_it_was(sides: tuple[Side, Side], properties: str) -> None:
    """Quotes, and what a format would take for a place."""
    _, _, _, told = sides[0].send(send_fields(properties=properties), b"")
    assert f"UNIQ_KEY\x01{told['transactionId']}\x02" == properties
