"""RocketMQ's clients in Go, C++ and Node over `mqstore serve` and over a real broker: both are left the same.

Method: each client is as published, a process of its own (driver/go, driver/cpp, driver/node). It sends, and
a consumer of it is given all, fails on one message and gets that one again. Then the directories are
compared: messages with their tags and keys, what went to the retry topic, and how far the group is.
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import Producer, RemoteBroker
from mqstore.store.errors import StoreError
from support.interop.broker import broker_port, eventually, running_broker
from support.interop.process import BUILD, prepared_versions
from support.interop.real_broker import PATIENT
from support.interop.served import Server

VERSION = "5.5.0"
DRIVERS = Path(__file__).parent / "driver"
CLIENTS: dict[str, tuple[Path, list[str], dict[str, str]]] = {
    "go": (BUILD / "go" / "client", [str(BUILD / "go" / "client")], {}),
    "cpp": (
        BUILD / "cpp.prepared-for",
        [str(BUILD / "cpp" / "bin" / "python"), str(DRIVERS / "cpp" / "client.py")],
        {},
    ),
    "node": (
        BUILD / "node" / "node_modules",
        ["node", str(DRIVERS / "node" / "client.js")],
        {"NODE_PATH": str(BUILD / "node" / "node_modules")},
    ),
}
"""By language: what `prepare` has made, the command, and its environment."""

TOPIC, GROUP = "orders", "elsewhere"
BODIES = ["one", "two", "again", "four"]
DELAYS = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s"


class Client:
    """One run of a client. seen: what it has printed."""

    def __init__(self, language: str, directory: Path, *arguments: str) -> None:
        self.seen: list[dict[str, Any]] = []
        _, command, environment = CLIENTS[language]
        self._log = directory / f"{language}-{arguments[1]}.log"
        # They write logs into the home of the user.
        environment = {**os.environ, "HOME": str(directory), **environment}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=directory,
                encoding="utf-8",
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                # Their own notes are no objects.
                with suppress(ValueError):
                    self.seen.append(json.loads(line))

    def wait(self) -> int:
        """Its exit code, when it has ended by itself."""
        code = self._process.wait(60)
        self._reader.join(10)
        return code

    def end(self) -> None:
        """SIGTERM, which they take for a shutdown, or SIGKILL where it does not help."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)

    def log(self) -> str:
        """The end of what it has said."""
        return self._log.read_text(errors="replace")[-2000:]


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """`mqstore serve`; its address."""
    server = Server(directory)
    server.start()
    try:
        yield server.address
        assert server.stop() == 0
    finally:
        server.kill()


@contextmanager
def real(directory: Path) -> Iterator[str]:
    """A broker of RocketMQ; the address of its name server."""
    settings = {"listenPort": broker_port(), "messageDelayLevel": DELAYS, "longPollingEnable": "true"}
    with running_broker(VERSION, directory, settings, f"others-{directory.parent.name}") as run:

        def is_registered() -> bool:
            with suppress(StoreError), RemoteBroker(run.name_server) as broker:
                return broker.topic_route("TBW102") is not None
            return False

        eventually(is_registered, "the broker is registered")
        yield run.name_server
        run.broker.stop()


def picture(directory: Path) -> dict[str, Any]:
    """What a run has left: of each message what its clients decide, and how far the group is."""
    with MessageStore.open(directory, read_only=True) as store:
        messages = [
            _shown(message) for topic in (TOPIC, f"%RETRY%{GROUP}") for message in _messages_of(store, topic)
        ]
        offsets = [row.offset for row in store.consumer_offsets if row.group == GROUP and row.topic == TOPIC]
        dead = list(_messages_of(store, f"%DLQ%{GROUP}"))
    return {"messages": sorted(messages), "consumed": sum(offsets), "dead": len(dead)}


def _shown(message: StoredMessage) -> tuple[Any, ...]:
    return (message.topic, message.body, message.tags or "", tuple(message.keys), message.reconsume_times)


def _messages_of(store: MessageStore, topic: str) -> Iterator[StoredMessage]:
    config = store.topics.get(topic)
    for queue_id in range(config.read_queue_nums if config is not None else 0):
        offset = 0
        while found := store.get_message("test", topic, queue_id, offset).messages:
            yield from found
            offset += len(found)


def run_clients(language: str, name_server: str, directory: Path) -> None:
    """What is done to a broker."""
    with RemoteBroker(name_server) as broker, Producer(broker, "first", PATIENT) as producer:
        # The client for Node sends to topics that are there.
        producer.send(Message(TOPIC, b"first", tags="A"))
        consumer = Client(language, directory, name_server, "consume", TOPIC, GROUP)
        try:
            # In C++ a message that fails takes with it all that were pulled with it.
            eventually(lambda: len(consumer.seen) == 1, "the consumer is given the first", 60)
            sender = Client(language, directory, name_server, "send", TOPIC, "producers", *BODIES)
            assert sender.wait() == 0, sender.log()
            assert [each["status"] for each in sender.seen] == ["SEND_OK"] * len(BODIES), sender.log()
            wanted = sorted(["first", *BODIES, "again"])

            def is_given() -> bool:
                return sorted(each["body"] for each in consumer.seen) == wanted

            eventually(is_given, "the consumer is given all, one message twice", 90)

            def committed() -> int:
                return sum(
                    max(0, broker.query_consumer_offset(GROUP, TOPIC, queue_id)) for queue_id in range(4)
                )

            # They commit every 5 to 10 s.
            eventually(lambda: committed() == 1 + len(BODIES), "the group has committed", 60)
        except BaseException as error:
            error.add_note(f"given: {consumer.seen}\n{consumer.log()}")
            raise
        finally:
            consumer.end()


@pytest.mark.parametrize("language", CLIENTS)
def test_both_brokers_are_left_the_same(language: str, tmp_path: Path) -> None:
    made, _, _ = CLIENTS[language]
    assert VERSION in prepared_versions(), "run these tests with: make interop"
    if not made.exists():
        pytest.skip(f"tests/interop/prepare could not make the client of {language} ready")
    pictures = []
    for kind in (served, real):
        directory = tmp_path / kind.__name__
        directory.mkdir()
        with kind(directory / "data") as name_server:
            run_clients(language, name_server, directory)
        pictures.append(picture(directory / "data"))
    ours, theirs = pictures
    assert ours == theirs
    assert len(ours["messages"]) == 1 + len(BODIES) + 1
