"""How long a store takes to open: after `close` by its size, after `kill -9` by the unchecked tail.

usage: python benchmarks/reopen.py [--segments 100] [--queues 10000] [--segment-mib 1,16] [--tail-mib 1024]
           [--body-bytes 1000] [--rounds 3] [--directory DIR] [--json benchmarks/results/reopen.json]
           [--page docs/crash_safety.md]

One row is one kind of opening. `open` is the time of `MessageStore.open` in a fresh process, imports not
counted (`import` tells them), until it returns; `put` the first durable put behind it. Clean openings are
made with two sizes of segment, so that it shows whether the time grows with the bytes of the log.
The killed process has put all of its tail without a sync, so that no recovery point and no page of it is on
the disk: recovery checks every record, writes the tail once more, syncs it and fills the queues.

`bare disk` is the time that a plain write of as many bytes and its fdatasync take in the same minute.

What would make the numbers dishonest: a tail that the services of the killed process have synced already; a
disk that is at work for others; opening in the process that wrote. Pages are in memory in both cases, as they
are after a kill; `cold` drops those of the store first (posix_fadvise).
"""

import dataclasses
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mqstore import Message, MessageStore, StoreConfig

_MIB = 1 << 20
_BATCH = 100
_QUEUES_A_TOPIC = 1_000
_BEGIN = "<!-- reopening: written by benchmarks/reopen.py -->"
_END = "<!-- end of reopening -->"
_RESULTS = Path(__file__).with_name("results") / "reopen.json"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a store is filled with."""

    segments: int
    segment_mib: int
    queues: int
    body_bytes: int

    def config(self) -> StoreConfig:
        """Segments of that size; all else as it comes."""
        segment_bytes = self.segment_mib * _MIB
        return StoreConfig(
            mapped_file_size_commit_log=segment_bytes,
            max_message_size=min(4 * _MIB, segment_bytes - 65_544),
        )

    def fill(self, store: MessageStore) -> int:
        """Put to every queue in turn until there are so many segments; returns the messages."""
        topics = -(-self.queues // _QUEUES_A_TOPIC)
        for topic in range(topics):
            store.topics.create(f"topic-{topic}", min(self.queues, _QUEUES_A_TOPIC))
        body = os.urandom(self.body_bytes)
        end_offset = self.segments * self.segment_mib * _MIB - 2 * _BATCH * (self.body_bytes + 200)
        messages = 0
        while store.max_offset < end_offset or messages < self.queues:
            batch = []
            for _ in range(_BATCH):
                topic, queue_id = divmod(messages % self.queues, _QUEUES_A_TOPIC)
                batch.append(Message(f"topic-{topic}", body, queue_id=queue_id))
                messages += 1
            store.put_messages(batch)
        return messages


def _run(what: str, *arguments: object) -> dict[str, Any]:
    """Run this file in a fresh process; what it printed, {} if it was killed."""
    command = [sys.executable, str(Path(__file__).resolve()), what, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}")
    facts: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return facts


def _table(results: dict[str, Any]) -> str:
    lines = [
        "| after | segments | queues | log, MiB | open, s | least to greatest | bare disk, s |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: |",
    ]
    for row in results["rows"]:
        bare = f"{row['bare_disk_s']:.2f}" if "bare_disk_s" in row else ""
        lines.append(
            f"| {row['opening']} | {row['segments']} | {row['queues']:,} | {row['bytes'] / _MIB:,.0f} "
            f"| {row['open_s']:.2f} | {row['open_least_s']:.2f} to {row['open_most_s']:.2f} | {bare} |"
        )
    rounds, load = len(results["rows"][-1]["runs"]), results["load"]
    made = (
        f"Medians of {rounds} on {results['machine']}, Python {results['python']}, "
        f"load {load[0]} to {load[1]}: `{results['command']}`."
    )
    return "\n".join([*lines, "", made])


@click.command(hidden=True)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("shape")
@click.option("--is-killed/--no-is-killed", required=True)
def write(path: Path, shape: str, is_killed: bool) -> None:
    """Fill a store; then close it, or be killed with nothing synced."""
    wanted = Shape(**json.loads(shape))
    store = MessageStore.open(path, wanted.config(), start=False)
    messages = wanted.fill(store)
    facts = {"messages": messages, "bytes": store.max_offset}
    if is_killed:
        path.with_suffix(".json").write_text(json.dumps(facts))
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.perf_counter()
    store.flush()
    facts["flush_s"] = time.perf_counter() - started
    store.close()
    path.with_suffix(".json").write_text(json.dumps(facts))


@click.command(hidden=True)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("shape")
def reopen(path: Path, shape: str) -> None:
    """Open the store and put one message; print the times."""
    config = Shape(**json.loads(shape)).config()
    times: dict[str, float] = {}
    started = time.perf_counter()
    marks: list[tuple[str, float]] = []
    store = MessageStore.open(
        path, config, on_progress=lambda what, done, total: marks.append((what, time.perf_counter()))
    )
    times["open_s"] = time.perf_counter() - started
    for what, at in marks:
        times[f"{what}_until_s"] = at - started
    started = time.perf_counter()
    store.put_message(Message("topic-0", b"first", queue_id=0))
    store.flush()
    times["put_s"] = time.perf_counter() - started
    started = time.perf_counter()
    store.close()
    times["close_s"] = time.perf_counter() - started
    sys.stdout.write(json.dumps(times))


def _bare_disk_s(directory: Path, size_bytes: int) -> float:
    """Seconds to write so many bytes that do not compress, and to sync them."""
    piece = os.urandom(_MIB)
    path = directory / "bare"
    started = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(-(-size_bytes // _MIB)):
            file.write(piece)
        file.flush()
        os.fdatasync(file.fileno())
    taken_s = time.perf_counter() - started
    path.unlink()
    return taken_s


def _forget_pages(path: Path) -> None:
    """Have the kernel drop what it keeps of the store's files."""
    for file in path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _row(name: str, shape: Shape, facts: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, Any]:
    opened = [run["open_s"] for run in runs]
    gib = facts["bytes"] / (1 << 30)
    return {
        "opening": name,
        **dataclasses.asdict(shape),
        **facts,
        "open_s": statistics.median(opened),
        "open_least_s": min(opened),
        "open_most_s": max(opened),
        "put_s": statistics.median(run["put_s"] for run in runs),
        "open_s_per_gib": statistics.median(opened) / gib,
        "runs": runs,
    }


