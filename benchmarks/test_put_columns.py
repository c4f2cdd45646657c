"""Tables of 10,000 messages in one call: put_columns beside the largest batches of others.

One row: the time of one message. Our table is Arrow (body, tags) and is there before time is taken, as the
bodies of the others are there as bytes; RocketMQ makes its messages, encodes them as its client does, and
puts them in batches of 1,000, which is what its store takes well; RocksDB gets a WriteBatch of 10,000,
SQLite a transaction, LMDB a putmulti. CRC + memcpy is no store: the CRCs of bodies and records and the
copy of the records, nothing else. Dishonest would be: to give the others less than they take at once, or
to leave the dispatch to the queues, which runs beside the puts, for after the round.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rivals import Contestant, Work
from rivals.floors import CRC_AND_MEMCPY
from rivals.lmdb_store import LMDB
from rivals.mqstore_store import MQSTORE
from rivals.rocketmq import ROCKETMQ
from rivals.rocksdict_store import ROCKSDICT
from rivals.sqlite_store import SQLITE_NORMAL
from turns import Turn, in_turn

SIZES = {"128 B": 128, "1 KiB": 1_024}
MESSAGES = {"128 B": 500_000, "1 KiB": 200_000}


@pytest.mark.parametrize("size", SIZES)
def test_put_columns(benchmark: BenchmarkFixture, tmp_path: Path, size: str) -> None:
    table = Work(messages=MESSAGES[size], body_bytes=SIZES[size], batch=10_000, columns=True)
    batch = replace(table, columns=False)
    works: dict[Contestant, Work] = {MQSTORE: table}
    if ROCKETMQ.is_there:
        works[ROCKETMQ] = replace(batch, batch=1_000)
    works |= dict.fromkeys((SQLITE_NORMAL, LMDB, ROCKSDICT, CRC_AND_MEMCPY), batch)

    def turn_of(contestant: Contestant) -> Turn:
        return lambda: contestant.ready(works[contestant], tmp_path / "round")

    title = f"put_columns of 10,000, ASYNC, {size}"
    in_turn(benchmark, title, {contestant.name: turn_of(contestant) for contestant in works})
