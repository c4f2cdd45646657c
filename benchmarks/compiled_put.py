"""What the compiled put is worth: processor time of one put, compiled and interpreted, and of rocksdict's.

usage: compiled_put.py PYTHON [--rounds 200] [--json FILE] [--page FILE]       PYTHON has mqstore from a wheel

One row is one put of one thread, the making of the message included, without services. All contestants live
at the same time, each in a process of its own, and take turns of 500 puts; so what else the machine does hits
all of them. The thread's processor time counts, not the wall. rocksdict, if PYTHON has it, writes its log and
does not sync, as ASYNC_FLUSH does; it has no tags, keys or properties.
"""

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from report import replace_between

PUTS = 500
OURS = """
import sys, time
from mqstore import Message, MessageStore
from mqstore.store.config import StoreConfig
config = StoreConfig(flush_disk_type="SYNC_FLUSH" if {sync} else "ASYNC_FLUSH")
store = MessageStore.open(sys.argv[1], config, start=False)
put, body = store.{method}, b"x" * {size}
def run():
    for _ in range({puts}):
        put(Message("orders", body{fields}))
"""
ROCKSDICT = """
import itertools, sys, time, rocksdict
database = rocksdict.Rdict(sys.argv[1], rocksdict.Options(raw_mode=True))
body, numbers = b"x" * {size}, itertools.count()
def run():
    for _ in range({puts}):
        database.put(next(numbers).to_bytes(8, "big"), body)
"""
TURNS = """
run()
for _ in sys.stdin:
    start = time.thread_time_ns()
    run()
    print((time.thread_time_ns() - start) / {puts}, flush=True)
"""
RICH = ', tags="created", keys=("order-17",), properties={"region": "eu", "kind": "new"}'
CASES = {
    "128 B": (128, "", "put_message"),
    "1 KiB": (1024, "", "put_message"),
    "128 B, key, tag, 2 properties": (128, RICH, "put_message"),
    "1 KiB, key, tag, 2 properties": (1024, RICH, "put_message"),
    "1 KiB, put_message_async, SYNC_FLUSH": (1024, "", "put_message_async"),
}


class Contestant:
    """A process that puts when it is told to."""

    def __init__(self, python: Path, program: str, directory: Path, *, is_direct: bool) -> None:
        directory.mkdir()
        self.times_ns: list[float] = []
        self._process = subprocess.Popen(
            [str(python), "-P", "-c", program, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"MQSTORE_DIRECT_PUT": str(int(is_direct))},
        )

    def take_turn(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.times_ns.append(float(self._process.stdout.readline()))

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def contest(
    python: Path, size: int, fields: str, method: str, rounds: int, folder: Path
) -> dict[str, list[float]]:
    """Nanoseconds of each turn of each contestant."""
    sync = method == "put_message_async"
    ours = (OURS + TURNS).replace("{fields}", fields)
    for name, value in (("sync", sync), ("method", method), ("size", size), ("puts", PUTS)):
        ours = ours.replace(f"{{{name}}}", str(value))
    rival = (ROCKSDICT + TURNS).format(size=size, puts=PUTS)
    contestants = {
        "compiled": Contestant(python, ours, folder / "compiled", is_direct=True),
        "interpreted": Contestant(python, ours, folder / "interpreted", is_direct=False),
    }
    if not fields and not sync and _has_rocksdict(python):
        contestants["rocksdict"] = Contestant(python, rival, folder / "rocksdict", is_direct=False)
    try:
        for number in range(rounds):
            for contestant in list(contestants.values())[:: 1 if number % 2 else -1]:
                contestant.take_turn()
    finally:
        for contestant in contestants.values():
            contestant.stop()
    return {name: contestant.times_ns for name, contestant in contestants.items()}


def _has_rocksdict(python: Path) -> bool:
    return (
        subprocess.run([str(python), "-c", "import rocksdict"], capture_output=True, check=False).returncode
        == 0
    )


def main(
    python: Annotated[Path, typer.Argument(help="A Python with mqstore from a wheel.")],
    rounds: Annotated[int, typer.Option(help="Turns of each contestant.")] = 200,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the figures here.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write the table into this page.")] = None,
) -> None:
    """Measure, print, and write the figures."""
    load = os.getloadavg()[0]
    rows: dict[str, dict[str, list[float]]] = {}
    for name, (size, fields, method) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            times = contest(python.absolute(), size, fields, method, rounds, Path(folder))
        rows[name] = {
            who: [round(quantile / 1000, 3) for quantile in statistics.quantiles(times_ns, n=4)]
            for who, times_ns in times.items()
        }
    told = subprocess.run([str(python), "--version"], capture_output=True, text=True, check=True)
    figures = {
        "command": f"compiled_put.py, {rounds} turns of {PUTS} puts",
        "python": told.stdout.split()[1],
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "microseconds": rows,
    }
    typer.echo(table(figures))
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "compiled put", table(figures))


def table(figures: dict[str, Any]) -> str:
    """What the page shows."""
    lines = ["| put | compiled | interpreted | rocksdict | interpreted / compiled | rocksdict / compiled |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name, row in figures["microseconds"].items():
        cells = [name]
        for who in ("compiled", "interpreted", "rocksdict"):
            low, median, high = row.get(who, (0, 0, 0))
            cells.append(f"{median:.2f} ({low:.2f} to {high:.2f})" if median else "")
        cells += [
            f"{row[who][1] / row['compiled'][1]:.1f}" if who in row else ""
            for who in ("interpreted", "rocksdict")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    before, after = figures["load"]
    lines += [
        "",
        f"`{figures['command']}`, Python {figures['python']}, load {before} before and {after} after.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
