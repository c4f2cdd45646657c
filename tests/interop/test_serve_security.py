"""Access keys and TLS of `mqstore serve`, judged by RocketMQ's own clients: who may is served in every way.

Method: the server is started as users start it, with a file of keys and a certificate made for the run. The
clients of each version are given a key, and are told to use TLS.
"""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from mqstore import MessageStore
from support.interop.broker import eventually
from support.interop.process import ROCKETMQ_VERSIONS, Refused, prepared_versions
from support.interop.served import Server, Traffic, running_traffic
from support.server.certificates import Certificates

SECRET = "correct-horse-battery"
SIGNED = ("-Dinterop.accessKey=web-workers", f"-Dinterop.secretKey={SECRET}")
WRONG = ("-Dinterop.accessKey=web-workers", "-Dinterop.secretKey=wrong-horse-battery")
TLS = "-Dtls.enable=true"


@pytest.fixture(params=ROCKETMQ_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each version, if `make interop` has made it ready."""
    assert request.param in prepared_versions(), "run these tests with: make interop"
    return str(request.param)


def guarded_server(tmp_path: Path) -> Server:
    """With keys and TLS."""
    keys = tmp_path / "keys.toml"
    keys.write_text(f'web-workers = "{SECRET}"\n')
    certificates = Certificates(tmp_path)
    server = Server(tmp_path / "data", "--access-keys", str(keys), "--tls-cert", str(certificates.server))
    server.start()
    return server


def send(traffic: Traffic, text: str, way: str) -> object:
    return traffic.ask("send", bodies=[text], way=way, group="producers", topic="orders", tags="A", queue=1)


def test_who_signs_over_tls_is_served_in_every_way(version: str, tmp_path: Path) -> None:
    """Sends, consumption with a retry, and a lite pull: each kind of request is signed by them."""
    server = guarded_server(tmp_path)
    with (
        closing(server),
        running_traffic(version, server, "guarded", [*SIGNED, TLS]) as traffic,
    ):
        for way in ("sync", "async", "batch", "oneway", "ordered"):
            send(traffic, way, way)
        send(traffic, "late 1", "sync")
        traffic.ask("consume", name="all", group="all", topic="orders", tags="*")
        eventually(lambda: len(traffic.seen("all")) >= 7, "all are consumed, one of them twice")
        bodies = Counter(message["body"] for message in traffic.seen("all"))
        assert bodies == Counter({"late": 2, "sync": 1, "async": 1, "batch": 1, "oneway": 1, "ordered": 1})
        pulled = traffic.ask("lite_pull", group="pulls", topic="orders", count=6)
        assert len(pulled) == 6
        traffic.ask("stop", name="all")
        assert server.stop() == 0


@pytest.mark.parametrize("options", [(TLS, *WRONG), (TLS,), SIGNED], ids=["wrong", "unsigned", "without TLS"])
def test_all_others_are_refused(version: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """Their sends fail, and nothing is stored."""
    server = guarded_server(tmp_path)
    with (
        closing(server),
        running_traffic(version, server, f"refused-{len(options)}", options) as traffic,
    ):
        with pytest.raises(Refused):
            send(traffic, "stranger", "sync")
        assert server.stop() == 0
    with MessageStore.open(tmp_path / "data", read_only=True) as store:
        assert store.stats().messages == 0
