"""`make bench-serve`: `mqstore serve` beside a broker of Apache RocketMQ, by RocketMQ's own Java client.

Both serve on this machine, each a directory of its own; one works while the other is idle, in turn, and the
client of each is a JVM of its own that has been warmed up. All JVMs have G1 and a heap of 1 GiB. A ratio is
our rate over RocketMQ's in neighbouring rounds: above 1 we are faster. Times are of a send, or of a batch, as
the client waits for it.

Start: from the start of the process to the first answer, the median of some on new directories. RocketMQ's
name server and broker start once, one after the other, the broker beside a client. Memory: what the server
has of its own after all loads of one flush mode, in the mode that leaves more; pages of mapped segments,
which the system takes back when it needs them, are not counted.
"""

import itertools
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import click
from report import replace_between

from mqstore.client import RemoteBroker
from mqstore.store.errors import StoreError
from support.interop.broker import broker_port, eventually, running_broker
from support.interop.process import BUILD
from support.interop.served import Traffic

VERSION = "5.5.0"
OURS, THEIRS = "mqstore", "RocketMQ"
_DELAYS = "1s 5s 10s"
_WARM_UP: dict[str, Any] = {"way": "sync", "bytes": 1024, "threads": 8}
_WARM_UP_MS = 8_000
_STARTS = 9
_GROWN_MIB = 64


class Work(NamedTuple):
    """One kind of load. goal: the ratio that is wanted. is_log_grown: after _GROWN_MIB of messages."""

    title: str
    flush_disk_type: str
    request: dict[str, Any]
    goal: float | None
    is_log_grown: bool = False


def _sends(way: str, size: int, goal: float | None, flush: str = "ASYNC_FLUSH", **fields: int) -> Work:
    amount = {"sync": "{threads} threads", "async": "{under_way:,} under way", "batch": "of {batch}"}[way]
    title = f"{way} {amount.format(**fields)}, {size} B, {flush}".replace("1 threads", "1 thread")
    return Work(title, flush, {"way": way, "bytes": size, **fields}, goal)


def _synced_sends(size: int, goal: float, *, threads: int, is_log_grown: bool) -> Work:
    work = _sends("sync", size, goal, "SYNC_FLUSH", threads=threads)
    title = f"{work.title}, {_GROWN_MIB} MiB later" if is_log_grown else work.title
    return work._replace(title=title, is_log_grown=is_log_grown)


WORKS = (
    _sends("sync", 128, 1.3, threads=1),
    _sends("sync", 1024, 1.3, threads=1),
    _sends("sync", 128, 1.1, threads=8),
    _sends("sync", 1024, 1.1, threads=8),
    _sends("sync", 128, 1.0, threads=64),
    _sends("sync", 1024, 1.0, threads=64),
    _sends("async", 128, 1.1, under_way=1000, threads=1),
    _sends("async", 1024, 1.1, under_way=1000, threads=1),
    _sends("batch", 128, 0.6, batch=100, threads=1),
    _sends("batch", 1024, 0.6, batch=100, threads=1),
    # The first two on logs as the warm-up leaves them. A sync of a longer log may write more: decision 66.
    _synced_sends(128, 1.3, threads=1, is_log_grown=False),
    _synced_sends(1024, 1.3, threads=1, is_log_grown=False),
    _synced_sends(128, 1.3, threads=1, is_log_grown=True),
    _synced_sends(1024, 1.3, threads=1, is_log_grown=True),
    _synced_sends(128, 1.1, threads=8, is_log_grown=True),
    _synced_sends(1024, 1.1, threads=8, is_log_grown=True),
    Work("push consumer, 1,024 B", "ASYNC_FLUSH", {"consume": 100_000, "bytes": 1024}, 1.4),
)


