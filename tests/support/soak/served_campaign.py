"""The campaign against `mqstore serve`: clients that are killed and stopped, and rubbish, while others work.

One server; eight processes of clients with 62 connections each, of which every connection has four pulls
that wait (served_client.py). Meanwhile one of them is killed or stopped at random, again and again, and other
connections send what is no request (malformed_frames.py). The seed decides what comes next, not when threads
take turns. Then all is counted: what was acknowledged is in the store once, each pull stands at the end of
its queue, nothing waits for an answer, no connection is left, the memory is what it was.
"""

import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mqstore import MessageStore, StoredMessage
from support.server.malformed_frames import malformed_bytes
from support.soak import served_client
from support.soak.journal import Line, read_journal

__all__ = ["ServedFigures", "judge_served", "run_served_soak"]

_PATIENCE_S = 180.0
# Of rubbish: so many connections at a time.
_AT_ONCE = 20
# A frame that is half is given up by the server after 30 s.
_HALF_FRAME_S = 60.0
_SERVE = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()", "serve"]


class ServedFigures(NamedTuple):
    """Counts of one campaign. Memory in MiB, of the server alone. wrong: what went wrong, a line each."""

    connections: int
    held_pulls: int
    seconds: float
    kills: int
    stops: int
    malformed: int
    acknowledged: int
    requests: int
    memory_begin_mib: int
    memory_end_mib: int
    wrong: list[str]


