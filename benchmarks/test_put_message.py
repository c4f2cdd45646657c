"""One thread puts messages one at a time, without waiting for the disk.

One row of the table: the time of one put, from rounds of equal size. The stores take turns round by round
(ours, rival, ours, ...), so that a slow minute of the machine hits both; the ratio is that of neighbouring
rounds. Dishonest would be: to leave out the building of the message, to stop the services, to sync in one
and not in the other (neither syncs before it returns here), to compare with a store that is already warm.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from writers import WRITERS, Writer

PUTS_A_ROUND = 20_000
ROUNDS = 9
BODY_SIZES = {"128 B": 128, "1 KiB": 1_024, "16 KiB": 16_384}


def put_round(writer: Writer, body: bytes, puts: int) -> None:
    put = writer.put
    for _ in range(puts):
        put(body)


@pytest.mark.parametrize("size", BODY_SIZES)
def test_put_message(benchmark: BenchmarkFixture, tmp_path: Path, size: str) -> None:
    body = bytes(range(256)) * (BODY_SIZES[size] // 256) or bytes(range(128))
    puts = PUTS_A_ROUND // (8 if size == "16 KiB" else 1)
    ours, rival = (make(tmp_path / name) for name, make in WRITERS.items())
    rival_seconds: list[float] = []

    def rival_round() -> None:
        started = time.perf_counter()
        put_round(rival, body, puts)
        rival_seconds.append(time.perf_counter() - started)

    def setup() -> tuple[tuple[()], dict[str, Callable[[], None]]]:
        rival_round()
        return (), {}

    put_round(ours, body, puts)
    benchmark.group = f"put_message, one thread, ASYNC, {size}"
    benchmark.pedantic(lambda: put_round(ours, body, puts), setup=setup, rounds=ROUNDS)
    our_seconds = benchmark.stats.stats.data
    names = list(WRITERS)
    benchmark.extra_info.update(
        work=f"put_message, 1 thread, ASYNC, {size}",
        ours=names[0],
        rival=names[1],
        puts_a_round=puts,
        our_us=[seconds / puts * 1e6 for seconds in our_seconds],
        rival_us=[seconds / puts * 1e6 for seconds in rival_seconds],
        ratios=[theirs / mine for mine, theirs in zip(our_seconds, rival_seconds, strict=True)],
    )
    ours.close()
    rival.close()
