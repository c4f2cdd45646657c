"""The server as a whole: hostile streams, limits, and a stop that answers what it has taken."""

import json
import random
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mqstore import MessageStore, StoreConfig
from mqstore.remoting import frame
from mqstore.remoting.command import ROCKETMQ, encode_request
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server import connection
from mqstore.server.broker_server import BrokerServer
from mqstore.server.serving import running
from mqstore.server.settings import ServerSettings
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, consumer_heartbeat, pull_fields, send_fields

SETTINGS = ServerSettings(address="127.0.0.1:0")
MAX = {"topic": "orders", "queueId": 0}


def test_an_unknown_code_is_answered_as_by_rocketmq(client: WireClient) -> None:
    """With code 3, and the connection goes on."""
    answer = client.ask(999)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "request type 999 not supported" in (answer.remark or "")
    assert client.ask(Code.GET_MAX_OFFSET, MAX).code == ResponseCode.SUCCESS


def test_both_kinds_of_header_are_served(served: BrokerServer) -> None:
    """The answer has the kind of its request."""
    with WireClient(served.address, serialization=ROCKETMQ) as client:
        answer = client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
        assert (answer.serialization, answer.code) == (ROCKETMQ, ResponseCode.SUCCESS)
        assert client.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "1"}


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">II", 0xFFFF_FFFF, 0),
        struct.pack(">II", 12, 100) + b"{}",
        struct.pack(">II", 6, 2) + b"{",
        struct.pack(">II", 6, 2) + b"[]",
        struct.pack(">II", 6, 9 << 24 | 2) + b"{}",
        struct.pack(">II", 6, 1 << 24 | 2) + b"{}",
        b"\0" * 100,
    ],
)
def test_a_stream_that_is_not_the_protocol_is_closed(
    client: WireClient, connect: Callable[[], WireClient], data: bytes
) -> None:
    """What came before it is answered, and no other connection notices."""
    hostile = connect()
    before = hostile.send(Code.GET_MAX_OFFSET, MAX)
    hostile.raw(data + bytes(64))
    assert hostile.answer_to(before).code == ResponseCode.SUCCESS
    hostile.await_close()
    assert client.ask(Code.GET_MAX_OFFSET, MAX).code == ResponseCode.SUCCESS


def test_thousands_of_mutilated_frames(served: BrokerServer, client: WireClient) -> None:
    """Each ends its connection or is answered; the server goes on, and keeps no connection."""
    chance = random.Random(1)
    good = encode_request(Code.SEND_MESSAGE_V2, 7, {name: str(v) for name, v in send_fields().items()}, b"x")
    host, _, port = served.address.rpartition(":")
    for _ in range(1_000):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with socket.create_connection((host, int(port))) as hostile:
            hostile.sendall(data[: chance.randrange(1, len(data) + 1)])
    while len(served.connections) > 1:
        client.ask(Code.GET_MAX_OFFSET, MAX)
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"y").code == ResponseCode.SUCCESS


def test_one_connection_more_than_allowed_is_closed(tmp_path: Path) -> None:
    """Those that are there go on; one that leaves makes room."""
    settings = replace(SETTINGS, max_connections=2)
    with running(tmp_path, settings=settings) as server, WireClient(server.address) as first:
        with WireClient(server.address) as second:
            for client in (first, second):
                assert client.ask(Code.GET_MAX_OFFSET, MAX).code == ResponseCode.SUCCESS
            with WireClient(server.address) as third:
                third.await_close()
        while len(server.connections) > 1:
            assert first.ask(Code.GET_MAX_OFFSET, MAX).code == ResponseCode.SUCCESS
        with WireClient(server.address) as fourth:
            assert fourth.ask(Code.GET_MAX_OFFSET, MAX).code == ResponseCode.SUCCESS


