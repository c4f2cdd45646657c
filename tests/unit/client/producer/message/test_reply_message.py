"""Requests and replies as messages. Rows properties and reply of docs/spec/client_produce.md section 6."""

from pathlib import Path

import pytest

from mqstore import Message, StoredMessage
from mqstore.client.errors import ClientErrorCode, ReplyNotCreated
from mqstore.client.producer.message.body_compression import BodyCompression
from mqstore.client.producer.message.reply_message import (
    create_reply_message,
    is_reply,
    received_reply,
    request_of,
)
from mqstore.store.errors import CorruptBody
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore, messages_of

PROPERTIES = {"CLUSTER": "c1", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "client", "TTL": "3000"}


def stored(properties: dict[str, str]) -> StoredMessage:
    """A message as a consumer gets it."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    with small.open() as store:
        store.put_message(Message("orders", b"ping", properties=properties))
        (message,) = messages_of(store, "orders")
        return StoredMessage.of(memoryview(bytes(message.record)))


def test_the_properties_of_a_request() -> None:
    """CORRELATION_ID (new), REPLY_TO_CLIENT (client id), TTL (the timeout in ms); the others stay."""
    message = Message("orders", b"ping", properties={"color": "red"})
    first, first_id = request_of(message, "client", 3_000)
    second, second_id = request_of(message, "client", 3_000)
    assert first.properties == {
        "color": "red",
        "CORRELATION_ID": first_id,
        "REPLY_TO_CLIENT": "client",
        "TTL": "3000",
    }
    assert first_id != second_id
    assert second.properties["CORRELATION_ID"] == second_id
    assert message.properties == {"color": "red"}


def test_the_reply_to_a_request() -> None:
    """Topic `<cluster>_REPLY_TOPIC`, the same CORRELATION_ID, TTL and client, MSG_TYPE reply."""
    reply = create_reply_message(stored(PROPERTIES), b"pong")
    assert (reply.topic, reply.body) == ("c1_REPLY_TOPIC", b"pong")
    assert reply.properties == {
        "CORRELATION_ID": "7",
        "REPLY_TO_CLIENT": "client",
        "TTL": "3000",
        "MSG_TYPE": "reply",
    }
    assert is_reply(reply)
    assert not is_reply(Message("orders", b"x"))


@pytest.mark.parametrize("missing", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"])
def test_a_message_that_is_no_request(missing: str) -> None:
    """A request without CLUSTER: 10007; and so is one that says not whose it is."""
    properties = {name: value for name, value in PROPERTIES.items() if name != missing}
    with pytest.raises(ReplyNotCreated, match=f"no property {missing}") as caught:
        create_reply_message(stored(properties), b"pong")
    assert caught.value.code == ClientErrorCode.CREATE_REPLY_MESSAGE_EXCEPTION


def test_a_compressed_reply_is_decompressed() -> None:
    """The receiver sees the body as it was given, and when it arrived."""
    body, sys_flag = BodyCompression("ZSTD", 5, 1).compress(bytes(9_000), 0x8)
    received = received_reply(Message("c1_REPLY_TOPIC", body, sys_flag=sys_flag), 1_234)
    assert (received.body, received.sys_flag) == (bytes(9_000), 0x8)
    assert received.properties == {"ARRIVE_TIME": "1234"}


def test_a_reply_whose_body_is_wrong() -> None:
    """It is an error of the receiver's."""
    with pytest.raises(CorruptBody):
        received_reply(Message("c1_REPLY_TOPIC", b"no frame", sys_flag=0x101), 0)
