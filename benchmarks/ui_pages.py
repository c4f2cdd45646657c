"""How long each page of `mqstore ui` takes over a topic of many messages, and how much memory it has.

usage: python benchmarks/ui_pages.py --python PYTHON [--messages N] [--json FILE] [--store DIRECTORY]

One row is one page, asked five times over HTTP: its slowest and its middle time, and the most memory (VmHWM
of the process) from its start up to then. PYTHON is one with mqstore[ui] from a wheel: where compiled
loops come from numba when they run, numba itself takes more than 100 MB. What would make the numbers
dishonest: a warm process, so the first request of all, which waits for the start, is among them.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from mqstore.message_store import MessageStore

BATCH = 50_000
ROUNDS = 5
PAGES = {
    "overview": "/",
    "topic": "/topic?name=orders",
    "topic, middle of a queue": "/topic?name=orders&queue=3&offset={middle}",
    "topic, by time": "/topic?name=orders&time={time}",
    "topic, by tag": "/topic?name=orders&tags=paid",
    "topic, by key": "/topic?name=orders&key=o-{middle}",
    "message": "/message?offset=0",
    "delayed": "/delay",
    "growth": "/growth?topic=orders",
}


def fill(path: Path, count: int) -> None:
    """Messages of about 100 bytes in eight queues, each with a tag and a key."""
    with MessageStore.open(path) as store:
        for begin in range(0, count, BATCH):
            numbers = range(begin, min(begin + BATCH, count))
            note = b"x" * 60
            store.put_columns(
                {
                    "topic": "orders",
                    "queue_id": (np.array(numbers) % 8).astype(np.int32),
                    "body": [b'{"order": %d, "note": "%s"}' % (number, note) for number in numbers],
                    "tags": ["paid" if number % 3 else "created" for number in numbers],
                    "keys": [f"o-{number}" for number in numbers],
                }
            )


def most_memory_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


def measured(python: str, path: Path, count: int) -> list[dict[str, object]]:
    with MessageStore.open(path, read_only=True) as store:
        time_ms = store.get_message_store_timestamp("orders", 0, count // 16)
    code = "from mqstore.tools.cli.app import main; main()"
    command = [python, "-P", "-c", code, "ui", str(path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"].rstrip("/")
            rows = [row(url, process.pid, name, page.format(middle=count // 16, time=time_ms))
                    for name, page in PAGES.items()]  # fmt: skip
        finally:
            process.terminate()
    return rows


def row(url: str, pid: int, name: str, page: str) -> dict[str, object]:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        with urllib.request.urlopen(url + page, timeout=120) as answer:
            size = len(answer.read())
        times.append((time.perf_counter() - begin) * 1000)
    return {
        "page": name,
        "slowest_ms": round(max(times), 1),
        "median_ms": round(statistics.median(times), 1),
        "answer_bytes": size,
        "most_memory_mb": round(most_memory_kb(pid) * 1024 / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", required=True)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--store", type=Path, help="made if it is not there; kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = given.store or Path(scratch) / "store"
        if not path.exists():
            fill(path, given.messages)
        rows = measured(given.python, path, given.messages)
    for each in rows:
        print(*each.values(), sep="\t")
    result = {"messages": given.messages, "cores": os.cpu_count(), "load": os.getloadavg()[0], "pages": rows}
    if given.json is not None:
        given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