class Side:
    """One server and its client. pid: the server's process."""

    def __init__(self, name: str, address: str, pid: int, traffic: Traffic) -> None:
        self.name = name
        self.pid = pid
        self._address = address
        self._traffic = traffic
        self._groups = 0

    def ask(self, request: dict[str, Any], topic: str, milliseconds: int) -> dict[str, Any]:
        """One round. Raises RuntimeError if a send has failed."""
        if "consume" in request:
            self._groups += 1
            fields = {"group": f"rates-{self._groups}", "count": request["consume"]}
            answer = self._traffic.ask("consume_rate", topic=topic, **fields)
        else:
            answer = self._traffic.ask("rate", topic=topic, milliseconds=milliseconds, **request)
        if answer["failed"]:
            raise RuntimeError(f"{self.name}: {answer['failed']} have failed")
        found: dict[str, Any] = answer
        return found

    def fill(self, topic: str, count: int, size: int) -> None:
        """Send so many messages, for a consumer to find."""
        sent = 0
        request = {"way": "batch", "batch": 100, "threads": 1, "bytes": size}
        while sent < count:
            sent += self._traffic.ask("rate", topic=topic, milliseconds=500, **request)["messages"]

    @property
    def memory_mib(self) -> float:
        """The memory of the server's own."""
        return anonymous_mib(self.pid)