def test_one_held_pull_more_than_allowed_is_busy(tmp_path: Path) -> None:
    """The others wait on."""
    settings = replace(SETTINGS, max_held_pulls=3)
    with running(tmp_path, settings=settings) as server, WireClient(server.address) as client:
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
        waiting = [client.send(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=60_000)) for _ in range(3)]
        refused = client.ask(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=60_000))
        assert refused.code == ResponseCode.SYSTEM_BUSY
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"y")
        assert [client.answer_to(opaque).code for opaque in waiting] == [ResponseCode.SUCCESS] * 3


def test_names_that_clients_make_are_limited(tmp_path: Path) -> None:
    """Topics and groups beyond the limit are refused; those that exist are served."""
    settings = replace(SETTINGS, max_names=4)
    with running(tmp_path, settings=settings) as server, WireClient(server.address) as client:
        codes = [client.ask(Code.SEND_MESSAGE_V2, send_fields(f"t{n}"), b"x").code for n in range(9)]
        assert codes[0] == ResponseCode.SUCCESS
        assert codes[-1] == ResponseCode.TOPIC_NOT_EXIST
        assert client.ask(Code.SEND_MESSAGE_V2, send_fields("t0"), b"x").code == ResponseCode.SUCCESS
        for number in range(9):
            client.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me", f"g{number}"))
        groups = json.loads(bytes(client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body))
        assert len(groups["subscriptionGroupTable"]) == 4


def test_no_request_makes_a_group_beyond_the_limit(tmp_path: Path) -> None:
    """A pull, a committed offset and a message sent back name groups, too."""
    settings = replace(SETTINGS, max_names=6)
    with running(tmp_path, settings=settings) as server, WireClient(server.address) as client:
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
        place = {"topic": "orders", "queueId": "0"}
        for number in range(9):
            group = f"g{number}"
            client.ask(Code.PULL_MESSAGE, {**pull_fields(), "consumerGroup": f"p{group}"})
            commit = {"consumerGroup": f"c{group}", "commitOffset": "0", **place}
            committed = client.ask(Code.UPDATE_CONSUMER_OFFSET, commit)
            sent_back = client.ask(
                Code.CONSUMER_SEND_MSG_BACK, {"group": f"b{group}", "offset": "0", "delayLevel": "1"}
            )
        assert committed.code == sent_back.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        groups = json.loads(bytes(client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body))
        assert len(groups["subscriptionGroupTable"]) == 6


def test_the_groups_of_a_connection_are_limited(tmp_path: Path) -> None:
    """Those that it is in go on; when it closes, it leaves them all."""
    settings = replace(SETTINGS, max_memberships=3)
    with running(tmp_path, settings=settings) as server, WireClient(server.address) as client:
        with WireClient(server.address) as greedy:
            for name in ("g0", "g1", "g2", "g3", "g0"):
                greedy.ask(Code.HEART_BEAT, {}, consumer_heartbeat("me", name))
            codes = [
                client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": name}).code
                for name in ("g0", "g1", "g2", "g3")
            ]
            assert codes == [ResponseCode.SUCCESS] * 3 + [ResponseCode.SYSTEM_ERROR]
        while len(server.connections) > 1:
            client.ask(Code.GET_MAX_OFFSET, MAX)
        gone = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g0"})
        assert gone.code == ResponseCode.SYSTEM_ERROR


def test_a_client_that_does_not_read_waits(tmp_path: Path) -> None:
    """Its requests are left where they are; others are served; and when it reads, all is answered."""
    with running(tmp_path) as server, WireClient(server.address) as client:
        for _ in range(8):
            client.ask(Code.SEND_MESSAGE_V2, send_fields(), bytes(30_000))
        with WireClient(server.address) as slow:
            opaques = [slow.send(Code.PULL_MESSAGE, pull_fields()) for _ in range(500)]
            while not any(connection.is_paused for connection in server.connections):
                assert client.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "8"}
            assert all(connection.unsent_bytes < 8 << 20 for connection in server.connections)
            for opaque in opaques:
                assert len(slow.answer_to(opaque).body) > 8 * 30_000


