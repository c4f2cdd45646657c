"""How late a put ends that was due at a certain time: percentiles, up to the slowest.

One row: the latencies of one store at one rate, as the median of the rounds with the least and the
greatest. The load is open: puts are due at fixed times (latency/arrivals.py), and a put that waits for a slow
one before it is late. Segments are so short that several fill within a run, and they are deleted a second
later; all services run. The row `empty operation` is the control: what the generator and the machine add to
each figure. Dishonest would be: to send the next put only when the one before has ended, to leave out a round
with a stall, to stop a service or the collector of cycles, or to give rates that only one store can do.

`make bench-latency` runs this file and no other benchmark. No figure is asserted.
"""

import os
from pathlib import Path

import pytest
from latency.puts import Kind
from latency.rounds import measure
from pytest_benchmark.fixture import BenchmarkFixture
from rivals.rocketmq import ROCKETMQ
from turns import ROUNDS

RUN_SECONDS = float(os.environ.get("RUN_SECONDS", "10"))
MIB = 1 << 20

KINDS = (
    Kind(title="ASYNC, 1 KiB", sync=False, body_bytes=1_024, attributes=True, segment_bytes=64 * MIB),
    Kind(title="SYNC, 1 KiB", sync=True, body_bytes=1_024, attributes=True, segment_bytes=8 * MIB),
    Kind(title="ASYNC, 128 B, plain", sync=False, body_bytes=128, attributes=False, segment_bytes=16 * MIB),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.title)
def test_latency(benchmark: BenchmarkFixture, tmp_path: Path, kind: Kind) -> None:
    """pytest-benchmark writes the file and describes the machine; its own figure means nothing here."""
    measured = benchmark.pedantic(
        measure,
        args=(kind,),
        kwargs={
            "rounds": ROUNDS,
            "seconds": RUN_SECONDS,
            "with_rocketmq": ROCKETMQ.is_there,
            "parent": tmp_path,
        },
        rounds=1,
    )
    benchmark.extra_info.update(kind=kind.title, seconds=RUN_SECONDS, **measured)
