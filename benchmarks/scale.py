"""What a put and a get cost as the log grows from 1 to 100 segments, and from 1 to 10,000 queues; and memory.

usage: python benchmarks/scale.py [--rounds 9] [--json FILE] [--chart FILE]
       (`make bench` does, and writes benchmarks/results/scale.json and scale.png)

One row: a store with so many segments of 4 MiB and 8 queues, or with so many queues and the same 400,000
messages, filled before. A round puts 1,000 messages of 128 B, to the queues in turn, and waits until all
have their entries, so that the dispatch counts; then it makes 1,000 pulls of 32 messages, each from a
queue and an offset drawn at random; a byte of each body is touched. The messages of a pull lie together in
the log, in every store: queues were filled in runs of 40. The stores take turns round by round, so that a
slow minute hits all of them: the change in percent is the median of neighbouring rounds against the
smallest store of its kind.
Beside each stands bare memory, in the same rounds, since no store that maps such files can be flatter. For a
put, 20 bytes are written to each of as many mapped files of a queue's size, in turn, which were synced after
they were filled, as the queues were: the kernel then makes a page writable again at its first write, by any
store. For a get, 32 entries of one of these files are read, and as many records that lie together in
the log. What it costs more at the largest size than at the smallest is given in
microseconds beside that of the store.
All services run, ASYNC_FLUSH. Memory is `Anonymous` in /proc/self/smaps_rollup of a process that has
written to and read from every one of 10,000 queues: what is resident and no page of a mapped file, Python
and numba included.

Dishonest would be: to put to the newest queue alone, to read only the newest segment, to leave out the
dispatch, or to measure the large store after the small one instead of beside it.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mqstore import Message, MessageStore, StoreConfig
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.store.files.os_file_system import OsFileSystem

RESULTS = Path(__file__).with_name("results")
SEGMENT_BYTES = 4 << 20
QUEUES_A_TOPIC = 100
RUN = 40
PUTS, PULLS = 1_000, 1_000
BODY = bytes(128)
RECORD_BYTES = len(BODY) + 131
SEGMENTS = (1, 10, 100)
QUEUES = (1, 100, 10_000)


class BareMemory:
    """What a store of so many queues cannot do without: pages of queue files, and pages of the log."""

    FILE_BYTES, USED_BYTES = 6_000_000, 65_536

    def __init__(self, directory: Path, files: int, store: MessageStore) -> None:
        file_system = OsFileSystem()
        regions = []
        for number in range(files):
            parent = directory / str(number)
            parent.mkdir(parents=True)
            region = file_system.map(parent / "file", self.FILE_BYTES, create=True)
            region.reserve(0, self.USED_BYTES)
            region.write(0, bytes(ENTRY_BYTES * RUN))
            region.release_descriptor()
            regions.append(region)
        file_system.sync_all(regions)
        self._views = [region.view for region in regions]
        self._turn = itertools.cycle(range(files))
        self._ends = [ENTRY_BYTES * RUN] * files
        self._log = store.commit_log

    def put_us(self) -> float:
        """Microseconds a write of 20 bytes to each file in turn."""
        views, turn, ends, entry = self._views, self._turn, self._ends, bytes(ENTRY_BYTES)
        begun = time.perf_counter()
        for _ in range(PUTS):
            number = next(turn)
            at = ends[number] % self.USED_BYTES // ENTRY_BYTES * ENTRY_BYTES
            views[number][at : at + ENTRY_BYTES] = entry
            ends[number] = at + ENTRY_BYTES
        return (time.perf_counter() - begun) / PUTS * 1e6

    def get_us(self, draw: random.Random) -> float:
        """Microseconds a record of which two cache lines are read, 32 together, with their entries."""
        segments = self._log.files.files
        offsets = np.arange(32)[:, None] * RECORD_BYTES + np.array([0, 96])
        places = []
        for _ in range(PULLS):
            segment = draw.choice(segments)
            at = draw.randrange(max(1, segment.wrote_position - 33 * RECORD_BYTES))
            places.append((draw.choice(self._views), segment.array, at))
        begun = time.perf_counter()
        for queue, data, at in places:
            bytes(queue[: 32 * ENTRY_BYTES])
            data[at:].take(offsets)
        return (time.perf_counter() - begun) / (PULLS * 32) * 1e6


class GrownStore:
    """A store of so many segments and queues, and the two kinds of round."""

    def __init__(self, directory: Path, *, messages: int, queues: int) -> None:
        config = StoreConfig(mapped_file_size_commit_log=SEGMENT_BYTES, max_message_size=1 << 20)
        self.store = MessageStore.open(directory, config)
        self._draw = random.Random(1)
        self._addresses = [(f"topic-{n // QUEUES_A_TOPIC}", n % QUEUES_A_TOPIC) for n in range(queues)]
        for topic, queue_id in self._addresses:
            if queue_id == 0:
                self.store.topics.create(topic, min(QUEUES_A_TOPIC, queues))
        self._turn = itertools.cycle(self._addresses)
        self._fill(messages)
        self._bare_directory = directory / "bare"

    @cached_property
    def _bare(self) -> BareMemory:
        """Made on first use: a measurement of memory does not use it."""
        return BareMemory(self._bare_directory, len(self._addresses), self.store)

    def bare_put_us(self) -> float:
        """As `put_us`, without a store."""
        return self._bare.put_us()

    def bare_get_us(self) -> float:
        """As `get_us`, without a store."""
        return self._bare.get_us(self._draw)

    def _fill(self, messages: int) -> None:
        """Runs of messages, to the queues in turn."""
        for _ in range(messages // (RUN * 25)):
            batch = []
            for _ in range(25):
                address = next(self._turn)
                batch += [self._message(address) for _ in range(RUN)]
            self.store.put_messages(batch)
        self.store.flush()

    def _message(self, address: tuple[str, int]) -> Message:
        topic, queue_id = address
        return Message(topic, BODY, tags="created", queue_id=queue_id)

    def put_us(self) -> float:
        """Microseconds a put, its entry in the queue included."""
        put, message, turn = self.store.put_message, self._message, self._turn
        begun = time.perf_counter()
        for _ in range(PUTS):
            put(message(next(turn)))
        self.store.get_max_offset_in_queue("topic-0", 0)
        return (time.perf_counter() - begun) / PUTS * 1e6

    def get_us(self) -> float:
        """Microseconds a message that was got, from places drawn at random."""
        places = [self._place() for _ in range(PULLS)]
        get_message, got_messages, touched = self.store.get_message, 0, 0
        begun = time.perf_counter()
        for topic, queue_id, offset in places:
            for message in get_message("billing", topic, queue_id, offset).messages:
                touched += message.body_view[0]
                got_messages += 1
        return (time.perf_counter() - begun) / got_messages * 1e6

    def _place(self) -> tuple[str, int, int]:
        topic, queue_id = self._draw.choice(self._addresses)
        max_offset = self.store.get_max_offset_in_queue(topic, queue_id)
        return topic, queue_id, self._draw.randrange(max(1, max_offset - 32))


def of_segments(directory: Path, segments: int) -> GrownStore:
    """A store that fills so many segments, and half of the last."""
    return GrownStore(directory, messages=int((segments - 0.5) * SEGMENT_BYTES / RECORD_BYTES), queues=8)


def of_queues(directory: Path, queues: int) -> GrownStore:
    """A store with so many queues, and in each the same share of as many messages."""
    return GrownStore(directory, messages=QUEUES[-1] * RUN, queues=queues)


@dataclass(frozen=True)
class Growth:
    """One kind of growth: the sizes, and microseconds of each round at each size."""

    kind: str
    sizes: tuple[int, ...]
    put_us: dict[int, list[float]]
    get_us: dict[int, list[float]]
    bare_put_us: dict[int, list[float]]
    bare_get_us: dict[int, list[float]]

    def percent(self, us: dict[int, list[float]], size: int) -> list[float]:
        """How much dearer than at the smallest size, round by round."""
        smallest = us[self.sizes[0]]
        return [(large / small - 1) * 100 for large, small in zip(us[size], smallest, strict=True)]

    def more_us(self, us: dict[int, list[float]], size: int) -> float:
        """How many microseconds dearer than at the smallest size: the median of neighbouring rounds."""
        smallest = us[self.sizes[0]]
        return statistics.median(large - small for large, small in zip(us[size], smallest, strict=True))


def grow(kind: str, sizes: tuple[int, ...], make: Callable[[Path, int], GrownStore], rounds: int) -> Growth:
    """Stores of all sizes, open together, in turn."""
    growth = Growth(kind, sizes, *({size: [] for size in sizes} for _ in range(4)))
    with tempfile.TemporaryDirectory() as directory, ExitStack() as open_stores:
        stores = {}
        for size in track(sizes, f"filling, {kind}", transient=True):
            stores[size] = make(Path(directory, str(size)), size)
            open_stores.enter_context(stores[size].store)
        for number in track(range(rounds + 1), f"measuring, {kind}", transient=True):
            for size in sizes if number % 2 else reversed(sizes):
                for us, measure in (
                    (growth.put_us, stores[size].put_us),
                    (growth.get_us, stores[size].get_us),
                    (growth.bare_put_us, stores[size].bare_put_us),
                    (growth.bare_get_us, stores[size].bare_get_us),
                ):
                    measured = measure()
                    if number:  # the first only warms
                        us[size].append(measured)
    return growth


def anonymous_mb() -> float:
    """What is resident of this process and belongs to no mapped file."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "Anonymous":
            return int(rest.split()[0]) * 1_024 / 1e6
    raise AssertionError("smaps_rollup has no Anonymous")