def test_a_client_for_which_answers_pile_up_is_cut_off(tmp_path: Path) -> None:
    """Many pulls of one client wait for the same message: no memory is spent on what it does not read."""
    settings = replace(SETTINGS, max_unsent_bytes=1 << 20)
    with running(tmp_path, settings=settings) as server, WireClient(server.address) as client:
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
        with WireClient(server.address) as greedy:
            for _ in range(100):
                greedy.send(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=60_000))
            greedy.ask(Code.GET_MAX_OFFSET, MAX)
            client.ask(Code.SEND_MESSAGE_V2, send_fields(), bytes(1_000_000))
            while len(server.connections) > 1:
                client.ask(Code.GET_MAX_OFFSET, MAX)
        assert client.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "2"}


def test_a_stop_answers_the_pulls_that_wait(tmp_path: Path) -> None:
    """As nothing found; then the connection is closed, and the port is free."""
    with running(tmp_path) as server:
        client = WireClient(server.address)
        client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
        waiting = client.send(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=60_000))
        client.ask(Code.GET_MAX_OFFSET, MAX)
    assert client.answer_to(waiting).code == ResponseCode.PULL_NOT_FOUND
    client.await_close()
    client.close()
    with (
        running(tmp_path, port=int(server.address.rpartition(":")[2])) as again,
        WireClient(again.address) as other,
    ):
        assert other.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("flush_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_stop_in_the_midst_of_sends_loses_nothing(tmp_path: Path, flush_type: str) -> None:
    """What was answered SUCCESS is there; what came too late is told so, or not answered at all."""
    stored: list[int] = []
    refused: set[int] = set()
    has_begun = threading.Event()

    def flood(address: str) -> None:
        with WireClient(address) as client:
            number = 0
            try:
                while True:
                    opaques = [
                        client.send(Code.SEND_MESSAGE_V2, send_fields(), b"%d" % (number + at))
                        for at in range(20)
                    ]
                    for at, opaque in enumerate(opaques):
                        answer = client.answer_to(opaque)
                        if answer.code == ResponseCode.SUCCESS:
                            stored.append(number + at)
                        else:
                            refused.add(answer.code)
                    number += 20
                    if number >= 1_000:
                        has_begun.set()
            except ConnectionError:
                has_begun.set()

    with running(tmp_path, StoreConfig(flush_disk_type=flush_type)) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=flood, args=(server.address,))
        thread.start()
        has_begun.wait()
    thread.join()
    assert refused <= {ResponseCode.GO_AWAY, ResponseCode.SERVICE_NOT_AVAILABLE}
    with MessageStore.open(tmp_path, read_only=True) as store:
        kept, offset = [], 0
        while found := store.get_message("test", "orders", 0, offset).messages:
            kept += [int(message.body) for message in found]
            offset += len(found)
    assert len(stored) >= 1_000
    assert set(stored) <= set(kept)
    assert len(kept) == len(set(kept))


def test_a_pull_that_waits_keeps_nothing_that_came_with_it(client: WireClient) -> None:
    """Each pull comes in one read with much else: thousands wait, and only they stay in memory."""
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x").code == ResponseCode.SUCCESS
    fields = {name: str(value) for name, value in pull_fields(offset=1, suspend_ms=600_000).items()}
    size, count = 100_000, 100
    other = encode_request(9_999, 1, {}, bytes(size), is_one_way=True)
    tracemalloc.start()
    try:
        for opaque in range(1_000, 1_000 + count):
            client.raw(encode_request(Code.PULL_MESSAGE, opaque, fields) + other)
        client.ask(Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
        reads = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, module.__file__) for module in (connection, frame)]
        )
        kept = sum(read.size for read in reads.statistics("filename"))
        assert kept < count * size // 4
    finally:
        tracemalloc.stop()
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"for all").code == ResponseCode.SUCCESS
    for opaque in range(1_000, 1_000 + count):
        assert client.answer_to(opaque).code == ResponseCode.SUCCESS
