"""RocketMQ's benchmark clients (org.apache.rocketmq.example.benchmark), unmodified, over `mqstore serve`.

Method: each runs as its users run it, for some seconds. It prints figures every ten seconds and counts what
failed; none may fail, and the consumer must be given what the producers were told is stored.
"""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqstore import MessageStore
from support.interop.broker import eventually
from support.interop.process import BUILD, java_command, prepared_versions
from support.interop.served import Server

# No other version of them is published.
VERSION = "5.5.0"
PACKAGE = "org.apache.rocketmq.example.benchmark"
TOPIC = "BenchmarkTest"
SECONDS = 4
PRODUCERS = {
    "Producer": ["-t", TOPIC, "-w", "4", "-s", "128"],
    "BatchProducer": ["-t", TOPIC, "-w", "2", "-s", "128", "-b", "16"],
    "TransactionProducer": ["-t", TOPIC, "-w", "2", "-s", "128"],
}
FAILED = re.compile(r"(?:Send|Response) Failed(?: Total| Count)?: *([0-9]+)", re.IGNORECASE)


@contextmanager
def running(name: str, server: Server, *arguments: str) -> Iterator[Path]:
    """One of the clients; what it prints goes to a file."""
    home = BUILD / VERSION / "benchmark-clients"
    home.mkdir(parents=True, exist_ok=True)
    printed = home / f"{name}.log"
    options = ["-Xmx384m", f"-Drocketmq.namesrv.addr={server.address}"]
    with printed.open("w") as log:
        process = subprocess.Popen(
            [*java_command(VERSION, home, *options), f"{PACKAGE}.{name}", "-n", server.address, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield printed
        assert process.poll() is None, printed.read_text(errors="replace")[-2000:]
    finally:
        process.kill()
        process.wait()


def stored(path: Path) -> int:
    """Messages of the topic, read beside the server."""
    with MessageStore.open(path, read_only=True) as store:
        config = store.topics.get(TOPIC)
        count = config.read_queue_nums if config is not None else 0
        return sum(store.get_max_offset_in_queue(TOPIC, queue_id) for queue_id in range(count))


def test_they_run_as_they_are(tmp_path: Path) -> None:
    """Each producer stores hundreds of messages, and a consumer of theirs is given all of them."""
    assert VERSION in prepared_versions(), "run these tests with: make interop"
    server = Server(tmp_path / "data")
    server.start()
    try:
        for name, arguments in PRODUCERS.items():
            before = stored(tmp_path / "data")
            with running(name, server, *arguments) as printed:
                try:
                    eventually(lambda at=before: stored(tmp_path / "data") >= at + 200, f"{name} sends")
                except TimeoutError as error:
                    error.add_note(printed.read_text(errors="replace")[-2000:])
                    raise
                time.sleep(SECONDS)
            text = printed.read_text(errors="replace")
            assert all(int(count) == 0 for count in FAILED.findall(text)), text[-2000:]
            assert "Exception" not in text, text[-4000:]
        wanted = stored(tmp_path / "data")
        with running("Consumer", server, "-t", TOPIC, "-g", "benchmark_consumer", "-p", "false"):

            def consumed() -> int:
                with MessageStore.open(tmp_path / "data", read_only=True) as store:
                    rows = [row for row in store.consumer_offsets if row.topic == TOPIC]
                return sum(row.offset for row in rows)

            eventually(lambda: consumed() >= wanted, f"all {wanted} are consumed", 90)
        assert server.stop() == 0
    finally:
        server.kill()
