"""A server with hundreds of connections and thousands of pulls that wait, and clients that come and go.

The server is a process of its own, so that its limits on files are its own, too; the clients speak bytes.
ROUNDS=200 in the environment makes the second test last minutes.
"""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from support.interop.broker import eventually
from support.server.wire_client import WireClient, consumer_heartbeat, pull_fields, send_fields

CONNECTIONS, PULLS_OF_EACH = 500, 4
ROUNDS = int(os.environ.get("ROUNDS", "5"))
MAX = {"topic": "orders", "queueId": 0}
COMMAND = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "serve"]


class Served:
    """A server's process."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, str(path), "--port", "0", "--json"], stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"]

    @property
    def sockets(self) -> int:
        """Sockets of the process: one for each connection, and a few of its own."""
        links = Path(f"/proc/{self.process.pid}/fd").iterdir()
        count = 0
        for link in links:
            # One that is closed meanwhile is gone.
            with suppress(FileNotFoundError):
                count += str(link.readlink()).startswith("socket:")
        return count

    @property
    def private_bytes(self) -> int:
        """Memory that is the process's own: mapped files are not counted."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "store")
    with server.process as process:
        yield server
        process.terminate()


@pytest.mark.slow
def test_thousands_of_pulls_wait_and_are_answered(served: Served) -> None:
    """Each of 2,000 pulls over 500 connections gets the message that arrives."""
    with ExitStack() as stack:
        sender = stack.enter_context(WireClient(served.address))
        assert sender.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x").code == ResponseCode.SUCCESS
        clients = [stack.enter_context(WireClient(served.address)) for _ in range(CONNECTIONS)]
        waiting = [
            (client, client.send(Code.PULL_MESSAGE, pull_fields(offset=1, suspend_ms=600_000)))
            for client in clients
            for _ in range(PULLS_OF_EACH)
        ]
        for client in clients:
            assert client.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts() == {"offset": "1"}
        assert sender.ask(Code.SEND_MESSAGE_V2, send_fields(), b"for all").code == ResponseCode.SUCCESS
        for client, opaque in waiting:
            assert b"for all" in bytes(client.answer_to(opaque).body)


@pytest.mark.slow
def test_clients_that_come_and_go_leave_nothing(served: Served) -> None:
    """After each round: no connection, no member, no pull is left; memory does not grow with the rounds."""
    chance = random.Random(1)
    with WireClient(served.address) as sender:
        sender.ask(Code.SEND_MESSAGE_V2, send_fields(), b"x")
        acknowledged, sockets, memory = 1, served.sockets, 0
        for number in range(ROUNDS):
            acknowledged += one_round(served.address, chance, number)
            eventually(lambda: served.sockets == sockets, "all connections are gone")
            gone = sender.ask(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "billing"})
            assert gone.code == ResponseCode.SYSTEM_ERROR
            if number == ROUNDS // 2:
                memory = served.private_bytes
        assert int(sender.ask(Code.GET_MAX_OFFSET, MAX).fields_as_texts()["offset"]) >= acknowledged
        assert served.private_bytes < memory + (32 << 20)


def one_round(address: str, chance: random.Random, number: int) -> int:
    """Clients that subscribe, wait, send, send rubbish, and vanish; how many sends were acknowledged."""
    acknowledged = 0
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(address)) for _ in range(40)]
        for at, client in enumerate(clients):
            client.send(Code.HEART_BEAT, {}, consumer_heartbeat(f"{number}-{at}"))
            for _ in range(10):
                client.send(
                    Code.PULL_MESSAGE, pull_fields(offset=1 << 40 if at % 3 else 1, suspend_ms=600_000)
                )
            opaques = [client.send(Code.SEND_MESSAGE_V2, send_fields(), bytes(100)) for _ in range(20)]
            what = chance.randrange(4)
            if what == 0:
                client.raw(struct.pack(">II", chance.randrange(1 << 32), chance.randrange(1 << 32)))
            elif what == 1:
                client.raw(struct.pack(">II", 1000, 10) + b"half")
            elif what == 2:
                acknowledged += sum(
                    client.answer_to(opaque).code == ResponseCode.SUCCESS for opaque in opaques
                )
            client.close()
    return acknowledged
