"""What writing by calls costs: the way of file systems that keep no reserved room, beside the usual one.

usage: called_writes.py [--directory DIR] [--rounds 7]

One row is one kind of put. Both ways take turns in one process, each round in a new store of the same
directory; a ratio is that of two neighbouring rounds, the median of all is told with the least and the
greatest. The time of the putting thread alone (CPU) is steadier beside other work. The services run. Keys
are not indexed. What would make it dishonest: another file system for one of the two, or a round so short
that it fits into one reserved window.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mqstore import Message, MessageStore, StoreConfig

ROWS: list[tuple[str, int, int, int]] = [
    # what, body bytes, messages in a call, calls
    ("put_message, 128 B", 128, 1, 30_000),
    ("put_message, 1 KiB", 1_024, 1, 20_000),
    ("put_messages of 1,000, 128 B", 128, 1_000, 150),
    ("put_messages of 1,000, 1 KiB", 1_024, 1_000, 60),
]
SYNC_CALLS = {1: 1_000, 1_000: 40}


def seconds_a_call(
    directory: Path, mapped_writes: str, flush: str, size: int, count: int, calls: int
) -> tuple[float, float]:
    """On the clock, and of the processor in the thread that puts."""
    path = directory / "store"
    config = StoreConfig(
        flush_disk_type=flush,  # type: ignore[arg-type]
        mapped_writes=mapped_writes,  # type: ignore[arg-type]
        key_index_enable=False,
        file_reserved_time=1,
    )
    message = Message("orders", bytes(range(1, 129)) * (size // 128), queue_id=0)
    batch = [message] * count
    with MessageStore.open(path, config) as store:
        put: Callable[[], object] = (
            (lambda: store.put_message(message)) if count == 1 else (lambda: store.put_messages(batch))
        )
        for _ in range(max(3, calls // 50)):
            put()
        began, cpu_began = time.perf_counter(), time.thread_time()
        for _ in range(calls):
            put()
        took, cpu_took = time.perf_counter() - began, time.thread_time() - cpu_began
    shutil.rmtree(path)
    return took / calls, cpu_took / calls


def rows() -> Iterator[tuple[str, str, int, int, int]]:
    for what, size, count, calls in ROWS:
        yield what, "ASYNC_FLUSH", size, count, calls
        yield what, "SYNC_FLUSH", size, count, SYNC_CALLS[count]


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of writing by calls.")
    parser.add_argument("--directory", type=Path, help="where to make the stores; a temporary directory")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    ways = "mapped, us | by calls, us | ratio (spread)"
    print(f"| put | flush | {ways} | CPU: {ways} |")
    print("| --- | --- | ---: | ---: | --- | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        for what, flush, *sizes in rows():
            times = [
                [seconds_a_call(Path(directory), way, flush, *sizes) for way in ("always", "never")]
                for _ in range(arguments.rounds)
            ]
            print(f"| {what} | {flush} | {compared(times, 0)} | {compared(times, 1)} |", flush=True)


def compared(times: list[list[tuple[float, float]]], which: int) -> str:
    """Medians in microseconds, and the ratio with its spread."""
    pairs = [(mapped[which], called[which]) for mapped, called in times]
    mapped, called = (statistics.median(column) * 1e6 for column in zip(*pairs, strict=True))
    ratios = sorted(called / mapped for mapped, called in pairs)
    return (
        f"{mapped:,.1f} | {called:,.1f} | {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    )


if __name__ == "__main__":
    main()