def anonymous_mib(pid: int) -> float:
    """The resident memory of a process without pages of files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


class Started(NamedTuple):
    """A server that answers. first_answer_s: from the start of its process."""

    address: str
    pid: int
    first_answer_s: float


@contextmanager
def _our_server(python: Path, directory: Path, flush: str) -> Iterator[Started]:
    """`mqstore serve` of an installed mqstore."""
    command = [str(python), "-P", "-c", "from mqstore.tools.cli.app import main; main()", "serve"]
    options = [
        "--port",
        "0",
        "--json",
        "-o",
        f"flush_disk_type={flush}",
        "-o",
        f"message_delay_level={_DELAYS}",
    ]
    began_s = time.perf_counter()
    with subprocess.Popen(
        [*command, str(directory / "ours"), *options], stdout=subprocess.PIPE, text=True, cwd=directory
    ) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            RemoteBroker(address).close()
            yield Started(address, process.pid, time.perf_counter() - began_s)
        finally:
            process.terminate()


def our_first_answer_s(python: Path) -> float:
    """Seconds from the start of our server to its first answer, on new directories; the median of some."""
    seconds = []
    for _ in range(_STARTS):
        with (
            tempfile.TemporaryDirectory() as directory,
            _our_server(python, Path(directory), "ASYNC_FLUSH") as server,
        ):
            seconds.append(server.first_answer_s)
    return statistics.median(seconds)


@contextmanager
def ours(python: Path, directory: Path, flush: str) -> Iterator[Side]:
    """Our server and its client."""
    with _our_server(python, directory, flush) as server:
        traffic = Traffic(VERSION, server.address, BUILD / VERSION / "traffic" / "rates-ours")
        try:
            yield Side(OURS, server.address, server.pid, traffic)
        finally:
            traffic.end()


@contextmanager
def theirs(directory: Path, flush: str, started: dict[str, float]) -> Iterator[Side]:
    """A name server and a broker of RocketMQ, and its client."""
    settings = {
        "listenPort": broker_port(),
        "flushDiskType": flush,
        "messageDelayLevel": _DELAYS,
        "longPollingEnable": "true",
    }
    began_s = time.perf_counter()
    with running_broker(VERSION, directory / "theirs", settings, "rates") as run:

        def is_there() -> bool:
            with suppress(StoreError):
                RemoteBroker(run.name_server).close()
                return True
            return False

        eventually(is_there, "the broker is registered")
        started[THEIRS] = time.perf_counter() - began_s
        traffic = Traffic(VERSION, run.name_server, BUILD / VERSION / "traffic" / "rates-theirs")
        try:
            yield Side(THEIRS, run.name_server, run.broker.pid, traffic)
        finally:
            traffic.end()


def measure(work: Work, sides: dict[str, Side], rounds: int, seconds: float) -> dict[str, Any]:
    """The rounds of one kind of load, in turn; one before that is not counted."""
    topic = re.sub(r"\W+", "-", work.title)
    if "consume" in work.request:
        for side in sides.values():
            side.fill(topic, work.request["consume"], work.request["bytes"])
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for side in sides.values():
        side.ask(work.request, topic, min(_WARM_UP_MS, int(3000 * seconds)))
    for at in range(rounds):
        for name in sorted(sides, reverse=at % 2 == 0):
            taken[name].append(sides[name].ask(work.request, topic, int(1000 * seconds)))
    ratios = [mine["rate"] / other["rate"] for mine, other in zip(taken[OURS], taken[THEIRS], strict=True)]
    return {
        "work": work.title,
        "goal": work.goal,
        "ratio": round(statistics.median(ratios), 2),
        "least": round(min(ratios), 2),
        "greatest": round(max(ratios), 2),
        "rates": {name: int(statistics.median(each["rate"] for each in taken[name])) for name in sides},
        "p99_us": {
            name: int(statistics.median(each["p99_us"] for each in taken[name]))
            for name in sides
            if "p99_us" in taken[name][0]
        },
    }


def table(figures: dict[str, Any]) -> str:
    """The figures as a table of a page."""
    said = (
        f"Measured by `{figures['command']}` on {figures['machine']}, load {figures['load']:.1f} at the "
        f"beginning, {figures['rounds']} rounds of {figures['seconds']:g} s in turn. Ratios are ours over "
        "RocketMQ's in neighbouring rounds, median (least to greatest); p99 in us, of a send or of a batch."
    )
    heads = ("load, by the Java client 5.5.0", "mqstore, 1/s", "RocketMQ, 1/s", "ratio", "p99", "RocketMQ's")
    lines = [said, "", f"| {' | '.join(heads)} |", "| --- | --: | --: | --- | --: | --: |"]
    for row in figures["rows"]:
        rates, p99 = row["rates"], row["p99_us"]
        times = f"{p99[OURS]:,} | {p99[THEIRS]:,}" if p99 else " | "
        ratio = f"{row['ratio']} ({row['least']}-{row['greatest']})"
        lines.append(f"| {row['work']} | {rates[OURS]:,} | {rates[THEIRS]:,} | {ratio} | {times} |")
    start, memory = figures["start_s"], figures["memory_mib"]
    last = (
        f"First answer after {start[OURS]:.2f} s (median of {_STARTS}); RocketMQ's name server and broker, "
        f"one after the other and beside a client's start: {start[THEIRS]:.1f} s. Memory of its own, at the "
        f"end of the loads of one flush mode, whichever is more: {memory[OURS]} MiB, RocketMQ's broker "
        f"{memory[THEIRS]} MiB (its heap is 1,024), without pages of mapped segments."
    )
    lines += ["", last]
    return "\n".join(lines)


@click.command(context_settings={"show_default": True})
@click.argument("python", type=click.Path(path_type=Path))
@click.option("--rounds", type=int, default=5, help="Rounds that count.")
@click.option("--seconds", type=float, default=3.0, help="Seconds a round.")
@click.option("--only", default="", help="Only loads whose title matches this expression.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the figures here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(
    python: Path,
    rounds: int,
    seconds: float,
    only: str,
    json_path: Path | None,
    page: Path | None,
) -> None:
    """Measure, print, and write the figures."""
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    started = {OURS: our_first_answer_s(python.absolute())}
    memory: dict[str, float] = {}
    wanted = [work for work in WORKS if re.search(only, work.title)]
    for flush in sorted({work.flush_disk_type for work in wanted}):
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            mine = stack.enter_context(ours(python.absolute(), directory, flush))
            other = stack.enter_context(theirs(directory, flush, started))
            sides = {OURS: mine, THEIRS: other}
            for side in sides.values():
                side.ask(_WARM_UP, "warm-up", min(_WARM_UP_MS, int(3000 * seconds)))
            works = [work for work in wanted if work.flush_disk_type == flush]
            for is_log_grown, alike in itertools.groupby(works, attrgetter("is_log_grown")):
                if is_log_grown:
                    for side in sides.values():
                        side.fill("grown", _GROWN_MIB * 1024, 1024)
                for work in alike:
                    rows.append(measure(work, sides, rounds, seconds))
                    click.echo(json.dumps(rows[-1]))
            memory = {name: max(side.memory_mib, memory.get(name, 0.0)) for name, side in sides.items()}
    figures = {
        "command": "make bench-serve",
        "machine": f"{os.cpu_count()} cores",
        "load": load,
        "rounds": rounds,
        "seconds": seconds,
        "rows": rows,
        "start_s": {name: round(value, 2) for name, value in started.items()},
        "memory_mib": {name: round(value) for name, value in memory.items()},
    }
    click.echo(table(figures))
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "served rates", table(figures))


if __name__ == "__main__":
    main()
