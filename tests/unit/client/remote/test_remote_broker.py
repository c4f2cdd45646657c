"""The remote broker: finding it, losing it, several of them. Its answers: tests/contract/test_broker.py."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mqstore import Message, StoreConfig
from mqstore.broker.broker import BrokerClosed, ConsumerData, MessageModel, PullRequest
from mqstore.client import (
    BrokerNotConnected,
    BrokerNotExist,
    BrokerTimedOut,
    ConsumeFromWhere,
    ConsumerSettings,
    Producer,
    ProducerSettings,
    PushConsumer,
    RemoteBroker,
    SendStatus,
)
from mqstore.client.remote import members as members_module
from mqstore.client.remote import remote_broker as remote_broker_module
from mqstore.client.remote.channel import Channel
from mqstore.client.remote.name_servers import NameServers
from mqstore.client.remote.stream import UNGUARDED
from mqstore.remoting.command import Command, encode_answer
from mqstore.remoting.request_codes import RequestCode
from mqstore.server import ServerSettings, running
from mqstore.server.broker_server import BrokerServer
from mqstore.store.errors import ConfigIllegal, StoreError
from support.server.scripted_peer import ScriptedPeer, answering

CONFIG = StoreConfig(
    mapped_file_size_commit_log=8 << 20,
    max_message_size=1 << 20,
    reserve_window_commit_log=1 << 20,
    message_delay_level="1s 1s 1s 1s",
)
PATIENCE_S = 60.0
FROM_FIRST = ConsumerSettings(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BrokerServer]:
    with running(tmp_path / "store", CONFIG) as server:
        yield server


def eventually(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def remote_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if "remote" in thread.name}


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerNotConnected, match=str(port)):
        RemoteBroker(f"127.0.0.1:{port}")
    eventually(lambda: remote_threads() == set())


def test_a_broker_of_another_name(server: BrokerServer) -> None:
    with pytest.raises(BrokerNotExist, match="broker-a") as refusal:
        RemoteBroker(server.address, "broker-b")
    assert refusal.value.known == ("broker-a",)


def test_several_brokers_must_be_named() -> None:
    """Or all are taken."""
    cluster = (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"127.0.0.1:1"},"brokerName":"b","cluster":"c"},'
        b'"a":{"brokerAddrs":{0:"127.0.0.1:2"},"brokerName":"a","cluster":"c"}},"clusterAddrTable":{}}'
    )
    with ScriptedPeer(answering(body=cluster)) as peer, ExitStack() as brokers:
        with pytest.raises(BrokerNotExist) as refusal:
            RemoteBroker(peer.address)
        assert refusal.value.known == ("a", "b")
        found = [brokers.enter_context(broker) for broker in RemoteBroker.all_of(peer.address)]
        assert [broker.name for broker in found] == ["a", "b"]
    eventually(lambda: remote_threads() == set())


def test_a_cluster_without_brokers() -> None:
    with ScriptedPeer(answering(body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')) as peer:
        with pytest.raises(BrokerNotExist):
            RemoteBroker(peer.address)
        with pytest.raises(BrokerNotExist):
            RemoteBroker.all_of(peer.address)


def test_it_leaves_no_thread_behind(server: BrokerServer) -> None:
    with RemoteBroker(server.address) as broker:
        broker.send(Message("orders", b"first"), timeout_ms=10_000)
        assert remote_threads()
        broker.close()
    eventually(lambda: remote_threads() == set())


def test_routes_are_remembered_while_no_name_server_answers(tmp_path: Path) -> None:
    with ExitStack() as stack:
        served = stack.enter_context(running(tmp_path, CONFIG))
        with RemoteBroker(served.address) as broker:
            broker.send(Message("orders", b"first"), timeout_ms=10_000)
            route = broker.topic_route("orders")
            assert route is not None
            assert broker.topic_route("nowhere") is None
            stack.close()
            eventually(lambda: not broker._channel.is_connected)
            assert broker.topic_route("orders") == route
            assert broker.topic_route("nowhere") is None
            with pytest.raises(BrokerNotConnected):
                broker.topic_route("never asked")


@pytest.mark.slow
def test_a_name_server_that_hangs_takes_no_send_its_time(server: BrokerServer) -> None:
    """The route is known, though too old, and the broker is there."""
    with RemoteBroker(server.address) as broker:
        settings = ProducerSettings(poll_name_server_interval=1_000, send_msg_timeout=2_500)
        with Producer(broker, "producers", settings) as producer, ScriptedPeer(lambda *_: None) as silent:
            producer.send(Message("orders", b"first"))
            broker._names.close()
            broker._names = NameServers(silent.address, UNGUARDED, 5_000)
            time.sleep(1.1)
            assert producer.send(Message("orders", b"second")).send_status is SendStatus.SEND_OK


@pytest.mark.slow
def test_consumers_go_on_when_the_server_is_back(tmp_path: Path) -> None:
    """It is stopped and started again on its port and directory: each message comes once, in the end."""
    seen: list[bytes] = []
    with ExitStack() as stack, ExitStack() as first_life:
        served = first_life.enter_context(running(tmp_path, CONFIG))
        port = int(served.address.rpartition(":")[2])
        broker = stack.enter_context(RemoteBroker(served.address))
        producer = stack.enter_context(Producer(broker, "producers"))
        consumer = stack.enter_context(PushConsumer(broker, "billing", FROM_FIRST))
        consumer.subscribe("orders")

        @consumer.listener
        def collect(messages: list[object], _context: object) -> None:
            seen.extend(message.body for message in messages)  # type: ignore[attr-defined]

        producer.send(Message("orders", b"before"))
        consumer.start()
        eventually(lambda: seen == [b"before"])
        first_life.close()
        with pytest.raises(StoreError):
            producer.send(Message("orders", b"meanwhile"))
        with running(tmp_path, CONFIG, port=port):
            eventually(lambda: _is_sent(producer, b"after"))
            eventually(lambda: seen == [b"before", b"after"])
            stack.close()


def _is_sent(producer: Producer, body: bytes) -> bool:
    with suppress(StoreError):
        return producer.send(Message("orders", body)).send_status is SendStatus.SEND_OK
    return False


def test_a_producer_tries_another_broker(tmp_path: Path) -> None:
    """Of two servers one goes away: every send is stored by the other."""
    with ExitStack() as both, ExitStack() as second:
        brokers = []
        for name, stack in (("a", both), ("b", second)):
            settings = ServerSettings(address="127.0.0.1:0", broker_name=name)
            served = stack.enter_context(running(tmp_path / name, CONFIG, settings=settings))
            brokers.append(both.enter_context(RemoteBroker(served.address)))
        with Producer(brokers, "producers") as producer:
            asked = {producer.send(Message("orders", b"x")).message_queue.broker_name for _ in range(20)}
            assert asked == {"a", "b"}
            second.close()
            asked = {producer.send(Message("orders", b"y")).message_queue.broker_name for _ in range(20)}
            assert asked == {"a"}
            sent = [producer.send_async(Message("orders", b"z")) for _ in range(20)]
            assert {future.result(PATIENCE_S).message_queue.broker_name for future in sent} == {"a"}


def test_a_batch_that_is_too_long_for_a_frame(server: BrokerServer) -> None:
    settings = ProducerSettings(max_message_size=64 << 20)
    with RemoteBroker(server.address) as broker, Producer(broker, "producers", settings) as producer:
        with pytest.raises(StoreError, match="smaller body"):
            producer.send_batch([Message("orders", bytes(9 << 20))] * 2)
        assert producer.send(Message("orders", b"x")).send_status is SendStatus.SEND_OK


def test_a_forked_child_keeps_off_the_connections(server: BrokerServer) -> None:
    """There it counts as closed; the parent's answers are its own."""
    with RemoteBroker(server.address) as broker:
        broker.send(Message("orders", b"parent"), timeout_ms=10_000)
        child = os.fork()
        if child == 0:
            code = 1
            with suppress(BaseException):
                try:
                    broker.send(Message("orders", b"child"), timeout_ms=1_000)
                except BrokerClosed:
                    broker.unregister_consumer("g", "me")
                    broker.close()
                    code = 0
            os._exit(code)
        _, status = os.waitpid(child, 0)
        assert (os.WIFEXITED(status), os.waitstatus_to_exitcode(status)) == (True, 0)
        broker.send(Message("orders", b"parent"), timeout_ms=10_000)
        found = broker.pull(PullRequest("g", "orders", 0, 0, 32, "*"))
        assert [message.body for message in found.messages] == [b"parent", b"parent"]