def measure_memory() -> None:
    """In a process of its own: before a store is open, and with 10,000 queues that were written and read."""
    before = anonymous_mb()
    with tempfile.TemporaryDirectory() as directory:
        grown = of_queues(Path(directory), QUEUES[-1])
        with grown.store as store:
            grown.put_us()
            grown.get_us()
            for topic, queue_id in grown._addresses:
                assert store.get_message("billing", topic, queue_id, 0).messages
            print(
                json.dumps(
                    {"anonymous memory before opening, MB": before, "anonymous memory, MB": anonymous_mb()}
                )
            )


def memory_of_a_process() -> dict[str, float]:
    """What `measure_memory` says in a fresh process."""
    command = [sys.executable, __file__, "--memory"]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return answer


def summary_of(growths: list[Growth], memory: dict[str, float]) -> dict[str, float]:
    """What the goals look at: the change from the smallest to the largest size."""
    summary = dict(memory)
    for growth in growths:
        for name, us in (("put", growth.put_us), ("get", growth.get_us)):
            summary[f"{name}, {growth.kind}, percent"] = statistics.median(
                growth.percent(us, growth.sizes[-1])
            )
            bare_us = growth.bare_put_us if name == "put" else growth.bare_get_us
            summary[f"{name}, {growth.kind}, us more"] = growth.more_us(us, growth.sizes[-1])
            summary[f"{name}, {growth.kind}, us more of bare memory"] = growth.more_us(
                bare_us, growth.sizes[-1]
            )
    return summary