def run_served_soak(
    directory: Path,
    seed: int,
    seconds: float,
    malformed: int,
    *,
    processes: int = 8,
    connections: int = 62,
    flush_type: str = "ASYNC_FLUSH",
) -> ServedFigures:
    """Be unkind for `seconds`. connections: of each process."""
    campaign = _Campaign(directory, seed, (processes, connections), flush_type)
    begin_s = time.monotonic()
    try:
        campaign.run(seconds, malformed)
    finally:
        campaign.kill()
    lines = list(read_journal(campaign.journal))
    counts = Counter(line.kind for line in lines)
    campaign.wrong += judge_served(lines, directory / "data")
    memory = campaign.memory
    return ServedFigures(
        connections=connections * processes,
        held_pulls=connections * processes * served_client.QUEUES,
        seconds=time.monotonic() - begin_s,
        kills=campaign.kills,
        stops=campaign.stops,
        malformed=campaign.malformed,
        acknowledged=counts["sent"],
        requests=sum(int(line.words[0]) for line in lines if line.kind == "finished"),
        memory_begin_mib=_mib(memory[: len(memory) // 4]),
        memory_end_mib=_mib(memory[-len(memory) // 4 :]),
        wrong=campaign.wrong,
    )


class _Campaign:
    """The processes of one. clients: by run; each that is started has a new one."""

    def __init__(self, directory: Path, seed: int, size: tuple[int, int], flush_type: str) -> None:
        self.journal = directory / "journal"
        self.journal.touch()
        self.wrong: list[str] = []
        self.memory: list[int] = []
        self.kills = self.stops = self.malformed = 0
        self._seed = seed
        self._chance = random.Random(seed)
        self._processes, self._connections = size
        self._directory = directory
        self._runs = 0
        self._clients: dict[int, subprocess.Popen[bytes]] = {}
        command = [
            *_SERVE,
            str(directory / "data"),
            "--port",
            "0",
            "--json",
            "-o",
            f"flush_disk_type={flush_type}",
        ]
        with (directory / "serve.log").open("w") as log:
            self._server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, encoding="utf-8")
        assert self._server.stdout is not None
        self._address = json.loads(self._server.stdout.readline())["address"]

    def run(self, seconds: float, malformed: int) -> None:
        """All of it; the server has ended then."""
        sockets = self._sockets()
        for _ in range(self._processes):
            self._start()
        self._await("ready", set(self._clients))
        rubbish = threading.Thread(target=lambda: asyncio.run(self._send_rubbish(malformed, seconds)))
        rubbish.start()
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and not self.wrong:
            self._disturb(self._chance.uniform(0.2, 3.0))
        rubbish.join()
        for number, what in ((signal.SIGUSR1, "quiet"), (signal.SIGTERM, "finished")):
            self._await("ready", set(self._clients))
            for client in self._clients.values():
                client.send_signal(number)
            self._await(what, set(self._clients))
        for run, client in self._clients.items():
            if code := client.wait(_PATIENCE_S):
                self.wrong.append(f"client {run} ended with {code}")
        self._clients.clear()
        self._await_sockets(sockets)
        self._server.send_signal(signal.SIGTERM)
        if code := self._server.wait(_PATIENCE_S):
            self.wrong.append(f"the server ended with {code}")

    def kill(self) -> None:
        """End what is left of it."""
        for process in (*self._clients.values(), self._server):
            process.kill()
            process.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def _start(self) -> None:
        self._runs += 1
        arguments = [self._address, self.journal, self._seed, self._runs, self._connections]
        with (self._directory / f"client-{self._runs}.log").open("w") as log:
            self._clients[self._runs] = subprocess.Popen(
                [sys.executable, served_client.__file__, *map(str, arguments)], stderr=log
            )

    def _disturb(self, seconds: float) -> None:
        """Kill one client and start another, or stop one for a time; look at the server's memory."""
        run = self._chance.choice(sorted(self._clients))
        client = self._clients[run]
        if self._chance.random() < 0.4:
            client.kill()
            client.wait()
            del self._clients[run]
            self.kills += 1
            self._start()
            time.sleep(seconds)
        else:
            client.send_signal(signal.SIGSTOP)
            self.stops += 1
            time.sleep(seconds)
            client.send_signal(signal.SIGCONT)
        self.memory.append(self._private_bytes())
        for each, process in self._clients.items():
            if process.poll() is not None:
                self.wrong.append(f"client {each} ended with {process.returncode} at work")
        if self._server.poll() is not None:
            self.wrong.append(f"the server ended with {self._server.returncode} at work")

    def _await(self, kind: str, runs: set[int]) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while True:
            # Before the journal is read: one that ends meanwhile has said what it had to say.
            ended = {run for run in runs if self._clients[run].poll() is not None}
            missing = runs - {line.run for line in read_journal(self.journal) if line.kind == kind}
            if not missing:
                return
            if missing & ended or time.monotonic() > end_s:
                self.wrong.append(
                    f"clients {sorted(missing)} are not {kind}; ended: {sorted(missing & ended)}"
                )
                return
            time.sleep(0.5)

    def _await_sockets(self, count: int) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while (now := self._sockets()) != count:
            if time.monotonic() > end_s:
                self.wrong.append(f"the server has {now} sockets, and had {count} before the first client")
                return
            time.sleep(0.5)

    async def _send_rubbish(self, count: int, seconds: float) -> None:
        """`count` connections, spread over the time; each must be closed by the server, or answered."""
        chance, limit = random.Random(f"{self._seed} rubbish"), asyncio.Semaphore(_AT_ONCE)
        begin_s, tasks = time.monotonic(), []
        for number in range(count):
            await limit.acquire()
            task = asyncio.create_task(self._send_one(malformed_bytes(chance)))
            task.add_done_callback(lambda _: limit.release())
            tasks.append(task)
            await asyncio.sleep(max(0.0, begin_s + seconds * number / count - time.monotonic()))
        await asyncio.gather(*tasks)

    async def _send_one(self, data: bytes) -> None:
        host, _, port = self._address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            with suppress(ConnectionError):
                writer.write(data)
                writer.write_eof()
                async with asyncio.timeout(_HALF_FRAME_S):
                    while await reader.read(1 << 16):
                        pass
            self.malformed += 1
        except TimeoutError:
            self.wrong.append(f"not closed in {_HALF_FRAME_S:.0f} s: {data[:100]!r}")
        finally:
            writer.close()

    def _private_bytes(self) -> int:
        """Memory of the server alone: mapped files are not counted."""
        lines = Path(f"/proc/{self._server.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024

    def _sockets(self) -> int:
        count = 0
        for link in Path(f"/proc/{self._server.pid}/fd").iterdir():
            # One that is closed meanwhile is gone.
            with suppress(FileNotFoundError):
                count += str(link.readlink()).startswith("socket:")
        return count


def judge_served(lines: list[Line], path: Path) -> list[str]:
    """What is wrong with what the clients said, and with the store that is left."""
    wrong = [
        f"{line.kind}: run {line.run}, {' '.join(line.words)}"
        for line in lines
        if line.kind in ("unanswered", "cut", "refused")
    ]
    with MessageStore.open(path, read_only=True) as store:
        stored = Counter(
            message.body.decode()
            for number in range(served_client.TOPICS)
            for queue_id in range(served_client.QUEUES)
            for message in _messages(store, f"load-{number}", queue_id)
        )
        for line in lines:
            if line.kind == "stood":
                topic, queue_id, offset = line.words[0], int(line.words[1]), int(line.words[2])
                if (end := store.get_max_offset_in_queue(topic, queue_id)) != offset:
                    wrong.append(
                        f"a pull of {topic} {queue_id} stood at {offset}, and its queue ends at {end}"
                    )
    sent = [line.words[0] for line in lines if line.kind == "sent"]
    wrong += [f"acknowledged and lost: {body}" for body in sent if body not in stored]
    return wrong + [f"stored {count} times: {body}" for body, count in stored.items() if count > 1]


def _messages(store: MessageStore, topic: str, queue_id: int) -> Iterator[StoredMessage]:
    offset = 0
    while found := store.get_message("judge", topic, queue_id, offset, 1_000).messages:
        yield from found
        offset += len(found)


def _mib(samples: list[int]) -> int:
    return round(statistics.median(samples) / (1 << 20)) if samples else 0
