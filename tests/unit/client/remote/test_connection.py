"""A connection: answers find their askers, and whoever waits is told when there will be none."""

import queue
import socket
import threading
import time
from contextlib import closing
from typing import Any

import pytest

from mqstore.client.errors import BrokerConnectionLost, BrokerNotConnected, BrokerTimedOut
from mqstore.client.remote import connection as connection_module
from mqstore.client.remote.channel import refuse_requests
from mqstore.client.remote.connection import Connection, Outcome
from mqstore.client.remote.stream import Security
from mqstore.remoting.command import Command, encode_answer, encode_request
from mqstore.remoting.signature import Credentials, signature_of
from mqstore.store.errors import MessageTooLarge, StoreError
from support.server.scripted_peer import Script, ScriptedPeer, answering

PATIENCE_S = 30.0


def silent(_connection: socket.socket, _request: Command) -> None:
    """A script that answers nothing."""


def connect(peer: ScriptedPeer, **options: Any) -> Connection:
    options = {"on_request": refuse_requests, "on_end": lambda: None} | options
    return Connection("broker-a", peer.address, 3.0, **options)


@pytest.fixture
def outcomes() -> "queue.Queue[Outcome]":
    return queue.Queue()


def later(asker: Connection, outcomes: "queue.Queue[Outcome]", timeout_ms: int = 60_000) -> int:
    return asker.ask_later(1, {}, b"", timeout_ms, outcomes.put)


