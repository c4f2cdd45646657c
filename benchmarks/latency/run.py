"""One run: a store is opened in an empty directory, put into at a rate or as fast as it goes, and deleted.

usage: run.py REQUEST        one line of JSON; the answer is one as well (`Done`)

`run` starts this file in a process of its own for each run, so that no store meets the threads, the memory or
the garbage of another. RocketMQ has its JVM (rivals/rocketmq.py), which answers in the same form. The first
second is a warm-up that is not counted. The collector of cycles stays on, as it is in a program.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from latency.arrivals import arrive, rate_of
from latency.latencies import Latencies
from latency.puts import IN_PROCESS, Kind
from latency.spinning_clock import SpinningClock

__all__ = ["ROCKETMQ_NAME", "Done", "run"]

WARM_UP_S = 1.0
ROCKETMQ_NAME = "RocketMQ"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """rate: puts that are due in each second; 0 for as many as the store can do, one after the other."""

    store: str
    kind: Kind
    rate: float
    seconds: float
    directory: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """rate: what was reached. histogram: as Latencies has it, empty without a rate. segments: of the log."""

    rate: float
    histogram: str
    segments: int
    fell_behind: bool


def run(store: str, kind: Kind, *, rate: float, seconds: float, parent: Path) -> Done:
    """One run of one store, in a new directory under `parent`."""
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        # What earlier runs left for the disk is written before.
        os.sync()
        request = Request(store=store, kind=kind, rate=rate, seconds=seconds, directory=directory)
        return _in_jvm(request) if store == ROCKETMQ_NAME else _in_child(request)


def _in_child(request: Request) -> Done:
    script = Path(__file__)
    environment = {**os.environ, "PYTHONPATH": str(script.parents[1])}
    command = [sys.executable, str(script), msgspec.json.encode(request).decode()]
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(child.stdout, type=Done)


def _in_jvm(request: Request) -> Done:
    from rivals.rocketmq import ROCKETMQ

    path = Path(request.directory) / "store"
    kind = request.kind
    answer = ROCKETMQ.ask(
        "arrive",
        path=str(path),
        sync=kind.sync,
        body_bytes=kind.body_bytes,
        attributes=kind.attributes,
        segment_bytes=kind.segment_bytes,
        rate=request.rate,
        seconds=request.seconds,
        warm_up_seconds=WARM_UP_S,
    )
    shutil.rmtree(path, ignore_errors=True)
    return msgspec.convert(answer, Done)


def measured(request: Request) -> Done:
    """What the process of its own does."""
    directory, kind, clock = Path(request.directory), request.kind, SpinningClock()
    with IN_PROCESS[request.store](directory, kind) as put:
        if request.rate == 0:
            count, _ = rate_of(put, clock, seconds=WARM_UP_S)
            _, reached = rate_of(put, clock, seconds=request.seconds, first=count)
            return Done(rate=reached, histogram="", segments=segments_in(directory, kind), fell_behind=False)
        warm_up = max(1, int(request.rate * WARM_UP_S))
        arrive(put, clock, rate=request.rate, count=warm_up)
        count = max(1, int(request.rate * request.seconds))
        begun_ns = clock.now_ns()
        arrivals = arrive(put, clock, rate=request.rate, count=count, first=warm_up)
        seconds = (clock.now_ns() - begun_ns) / 1e9
        return Done(
            rate=len(arrivals.latencies_ns) / seconds,
            histogram=Latencies.of(arrivals.latencies_ns).encode(),
            segments=segments_in(directory, kind),
            fell_behind=arrivals.fell_behind,
        )


def segments_in(directory: Path, kind: Kind) -> int:
    """How many segments the log has had; their names are where they begin."""
    names = [int(path.name) for path in (directory / "commitlog").glob("[0-9]*")]
    return max(names) // kind.segment_bytes + 1 if names else 0


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measured(msgspec.json.decode(sys.argv[1], type=Request))))
