"""A client that speaks the protocol and nothing else: it sends what a test says, and shows what comes.

Requests of the server are kept in `requests`; the test answers them, or not. One thread.
"""

import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from mqstore.remoting.command import JSON, Command, decode_command, encode_answer, encode_request
from mqstore.remoting.frame import FrameReader

__all__ = ["WireClient", "consumer_heartbeat", "pull_fields", "send_fields"]

_PATIENCE_S = 30.0


class WireClient:
    """One connection to a server. closed: whether the server has closed it."""

    def __init__(self, address: str, *, serialization: int = JSON, version: int = 513) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        # As RocketMQ's clients: else a request waits in this machine until the one before is acknowledged.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._opaque = 0
        self._serialization = serialization
        self._version = version
        self._answers: dict[int, Command] = {}
        self.requests: list[Command] = []
        self.closed = False

    @property
    def port(self) -> int:
        """The port of this end: that of the born host of what it sends."""
        return int(self._socket.getsockname()[1])

    def send(
        self,
        code: int,
        fields: Mapping[str, Any] | None = None,
        body: bytes = b"",
        *,
        is_one_way: bool = False,
    ) -> int:
        """Send a request and wait for nothing; its opaque."""
        self._opaque += 1
        texts = {name: str(value) for name, value in (fields or {}).items()}
        self.raw(
            encode_request(
                code,
                self._opaque,
                texts,
                body,
                is_one_way=is_one_way,
                serialization=self._serialization,
                version=self._version,
            )
        )
        return self._opaque

    def answer_to(self, opaque: int) -> Command:
        """The answer to a request that was sent."""
        while opaque not in self._answers:
            if not self.read():
                raise ConnectionResetError("the server has closed the connection")
        return self._answers.pop(opaque)

    def ask(self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"") -> Command:
        """The answer to a request."""
        return self.answer_to(self.send(code, fields, body))

    def next_request(self, code: int) -> Command:
        """The next request of this code that the server sends."""
        while True:
            for at, request in enumerate(self.requests):
                if request.code == code:
                    return self.requests.pop(at)
            if not self.read():
                raise ConnectionResetError("the server has closed the connection")

    def answer(self, request: Command, code: int = 0, body: bytes = b"") -> None:
        """Answer a request of the server."""
        self.raw(encode_answer(request, code, None, None, body))

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def read(self) -> bool:
        """Take what has come, and wait for it; False if the server has closed the connection."""
        try:
            data = self._socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.closed = not data
        for frame in self._reader.feed(data):
            command = decode_command(frame)
            if command.is_answer:
                self._answers[command.opaque] = command
            else:
                self.requests.append(command)
        return bool(data)

    def await_close(self) -> None:
        """Return once the server has closed the connection."""
        while self.read():
            pass

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def send_fields(
    topic: str = "orders", queue_id: int = 0, properties: str = "", **others: Any
) -> dict[str, Any]:
    """The fields of a 310."""
    fields = {
        "a": "producers",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": 1_700_000_000_000,
    }
    return fields | {"h": 0, "i": properties, "j": 0, "k": "false", "m": "false"} | others


def pull_fields(
    topic: str = "orders", queue_id: int = 0, offset: int = 0, *, suspend_ms: int = 0, **others: Any
) -> dict[str, Any]:
    """The fields of an 11 that brings its subscription along."""
    fields = {"consumerGroup": "billing", "topic": topic, "queueId": queue_id, "queueOffset": offset}
    fields |= {"maxMsgNums": 32, "sysFlag": 6 if suspend_ms else 4, "commitOffset": 0}
    return fields | {"suspendTimeoutMillis": suspend_ms, "subVersion": 0, "subscription": "*"} | others


def consumer_heartbeat(
    client_id: str, group: str = "billing", topics: Mapping[str, str] | None = None, **others: Any
) -> bytes:
    """The body of a 34 of a push consumer."""
    subscriptions = [
        {"topic": topic, "subString": tags, "subVersion": 1}
        for topic, tags in (topics or {"orders": "*"}).items()
    ]
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": subscriptions,
    }
    return json.dumps({"clientID": client_id, "consumerDataSet": [consumer | others]}).encode()
