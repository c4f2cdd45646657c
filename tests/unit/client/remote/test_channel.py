"""A channel: it is connected when it is asked, wherever the broker is by then."""

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

from mqstore.client.errors import BrokerConnectionLost, BrokerNotConnected, BrokerNotExist
from mqstore.client.remote import channel as channel_module
from mqstore.client.remote.channel import Channel
from mqstore.client.remote.connection import Outcome
from mqstore.client.remote.stream import UNGUARDED
from mqstore.remoting.command import Command
from mqstore.store.errors import StoreError
from mqstore.store.status import ResponseCode
from support.server.scripted_peer import Script, ScriptedPeer, answering


class Place:
    """Where the broker is; asked anew, it is where it has moved to."""

    def __init__(self, address: str, moved_to: str | None = None) -> None:
        self.address = address
        self.moved_to = moved_to or address
        self.asked_anew = 0

    def __call__(self, is_anew: bool, /) -> str:
        if is_anew:
            self.asked_anew += 1
            self.address = self.moved_to
        return self.address


@pytest.fixture
def peer() -> Iterator[ScriptedPeer]:
    with ScriptedPeer(answering()) as peer:
        yield peer


def ask(channel: Channel) -> int:
    return channel.ask(1, timeout_ms=10_000).code


def test_it_connects_when_it_is_first_asked(peer: ScriptedPeer) -> None:
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        assert not channel.is_connected
        assert ask(channel) == ask(channel) == 0
        assert channel.is_connected
    assert peer.connections == 1


