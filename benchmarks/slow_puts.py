"""Why the slowest puts are slow: each late put beside what the services did at that time.

usage: python benchmarks/slow_puts.py [--rate 10000] [--seconds 20] [--sync] [--directory DIR] [--slowest 15]

Puts are due at fixed times, as in test_latency.py. A put that is late because the one before it was is
counted with that one: both belong to an episode, and the slowest put of it says why. Its time is divided into

    machine     the thread could run and had no processor, or the processor itself stood still
    wake        it waited for the GIL when the put became due
    NAME        a step of the store in the put: a segment roll, a sync, the write into the mapping; or a
                collection of cycles
    GIL, lock   outside of such steps it had no work for the processor: another thread held the GIL or a lock
    work        the processor's time outside of such steps

Beside it stand the steps that other threads were at, with milliseconds; `stopped` is the time for which such
a thread had no processor. Steps under 20 us are left out. The steps of the services follow, and how long they
took on the whole.
Dishonest would be to read the latencies as those of the store: the measurement takes some 10 us a put, and
the steps are wrapped. So compare causes.
"""

import contextlib
import gc
import itertools
import os
import tempfile
import threading
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click
from latency.latencies import Latencies
from latency.puts import IN_PROCESS, Kind
from latency.spinning_clock import SpinningClock

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.index_file.index_file_key_index import IndexFileKeyIndex
from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.store.files.mapped_file import MappedFile
from mqstore.store.files.mapped_file_queue import MappedFileQueue
from mqstore.store.files.os_file_system import OsFileSystem, OsMappedRegion
from mqstore.store.log.flusher import Flusher
from mqstore.store.log.log_appender import LogAppender
from mqstore.store.log.retention import Retention
from mqstore.store.state.checkpoint_file import CheckpointFile
from mqstore.store.threads.service import Service

MIB = 1 << 20
SHORT_NS = 20_000

STEPS: tuple[tuple[type, str, str], ...] = (
    (LogAppender, "_roll", "segment roll"),
    (MappedFileQueue, "append_file", "new file"),
    (MappedFileQueue, "delete_first", "delete file"),
    (MappedFile, "reserve", "reserve room"),
    (OsMappedRegion, "publish", "write into the mapping"),
    (OsMappedRegion, "populate", "populate pages"),
    (OsMappedRegion, "sync", "fdatasync"),
    (OsMappedRegion, "sync_within", "fdatasync"),
    (OsFileSystem, "sync_directory", "sync directory"),
    (OsFileSystem, "sync", "sync small file"),
    (Flusher, "_flush_locked", "flush log"),
    (Flusher, "wait_for", "wait for the disk"),
    (ConsumeQueueStore, "flush", "flush queues"),
    (ConsumeQueueStore, "absorb", "fill queues"),
    (LmdbKeyIndex, "absorb", "take keys for LMDB"),
    (LmdbKeyIndex, "_commit", "LMDB commit"),
    (IndexFileKeyIndex, "absorb", "fill index file"),
    (IndexFileKeyIndex, "_flush", "flush index file"),
    (CheckpointFile, "save", "checkpoint"),
    (Retention, "run_once", "retention"),
    (DeliveryService, "run_once", "delivery"),
    (Dispatcher, "_step", "dispatch"),
)
"""Class, method, and what the method is called here."""


class Span(NamedTuple):
    """A step in a thread."""

    thread: int
    name: str
    begin_ns: int
    end_ns: int
    clock_ns: int
    """The processor's time in the thread that puts; in others the time without one."""


