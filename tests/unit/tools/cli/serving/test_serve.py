"""`mqstore serve` as typed: what it refuses, what it says, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from mqstore.tools.cli.exit_codes import ExitCode
from support.command_line import run, store_orders
from support.server.wire_client import WireClient, pull_fields, send_fields

COMMAND = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "serve"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--listen", "0.0.0.0"), "--insecure"),
        (("--listen", "192.0.2.7"), "--insecure"),
        (("--listen", "192.0.2.7", "--tls-cert", "cert.pem"), "--access-keys"),
        (("--tls-key", "key.pem"), "--tls-cert"),
        (("--tls-client-ca", "ca.pem"), "--tls-cert"),
        (("--tls-cert", "missing.pem"), "missing.pem"),
        (("--access-keys", "missing.toml"), "missing.toml"),
        (("--listen", "0.0.0.0", "--insecure"), "--advertise"),
        (("--listen", "localhost"), "give an IP address"),
        (("--advertise", "example.org:9876"), "give IP:PORT"),
    ],
)
def test_an_address_must_be_safe_and_reachable(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    """Nothing is opened, and the error says what to add."""
    answer = run("serve", tmp_path / "data", *options)
    assert answer.exit_code == ExitCode.USAGE
    assert told in answer.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "told"), [("", "no access key"), ("web = 1", "needs a secret"), ("web", "keys.toml")]
)
def test_a_file_of_keys_must_hold_keys(tmp_path: Path, text: str, told: str) -> None:
    """Nothing is opened: a server without keys would let everybody in."""
    keys = tmp_path / "keys.toml"
    keys.write_text(text)
    answer = run("serve", tmp_path / "data", "--access-keys", keys)
    assert answer.exit_code == ExitCode.USAGE
    assert told in answer.stderr
    assert not (tmp_path / "data").exists()


def test_a_directory_that_is_written_to_is_refused(tmp_path: Path) -> None:
    """By the lock that every writer takes."""
    with MessageStore.open(tmp_path):
        assert run("serve", tmp_path, "--port", 0).exit_code == ExitCode.LOCKED


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """With the address and the way out, and nothing is opened; that of the metrics, too."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = run("serve", tmp_path / "data", "--port", port)
        assert (answer.exit_code, answer.stderr.count("\n")) == (ExitCode.PROBLEM, 1)
        assert f"127.0.0.1:{port} cannot be listened on" in answer.stderr
        assert "--port 0" in answer.stderr
        assert not (tmp_path / "data").exists()
        answer = run("serve", tmp_path / "data", "--port", 0, "--metrics-port", port)
        assert (answer.exit_code, answer.stderr.count("\n")) == (ExitCode.PROBLEM, 1)
        assert f"port {port}" in answer.stderr
        assert "--metrics-port" in answer.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    """A line says where; messages of before are there; the stop is clean, and what was sent is on disk."""
    store_orders(tmp_path)
    arguments = [*COMMAND, str(tmp_path), "--port", "0"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("name server and broker on 127.0.0.1:")
        assert line.endswith(f", store {tmp_path} (1 topic, 6 messages). Ctrl-C stops.\n")
        address = line.split()[5].rstrip(",")
        with WireClient(address) as client:
            assert client.ask(Code.PULL_MESSAGE, pull_fields()).code == ResponseCode.SUCCESS
            sent = client.ask(Code.SEND_MESSAGE_V2, send_fields(queue_id=1), b"last")
            assert sent.code == ResponseCode.SUCCESS
            process.send_signal(number)
            client.await_close()
        assert process.wait(30) == 0
    assert not (tmp_path / "abort").exists()
    with MessageStore.open(tmp_path, read_only=True) as store:
        message = store.get_message("test", "orders", 1, 3).messages[0]
        assert message.body == b"last"
        assert str(message.store_host) == address


@pytest.mark.slow
def test_the_answer_as_json(tmp_path: Path) -> None:
    """For programs that start it: the port that was free, on standard output."""
    arguments = [*COMMAND, str(tmp_path / "new"), "--port", "0", "--json", "--broker-name", "b1"]
    arguments += ["--metrics-port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["topics"], told["messages"]) == (0, 0)
        with WireClient(told["address"]) as client:
            route = json.loads(bytes(client.ask(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}).body))
            assert route["brokerDatas"][0]["brokerAddrs"] == {"0": told["address"]}
            assert route["brokerDatas"][0]["brokerName"] == "b1"
        with urllib.request.urlopen(f"http://{told['metrics']}/metrics", timeout=30) as answer:
            assert b'mqstore_requests_total{request_code="GET_ROUTEINFO_BY_TOPIC"} 1' in answer.read()
        process.terminate()
        assert process.wait(30) == 0
