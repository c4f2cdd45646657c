"""TLS of the server: who speaks it is served, who has not the right certificate is not."""

import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from mqstore import Message
from mqstore.client import BrokerNotConnected, Producer, RemoteBroker
from mqstore.server import ServerSettings, running
from mqstore.server.security.tls import server_tls
from mqstore.store.errors import ConfigIllegal
from support.server.certificates import Certificates

SETTINGS = ServerSettings(address="127.0.0.1:0")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def test_clients_that_trust_the_certificate(tmp_path: Path, certificates: Certificates) -> None:
    settings = replace(SETTINGS, tls=server_tls(certificates.server, None, None))
    with (
        running(tmp_path, settings=settings) as server,
        RemoteBroker(server.address, tls=certificates.trusting()) as broker,
        Producer(broker, "producers") as producer,
    ):
        assert producer.send(Message("orders", b"secret")).queue_offset == 0


def test_clients_without_tls_or_trust_are_told(tmp_path: Path, certificates: Certificates) -> None:
    """And the server goes on."""
    settings = replace(SETTINGS, tls=server_tls(certificates.server, None, None))
    with running(tmp_path, settings=settings) as server:
        with pytest.raises(BrokerNotConnected, match="certificate verify failed"):
            RemoteBroker(server.address, tls=ssl.create_default_context())
        with pytest.raises(BrokerNotConnected):
            RemoteBroker(server.address)
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port))) as hostile:
            hostile.sendall(b"\x16\x03\x01" + bytes(64))
        with RemoteBroker(server.address, tls=certificates.trusting()) as broker:
            assert broker.name == "broker-a"


def test_only_clients_with_a_certificate_of_the_ca(tmp_path: Path, certificates: Certificates) -> None:
    settings = replace(SETTINGS, tls=server_tls(certificates.server, None, certificates.ca))
    with running(tmp_path, settings=settings) as server:
        with pytest.raises(BrokerNotConnected):
            RemoteBroker(server.address, tls=certificates.trusting())
        with RemoteBroker(server.address, tls=certificates.trusting(certificates.client)) as broker:
            assert broker.name == "broker-a"


def test_files_that_are_no_certificate(tmp_path: Path, certificates: Certificates) -> None:
    other = tmp_path / "other.pem"
    other.write_text("nothing")
    for files in (
        (other, None, None),
        (certificates.ca, None, None),
        (certificates.server, certificates.client, None),
        (certificates.server, None, other),
    ):
        with pytest.raises(ConfigIllegal, match="pem"):
            server_tls(*files)
    with pytest.raises(OSError, match="No such file"):
        server_tls(tmp_path / "missing.pem", None, None)
