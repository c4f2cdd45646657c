"""Batches of 100 and 1,000 messages in one call: put_messages beside batch puts and transactions.

One row: the time of one message of a batch. RocketMQ's round includes its client's encoding of the batch,
as ours includes the making of each Message; SQLite's is one transaction with executemany, RocksDB's a
WriteBatch, LMDB's putmulti. Batches of 1,000 bodies of 16 KiB go beyond RocketMQ's limit for a batch (4
MiB). Dishonest would be: to make the messages before the time is taken, or to wait for the disk once a
round instead of once a batch.
"""

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rivals import Work
from turns import put_in_turn

SIZES = {"128 B": 128, "1 KiB": 1_024, "16 KiB": 16_384}
ASYNC_MESSAGES = {"128 B": 200_000, "1 KiB": 200_000, "16 KiB": 10_000}
SYNC_MESSAGES = {"128 B": 30_000, "1 KiB": 20_000, "16 KiB": 4_000}
KINDS = [(100, "128 B"), (100, "1 KiB"), (100, "16 KiB"), (1_000, "128 B"), (1_000, "1 KiB")]


@pytest.mark.parametrize("mode", ["ASYNC", "SYNC"])
@pytest.mark.parametrize(("batch", "size"), KINDS)
def test_put_messages(benchmark: BenchmarkFixture, tmp_path: Path, batch: int, size: str, mode: str) -> None:
    messages = (SYNC_MESSAGES if mode == "SYNC" else ASYNC_MESSAGES)[size]
    work = Work(messages=messages, body_bytes=SIZES[size], batch=batch, sync=mode == "SYNC")
    put_in_turn(benchmark, f"put_messages of {batch:,}, {mode}, {size}", work, tmp_path)