CLUSTER_OF_TWO = (
    b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"127.0.0.1:1"},"brokerName":"a","cluster":"c"},'
    b'"b":{"brokerAddrs":{1:"127.0.0.1:2"},"brokerName":"b","cluster":"c"}},"clusterAddrTable":{}}'
)


def test_all_of_them_or_none() -> None:
    """The second has no master: the first is closed again."""
    with ScriptedPeer(answering(body=CLUSTER_OF_TWO)) as peer, pytest.raises(BrokerNotExist):
        RemoteBroker.all_of(peer.address)
    eventually(lambda: remote_threads() == set())
    assert not [thread for thread in threading.enumerate() if "mqstore" in thread.name]


class Hanging:
    """Answers as a name server, and nothing else. asked: set when something else is asked."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.peer: ScriptedPeer

    def __call__(self, connection: socket.socket, request: Command) -> None:
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            body = CLUSTER_OF_TWO.replace(b"127.0.0.1:1", self.peer.address.encode())
            connection.sendall(encode_answer(request, 0, None, {}, body))
        else:
            self.asked.set()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    script = Hanging()
    with ScriptedPeer(script) as script.peer:
        yield script


def test_a_close_waits_for_no_heartbeat(hanging: Hanging) -> None:
    """The broker hangs: the thread that tells it of the members is told that the connection has ended."""
    broker = RemoteBroker(hanging.peer.address, "a", mq_client_api_timeout=60_000)
    data = ConsumerData(MessageModel.CLUSTERING, {"orders": "*"})
    joining = threading.Thread(target=broker.register_consumer, args=("g", "me", data, lambda: None))
    joining.start()
    assert hanging.asked.wait(PATIENCE_S)
    begin_s = time.monotonic()
    broker.close()
    joining.join()
    assert time.monotonic() - begin_s < 10.0
    eventually(lambda: remote_threads() == set())


def test_what_is_late_is_told_while_heartbeats_wait(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members_module, "_HEARTBEAT_PERIOD_S", 0.0)
    monkeypatch.setattr(members_module, "_LEAST_BETWEEN_TRIES_S", 0.0)
    monkeypatch.setattr(remote_broker_module, "_ASYNC_TIMEOUT_MS", 10)
    with RemoteBroker(hanging.peer.address, "a", mq_client_api_timeout=3_600_000) as broker:
        member = broker._members._member("me")
        member.tried_s = 0.0
        broker._service.wake()
        assert hanging.asked.wait(PATIENCE_S)
        with pytest.raises(BrokerTimedOut):
            broker.send_async(Message("orders", b"x")).result(PATIENCE_S)


def test_a_request_ends_after_the_time_that_the_user_gave(server: BrokerServer) -> None:
    """At a name server and at a broker that take connections and answer nothing."""
    with ScriptedPeer(lambda *_: None) as silent:
        with pytest.raises(BrokerTimedOut) as late:
            RemoteBroker(silent.address, mq_client_api_timeout=1_000)
        assert 0 < late.value.timeout_ms <= 1_000
        with RemoteBroker(server.address, mq_client_api_timeout=1_000) as broker:
            broker._channel.close()
            broker._channel = Channel("broker-a", lambda _: silent.address, UNGUARDED)
            with pytest.raises(BrokerTimedOut) as late:
                broker.max_offset("orders", 0)
        assert 0 < late.value.timeout_ms <= 1_000


@pytest.mark.parametrize("timeout_ms", [0, -1, 2**31])
def test_a_time_that_no_request_can_have_is_refused(timeout_ms: int) -> None:
    with pytest.raises(ConfigIllegal, match=rf"between 1 and 2147483647 ms, and is {timeout_ms}$"):
        RemoteBroker("127.0.0.1:9876", mq_client_api_timeout=timeout_ms)


def test_an_interrupted_close_is_done_again(server: BrokerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt comes out, and leaves nothing open."""
    broker = RemoteBroker(server.address)
    broker.send(Message("orders", b"x"), timeout_ms=10_000)
    stop = broker._service.stop
    monkeypatch.setattr(broker._service, "stop", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        broker.close()
    assert not broker._channel.is_connected
    monkeypatch.setattr(broker._service, "stop", stop)
    broker.close()
    eventually(lambda: not [thread for thread in threading.enumerate() if "remote" in thread.name])


def test_an_interrupt_of_a_wait_comes_out_as_itself(server: BrokerServer) -> None:
    """And the next call has its own answer."""
    with RemoteBroker(server.address) as broker:
        broker.send(Message("orders", b"first"), timeout_ms=10_000)
        main = threading.main_thread().ident
        assert main is not None
        with ScriptedPeer(lambda *_: signal.pthread_kill(main, signal.SIGINT)) as silent:
            broker._channel.close()
            broker._channel = type(broker._channel)("silent", lambda _: silent.address, UNGUARDED)
            with pytest.raises(KeyboardInterrupt):
                broker.max_offset("orders", 0)
            silent.script = answering(offset="5")
            assert broker.max_offset("orders", 0) == 5
