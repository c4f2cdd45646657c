"""Name servers: one that answers is enough, and both dialects of their JSON are read."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from mqstore.client.errors import BrokerNotConnected, BrokerRefused, NoBroker
from mqstore.client.remote.name_servers import NameServers
from mqstore.client.remote.stream import UNGUARDED
from mqstore.remoting.errors import BodyIllegal
from support.server.scripted_peer import ScriptedPeer, answering

TIMEOUT_MS = 10_000
# As RocketMQ's name server writes it to clients of every version: keys are numbers.
CLUSTER = (
    b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},'
    b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}},'
    b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
)
ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"c"}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
    b'"topicSysFlag":0,"writeQueueNums":8}]}'
)


@pytest.fixture
def away() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def peer() -> Iterator[ScriptedPeer]:
    with ScriptedPeer(answering(body=CLUSTER)) as peer:
        yield peer


def test_addresses_have_a_port() -> None:
    names = NameServers(" one ;two:1234, 10.0.0.3;", UNGUARDED, TIMEOUT_MS)
    assert names.addresses == ["one:9876", "two:1234", "10.0.0.3:9876"]


@pytest.mark.parametrize("addresses", ["", " ; ,"])
def test_no_address(addresses: str) -> None:
    with pytest.raises(NoBroker):
        NameServers(addresses, UNGUARDED, TIMEOUT_MS)


def test_brokers_and_their_addresses(peer: ScriptedPeer) -> None:
    with closing(NameServers(peer.address, UNGUARDED, TIMEOUT_MS)) as names:
        brokers = names.brokers().broker_addr_table
    assert brokers["broker-a"].broker_addrs == {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"}


def test_the_route_of_a_topic(peer: ScriptedPeer) -> None:
    peer.script = answering(body=ROUTE)
    with closing(NameServers(peer.address, UNGUARDED, TIMEOUT_MS)) as names:
        route = names.route("orders")
    assert route is not None
    [queues] = route.queue_datas
    assert (queues.perm, queues.read_queue_nums, queues.write_queue_nums) == (6, 4, 8)
    assert peer.requests[0].fields_as_texts()["topic"] == "orders"


def test_a_topic_that_is_not_there(peer: ScriptedPeer) -> None:
    peer.script = answering(17, "No topic route info in name server for the topic: orders")
    with closing(NameServers(peer.address, UNGUARDED, TIMEOUT_MS)) as names:
        assert names.route("orders") is None


def test_another_one_is_asked(peer: ScriptedPeer, away: str) -> None:
    """And stays the first to be asked."""
    with closing(NameServers(f"{away};{peer.address}", UNGUARDED, TIMEOUT_MS)) as names:
        for _ in range(3):
            assert names.brokers().broker_addr_table
    assert len(peer.requests) == 3


def test_none_answers(away: str) -> None:
    with (
        closing(NameServers(f"{away};{away}", UNGUARDED, TIMEOUT_MS)) as names,
        pytest.raises(BrokerNotConnected),
    ):
        names.brokers()


def test_an_answer_that_is_an_error(peer: ScriptedPeer) -> None:
    peer.script = answering(1, "too early")
    with (
        closing(NameServers(peer.address, UNGUARDED, TIMEOUT_MS)) as names,
        pytest.raises(BrokerRefused, match="too early"),
    ):
        names.brokers()


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"brokerAddrTable":{"a":1}}', b"\xff"])
def test_a_body_that_is_none(peer: ScriptedPeer, body: bytes) -> None:
    peer.script = answering(body=body)
    with closing(NameServers(peer.address, UNGUARDED, TIMEOUT_MS)) as names, pytest.raises(BodyIllegal):
        names.brokers()
