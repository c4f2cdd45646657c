"""One message at a time: put_message on 1, 8 and 64 threads, without waiting for the disk and with.

One row: the time of one put, all threads together, in rounds of equal size that the contestants take in
turn. The message is built in the loop, as a program builds it. ASYNC stands beside what does not sync at
each put, SYNC beside what does. Dishonest would be: to leave out the building of the message, to stop the
services (flush, dispatch to the queues, retention), to sync in one and not in the other, to hide that we
write a record CRC and queue entries where a rival stores the body alone, or to let one contestant pay for
the dirty pages of another.
"""

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rivals import Work
from turns import put_in_turn

SIZES = {"128 B": 128, "1 KiB": 1_024, "16 KiB": 16_384}
THREADS = (1, 8, 64)
# One thread writes for longer than the flush interval (500 ms), so that flush and dispatch are in the figure.
ASYNC_MESSAGES = {"128 B": 200_000, "1 KiB": 200_000, "16 KiB": 16_000}
THREADED_MESSAGES = {"128 B": 51_200, "1 KiB": 38_400, "16 KiB": 6_400}
ATTRIBUTES = "with a key, a tag, two properties"
SYNC_MESSAGES = {1: 2_560, 8: 5_120, 64: 12_800}


def on_threads(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("size", SIZES)
def test_put_message_async(benchmark: BenchmarkFixture, tmp_path: Path, size: str, threads: int) -> None:
    messages = (ASYNC_MESSAGES if threads == 1 else THREADED_MESSAGES)[size]
    work = Work(messages=messages, body_bytes=SIZES[size], threads=threads)
    put_in_turn(benchmark, f"put_message, {on_threads(threads)}, ASYNC, {size}", work, tmp_path)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("size", SIZES)
def test_put_message_sync(benchmark: BenchmarkFixture, tmp_path: Path, size: str, threads: int) -> None:
    work = Work(messages=SYNC_MESSAGES[threads], body_bytes=SIZES[size], threads=threads, sync=True)
    put_in_turn(benchmark, f"put_message, {on_threads(threads)}, SYNC, {size}", work, tmp_path)


def test_put_message_with_a_key(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """A key of its own in each message: the key index works behind the puts."""
    work = Work(messages=100_000, body_bytes=1_024, keys=True)
    put_in_turn(benchmark, "put_message, 1 thread, ASYNC, 1 KiB, with a key", work, tmp_path)


@pytest.mark.parametrize("size", ["128 B", "1 KiB"])
def test_put_message_with_attributes(benchmark: BenchmarkFixture, tmp_path: Path, size: str) -> None:
    """What people send: a key of its own in each message, a tag, two properties."""
    work = Work(messages=100_000, body_bytes=SIZES[size], attributes=True)
    put_in_turn(benchmark, f"put_message, 1 thread, ASYNC, {size}, {ATTRIBUTES}", work, tmp_path)


def test_put_message_async_in_flight(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """One thread that waits only when 1,000 puts are under way."""
    work = Work(messages=25_600, body_bytes=1_024, sync=True, in_flight=1_000)
    put_in_turn(benchmark, "put_message_async, 1,000 in flight, SYNC, 1 KiB", work, tmp_path)