class Watch:
    """Records the steps of the store while it is on."""

    def __init__(self) -> None:
        # Plain tuples of numbers and names: objects would be work for the collector of cycles.
        self._steps: list[tuple[int, str, int, int, int]] = []
        self._putting_thread = threading.get_ident()
        self._gc_begun_ns = 0
        self._of_thread = threading.local()

    def spans(self, begin_ns: int, end_ns: int) -> list[Span]:
        """The steps that were at work between two moments."""
        spans = itertools.starmap(Span, self._steps)
        return [span for span in spans if span.end_ns > begin_ns and span.begin_ns < end_ns]

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Wrap the methods, and look at the collector of cycles."""
        with contextlib.ExitStack() as undo:
            for owner, method, name in STEPS:
                original = getattr(owner, method)
                setattr(owner, method, self._wrapped(original, name))
                undo.callback(setattr, owner, method, original)
            original_init = Service.__init__

            def init(service: Any, name: str, period_ms: int, run_once: Any, **more: Any) -> None:
                original_init(service, name, period_ms, self._wrapped(run_once, f"service {name}"), **more)

            Service.__init__ = init  # type: ignore[method-assign]
            undo.callback(setattr, Service, "__init__", original_init)
            gc.callbacks.append(self._collected)
            undo.callback(gc.callbacks.remove, self._collected)
            yield

    def _wrapped(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*arguments: Any, **more: Any) -> Any:
            before_ns, begin_ns = self._clock_ns(), time.perf_counter_ns()
            try:
                return function(*arguments, **more)
            finally:
                end_ns = time.perf_counter_ns()
                if end_ns - begin_ns > SHORT_NS:
                    clock_ns = self._clock_ns() - before_ns
                    self._steps.append((threading.get_ident(), name, begin_ns, end_ns, clock_ns))

        return run

    def _clock_ns(self) -> int:
        """As `Span.clock_ns`, so far."""
        if threading.get_ident() == self._putting_thread:
            return time.thread_time_ns()
        if not hasattr(self._of_thread, "scheduler"):
            self._of_thread.scheduler = Scheduler()
        stopped_ns: int = self._of_thread.scheduler.delay_ns()
        return stopped_ns

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_begun_ns = time.perf_counter_ns()
        else:
            now_ns = time.perf_counter_ns()
            name = f"gc of generation {info['generation']}"
            self._steps.append((threading.get_ident(), name, self._gc_begun_ns, now_ns, 0))


class Put(NamedTuple):
    """What was measured of one put. delays: without a processor, before it began and in it."""

    due_ns: int
    seen_ns: int
    begin_ns: int
    end_ns: int
    wait_delay_ns: int
    delay_ns: int
    cpu_ns: int
    queued: int

    @property
    def latency_ns(self) -> int:
        """From due time to end."""
        return self.end_ns - self.due_ns


@dataclass
class Episode:
    """Puts that were late one behind the other. root: the one that made them so."""

    root: Put
    late: int
    latency_ns: int
    causes: Counter[str] = field(default_factory=Counter)
    beside: str = ""


class Scheduler:
    """How long this thread was ready and had no processor."""

    def __init__(self) -> None:
        self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def delay_ns(self) -> int:
        return int(os.pread(self._file, 64, 0).split()[1])


def puts_at(put: Callable[[int], object], rate: float, count: int, first: int) -> list[Put]:
    """As latency/arrivals.py, with more measured of each."""
    clock, scheduler = SpinningClock(), Scheduler()
    # Numbers alone: a list of objects would be work for the collector of cycles.
    measured = array("q")
    interval_ns = 1e9 / rate
    begun_ns = ended_ns = clock.now_ns()
    begun_ns += int(interval_ns)
    for number in range(count):
        due_ns = begun_ns + int(number * interval_ns)
        before_ns = scheduler.delay_ns()
        queued = ended_ns > due_ns
        seen_ns = clock.wait_until(due_ns) if ended_ns < due_ns else due_ns
        begin_ns = clock.now_ns()
        delay_ns, cpu_ns = scheduler.delay_ns(), time.thread_time_ns()
        put(first + number)
        ended_ns = clock.now_ns()
        used_ns = time.thread_time_ns() - cpu_ns
        in_put_ns = scheduler.delay_ns() - delay_ns
        measured.extend(
            (due_ns, seen_ns, begin_ns, ended_ns, delay_ns - before_ns, in_put_ns, used_ns, queued)
        )
    columns = len(Put._fields)
    return [Put(*measured[at : at + columns]) for at in range(0, len(measured), columns)]


def episodes_of(puts: list[Put], threshold_ns: float) -> list[Episode]:
    """Late puts, each row of them with the put that took longest by itself."""
    episodes: list[Episode] = []
    row: list[Put] = []
    for put in [*puts, None]:
        if put is not None and put.queued:
            row.append(put)
            continue
        late = sum(queued.latency_ns > threshold_ns for queued in row)
        if late:
            episodes.append(Episode(max(row, key=own_ns), late, max(queued.latency_ns for queued in row)))
        row = [] if put is None else [put]
    return episodes


def own_ns(put: Put) -> int:
    """What it added itself: its latency, without the wait for the put before it."""
    return put.end_ns - (put.begin_ns if put.queued else put.due_ns)


def overlaps(span: Span, put: Put) -> bool:
    """Whether a step was at work while the put was late."""
    return span.begin_ns < put.end_ns and span.end_ns > put.end_ns - own_ns(put)


def is_within(span: Span, other: Span) -> bool:
    """Whether `span` is a step of `other`."""
    return span is not other and other.begin_ns <= span.begin_ns and span.end_ns <= other.end_ns


def exclusive(spans: list[Span], begin_ns: int, end_ns: int) -> Counter[str]:
    """Nanoseconds of each name within a window, each moment counted for the innermost step; one thread."""
    inside = sorted(
        (span for span in spans if span.begin_ns < end_ns and span.end_ns > begin_ns),
        key=lambda span: (span.begin_ns, -span.end_ns),
    )
    own: Counter[str] = Counter()
    open_spans: list[Span] = []
    for span in inside:
        while open_spans and open_spans[-1].end_ns <= span.begin_ns:
            open_spans.pop()
        length = min(span.end_ns, end_ns) - max(span.begin_ns, begin_ns)
        if open_spans:
            own[open_spans[-1].name] -= length
        own[span.name] += length
        open_spans.append(span)
    return own


def explain(episode: Episode, by_thread: dict[int, list[Span]], own_thread: int) -> None:
    """Divide the time of the put that made the others late, and name what ran beside it."""
    services = {
        thread: span.name.removeprefix("service ")
        for thread, spans in by_thread.items()
        for span in spans
        if span.name.startswith("service")
    }
    put, causes = episode.root, episode.causes
    late_ns = 0 if put.queued else put.begin_ns - put.due_ns
    unseen_ns = put.seen_ns - put.due_ns
    machine_ns = min(late_ns, max(unseen_ns, put.wait_delay_ns))
    causes["machine"] = machine_ns + put.delay_ns
    causes["wake"] = late_ns - machine_ns
    own = [span for span in by_thread.get(own_thread, []) if put.begin_ns <= span.begin_ns < put.end_ns]
    causes.update(exclusive(own, put.begin_ns, put.end_ns))
    outermost = [span for span in own if not any(is_within(span, other) for other in own)]
    outside_ns = put.end_ns - put.begin_ns - sum(span.end_ns - span.begin_ns for span in outermost)
    work_ns = put.cpu_ns - sum(span.clock_ns for span in outermost)
    causes["work"] = work_ns
    causes["GIL, lock"] = max(0, outside_ns - work_ns - put.delay_ns)
    others: Counter[str] = Counter()
    for thread, spans in by_thread.items():
        if thread != own_thread:
            for name, ns in exclusive(spans, put.end_ns - own_ns(put), put.end_ns).items():
                others[f"{name} [{services.get(thread, '')}]"] += ns
            stopped_ns = max((span.clock_ns for span in spans if overlaps(span, put)), default=0)
            others[f"stopped [{services.get(thread, '')}]"] += stopped_ns
    episode.beside = ", ".join(f"{name} {ns / 1e6:.2f}" for name, ns in others.most_common(4) if ns > 20_000)


@click.command(context_settings={"show_default": True})
@click.option("--rate", type=float, default=10_000)
@click.option("--seconds", type=float, default=20)
@click.option("--sync", is_flag=True)
@click.option("--segment-mib", type=int, default=64)
@click.option("--slowest", type=int, default=15)
@click.option("--above-us", type=float, default=0, help="Explain puts slower than this; 0: than p99.9.")
@click.option("--directory", type=click.Path(path_type=Path), help="On the disk to be measured.")
def main(
    rate: float,
    seconds: float,
    sync: bool,
    segment_mib: int,
    slowest: int,
    above_us: float,
    directory: Path | None,
) -> None:
    """Measure and print."""
    kind = Kind(title="", sync=sync, body_bytes=1_024, attributes=True, segment_bytes=segment_mib * MIB)
    watch = Watch()
    with (
        tempfile.TemporaryDirectory(dir=directory) as made,
        watch.on(),
        IN_PROCESS["mqstore"](Path(made), kind) as put,
    ):
        warm_up = int(rate * 2)
        puts_at(put, rate, warm_up, 0)
        puts = puts_at(put, rate, int(rate * seconds), warm_up)
    spans = watch.spans(puts[0].due_ns, puts[-1].end_ns)
    report_puts(puts, spans, above_us, slowest)
    report_steps(spans)


def running_ns(span: Span) -> int:
    """How long a step took; in a service without the time in which its thread had no processor."""
    stopped_ns = 0 if span.thread == threading.get_ident() else span.clock_ns
    return span.end_ns - span.begin_ns - stopped_ns


def report_steps(spans: list[Span]) -> None:
    """How often each step came and how long it took."""
    print("the steps, in milliseconds:")
    for name in sorted({span.name for span in spans}):
        steps = [span for span in spans if span.name == name]
        lengths = sorted(running_ns(span) / 1e6 for span in steps)
        middle, most = lengths[len(lengths) // 2], lengths[-1]
        print(f"  {name:30} {len(steps):6,} times, median {middle:7.2f}, longest {most:7.2f}")


def report_puts(puts: list[Put], spans: list[Span], above_us: float, slowest: int) -> None:
    """What the slowest puts waited for."""
    by_thread: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        by_thread[span.thread].append(span)
    latencies = Latencies.of([put.latency_ns for put in puts])
    print(latencies)
    threshold_ns = (above_us or latencies.at_us(99.9)) * 1e3
    episodes = episodes_of(puts, threshold_ns)
    late: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    for episode in episodes:
        explain(episode, by_thread, threading.get_ident())
        cause = episode.causes.most_common(1)[0][0]
        late[cause] += episode.late
        roots[cause] += 1
    print(f"slower than {threshold_ns / 1e3:,.0f} us, by the main cause:")
    for cause, count in late.most_common():
        print(f"  {cause:30} {count:6,} puts in {roots[cause]:4,} episodes")
    print("the slowest that are not the machine's:")
    begun_ns = puts[0].due_ns
    ours = [one for one in episodes if one.causes["machine"] < own_ns(one.root) / 2]
    for episode in sorted(ours, key=lambda one: -own_ns(one.root))[:slowest]:
        causes = ", ".join(f"{n} {ns / 1e6:.2f}" for n, ns in episode.causes.most_common(4) if ns > 20_000)
        print(
            f"  at {(episode.root.due_ns - begun_ns) / 1e9:6.2f} s {own_ns(episode.root) / 1e6:7.2f} ms,"
            f" {episode.late:4} late | {causes} | beside: {episode.beside}"
        )


if __name__ == "__main__":
    main()