def test_answers_find_their_askers_in_any_order() -> None:
    """The peer keeps the first of two requests back until the second has come."""
    kept: list[Command] = []

    def script(connection: socket.socket, request: Command) -> None:
        kept.append(request)
        if len(kept) == 20:
            for each in reversed(kept):
                connection.sendall(encode_answer(each, 0, None, None, bytes(each.body)))

    found: dict[bytes, bytes] = {}
    with ScriptedPeer(script) as peer, closing(connect(peer)) as asker:

        def ask(body: bytes) -> None:
            found[body] = bytes(asker.ask(1, {}, body, 30_000).body)

        threads = [threading.Thread(target=ask, args=(b"%d" % number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {b"%d" % number: b"%d" % number for number in range(20)}


def test_fields_and_body_go_out_and_come_back() -> None:
    with ScriptedPeer(answering(7, "why", b"\0body", name="größe")) as peer, closing(connect(peer)) as asker:
        answer = asker.ask(99, {"a": "ü", "b": "2"}, b"question", 10_000)
        [request] = peer.requests
    assert (request.code, request.fields_as_texts(), bytes(request.body)) == (
        99,
        {"a": "ü", "b": "2"},
        b"question",
    )
    assert (answer.code, answer.remark, bytes(answer.body)) == (7, "why", b"\0body")
    assert answer.fields_as_texts() == {"name": "größe"}


def test_a_request_is_signed() -> None:
    """As RocketMQ's clients do: over the values of all fields, and the body."""
    with (
        ScriptedPeer(answering()) as peer,
        closing(connect(peer, security=Security(Credentials("reader", "secret")))) as asker,
    ):
        asker.ask(99, {"topic": "orders"}, b"body", 10_000)
        fields = peer.requests[0].fields_as_texts()
    assert fields["AccessKey"] == "reader"
    assert fields["Signature"] == signature_of(fields, b"body", "secret")
    assert "secret" not in fields.values()


def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The asker is told; an answer that comes after all harms nobody."""
    monkeypatch.setattr(connection_module, "_SILENCE_S", 60.0)
    with ScriptedPeer(silent) as peer, closing(connect(peer)) as asker:
        with pytest.raises(BrokerTimedOut) as late:
            asker.ask(1, {}, b"", 20)
        assert (late.value.broker_name, late.value.timeout_ms) == ("broker-a", 20)
        assert asker.is_idle
        peer.send(encode_answer(peer.requests[0], 0))
        peer.script = answering()
        assert asker.ask(1, {}, b"", 10_000).code == 0


def test_a_peer_that_is_silent_for_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be gone for good: the next request makes a new connection."""
    monkeypatch.setattr(connection_module, "_SILENCE_S", 0.0)
    ended = threading.Event()
    with ScriptedPeer(silent) as peer, closing(connect(peer, on_end=ended.set)) as asker:
        with pytest.raises(BrokerTimedOut):
            asker.ask(1, {}, b"", 20)
        assert ended.wait(PATIENCE_S)
        assert asker.is_closed


def test_late_callbacks_are_told_by_expire(outcomes: "queue.Queue[Outcome]") -> None:
    with ScriptedPeer(silent) as peer, closing(connect(peer)) as asker:
        later(asker, outcomes, 0)
        kept = later(asker, outcomes)
        asker.expire()
        assert isinstance(outcomes.get(timeout=PATIENCE_S), BrokerTimedOut)
        assert not asker.is_idle
        asker.forget(kept)
        assert asker.is_idle
    assert outcomes.empty()


def test_a_connection_that_ends_tells_all_that_wait(outcomes: "queue.Queue[Outcome]") -> None:
    """What they asked for may have been done; who asks later was not heard at all."""
    ended = threading.Event()
    with ScriptedPeer(silent) as peer, closing(connect(peer, on_end=ended.set)) as asker:
        for _ in range(3):
            later(asker, outcomes)
        while len(peer.requests) < 3:
            time.sleep(0.001)
        peer.hang_up()
        assert ended.wait(PATIENCE_S)
        told = [outcomes.get(timeout=PATIENCE_S) for _ in range(3)]
        assert all(isinstance(each, BrokerConnectionLost) for each in told)
        with pytest.raises(BrokerNotConnected) as refusal:
            asker.ask(1, {}, b"", 1_000)
        assert not isinstance(refusal.value, BrokerConnectionLost)


def hang_up(connection: socket.socket, _request: Command) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def garbage(connection: socket.socket, _request: Command) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def no_header(connection: socket.socket, _request: Command) -> None:
    connection.sendall(b"\0\0\0\6\0\0\0\2[]")


@pytest.mark.parametrize("script", [hang_up, garbage, no_header])
def test_a_peer_that_breaks_the_protocol(script: Script) -> None:
    """One error with a name, never a wait until the time is over."""
    with (
        ScriptedPeer(script) as peer,
        closing(connect(peer)) as asker,
        pytest.raises(BrokerConnectionLost),
    ):
        asker.ask(1, {}, b"", 60_000)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BrokerNotConnected, match=f"127.0.0.1:{port}"):
        Connection("broker-a", f"127.0.0.1:{port}", 1.0, refuse_requests, lambda: None)


@pytest.mark.parametrize(
    "address", ["no port", "127.0.0.1:x", "127.0.0.1:99999", ":", "no.such.host.invalid:1"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(BrokerNotConnected):
        Connection("broker-a", address, 1.0, refuse_requests, lambda: None)


def test_a_request_beyond_the_longest_frame() -> None:
    """It is refused here: a broker would close the connection without a word."""
    with ScriptedPeer(answering()) as peer, closing(connect(peer)) as asker:
        with pytest.raises(MessageTooLarge) as refusal:
            asker.ask(1, {}, bytes(16 << 20), 10_000)
        assert refusal.value.limit == 16 << 20
        assert asker.ask(1, {}, b"", 10_000).code == 0


def test_what_the_peer_asks() -> None:
    """Known requests reach the handler; a handler that fails ends nothing."""
    asked: queue.Queue[int] = queue.Queue()

    def handle(connection: Connection, request: Command) -> None:
        asked.put(request.code)
        if request.code == 39:
            raise ValueError("no")
        refuse_requests(connection, request)

    with ScriptedPeer(answering()) as peer, closing(connect(peer, on_request=handle)) as asker:
        asker.ask(1, {}, b"", 10_000)
        peer.send(encode_request(39, 5, is_one_way=True))
        peer.send(encode_request(307, 6))
        assert [asked.get(timeout=PATIENCE_S) for _ in range(2)] == [39, 307]
        while len(peer.requests) < 2:
            time.sleep(0.001)
        answer = peer.requests[1]
    assert (answer.is_answer, answer.opaque, answer.code) == (True, 6, 3)


@pytest.mark.parametrize("failure", [ValueError, SystemExit])
def test_a_callback_that_fails_ends_nothing(
    outcomes: "queue.Queue[Outcome]", failure: type[BaseException]
) -> None:
    def fail(_: Outcome) -> None:
        raise failure("no")

    with ScriptedPeer(answering()) as peer, closing(connect(peer)) as asker:
        asker.ask_later(1, {}, b"", 10_000, fail)
        later(asker, outcomes)
        assert isinstance(outcomes.get(timeout=PATIENCE_S), Command)
        peer.script = silent
        later(asker, outcomes)
        asker.ask_later(1, {}, b"", 10_000, fail)
        peer.hang_up()
        assert isinstance(outcomes.get(timeout=PATIENCE_S), BrokerConnectionLost)


def clogged() -> socket.socket:
    """Listens, and reads nothing of what connects."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


@pytest.mark.slow
def test_a_peer_that_takes_nothing_holds_up_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch, outcomes: "queue.Queue[Outcome]"
) -> None:
    """Who waits behind a request that is not taken has its own time; that request ends the connection."""
    monkeypatch.setattr(connection_module, "_SEND_PATIENCE_S", 2.0)
    with clogged() as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with closing(Connection("broker-a", address, 3.0, refuse_requests, lambda: None)) as asker:
            errors: queue.Queue[StoreError] = queue.Queue()

            def ask_much() -> None:
                with pytest.raises(BrokerNotConnected, match="taken") as refusal:
                    asker.ask(1, {}, bytes(15 << 20), 10)
                errors.put(refusal.value)

            sender = threading.Thread(target=ask_much)
            sender.start()
            while not asker._sending.locked():
                time.sleep(0.001)
            with pytest.raises(BrokerNotConnected, match="others"):
                asker.ask(1, {}, b"", 20)
            assert not asker.is_closed
            errors.get(timeout=PATIENCE_S)
            assert asker.is_closed
            sender.join()


def test_silence_before_the_question_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked: a late answer, to a question with little time, ends no connection that others use."""
    monkeypatch.setattr(connection_module, "_SILENCE_S", 0.5)
    with ScriptedPeer(silent) as peer, closing(connect(peer)) as asker:
        asker._heard_s = time.monotonic() - 3600.0
        with pytest.raises(BrokerTimedOut):
            asker.ask(1, {}, b"", 1)
        assert not asker.is_closed
        with pytest.raises(BrokerTimedOut):
            asker.ask(1, {}, b"", 1_000)
        assert asker.is_closed


def test_who_closed_it_is_told(outcomes: "queue.Queue[Outcome]") -> None:
    with ScriptedPeer(silent) as peer, closing(connect(peer)) as asker:
        later(asker, outcomes)
        asker.close()
        assert "this client has closed" in str(outcomes.get(timeout=PATIENCE_S))


def test_an_interrupt_of_the_start_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads runs by then, or is about to: it ends."""
    threads: list[threading.Thread] = []

    def start(thread: threading.Thread) -> bool:
        threads.append(thread)
        thread.start()
        raise KeyboardInterrupt

    monkeypatch.setattr(connection_module, "start_thread", start)
    with ScriptedPeer(silent) as peer:
        with pytest.raises(KeyboardInterrupt):
            connect(peer)
        threads[0].join(PATIENCE_S)
        assert not threads[0].is_alive()


def test_an_interrupt_of_a_send_ends_the_connection(outcomes: "queue.Queue[Outcome]") -> None:
    """Half a frame is on the line: what follows would be read as its rest."""
    with ScriptedPeer(answering()) as peer, closing(connect(peer)) as asker:
        whole = asker._stream

        class Interrupted:
            def sendall(self, data: bytes, patience_s: float) -> None:
                whole.sendall(data[:3], patience_s)
                raise KeyboardInterrupt

            def __getattr__(self, name: str) -> Any:
                return getattr(whole, name)

        asker._stream = Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            later(asker, outcomes)
        assert asker.is_closed
        assert asker.is_idle or isinstance(outcomes.get(timeout=PATIENCE_S), StoreError)
