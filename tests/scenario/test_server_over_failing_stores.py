"""A server whose disk fills up, fails or hangs: every request is answered truly, and the loop never waits.

The disk is a simulated one that is told to fail; the clients speak bytes.
"""

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.broker_server import BrokerServer
from mqstore.server.serving import running_over
from mqstore.server.settings import ServerSettings
from mqstore.store.errors import StoreFull
from mqstore.store.status import ResponseCode
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.server.wire_client import WireClient, pull_fields, send_fields
from support.stores.small_store import SmallStore

MAX = {"topic": "orders", "queueId": 0}


@pytest.fixture
def disk(clock: ManualClock) -> SimulatedDisk:
    return SimulatedDisk(clock=clock)


@pytest.fixture
def store(disk: SimulatedDisk, clock: ManualClock) -> Iterator[MessageStore]:
    # On a busy machine a sync that a test has hang may take seconds.
    small = SmallStore(disk, Path("/store"), clock=clock)
    with small.open(start=True, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=60_000) as opened:
        yield opened


@pytest.fixture
def served(store: MessageStore) -> Iterator[BrokerServer]:
    with running_over(lambda _: nullcontext(store)) as server:
        yield server


@pytest.fixture
def client(served: BrokerServer) -> Iterator[WireClient]:
    with WireClient(served.address) as connected:
        assert connected.ask(Code.SEND_MESSAGE_V2, send_fields(), b"first").code == ResponseCode.SUCCESS
        yield connected


@pytest.mark.slow
def test_a_full_disk_is_told_and_passes(disk: SimulatedDisk, client: WireClient) -> None:
    """SERVICE_NOT_AVAILABLE; reads go on, and so do sends once there is room."""

    def before(what: str, path: Path) -> None:
        if what in ("reserve", "create"):
            raise StoreFull(path, 1, "No space left on device")

    disk.before = before
    codes = [client.ask(Code.SEND_MESSAGE_V2, send_fields(), bytes(300)).code for _ in range(400)]
    assert codes[-1] == ResponseCode.SERVICE_NOT_AVAILABLE
    assert set(codes) <= {ResponseCode.SUCCESS, ResponseCode.SERVICE_NOT_AVAILABLE}
    assert b"first" in bytes(client.ask(Code.PULL_MESSAGE, pull_fields(maxMsgNums=1)).body)
    disk.before = lambda what, path: None
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"last").code == ResponseCode.SUCCESS
    stored = int(client.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts()["offset"])
    assert stored == codes.count(ResponseCode.SUCCESS) + 2


@pytest.mark.slow
def test_a_failed_sync_is_told_to_all_that_wait(disk: SimulatedDisk, client: WireClient) -> None:
    """Nothing is acknowledged any more; what was, is read."""

    def before(what: str, path: Path) -> None:
        if what == "sync" and path.parent.name == "commitlog":
            raise OSError(5, "Input/output error", str(path))

    disk.before = before
    opaques = [client.send(Code.SEND_MESSAGE_V2, send_fields(), b"lost") for _ in range(50)]
    codes = {client.answer_to(opaque).code for opaque in opaques}
    assert ResponseCode.SUCCESS not in codes
    assert client.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "1"}
    assert b"first" in bytes(client.ask(Code.PULL_MESSAGE, pull_fields()).body)
    disk.before = lambda what, path: None
    assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"late").code != ResponseCode.SUCCESS


@pytest.mark.slow
def test_many_bytes_under_way_are_read_no_further(disk: SimulatedDisk, store: MessageStore) -> None:
    """While the disk hangs a client sends large messages: after so many bytes TCP makes it wait."""
    hangs, goes_on = threading.Event(), threading.Event()

    def before(what: str, path: Path) -> None:
        if what == "sync" and path.parent.name == "commitlog":
            hangs.set()
            goes_on.wait()

    size, most = 400, 4_000
    settings = ServerSettings(address="127.0.0.1:1", max_under_way_bytes=most)
    with (
        running_over(lambda _: nullcontext(store), settings=settings) as server,
        WireClient(server.address) as client,
    ):
        assert client.ask(Code.SEND_MESSAGE_V2, send_fields(), b"first").code == ResponseCode.SUCCESS
        disk.before = before
        try:
            sends = [client.send(Code.SEND_MESSAGE_V2, send_fields(), bytes(size)) for _ in range(30)]
            hangs.wait()
            with WireClient(server.address) as other:
                # Asked of the loop, again and again: all that it would take it has taken by then.
                for _ in range(300):
                    other.ask(Code.GET_BROKER_CONFIG)
            (busy,) = [each for each in server.connections if each.is_paused]
            assert f"{most // size} under way" in repr(busy)
        finally:
            goes_on.set()
        assert {client.answer_to(opaque).code for opaque in sends} == {ResponseCode.SUCCESS}
        assert not any(each.is_paused for each in server.connections)


@pytest.mark.slow
def test_a_disk_that_hangs_holds_up_nobody_else(
    disk: SimulatedDisk, served: BrokerServer, client: WireClient
) -> None:
    """Sends wait; pulls, heartbeats and offsets are answered; then the sends are answered, too."""
    hangs, goes_on = threading.Event(), threading.Event()

    def before(what: str, path: Path) -> None:
        if what == "sync" and path.parent.name == "commitlog":
            hangs.set()
            goes_on.wait()

    disk.before = before
    try:
        sends = [client.send(Code.SEND_MESSAGE_V2, send_fields(), b"%d" % n) for n in range(20)]
        hangs.wait()
        with WireClient(served.address) as other:
            for _ in range(100):
                assert other.ask(Code.PULL_MESSAGE, pull_fields()).code == ResponseCode.SUCCESS
                assert other.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "1"}
    finally:
        goes_on.set()
    offsets = [client.answer_to(opaque).fields_as_texts()["queueOffset"] for opaque in sends]
    assert offsets == [str(number) for number in range(1, 21)]
