"""kill -9 of `mqstore serve` under load: whatever a client was told is there when it serves again.

Clients that speak bytes keep many sends under way. The server is killed after a random number of answers,
and started again over the same directory; the seed is fixed, the moment of a kill is not.
"""

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from support.server.wire_client import WireClient, send_fields

SEED = 20240919
ROUNDS = 3
CLIENTS = 3
UNDER_WAY = 30
COMMAND = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "serve"]


def start(path: Path, flush_type: str) -> tuple["subprocess.Popen[str]", str]:
    """A server, and its address."""
    command = [*COMMAND, str(path), "--port", "0", "--json", "-o", f"flush_disk_type={flush_type}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["address"]


def flood(address: str, prefix: str, acknowledged: list[str], enough: threading.Event, count: int) -> None:
    """Send until the server is gone; what was acknowledged is added to the list."""
    number = 0
    try:
        with WireClient(address) as client:
            while True:
                bodies = [f"{prefix}-{number + at}" for at in range(UNDER_WAY)]
                opaques = [client.send(Code.SEND_MESSAGE_V2, send_fields(), body.encode()) for body in bodies]
                number += UNDER_WAY
                for body, opaque in zip(bodies, opaques, strict=True):
                    if client.answer_to(opaque).code == ResponseCode.SUCCESS:
                        acknowledged.append(body)
                    if len(acknowledged) >= count:
                        enough.set()
    except ConnectionError:
        enough.set()


@pytest.mark.slow
@pytest.mark.parametrize("flush_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_acknowledged_is_there(tmp_path: Path, flush_type: str) -> None:
    """After each of several kills, and once each: no client sends anything twice."""
    choice, acknowledged = random.Random(SEED), list[str]()
    for round_number in range(ROUNDS):
        process, address = start(tmp_path, flush_type)
        enough, wanted = threading.Event(), len(acknowledged) + choice.randrange(100, 2_000)
        threads = [
            threading.Thread(
                target=flood, args=(address, f"{round_number}-{name}", acknowledged, enough, wanted)
            )
            for name in range(CLIENTS)
        ]
        with process:
            for thread in threads:
                thread.start()
            enough.wait()
            process.kill()
        for thread in threads:
            thread.join()
    with MessageStore.open(tmp_path) as store:
        stored, offset = [], 0
        while found := store.get_message("test", "orders", 0, offset).messages:
            stored += [message.body.decode() for message in found]
            offset += len(found)
    assert len(acknowledged) > 100 * ROUNDS
    assert set(acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
