"""Walking a segment and checking every CRC in it, beside zlib.crc32 over the same bytes.

One row: the time of one record of 1 KiB (128 B). Ours is the kernel that recovery and verify run: it finds
each record's bounds, checks its sizes, and takes the CRC of the body and of the whole record, so it passes
over the body twice. zlib's is one call over the whole log, which knows nothing of records. One thread
each, pages in memory. Dishonest would be: to check one of the two CRCs only, or to count the time of
mapping the file.
"""

import zlib
from pathlib import Path

import pytest
from filled_stores import fill
from pytest_benchmark.fixture import BenchmarkFixture
from rivals.contestant import Round, seconds_of
from turns import at_once, in_turn

from mqstore.store.record import record_kernels

SIZES = {"128 B": 128, "1 KiB": 1_024}
MESSAGES = {"128 B": 600_000, "1 KiB": 200_000}


@pytest.mark.parametrize("size", SIZES)
def test_scan(benchmark: BenchmarkFixture, tmp_path: Path, size: str) -> None:
    messages = MESSAGES[size]
    with fill(tmp_path, messages, SIZES[size]) as store:
        chunk = store.commit_log.chunk(0, store.max_offset)
        assert chunk is not None
        log = chunk.data

        def scan() -> None:
            stop, records, *_ = record_kernels.scan(log, 0, len(log), 0)
            assert (stop, records) == (len(log), messages)

        def one_call_of_zlib() -> None:
            zlib.crc32(log)

        turns = {
            "mqstore": at_once(lambda: Round(messages, seconds_of(scan))),
            "zlib.crc32": at_once(lambda: Round(messages, seconds_of(one_call_of_zlib))),
        }
        in_turn(benchmark, f"scan and CRC of a segment, {size}", turns)
        benchmark.extra_info["figures"] = {"bytes": [len(log)]}