def test_many_threads_make_one_connection(peer: ScriptedPeer) -> None:
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        threads = [threading.Thread(target=ask, args=(channel,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (peer.connections, len(peer.requests)) == (1, 20)


def test_a_lost_connection_is_made_again(peer: ScriptedPeer) -> None:
    ended = threading.Event()
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED, on_end=ended.set)) as channel:
        ask(channel)
        peer.hang_up()
        assert ended.wait(30)
        assert ask(channel) == 0
    assert peer.connections == 2


def test_a_broker_that_has_moved_is_found(peer: ScriptedPeer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = f"127.0.0.1:{listener.getsockname()[1]}"
    place = Place(gone, peer.address)
    with closing(Channel("broker-a", place, UNGUARDED)) as channel:
        assert ask(channel) == 0
    assert place.asked_anew == 1


def test_a_broker_that_is_away_is_not_asked_again_and_again() -> None:
    """Whoever asks within half a second gets the same error, without a wait for the network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = Place(f"127.0.0.1:{listener.getsockname()[1]}")
    channel = Channel("broker-a", place, UNGUARDED)
    for _ in range(5):
        with pytest.raises(BrokerNotConnected, match="broker-a") as refused:
            ask(channel)
        assert str(refused.value).count("cannot be reached") == 1
    assert place.asked_anew == 1


def test_a_broker_that_nobody_knows_any_more_is_away() -> None:
    """For those who ask it is as before: another broker may be tried."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

    def find(is_anew: bool, /) -> str:
        if is_anew:
            raise BrokerNotExist("broker-a", [])
        return address

    with pytest.raises(BrokerNotConnected, match=address):
        ask(Channel("broker-a", find, UNGUARDED))


def test_who_waits_for_a_connection_waits_no_longer_than_it_may() -> None:
    """Another thread is connecting to a host that does not answer."""
    is_asked, may_go_on = threading.Event(), threading.Event()

    def find(_: bool, /) -> str:
        is_asked.set()
        may_go_on.wait(30)
        raise BrokerNotConnected("name server", "away")

    channel = Channel("broker-a", find, UNGUARDED)

    def ask_and_fail() -> None:
        with pytest.raises(BrokerNotConnected, match="away"):
            ask(channel)

    first = threading.Thread(target=ask_and_fail)
    first.start()
    assert is_asked.wait(30)
    with pytest.raises(BrokerNotConnected, match="for 20 ms"):
        channel.ask(1, timeout_ms=20)
    may_go_on.set()
    first.join()


def test_what_no_time_is_left_for_is_not_sent(peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection took it all. It is there for the next request."""
    seconds = itertools.count()
    monkeypatch.setattr(channel_module, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))

    def find(_: bool, /) -> str:
        return peer.address

    with closing(Channel("broker-a", find, UNGUARDED)) as channel:
        with pytest.raises(BrokerNotConnected, match="no time is left of the 20 ms"):
            channel.ask(1, timeout_ms=20)
        assert peer.requests == []
        assert ask(channel) == 0
    assert (peer.connections, len(peer.requests)) == (1, 1)


def test_an_address_that_cannot_be_found() -> None:
    def find(_: bool, /) -> str:
        raise BrokerNotConnected("name server", "away")

    with pytest.raises(StoreError, match="away"):
        ask(Channel("broker-a", find, UNGUARDED))


@pytest.mark.parametrize(("is_kept", "connections"), [(False, 2), (True, 1)])
def test_an_unused_connection_is_closed_unless_it_is_kept(
    peer: ScriptedPeer, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool, connections: int
) -> None:
    monkeypatch.setattr(channel_module, "_IDLE_S", 0.0)
    ended = threading.Event()
    channel = Channel("broker-a", Place(peer.address), UNGUARDED, on_end=ended.set, is_kept=is_kept)
    with closing(channel):
        ask(channel)
        channel.expire()
        assert is_kept or ended.wait(30)
        ask(channel)
    assert peer.connections == connections


def test_a_closed_channel_stays_closed(peer: ScriptedPeer) -> None:
    ended = threading.Event()
    channel = Channel("broker-a", Place(peer.address), UNGUARDED, on_end=ended.set)
    ask(channel)
    channel.close()
    assert ended.wait(30)
    with pytest.raises(BrokerNotConnected) as refusal:
        ask(channel)
    assert not isinstance(refusal.value, BrokerConnectionLost)
    assert peer.connections == 1


def test_a_close_while_it_connects_ends_the_new_connection(peer: ScriptedPeer) -> None:
    """Else its thread, and what the broker keeps of it, would stay for ever."""
    ended = threading.Event()

    def find(_: bool, /) -> str:
        channel.close()
        return peer.address

    channel = Channel("broker-a", find, UNGUARDED, on_end=ended.set)
    with pytest.raises(BrokerNotConnected, match="closed"):
        ask(channel)
    assert ended.wait(30)


def test_the_time_of_a_call_is_that_of_the_connection_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes the connection: who connects, and who waits for that, has its time, and little more."""
    monkeypatch.setattr(channel_module, "_LEAST_CONNECT_TIMEOUT_S", 0.05)
    with ExitStack() as full:
        listener = full.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            waiting = full.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        channel = Channel("broker-a", Place(address), UNGUARDED)
        threads = [threading.Thread(target=_ask_in_vain, args=(channel,)) for _ in range(4)]
        begin_s = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begin_s < 2.0


def _ask_in_vain(channel: Channel) -> None:
    with pytest.raises(BrokerNotConnected):
        channel.ask(1, timeout_ms=100)


def test_an_interrupt_that_leaves_the_lock_taken_stops_nobody(peer: ScriptedPeer) -> None:
    """It comes when the lock was just taken, before anybody knows."""

    class Interrupted:
        def acquire(self, timeout: float) -> bool:
            raise KeyboardInterrupt

    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        channel._connecting = Interrupted()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            ask(channel)
        assert ask(channel) == 0


def going_away(times: int, code: int = 0) -> Script:
    """A script of a broker that stops for the first requests, and of the one behind its address then."""
    left = [times]

    def script(connection: socket.socket, request: Command) -> None:
        left[0] -= 1
        answering(ResponseCode.GO_AWAY if left[0] >= 0 else code)(connection, request)

    return script


def ask_later(channel: Channel) -> Outcome:
    """The outcome that the callback is given; once."""
    told: SimpleQueue[Outcome] = SimpleQueue()
    channel.ask_later(1, {}, b"", told.put, timeout_ms=10_000)
    outcome = told.get()
    assert told.empty()
    return outcome


def test_who_is_told_to_go_away_asks_over_a_new_connection(peer: ScriptedPeer) -> None:
    """Once; the broker that stops has done nothing, and the other one does it."""
    peer.script = going_away(1)
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        assert ask(channel) == 0
        assert (peer.connections, len(peer.requests)) == (2, 2)
        assert ask(channel) == 0
    assert (peer.connections, len(peer.requests)) == (2, 3)


def test_a_callback_is_not_told_to_go_away(peer: ScriptedPeer) -> None:
    """As with a call that waits."""
    peer.script = going_away(1)
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        outcome = ask_later(channel)
        assert isinstance(outcome, Command)
        assert (outcome.code, peer.connections, len(peer.requests)) == (0, 2, 2)


def test_who_is_told_so_twice_tells_its_caller(peer: ScriptedPeer) -> None:
    """Another broker may be asked."""
    peer.script = going_away(99)
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        assert ask(channel) == ResponseCode.GO_AWAY
        outcome = ask_later(channel)
        assert isinstance(outcome, Command)
        assert (outcome.code, len(peer.requests)) == (ResponseCode.GO_AWAY, 4)


def test_what_is_under_way_is_answered_where_it_was_asked(peer: ScriptedPeer) -> None:
    """The connection to the broker that stops stays open until then."""
    held: list[tuple[socket.socket, Command]] = []

    def script(connection: socket.socket, request: Command) -> None:
        if request.code == 7:
            held.append((connection, request))
        else:
            going(connection, request)

    going = going_away(1)
    peer.script = script
    told: SimpleQueue[Outcome] = SimpleQueue()
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        channel.ask_later(7, {}, b"", told.put, timeout_ms=60_000)
        assert ask(channel) == 0
        assert peer.connections == 2
        channel.expire()
        answering(5)(*held[0])
        outcome = told.get()
        assert isinstance(outcome, Command)
        assert outcome.code == 5


def test_a_broker_that_stops_for_good_is_away(peer: ScriptedPeer) -> None:
    """There is nobody behind its address: who asks, and who waits with a callback, is told so."""

    def script(connection: socket.socket, request: Command) -> None:
        peer.stop_listening()
        answering(ResponseCode.GO_AWAY)(connection, request)

    peer.script = script
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        assert isinstance(ask_later(channel), BrokerNotConnected)
        with pytest.raises(BrokerNotConnected):
            ask(channel)


def test_what_was_cancelled_is_not_asked_again(peer: ScriptedPeer) -> None:
    """Its broker says later that it stops."""
    held: list[tuple[socket.socket, Command]] = []
    has_come = threading.Event()

    def script(connection: socket.socket, request: Command) -> None:
        if not held:
            held.append((connection, request))
            has_come.set()
        else:
            answering(0)(connection, request)

    peer.script = script
    with closing(Channel("broker-a", Place(peer.address), UNGUARDED)) as channel:
        cancel = channel.ask_later(1, {}, b"", pytest.fail, timeout_ms=60_000)
        assert has_come.wait(30)
        cancel()
        answering(ResponseCode.GO_AWAY)(*held[0])
        assert ask(channel) == 0
    assert (peer.connections, len(peer.requests)) == (1, 2)
