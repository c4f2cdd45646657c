"""Our clients over a network that breaks again and again: what was acknowledged is consumed, nothing hangs.

A proxy between clients and server cuts all connections at random moments, and the server is killed once and
started again. The seed is fixed, the moment of each cut is not.
"""

import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, StoredMessage
from mqstore.client import ConsumeFromWhere, ConsumerSettings, Producer, PushConsumer, RemoteBroker
from mqstore.store.errors import StoreError
from support.server.cutting_proxy import CuttingProxy

SEED = 20261123
CUTTING_S = 5.0
PATIENCE_S = 60.0
COMMAND = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "serve"]
SETTINGS = ConsumerSettings(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


class Served:
    """`mqstore serve` behind a proxy."""

    def __init__(self, path: Path, port: int, advertised: str) -> None:
        self._command = [*COMMAND, str(path), "--port", str(port), "--advertise", advertised, "--json"]
        self._command += ["-o", "message_delay_level=1s 1s 1s"]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            assert json.loads(lines.readline())["address"]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def proxy() -> Iterator[CuttingProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
    with CuttingProxy(target) as proxy:
        yield proxy


def produce(producer: Producer, prefix: str, acknowledged: set[bytes], end: threading.Event) -> None:
    """Send in both ways until the end; what was acknowledged is added to the set."""
    number = 0
    while not end.is_set():
        number += 1
        sync, later = f"{prefix}-{number}-s".encode(), f"{prefix}-{number}-a".encode()
        with suppress(StoreError):
            future = producer.send_async(Message("orders", later))
            with suppress(StoreError):
                producer.send(Message("orders", sync))
                acknowledged.add(sync)
            future.result(PATIENCE_S)
            acknowledged.add(later)
        time.sleep(0.002)


@pytest.mark.slow
def test_what_was_acknowledged_is_consumed(tmp_path: Path, proxy: CuttingProxy) -> None:
    """By a group of two members; each call of a producer comes back, and every thread ends."""
    choice = random.Random(SEED)
    port = int(proxy.target.rpartition(":")[2])
    served = Served(tmp_path / "data", port, proxy.address)
    acknowledged: set[bytes] = set()
    consumed: set[bytes] = set()
    end = threading.Event()

    def collect(messages: list[StoredMessage], _context: Any) -> None:
        consumed.update(message.body for message in messages)

    try:
        with (
            RemoteBroker(proxy.address) as broker,
            RemoteBroker(proxy.address) as elsewhere,
            Producer(broker, "producers") as producer,
            PushConsumer(broker, "billing", SETTINGS) as first,
            PushConsumer(elsewhere, "billing", SETTINGS) as second,
        ):
            producer.send(Message("orders", b"first"))
            for consumer in (first, second):
                consumer.subscribe("orders")
                consumer.listener(collect)
                consumer.start()
            threads = [
                threading.Thread(target=produce, args=(producer, str(name), acknowledged, end))
                for name in range(3)
            ]
            for thread in threads:
                thread.start()
            until_s = time.monotonic() + CUTTING_S
            has_been_killed = False
            while time.monotonic() < until_s:
                time.sleep(choice.uniform(0.1, 0.6))
                proxy.cut()
                if not has_been_killed and time.monotonic() > until_s - CUTTING_S / 2:
                    has_been_killed = True
                    served.kill()
                    served.start()
            end.set()
            for thread in threads:
                thread.join(PATIENCE_S)
                assert not thread.is_alive(), f"a producer hangs, seed {SEED}"
            give_up_s = time.monotonic() + PATIENCE_S
            while acknowledged - consumed and time.monotonic() < give_up_s:
                time.sleep(0.05)
            missing = acknowledged - consumed
            assert not missing, f"{len(missing)} of {len(acknowledged)} were not consumed, seed {SEED}"
            assert len(acknowledged) > 50
            assert proxy.cuts > 5
    finally:
        served.kill()
