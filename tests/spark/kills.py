"""`make stream-kills`: a streaming query is killed at random moments beside a writer; no row may be lost or
doubled.

usage: kills.py [--kills 50] [--seed 1] [--minutes 60] [--keep]

A process of its own runs Spark and a query into Parquet, in small batches. It is killed with all that it has
started, by SIGKILL, a random time after it began or after a batch was planned, and started again, while this
process puts messages. After the last kill the query runs to the end of the log, and its rows are compared
with what the puts returned: place, queue and body.
Figures of 5 kills and more without a finding go to docs/figures/stream_kills.json and
into docs/spark.md. Exit code 1 for a row that is lost, doubled, or not as it was put.
"""

import argparse
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import deque
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from mqstore import Message, MessageStore, StoreConfig
from mqstore.tools.spark.session import local_session
from support.page_part import write_part

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURES = REPOSITORY / "docs" / "figures" / "stream_kills.json"
PAGE = REPOSITORY / "docs" / "spark.md"
BEGIN, END = "<!-- stream kills: written by tests/spark/kills.py -->", "<!-- end of stream kills -->"
FULL_KILLS = 5
# Drivers that are started ahead, for a session takes long to start.
AHEAD = 2
LONGEST_DELAY_S = 2.0
# A driver lives for seconds, and Java's second compiler would take half of its processor time.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Put(NamedTuple):
    """One acknowledged message, and one row of Parquet."""

    physical_offset: int
    queue_id: int
    queue_offset: int
    body_crc: int


