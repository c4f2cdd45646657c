"""The stream below a connection: TLS in both directions at once, from many threads, and its end."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mqstore import Message, StoreConfig
from mqstore.client import Producer, RemoteBroker
from mqstore.client.remote.stream import open_stream
from mqstore.server import ServerSettings, running
from mqstore.server.security.tls import server_tls
from support.server.certificates import Certificates

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["tcp", "tls"])
def tls(request: pytest.FixtureRequest, certificates: Certificates) -> ssl.SSLContext | None:
    return certificates.trusting() if request.param == "tls" else None


@pytest.fixture
def echo(tls: ssl.SSLContext | None, certificates: Certificates) -> Iterator[str]:
    """The address of a peer that sends back what it gets, until it gets `end`."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = None if tls is None else server_tls(certificates.server, None, None)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connected, _ = listener.accept()
                with suppress(OSError):
                    if context is not None:
                        connected = context.wrap_socket(connected, server_side=True)
                    with connected:
                        while data := connected.recv(1 << 16):
                            if data.endswith(b"end"):
                                break
                            connected.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_bytes_go_and_come_at_the_same_time(echo: str, tls: ssl.SSLContext | None) -> None:
    """Eight megabytes, more than any buffer on the way holds: a write must not keep the reader off."""
    sent = bytes(range(256)) * (8 * MEGABYTE // 256)
    with closing(open_stream(echo, 5.0, tls)) as stream:
        writer = threading.Thread(target=stream.sendall, args=(sent, 30.0))
        writer.start()
        received = bytearray()
        while len(received) < len(sent):
            received += stream.recv()
        writer.join()
    assert received == sent


def test_a_stream_ends(echo: str, tls: ssl.SSLContext | None) -> None:
    """By the peer, and by this side while a thread reads."""
    with closing(open_stream(echo, 5.0, tls)) as stream:
        stream.sendall(b"end", 30.0)
        assert stream.recv() == b""
    with closing(open_stream(echo, 5.0, tls)) as stream:
        outcome: list[bytes] = []

        def read() -> None:
            with suppress(OSError):
                outcome.append(stream.recv())

        reader = threading.Thread(target=read)
        reader.start()
        stream.end()
        reader.join(30)
        assert not reader.is_alive()
        assert outcome in ([b""], [])
        stream.end()


def test_a_peer_that_does_not_shake_hands(certificates: Certificates) -> None:
    """Within the time for connecting, not for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(TimeoutError):
            open_stream(address, 0.2, certificates.trusting())


def test_many_threads_over_tls(tmp_path: Path, certificates: Certificates) -> None:
    """Each gets its own answers: records of TLS leave in the order in which they were made."""
    settings = ServerSettings(address="127.0.0.1:0", tls=server_tls(certificates.server, None, None))
    with (
        running(tmp_path, StoreConfig(), settings=settings) as server,
        RemoteBroker(server.address, tls=certificates.trusting()) as broker,
        Producer(broker, "producers") as producer,
    ):
        sent: list[int] = []

        def send() -> None:
            for _ in range(50):
                result = producer.send(Message("orders", bytes(3_000)))
                sent.append(result.put.physical_offset)

        threads = [threading.Thread(target=send) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(sent)) == 400
