"""What it costs to save progress: puts beside offsets that move, with `flush_progress_interval` and without.

    .venv/bin/python benchmarks/progress_cost.py PYTHON [--rounds 30] [--json FILE] [--page FILE]

PYTHON has mqstore from a wheel. One row is one way to put: messages of 1 KiB, one by one, by one thread;
after every 32 a group commits its offset, as a consumer does. Two stores live at the same time, each in a
process of its own with all services, and take turns of one second; one saves offsets that have moved every
200 ms (the default), the other leaves them to the older periods of 5 and 10 s, as RocketMQ does. `rate` is
puts a second, `cpu` microseconds of the whole process for a put. Given are the medians of all turns, and
median and quartiles of the ratios of neighbouring turns.

Dishonest would be: turns in which the offset never moves; a disk that others write to; one store after the
other.
"""

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click
from contest import version_of
from machine import machine, machine_in_words
from report import replace_between

SAVED_MS, LEFT_MS = 200, 3_600_000
FLUSHES = ("ASYNC_FLUSH", "SYNC_FLUSH")
PROGRAM = """
import sys, time
from mqstore import Message, MessageStore, StoreConfig
config = StoreConfig(flush_disk_type=sys.argv[2], flush_progress_interval=int(sys.argv[3]))
body, count = b"x" * 1024, 0
with MessageStore.open(sys.argv[1], config) as store:
    for _ in sys.stdin:
        before, start, cpu = count, time.perf_counter(), time.process_time()
        while time.perf_counter() < start + 1:
            for _ in range(32):
                store.put_message(Message("orders", body, queue_id=0))
            count += 32
            store.consumer_offsets.commit("billing", "orders", 0, count)
        took, cpu, puts = time.perf_counter() - start, time.process_time() - cpu, count - before
        print(puts / took, cpu * 1e6 / puts, flush=True)
"""


class Turn(NamedTuple):
    """Puts a second, and microseconds of the process a put."""

    rate: float
    cpu: float


class Putter:
    """A process with a store, which puts for a second when it is told to."""

    def __init__(self, python: Path, directory: Path, flush: str, interval_ms: int) -> None:
        command = [str(python), "-P", "-c", PROGRAM, str(directory), flush, str(interval_ms)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take_turn(self) -> Turn:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Turn(*map(float, self._process.stdout.readline().split()))

    def stop(self) -> None:
        self._process.communicate()


def measure(python: Path, flush: str, rounds: int) -> dict[str, Any]:
    """One row; the first turns warm up and do not count."""
    with tempfile.TemporaryDirectory(prefix="progress-cost-") as folder:
        putters = [
            Putter(python, Path(folder, str(interval_ms)), flush, interval_ms)
            for interval_ms in (SAVED_MS, LEFT_MS)
        ]
        taken: list[list[Turn]] = [[], []]
        for number in range(rounds + 1):
            for at in (0, 1) if number % 2 else (1, 0):
                taken[at].append(putters[at].take_turn())
        for putter in putters:
            putter.stop()
    saved, left = taken[0][1:], taken[1][1:]
    row: dict[str, Any] = {}
    for name in Turn._fields:
        ours, theirs = ([getattr(turn, name) for turn in turns] for turns in (saved, left))
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        row[name] = {
            "saved": round(statistics.median(ours), 1),
            "left": round(statistics.median(theirs), 1),
            "ratio": [round(quartile, 3) for quartile in statistics.quantiles(ratios, n=4)],
        }
    return row


def table(figures: dict[str, Any]) -> str:
    """What the page shows."""
    of_figure = "{} | without | ratio (middle half)"
    titles = ["put, 1 KiB, one thread", of_figure.format("puts a second"), of_figure.format("CPU us a put")]
    lines = [f"| {' | '.join(titles)} |", f"| --- |{' --: |' * 6}"]
    for name, row in figures["rows"].items():
        cells = [name]
        for figure, shown in (("rate", "{:,.0f}"), ("cpu", "{:.1f}")):
            low, median, high = row[figure]["ratio"]
            cells += [shown.format(row[figure]["saved"]), shown.format(row[figure]["left"])]
            cells.append(f"{median:.2f} ({low:.2f}-{high:.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"`{figures['command']}`, {machine_in_words(figures)}."])


@click.command(context_settings={"show_default": True})
@click.argument("python", type=click.Path(path_type=Path))
@click.option("--rounds", type=int, default=30, help="Turns of each.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the figures here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(python: Path, rounds: int, json_path: Path | None, page: Path | None) -> None:
    """Measure, print, and write the figures."""
    before = os.getloadavg()[0]
    rows = {flush: measure(python.absolute(), flush, rounds) for flush in FLUSHES}
    figures = {
        "command": f"progress_cost.py, {rounds} turns of a second each",
        "machine": machine() | {"python": version_of(python)},
        "load": [before, os.getloadavg()[0]],
        "rows": rows,
    }
    click.echo(table(figures))
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "progress cost", table(figures))


if __name__ == "__main__":
    main()