class Writer(threading.Thread):
    """Puts messages until it is stopped; `puts` are those that were acknowledged."""

    def __init__(self, store: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self._store, self._choice = store, random.Random(seed)
        self.puts: list[Put] = []
        self.is_stopped = threading.Event()

    def run(self) -> None:
        # A disk that is nearly full must not begin to delete what the query has yet to read.
        config = StoreConfig(
            mapped_file_size_commit_log=4 << 20, max_message_size=1 << 20, clean_file_forcibly_enable=False
        )
        with MessageStore.open(self._store, config) as store:
            while not self.is_stopped.wait(0.05):
                for _ in range(self._choice.randrange(10)):
                    body = self._choice.randbytes(self._choice.choice([0, 100, 1_000, 4_000]))
                    put = store.put_message(Message("orders", body, queue_id=self._choice.randrange(4)))
                    self.puts.append(
                        Put(put.physical_offset, put.queue_id, put.queue_offset, zlib.crc32(body))
                    )


# -- the process that is killed ----------------------------------------------------------------------------


def run_query(directory: Path, *, to_end: bool) -> None:
    """The query, until it is killed; or to the end of the log, and then its rows into one file."""
    spark = local_session()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return
    frame = (
        spark.readStream.format("mqstore")
        .options(startingOffsets="earliest", maxBytesPerTrigger="32m" if to_end else "64k")
        .load(str(directory / "store"))
    )
    query = (
        frame.selectExpr("physicalOffset", "queueId", "queueOffset", "crc32(body) AS bodyCrc")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(**({"availableNow": True} if to_end else {"processingTime": "0 seconds"}))
        .start(str(directory / "out"))
    )
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()
    pq.write_table(spark.read.parquet(str(directory / "out")).toArrow(), directory / "rows.parquet")
    spark.stop()


def start(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, "--directory", str(directory), *arguments]
    with (directory / "driver.log").open("a") as log:
        return subprocess.Popen(
            command,
            env=os.environ | {"JAVA_TOOL_OPTIONS": JAVA_OPTIONS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def begin_query(process: "subprocess.Popen[str]", directory: Path) -> None:
    """Have a driver that has its session start the query."""
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.readline() == "ready\n":
        process.stdin.write("go\n")
        process.stdin.flush()
        if process.stdout.readline() == "started\n":
            return
    raise RuntimeError(f"the driver does not start: {directory / 'driver.log'}")


def kill_session(process: "subprocess.Popen[str]") -> None:
    """The driver, its JVM and their Python workers: whatever belongs to the session that it leads."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            session = int(stat.read_text().rpartition(")")[2].split()[3])
        except (OSError, ValueError):
            continue
        if session == process.pid:
            try:
                os.kill(int(stat.parent.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
    process.wait()


# -- the campaign -------------------------------------------------------------------------------------------


def newest(directory: Path) -> int:
    """The number of the last batch in a log of a checkpoint; -1: there is none."""
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    return max((int(name.partition(".")[0]) for name in names if name[0].isdigit()), default=-1)


def wait_for_batches(process: "subprocess.Popen[str]", checkpoint: Path, count: int) -> None:
    """Until so many more batches are planned, or the query has ended."""
    first = newest(checkpoint / "offsets")
    while newest(checkpoint / "offsets") < first + count and process.poll() is None:
        time.sleep(0.005)


def run_kills(directory: Path, kills: int, seed: int, minutes: float) -> dict[str, object]:
    """Kill so many times, or for so long; the figures, with what is wrong under `findings`."""
    choice, begin = random.Random(seed), time.monotonic()
    writer = Writer(directory / "store", seed)
    writer.start()
    while not writer.puts:
        time.sleep(0.01)
    done = within_batch = 0
    checkpoint = directory / "checkpoint"
    drivers = deque(start(directory) for _ in range(AHEAD))
    while done < kills and time.monotonic() - begin < minutes * 60:
        drivers.append(start(directory))
        process = drivers.popleft()
        begin_query(process, directory)
        if done % 4:
            # A quarter of the kills strikes at any time, perhaps before the first batch; the others later.
            wait_for_batches(process, checkpoint, choice.randint(1, 4))
        time.sleep(choice.uniform(0, LONGEST_DELAY_S))
        if process.poll() is not None:
            raise RuntimeError(f"the query has ended by itself: {directory / 'driver.log'}")
        kill_session(process)
        done += 1
        planned, committed = newest(checkpoint / "offsets"), newest(checkpoint / "commits")
        within_batch += planned > committed
        sys.stdout.write(f"kill {done}: batch {planned} planned, {committed} committed\n")
        sys.stdout.flush()
    writer.is_stopped.set()
    writer.join()
    for waiting in drivers:
        kill_session(waiting)
    process = start(directory, "--to-end")
    begin_query(process, directory)
    if process.wait() != 0:
        raise RuntimeError(f"the last run failed: {directory / 'driver.log'}")
    rows = [Put(*row.values()) for row in pq.read_table(directory / "rows.parquet").to_pylist()]
    findings = compare(writer.puts, rows)
    return {
        "kills": done,
        "kills_within_a_batch": within_batch,
        "batches": newest(checkpoint / "commits") + 1,
        "messages": len(writer.puts),
        "rows": len(rows),
        **{name: len(found) for name, found in findings.items()},
        "seed": seed,
        "seconds": round(time.monotonic() - begin),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "command": f"make stream-kills KILLS={done} SEED={seed}",
        "findings": findings,
    }


def compare(puts: list[Put], rows: list[Put]) -> dict[str, list[Put]]:
    """What is wrong with the rows; the lists are empty if nothing is."""
    expected, places = set(puts), {put.physical_offset for put in puts}
    found: set[Put] = set()
    doubled = [row for row in rows if row in found or found.add(row)]
    return {
        "lost": sorted(put for put in expected if put not in found),
        "doubled": doubled,
        "changed": sorted(row for row in found - expected if row.physical_offset in places),
        "invented": sorted(row for row in found - expected if row.physical_offset not in places),
    }


def write(figures: dict[str, object]) -> None:
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    line = (
        f"{figures['kills']} kills, {figures['kills_within_a_batch']} of them within a batch that was "
        f"planned and not committed; {figures['batches']} batches, {figures['messages']:,} messages put, "
        f"{figures['rows']:,} rows: {figures['lost']} lost, {figures['doubled']} doubled, "
        f"{figures['changed']} changed (`{figures['command']}`, {figures['machine']})."
    )
    write_part(PAGE, BEGIN, END, line)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills of a streaming query.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="begin no further kill after that")
    parser.add_argument("--keep", action="store_true", help="leave the store, the checkpoint and the rows")
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--to-end", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.directory is not None:
        run_query(arguments.directory, to_end=arguments.to_end)
        return 0
    directory = Path(tempfile.mkdtemp(prefix="mqstore-stream-"))
    figures = run_kills(directory, arguments.kills, arguments.seed, arguments.minutes)
    findings = figures.pop("findings")
    assert isinstance(findings, dict)
    is_wrong = any(findings.values())
    print(json.dumps(figures, indent=1))
    for name, found in findings.items():
        print("\n".join(f"{name}: {one}" for one in found[:10]), end="\n" if found else "")
    if not is_wrong and int(str(figures["kills"])) >= FULL_KILLS:
        write(figures)
    if arguments.keep or is_wrong:
        print(f"store, checkpoint and rows: {directory}")
    else:
        shutil.rmtree(directory)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
