"""A process with many connections to `mqstore serve`: it sends at times, and its pulls wait at the server.

    python served_client.py ADDRESS JOURNAL SEED RUN CONNECTIONS

It writes into the journal (journal.py), until SIGTERM; it may be killed and stopped at any moment:

    ready RUN                             its pulls are on their way
    sent RUN BODY                         a message is acknowledged
    unanswered RUN CODE SECONDS           a request has no answer for so long
    cut RUN CONNECTION                    the server has closed a connection
    stood RUN TOPIC QUEUE OFFSET          where a pull was in the end
    finished RUN REQUESTS                 it has ended; so many requests were answered

SIGUSR1: it sends no more, and says `quiet RUN` once all that it has sent is answered. SIGTERM: each pull is
made once more and waits its time, unless there is something for it.
"""

import asyncio
import random
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from mqstore.remoting.command import Command, decode_command, encode_request
from mqstore.remoting.frame import FrameReader
from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.store.status import ResponseCode
from support.server.wire_client import consumer_heartbeat, pull_fields, send_fields
from support.soak.journal import Journal

__all__ = ["QUEUES", "TOPICS"]

TOPICS, QUEUES = 50, 4
_SUSPEND_MS = 4_000
_PATIENCE_S = 60.0
_GREATEST_PAUSE_S = 10.0
_GREATEST_BURST = 4
_TICK_S = 0.5


class Lived:
    """Seconds in which the process was at work: while it is stopped, nobody can answer it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.seconds += _TICK_S


class Connection(asyncio.Protocol):
    """One connection. under_way: code and time of each request that has no answer yet, by its opaque."""

    def __init__(self, number: int, journal: Journal, lived: Lived) -> None:
        self.under_way: dict[int, tuple[int, float]] = {}
        self.answered_count = 0
        self.is_ending = False
        self._number = number
        self._journal = journal
        self._lived = lived
        self._reader = FrameReader()
        self._opaque = 0
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            command = decode_command(frame)
            # Requests of the server, that members have changed, need no answer.
            if command.is_answer:
                self.answered_count += 1
                del self.under_way[command.opaque]
                self._waiting.pop(command.opaque).set_result(command)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_ending:
            self._journal.write("cut", self._number)
        for answer in self._waiting.values():
            answer.set_exception(ConnectionResetError(f"connection {self._number} was closed"))

    def ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> "asyncio.Future[Command]":
        """Send a request; its answer is awaited by who wants it."""
        assert self._transport is not None
        self._opaque += 1
        texts = {name: str(value) for name, value in fields.items()}
        answer = self._waiting[self._opaque] = asyncio.get_running_loop().create_future()
        self.under_way[self._opaque] = (code, self._lived.seconds)
        self._transport.write(encode_request(code, self._opaque, texts, body))
        return answer

    def close(self) -> None:
        """Close it."""
        assert self._transport is not None
        self.is_ending = True
        self._transport.close()


class Client:
    """What one process has."""

    def __init__(self, journal: Journal, seed: int, run: int) -> None:
        self.is_quiet = self.is_ending = False
        self._journal = journal
        self._chance = random.Random(f"{seed} {run}")
        self._run = run
        self._lived = Lived()
        self._connections: list[Connection] = []

    async def run(self, address: str, connections: int) -> None:
        """Until SIGTERM."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._be_quiet)
        loop.add_signal_handler(signal.SIGTERM, self._end)
        host, _, port = address.rpartition(":")
        at_work = [asyncio.create_task(self._lived.run()), asyncio.create_task(self._watch())]
        pulls, sends = [], []
        for number in range(connections):
            _, connection = await loop.create_connection(
                lambda number=number: Connection(number, self._journal, self._lived), host, int(port)
            )
            self._connections.append(connection)
            place = self._run * connections + number
            heartbeat = consumer_heartbeat(f"client-{place}", _group(place), {_topic(place): "*"})
            await connection.ask(Code.HEART_BEAT, {}, heartbeat)
            pulls += [
                asyncio.create_task(self._pull(connection, place, queue_id)) for queue_id in range(QUEUES)
            ]
            sends.append(asyncio.create_task(self._send(connection, place)))
        self._journal.write("ready")
        await asyncio.gather(*sends)
        self._journal.write("quiet")
        await asyncio.gather(*pulls)
        for task in at_work:
            task.cancel()
        for connection in self._connections:
            connection.close()
        self._journal.write("finished", sum(each.answered_count for each in self._connections))

    def _be_quiet(self) -> None:
        self.is_quiet = True

    def _end(self) -> None:
        self.is_quiet = self.is_ending = True

    async def _pull(self, connection: Connection, place: int, queue_id: int) -> None:
        offset, topic, names = 0, _topic(place), {"consumerGroup": _group(place)}
        while True:
            is_last = self.is_ending
            fields = pull_fields(topic, queue_id, offset, suspend_ms=_SUSPEND_MS, **names)
            answer = await connection.ask(Code.PULL_MESSAGE, fields)
            if answer.code in (
                ResponseCode.SUCCESS,
                ResponseCode.PULL_NOT_FOUND,
                ResponseCode.PULL_RETRY_IMMEDIATELY,
            ):
                offset = int(answer.fields_as_texts()["nextBeginOffset"])
            elif answer.code != ResponseCode.TOPIC_NOT_EXIST:
                self._journal.write("refused", Code.PULL_MESSAGE, answer.code)
                await asyncio.sleep(1)
            else:
                await asyncio.sleep(_TICK_S)
            if is_last and answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST):
                self._journal.write("stood", topic, queue_id, offset)
                return

    async def _send(self, connection: Connection, place: int) -> None:
        number = 0
        while not self.is_quiet:
            await asyncio.sleep(self._chance.uniform(0, _GREATEST_PAUSE_S))
            bodies, answers = [], []
            for _ in range(self._chance.randint(1, _GREATEST_BURST)):
                number += 1
                bodies.append(f"{self._run}-{place}-{number}")
                topic, queue_id = _topic(self._chance.randrange(TOPICS)), self._chance.randrange(QUEUES)
                answers.append(
                    connection.ask(Code.SEND_MESSAGE_V2, send_fields(topic, queue_id), bodies[-1].encode())
                )
            for body, answer in zip(bodies, await asyncio.gather(*answers), strict=True):
                if answer.code == ResponseCode.SUCCESS:
                    self._journal.write("sent", body)
                else:
                    self._journal.write("refused", Code.SEND_MESSAGE_V2, answer.code)

    async def _watch(self) -> None:
        """Say which requests are not answered, once each."""
        while True:
            await asyncio.sleep(1)
            for connection in self._connections:
                for opaque, (code, since) in list(connection.under_way.items()):
                    if self._lived.seconds - since > _PATIENCE_S:
                        connection.under_way[opaque] = (code, float("inf"))
                        self._journal.write("unanswered", code, _PATIENCE_S)


def _topic(number: int) -> str:
    return f"load-{number % TOPICS}"


def _group(number: int) -> str:
    return f"group-{number % TOPICS}"


def main() -> None:
    address, journal, seed, run, connections = sys.argv[1:]
    client = Client(Journal(Path(journal), int(run)), int(seed), int(run))
    asyncio.run(client.run(address, int(connections)))


if __name__ == "__main__":
    main()
