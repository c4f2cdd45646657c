"""Members: a broker hears of each client by a heartbeat on its own connection, and again after a loss."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from mqstore.broker.broker import ConsumerData, MessageModel
from mqstore.client.errors import BrokerRefused
from mqstore.client.remote import members as members_module
from mqstore.client.remote.channel import Channel
from mqstore.client.remote.connection import Connection
from mqstore.client.remote.members import Members
from mqstore.client.remote.stream import UNGUARDED
from mqstore.remoting.command import Command, encode_request
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.clock import SystemClock
from support.server.scripted_peer import ScriptedPeer, answering

PATIENCE_S = 30.0
DATA = ConsumerData(MessageModel.CLUSTERING, {"orders": "paid || created", "%RETRY%billing": "*"})


@pytest.fixture
def peer() -> Iterator[ScriptedPeer]:
    with ScriptedPeer(answering()) as peer:
        yield peer


@pytest.fixture
def members(peer: ScriptedPeer) -> Iterator[Members]:
    def open_channel(client_id: str, on_request: Callable[[Connection, Command], None]) -> Channel:
        return Channel(client_id, lambda _: peer.address, UNGUARDED, on_request=on_request, is_kept=True)

    members = Members(open_channel, SystemClock(), timeout_ms=10_000)
    yield members
    members.close()


def told(peer: ScriptedPeer, code: int) -> list[Command]:
    return [request for request in peer.requests if request.code == code]


def eventually(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.001)


def test_a_heartbeat_tells_what_rocketmqs_clients_tell(peer: ScriptedPeer, members: Members) -> None:
    members.add_consumer("billing", "me", DATA, lambda: None)
    [heartbeat] = told(peer, Code.HEART_BEAT)
    body = msgspec.json.decode(heartbeat.body)
    assert body["clientID"] == "me"
    assert body["producerDataSet"] == []
    [consumer] = body["consumerDataSet"]
    assert (consumer["groupName"], consumer["messageModel"]) == ("billing", "CLUSTERING")
    assert (consumer["consumeType"], consumer["unitMode"]) == ("CONSUME_PASSIVELY", False)
    orders, retries = consumer["subscriptionDataSet"]
    assert (orders["topic"], orders["subString"], orders["expressionType"]) == (
        "orders",
        "paid || created",
        "TAG",
    )
    assert orders["tagsSet"] == ["created", "paid"]
    assert len(orders["codeSet"]) == 2
    assert (retries["topic"], retries["subString"], retries["tagsSet"]) == ("%RETRY%billing", "*", [])
    assert orders["subVersion"] > 1_600_000_000_000


def test_each_client_has_a_connection(peer: ScriptedPeer, members: Members) -> None:
    """All its groups share it; it is closed with the last of them."""
    members.add_consumer("billing", "me", DATA, lambda: None)
    members.add_producer("booking", "me", lambda *_: None)
    members.add_receiver("me", lambda _: None)
    members.add_consumer("billing", "other", DATA, lambda: None)
    assert peer.connections == 2
    groups = [
        {each["groupName"] for each in msgspec.json.decode(beat.body)["producerDataSet"]}
        for beat in told(peer, Code.HEART_BEAT)
    ]
    assert groups == [set(), {"booking"}, {"booking", "CLIENT_INNER_PRODUCER"}, set()]
    members.remove_consumer("billing", "me")
    members.remove_producer("booking", "me")
    members.remove_receiver("me")
    left = [request.fields_as_texts() for request in told(peer, Code.UNREGISTER_CLIENT)]
    assert left == [
        {"clientID": "me", "consumerGroup": "billing"},
        {"clientID": "me", "producerGroup": "booking"},
        {"clientID": "me", "producerGroup": "CLIENT_INNER_PRODUCER"},
    ]
    assert repr(members) == "Members(['other'])"


def test_who_is_no_member_leaves_without_a_word(peer: ScriptedPeer, members: Members) -> None:
    members.remove_consumer("billing", "me")
    members.remove_producer("booking", "me")
    members.remove_receiver("me")
    assert peer.connections == 0


def test_a_notification_reaches_its_group(peer: ScriptedPeer, members: Members) -> None:
    mine, other = threading.Event(), threading.Event()
    members.add_consumer("shipping", "me", DATA, other.set)
    members.add_consumer("billing", "me", DATA, mine.set)
    notice = encode_request(
        Code.NOTIFY_CONSUMER_IDS_CHANGED, 1, {"consumerGroup": "billing"}, is_one_way=True
    )
    peer.send(notice)
    assert mine.wait(PATIENCE_S)
    assert not other.is_set()


def test_what_is_unknown_is_answered(peer: ScriptedPeer, members: Members) -> None:
    """As RocketMQ's clients answer: with code 3. A broker that waits for it goes on."""
    members.add_consumer("billing", "me", DATA, lambda: None)
    peer.send(encode_request(Code.GET_CONSUMER_RUNNING_INFO, 77))
    eventually(lambda: peer.requests[-1].is_answer)
    assert (peer.requests[-1].opaque, peer.requests[-1].code) == (77, 3)