def _clean(directory: Path, shape: Shape, rounds: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    path = directory / "clean"
    text = json.dumps(dataclasses.asdict(shape))
    tell(f"filling {shape.segments} segments of {shape.segment_mib} MiB, {shape.queues:,} queues")
    _run("write", path, text, "--no-is-killed")
    facts = json.loads(path.with_suffix(".json").read_text())
    warm = [_run("reopen", path, text) for _ in range(rounds)]
    cold = []
    for _ in range(rounds):
        _forget_pages(path)
        cold.append(_run("reopen", path, text))
    shutil.rmtree(path)
    return [_row("clean", shape, facts, warm), _row("clean, cold", shape, facts, cold)]


def _killed(directory: Path, shape: Shape, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    path = directory / "killed"
    text = json.dumps(dataclasses.asdict(shape))
    runs, facts, bare_s = [], {}, []
    for number in range(rounds):
        tell(f"kill {number + 1} of {rounds}: a tail of {shape.segment_mib} MiB, {shape.queues:,} queues")
        _run("write", path, text, "--is-killed")
        facts = json.loads(path.with_suffix(".json").read_text())
        runs.append(_run("reopen", path, text))
        shutil.rmtree(path)
        bare_s.append(_bare_disk_s(directory, facts["bytes"]))
    return _row("kill -9", shape, facts, runs) | {"bare_disk_s": statistics.median(bare_s)}


@click.group(invoke_without_command=True, context_settings={"show_default": True})
@click.option("--segments", type=int, default=100)
@click.option("--queues", type=int, default=10_000)
@click.option("--segment-mib", default="1,16")
@click.option("--tail-mib", type=int, default=1_024)
@click.option("--tail-queues", type=int, default=1_000)
@click.option("--body-bytes", type=int, default=1_000)
@click.option("--rounds", type=int, default=3)
@click.option("--directory", type=click.Path(path_type=Path), help="On the disk to be measured.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), default=_RESULTS)
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page too.")
@click.pass_context
def measure(
    context: click.Context,
    segments: int,
    queues: int,
    segment_mib: str,
    tail_mib: int,
    tail_queues: int,
    body_bytes: int,
    rounds: int,
    directory: Path | None,
    json_file: Path,
    page: Path | None,
) -> None:
    """Measure, print and write down."""
    if context.invoked_subcommand is not None:
        return

    def tell(line: str) -> None:
        click.echo(line, err=True)

    rows: list[dict[str, Any]] = []
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="mqstore-reopen-", dir=directory) as made:
        for size in (int(text) for text in segment_mib.split(",") if text):
            rows += _clean(Path(made), Shape(segments, size, queues, body_bytes), rounds, tell)
        if tail_mib:
            rows.append(_killed(Path(made), Shape(1, tail_mib, tail_queues, body_bytes), rounds, tell))
    results = {
        "rows": rows,
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": [round(load, 1) for load in (load_before, os.getloadavg()[0])],
        "command": " ".join(["python", "benchmarks/reopen.py", *sys.argv[1:]]),
    }
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(results, indent=1) + "\n")
    click.echo(_table(results))
    if page is not None:
        before, _, rest = page.read_text("utf-8").partition(_BEGIN)
        _, _, after = rest.partition(_END)
        page.write_text(f"{before}{_BEGIN}\n\n{_table(results)}\n\n{_END}{after}", "utf-8")


measure.add_command(write)
measure.add_command(reopen)


if __name__ == "__main__":
    measure()
