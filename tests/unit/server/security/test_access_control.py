"""Access control: signed requests of known keys pass, all others are refused before anything is done."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.client import BrokerRefused, Credentials, Producer, RemoteBroker
from mqstore.remoting.command import JSON, ROCKETMQ, Command, decode_command, encode_request
from mqstore.remoting.frame import FrameReader
from mqstore.server import ServerSettings, running
from mqstore.server.security.access_control import AccessControl, AccessRefused, checked_keys
from mqstore.store.errors import ConfigIllegal
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, send_fields

KEYS = {"web": "correct horse", "wörker": "größe"}
WEB = Credentials("web", "correct horse")
SETTINGS = ServerSettings(address="127.0.0.1:0", access_keys=KEYS)


def command(fields: dict[str, str], body: bytes = b"body", serialization: int = JSON) -> Command:
    [frame] = FrameReader().feed(encode_request(10, 1, fields, body, serialization=serialization))
    return decode_command(frame)


@pytest.mark.parametrize("serialization", [JSON, ROCKETMQ])
@pytest.mark.parametrize("key", KEYS)
def test_a_request_of_a_known_key(key: str, serialization: int) -> None:
    fields = Credentials(key, KEYS[key]).signed(
        {"topic": "orders", "queueId": "0", "i": "a\x01ü\x02"}, b"body"
    )
    AccessControl(KEYS).check(command(fields, serialization=serialization))


def test_values_that_are_no_texts_are_signed_as_their_json() -> None:
    """As C++ and Node do, which send numbers and truth values."""
    signed = Credentials("web", "correct horse").signed({"queueId": "7", "unitMode": "false"}, b"")
    text = (
        b'{"code":10,"opaque":1,"flag":0,"language":"CPP","version":63,"extFields":{"queueId":7,'
        b'"unitMode":false,"AccessKey":"web","Signature":"%b"}}' % signed["Signature"].encode()
    )
    frame = (4 + len(text)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text
    [found] = FrameReader().feed(frame)
    AccessControl(KEYS).check(decode_command(found))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"topic": "orders"},
        {"AccessKey": "web"},
        {"Signature": "x"},
        {"AccessKey": "", "Signature": ""},
        {"AccessKey": "web", "Signature": "x"},
        {"AccessKey": "web", "Signature": "ü"},
        Credentials("web", "wrong").signed({"topic": "orders"}, b"body"),
        Credentials("nobody", "no secret").signed({"topic": "orders"}, b"body"),
        Credentials("web", "correct horse").signed({"topic": "orders"}, b"another body"),
        {**Credentials("web", "correct horse").signed({"topic": "orders"}, b"body"), "topic": "others"},
        {**Credentials("web", "correct horse").signed({"topic": "orders"}, b"body"), "more": "1"},
    ],
)
def test_all_other_requests_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(AccessRefused) as refusal:
        AccessControl(KEYS).check(command(fields))
    assert refusal.value.response_code is ResponseCode.NO_PERMISSION
    assert not any(secret in str(refusal.value) for secret in KEYS.values())


def test_without_keys_nothing_is_checked() -> None:
    AccessControl({}).check(command({}))


def test_a_server_serves_only_who_can_sign(tmp_path: Path) -> None:
    """Of every kind of request; what was refused has left no trace."""
    with running(tmp_path, settings=SETTINGS) as server:
        with WireClient(server.address) as stranger:
            for code in server.dispatch.table:
                answer = stranger.ask(code, send_fields() | {"topic": "orders"}, b"x")
                assert answer.code == ResponseCode.NO_PERMISSION
        with pytest.raises(BrokerRefused, match="not signed"):
            RemoteBroker(server.address)
        with pytest.raises(BrokerRefused, match="not known"):
            RemoteBroker(server.address, credentials=WEB._replace(secret_key="wrong"))
        with RemoteBroker(server.address, credentials=WEB) as broker, Producer(broker, "p") as producer:
            assert producer.send(Message("orders", b"signed")).queue_offset == 0
    with MessageStore.open(tmp_path, read_only=True) as store:
        assert store.stats().messages == 1


def test_what_stands_in_a_log_shows_no_secret() -> None:
    shown = repr((SETTINGS, WEB, AccessControl(KEYS), replace(SETTINGS, broker_name="b")))
    assert not any(secret in shown for secret in KEYS.values())


def test_keys_of_a_file() -> None:
    assert checked_keys(KEYS, "keys.toml") == KEYS


@pytest.mark.parametrize("given", [{}, {"web": 1}, {"web": ""}, {"": "x"}, {"web": {"a": 1}}])
def test_files_that_hold_no_keys(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigIllegal, match=r"keys\.toml"):
        checked_keys(given, "keys.toml")


def test_an_ordinary_put_needs_no_key(tmp_path: Path) -> None:
    """Keys are of the port: whoever has the directory open is in."""
    with MessageStore.open(tmp_path, StoreConfig()) as store:
        store.put_message(Message("orders", b"x"))