def test_a_lost_connection_is_made_again_and_members_look_again(peer: ScriptedPeer, members: Members) -> None:
    """The broker has dropped the client meanwhile: its groups may have shared the queues anew."""
    changed = threading.Event()
    members.add_consumer("billing", "me", DATA, changed.set)
    members.look_after()
    assert len(told(peer, Code.HEART_BEAT)) == 1
    peer.hang_up()

    def is_back() -> bool:
        members.look_after()
        return changed.is_set()

    eventually(is_back)
    assert len(told(peer, Code.HEART_BEAT)) == 2
    assert peer.connections == 2


def test_a_broker_that_is_away_at_the_start_hears_of_it_later(peer: ScriptedPeer, members: Members) -> None:
    changed = threading.Event()
    port = int(peer.address.rpartition(":")[2])
    peer.close()
    members.add_consumer("billing", "me", DATA, changed.set)
    members.look_after()
    assert not changed.is_set()
    with ScriptedPeer(answering(), port) as back:

        def is_back() -> bool:
            members.look_after()
            return changed.is_set()

        eventually(is_back)
        assert len(told(back, Code.HEART_BEAT)) == 1


def test_heartbeats_come_again(peer: ScriptedPeer, members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    members.add_consumer("billing", "me", DATA, lambda: None)
    monkeypatch.setattr(members_module, "_HEARTBEAT_PERIOD_S", 0.0)
    monkeypatch.setattr(members_module, "_LEAST_BETWEEN_TRIES_S", 0.0)
    members.look_after()
    members.look_after()
    assert len(told(peer, Code.HEART_BEAT)) == 3


def test_a_heartbeat_that_is_refused(peer: ScriptedPeer, members: Members) -> None:
    """A consumer tries again, and is told nothing; who waits for replies must know."""
    peer.script = answering(1, "not here")
    members.add_consumer("billing", "me", DATA, lambda: None)
    with pytest.raises(BrokerRefused, match="not here"):
        members.add_receiver("me", lambda _: None)
    members.look_after()


def test_a_broker_that_ends_each_connection_is_not_connected_to_without_end(
    peer: ScriptedPeer, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy whose broker is away does so: the loss of a connection wakes who looks after it, at once."""
    monkeypatch.setattr(members_module, "_LEAST_BETWEEN_TRIES_S", 3600.0)
    peer.script = lambda connection, _: connection.shutdown(socket.SHUT_RDWR)
    members.add_consumer("billing", "me", DATA, lambda: None)
    for _ in range(5):
        members.look_after()
    assert peer.connections == 1
    monkeypatch.setattr(members_module, "_LEAST_BETWEEN_TRIES_S", 0.0)
    members.look_after()
    assert peer.connections == 2


def test_who_comes_after_the_close_makes_no_connection(peer: ScriptedPeer, members: Members) -> None:
    """Nobody would end it."""
    members.close()
    members.add_consumer("billing", "me", DATA, lambda: None)
    assert peer.connections == 0
