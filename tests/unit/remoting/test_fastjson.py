"""RocketMQ's JSON: keys that are numbers or objects, as fastjson writes them; bad texts are a typed error."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.remoting.bodies import QueueName
from mqstore.remoting.errors import BodyIllegal
from mqstore.remoting.fastjson import MAX_DEPTH, decode, encode

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8"), max_size=12)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_standard_json_is_json(value: Any) -> None:
    """Where all keys are texts, both ways agree with the standard library."""
    assert json.loads(encode(value)) == value
    assert decode(json.dumps(value).encode()) == value
    assert decode(encode(value)) == value


def test_numbers_and_structs_are_keys() -> None:
    """As Java's maps are written; the example is a broker's answer to topicStatus."""

    class Offset(msgspec.Struct, rename="camel"):
        max_offset: int

    table = {QueueName("broker-a", 0, "orders"): Offset(7), QueueName("broker-a", 1, "orders"): Offset(0)}
    text = encode({"offsetTable": table, "ids": {0: "127.0.0.1:10911"}})
    assert text == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:{"maxOffset":7},'
        b'{"brokerName":"broker-a","queueId":1,"topic":"orders"}:{"maxOffset":0}},"ids":{0:"127.0.0.1:10911"}}'
    )
    found = decode(text)
    assert found["ids"] == {"0": "127.0.0.1:10911"}
    assert [json.loads(key)["queueId"] for key in found["offsetTable"]] == [0, 1]


@given(st.text('{}[]":,0123456789.eE+-truefalsn\\ux \n', max_size=60) | st.binary(max_size=60).map(repr))
def test_any_text_is_a_value_or_a_typed_error(text: str) -> None:
    """What JSON takes is taken, too, and gives the same."""
    try:
        found = decode(text.encode())
    except BodyIllegal:
        with pytest.raises((msgspec.MsgspecError, ValueError)):
            msgspec.json.decode(text.encode())
        return
    try:
        wanted = msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, ValueError):
        return
    assert found == wanted


@pytest.mark.parametrize("opening", ["[", '{"a":', '{{"a":1}:', "{"])
def test_depth_is_limited(opening: str) -> None:
    """A peer cannot exhaust the stack."""
    with pytest.raises(BodyIllegal):
        decode((opening * 100_000).encode())
    assert decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def test_bytes_that_are_no_text_are_refused() -> None:
    """UTF-8 alone is read."""
    with pytest.raises(BodyIllegal):
        decode(b'"\xff"')
