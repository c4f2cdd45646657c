"""What RocketMQ's index files cost beside our own key index: `key_index` both, lmdb, index_file, and none.

    .venv/bin/python benchmarks/key_index_cost.py [--rounds 15] [--messages 200000] [--json FILE]

One row is one setting with messages of one size, each with one key, put one by one in ASYNC_FLUSH by one
thread, services running. Settings take turns, each beginning a round as often as the others, so that a slow
minute of the machine hits them all. `put` ends with the last put, `whole` when queues and keys have caught up
with the log; `cpu` is the process's time on all cores up to there, which a busy machine disturbs least. Each
is given as microseconds a message, median and quartiles, and as the median of its ratios to lmdb in the same
round.

Then a store of ten messages: its time to open, put, close, and open again, and the room it takes on the disk.

Dishonest would be: rounds so short that the dispatcher has not begun; a disk that is full; settings that
always follow the same neighbour; comparing rounds that lie far apart.
"""

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from mqstore import Message, MessageStore, StoreConfig

SETTINGS = ("lmdb", "both", "index_file", "none")
BODY_BYTES = (128, 1024)
RESULTS = Path(__file__).parent / "results" / "key_index_cost.json"


class Timed(NamedTuple):
    """Microseconds a message."""

    put: float
    whole: float
    cpu: float


class SmallStore(NamedTuple):
    """A store of ten messages: milliseconds, and KiB on the disk."""

    first_open: float
    put_ten: float
    close: float
    open_again: float
    disk_kib: float
    index_kib: float


def config(setting: str) -> StoreConfig:
    """The defaults, but for the key index."""
    if setting == "none":
        return StoreConfig(key_index_enable=False)
    return StoreConfig(key_index=setting)  # type: ignore[arg-type]


def time_round(setting: str, body_bytes: int, message_count: int) -> Timed:
    """Put so many messages into a new store."""
    directory = tempfile.mkdtemp(prefix="key-index-cost-")
    body = bytes(body_bytes)
    try:
        with MessageStore.open(directory, config(setting)) as store:
            store.put_message(Message("orders", body, queue_id=0, keys="warm"))
            store.flush()
            started, cpu_started = time.perf_counter(), time.process_time()
            for number in range(message_count):
                store.put_message(Message("orders", body, queue_id=number & 3, keys=f"order-{number}"))
            put = time.perf_counter()
            while not is_dispatched(store):
                time.sleep(0.0005)
            whole, cpu = time.perf_counter(), time.process_time()
    finally:
        shutil.rmtree(directory)
    scale = 1e6 / message_count
    return Timed((put - started) * scale, (whole - started) * scale, (cpu - cpu_started) * scale)


def is_dispatched(store: MessageStore) -> bool:
    """Whether queues and keys have caught up with the log."""
    stats = store.stats()
    return not stats.dispatch_behind_bytes and not stats.key_index_behind_bytes


def time_small_store(setting: str) -> SmallStore:
    """What a few messages cost."""
    directory = Path(tempfile.mkdtemp(prefix="key-index-cost-"))
    try:
        moments = [time.perf_counter()]
        store = MessageStore.open(directory, config(setting))
        moments.append(time.perf_counter())
        for number in range(10):
            store.put_message(Message("orders", b"ten of them", queue_id=0, keys=f"order-{number}"))
        moments.append(time.perf_counter())
        store.close()
        moments.append(time.perf_counter())
        store = MessageStore.open(directory, config(setting))
        moments.append(time.perf_counter())
        store.close()
        steps = [1e3 * (later - earlier) for earlier, later in itertools.pairwise(moments)]
        return SmallStore(*steps, disk_kib(directory), disk_kib(directory / "index"))
    finally:
        shutil.rmtree(directory)


def disk_kib(directory: Path) -> float:
    """What the files take, holes not counted."""
    return sum(path.stat().st_blocks for path in directory.rglob("*") if path.is_file()) / 2


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(median, 3), "low": round(low, 3), "high": round(high, 3)}


def measure(rounds: int, message_count: int) -> dict[str, Any]:
    """All of it."""
    result: dict[str, Any] = {"put": {}, "small_store": {}}
    for body_bytes in BODY_BYTES:
        taken: dict[str, list[Timed]] = defaultdict(list)
        for number in range(-1, rounds):
            begin = number % len(SETTINGS)
            for setting in (*SETTINGS[begin:], *SETTINGS[:begin]):
                timed = time_round(setting, body_bytes, message_count if number >= 0 else 20_000)
                if number >= 0:
                    taken[setting].append(timed)
        result["put"][str(body_bytes)] = {"messages": message_count} | {
            setting: {
                figure: {
                    "us": spread([getattr(each, figure) for each in taken[setting]]),
                    "to_lmdb": spread(
                        [
                            getattr(each, figure) / getattr(lmdb, figure)
                            for each, lmdb in zip(taken[setting], taken["lmdb"], strict=True)
                        ]
                    ),
                }
                for figure in Timed._fields
            }
            for setting in SETTINGS
        }
        print_puts(body_bytes, result["put"][str(body_bytes)])
    small = {setting: [time_small_store(setting) for _ in range(rounds)] for setting in SETTINGS}
    for setting in SETTINGS:
        figures = {
            name: spread([getattr(each, name) for each in small[setting]]) for name in SmallStore._fields
        }
        result["small_store"][setting] = figures
        print(f"{setting:>10}", *(f"{name} {figure['median']:.1f}" for name, figure in figures.items()))
    return result


def print_puts(body_bytes: int, figures: dict[str, Any]) -> None:
    """A line for each setting."""
    print(
        f"{body_bytes} bytes, {figures['messages']} messages a round: us a message (quartiles), ratio to lmdb"
    )
    for setting in SETTINGS:
        cells = (
            f"{name} {cell['us']['median']:6.2f} ({cell['us']['low']:.2f}-{cell['us']['high']:.2f}) "
            f"x{cell['to_lmdb']['median']:.3f}"
            for name, cell in figures[setting].items()
        )
        print(f"{setting:>10}", *cells, sep="  ", flush=True)


def main() -> None:
    """Measure, print, and write down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--messages", type=int, default=200_000, help="for each round")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    before = os.getloadavg()
    result = measure(options.rounds, options.messages)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()}
    result |= {
        "rounds": options.rounds,
        "machine": machine,
        "load_before": before,
        "load_after": os.getloadavg(),
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
