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
from mqstore.broker.broker import BrokerClosed, PullRequest
from mqstore.client import (
    BrokerNotConnected,
    BrokerNotExist,
    ConsumeFromWhere,
    ConsumerSettings,
    Producer,
    ProducerSettings,
    PushConsumer,
    RemoteBroker,
    SendStatus,
)
from mqstore.client.remote.stream import UNGUARDED
from mqstore.server import ServerSettings, running
from mqstore.server.broker_server import BrokerServer
from mqstore.store.errors import StoreError
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