def show(growths: list[Growth], memory: dict[str, float]) -> None:
    """The tables on the terminal."""
    console = Console()
    for growth in growths:
        table = Table(
            growth.kind,
            *("put, µs", "change, %", "more, µs", "bare memory"),
            *("get, µs a message", "change, %", "more, µs", "bare memory"),
        )
        for size in growth.sizes:
            cells = [f"{size:,}"]
            for us, bare_us in ((growth.put_us, growth.bare_put_us), (growth.get_us, growth.bare_get_us)):
                change = growth.percent(us, size)
                cells.append(f"{statistics.median(us[size]):.2f}")
                cells.append(f"{statistics.median(change):+.0f} ({min(change):+.0f} to {max(change):+.0f})")
                cells += [f"{growth.more_us(us, size):+.2f}", f"{growth.more_us(bare_us, size):+.2f}"]
            table.add_row(*cells)
        console.print(table)
    for name, megabytes in memory.items():
        console.print(f"{name}: {megabytes:.0f}")


def draw(growths: list[Growth], path: Path) -> None:
    """Cost over size: one picture for each kind of growth."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, all_axes = plt.subplots(1, len(growths), figsize=(10, 4.2), layout="constrained")
    for axes, growth in zip(all_axes, growths, strict=True):
        for name, us, colour, marker in (
            ("put", growth.put_us, "#D55E00", "o"),
            ("get, a message of 32", growth.get_us, "#0072B2", "s"),
            ("bare memory, put", growth.bare_put_us, "#E69F00", "^"),
            ("bare memory, get", growth.bare_get_us, "#56B4E9", "v"),
        ):
            medians = [statistics.median(us[size]) for size in growth.sizes]
            spread = [
                [median - min(us[size]) for median, size in zip(medians, growth.sizes, strict=True)],
                [max(us[size]) - median for median, size in zip(medians, growth.sizes, strict=True)],
            ]
            axes.errorbar(
                growth.sizes, medians, yerr=spread, label=name, color=colour, marker=marker, capsize=3
            )
        axes.set_xscale("log")
        axes.set_xticks(growth.sizes, [f"{size:,}" for size in growth.sizes])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel(growth.kind)
        axes.set_ylabel("microseconds: median, least, greatest")
        axes.grid(color="#DDDDDD")
        axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


@click.command(context_settings={"show_default": True})
@click.option("--rounds", type=click.IntRange(min=1), default=9)
@click.option("--json", "json_path", type=click.Path(path_type=Path), default=RESULTS / "scale.json")
@click.option("--chart", type=click.Path(path_type=Path), default=RESULTS / "scale.png")
@click.option("--memory", is_flag=True, hidden=True)
def main(rounds: int, json_path: Path, chart: Path, memory: bool) -> None:
    """Measure, show, write."""
    if memory:
        measure_memory()
        return
    load_at_start = round(os.getloadavg()[0], 2)
    growths = [
        grow("segments", SEGMENTS, of_segments, rounds),
        grow("queues", QUEUES, of_queues, rounds),
    ]
    of_memory = memory_of_a_process()
    show(growths, of_memory)
    draw(growths, chart)
    written = {
        "summary": summary_of(growths, of_memory),
        "growth": [vars(growth) for growth in growths],
        "load_at_start": load_at_start,
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
    }
    json_path.write_text(json.dumps(written, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
