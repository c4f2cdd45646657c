"""The command: what is encoded is decoded again by both kinds of header, and hostile headers are refused.

Method: Hypothesis makes commands, and mutilates the bytes of good ones.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.remoting.command import (
    JSON,
    ROCKETMQ,
    VERSION,
    Command,
    decode_command,
    encode_answer,
    encode_request,
)
from mqstore.remoting.errors import FieldsIllegal, HeaderIllegal, RemotingIllegal
from mqstore.remoting.frame import Frame, FrameReader
from mqstore.remoting.headers import PullHeader, QueueHeader, SendHeader, SendHeaderV2, UnregisterHeader

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
FIELDS = st.dictionaries(TEXTS, TEXTS, max_size=5)
KINDS = st.sampled_from([JSON, ROCKETMQ])


def decoded(data: bytes) -> Command:
    (frame,) = FrameReader().feed(data)
    return decode_command(frame)


@pytest.mark.slow
@given(
    st.integers(0, 32_767),
    st.integers(-(2**31), 2**31 - 1),
    FIELDS,
    st.binary(max_size=50),
    st.booleans(),
    KINDS,
)
def test_a_request_comes_back(
    code: int, opaque: int, fields: dict[str, str], body: bytes, is_one_way: bool, kind: int
) -> None:
    """All of it, by both kinds of header."""
    found = decoded(encode_request(code, opaque, fields, body, is_one_way=is_one_way, serialization=kind))
    assert (found.code, found.opaque, found.version, found.language) == (code, opaque, VERSION, "JAVA")
    assert (found.fields_as_texts(), bytes(found.body)) == (fields, body)
    assert (found.is_answer, found.is_one_way) == (False, is_one_way)


@pytest.mark.slow
@given(st.integers(0, 1500), TEXTS, FIELDS, st.binary(max_size=50), KINDS)
def test_an_answer_has_the_opaque_and_the_kind_of_its_request(
    code: int, remark: str, fields: dict[str, str], body: bytes, kind: int
) -> None:
    """A client finds its request by the opaque."""
    request = decoded(encode_request(105, 77, {}, serialization=kind))
    answer = decoded(encode_answer(request, code, remark, fields, body))
    assert (answer.code, answer.opaque, answer.serialization) == (code, 77, kind)
    assert answer.is_answer
    assert (answer.remark or "") == remark
    assert (answer.fields_as_texts(), bytes(answer.body)) == (fields, body)


def of_json(header: object) -> Command:
    return decode_command(Frame(JSON, json.dumps(header).encode(), memoryview(b"")))


def test_texts_numbers_and_truth_values_are_taken() -> None:
    """Java sends texts only, C++ numbers, Node numbers and truth values."""
    texts = {
        "a": "g",
        "b": "t",
        "c": "TBW102",
        "d": "4",
        "e": "1",
        "f": "0",
        "g": "1700",
        "h": "0",
        "k": "false",
    }
    numbers = texts | {"d": 4, "e": 1, "f": 0, "g": 1700, "h": 0, "k": False}
    wanted = SendHeaderV2("g", "t", "TBW102", 4, 1, 0, 1700, 0)
    for fields in (texts, numbers, texts | {"unknown": {"x": [1]}}):
        assert of_json({"code": 310, "extFields": fields}).fields_as(SendHeaderV2) == wanted


def test_names_are_those_of_the_wire() -> None:
    """Camel case, but for clientID and the letters of V2."""
    pull = {
        "consumerGroup": "g",
        "topic": "t",
        "queueId": "0",
        "queueOffset": "7",
        "maxMsgNums": "32",
        "sysFlag": "2",
    }
    pull |= {"commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "9", "expressionType": "TAG"}
    found = of_json({"code": 11, "extFields": pull}).fields_as(PullHeader)
    assert (found.queue_offset, found.suspend_timeout_millis, found.sub_version) == (7, 15000, 9)
    leaving = of_json({"code": 35, "extFields": {"clientID": "c", "producerGroup": ""}}).fields_as(
        UnregisterHeader
    )
    assert leaving == UnregisterHeader("c", "", None)
    names = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag")
    values = dict.fromkeys((*names, "bornTimestamp", "flag"), "1")
    assert of_json({"code": 10, "extFields": values}).fields_as(SendHeader).born_timestamp == 1


@pytest.mark.parametrize(
    "fields", [None, {}, {"topic": "t"}, {"topic": "t", "queueId": "x"}, {"topic": 1, "queueId": 2}, [1]]
)
def test_fields_that_cannot_be_read_are_a_typed_error(fields: object) -> None:
    """Missing, mistyped, and no object at all."""
    with pytest.raises(FieldsIllegal) as caught:
        of_json({"code": 30, "extFields": fields}).fields_as(QueueHeader)
    assert caught.value.code == 30


@pytest.mark.parametrize("kind", [2, 7, 255])
def test_an_unknown_kind_of_header_is_refused(kind: int) -> None:
    """The peer may speak another protocol."""
    with pytest.raises(HeaderIllegal, match=f"type is {kind}"):
        decode_command(Frame(kind, b"{}", memoryview(b"")))


def test_a_code_that_does_not_fit_is_refused() -> None:
    """POP's codes go as JSON only."""
    assert decoded(encode_request(200_050, 1)).code == 200_050
    with pytest.raises(HeaderIllegal, match="does not fit"):
        encode_request(200_050, 1, serialization=ROCKETMQ)


@pytest.mark.slow
@given(st.data(), KINDS)
def test_mutilated_headers_raise_nothing_else(data: st.DataObject, kind: int) -> None:
    """Bytes that are changed, cut off or added: a command, or a typed error."""
    (frame,) = FrameReader().feed(encode_request(310, 5, {"b": "orders", "e": "1"}, serialization=kind))
    header = bytearray(frame.header)
    for _ in range(data.draw(st.integers(0, 4))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    stop = data.draw(st.integers(0, len(header)))
    mutilated = bytes(header[:stop]) + data.draw(st.binary(max_size=8))
    try:
        command = decode_command(Frame(kind, mutilated, memoryview(b"")))
        command.fields_as(SendHeaderV2)
    except RemotingIllegal:
        pass


def test_a_header_that_is_nested_deep_is_refused() -> None:
    """No recursion without a limit."""
    nested = b'{"code":1,"extFields":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(RemotingIllegal):
        decode_command(Frame(JSON, nested, memoryview(b""))).fields_as(QueueHeader)
