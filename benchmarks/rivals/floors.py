"""No stores: what the disk gives at least and what memory gives at most, measured in the same turn.

raw floor: one pwrite of the body and one fdatasync at a time, into a file whose room was reserved before,
under a lock where there are threads: what a store without group commit could reach at best. memcpy: the
body copied to its place in memory that is mapped and touched; a batch in one copy. CRC + memcpy: what no
store of records can do without, in three calls for a whole batch.
"""

import mmap
import os
import threading
import zlib
from dataclasses import replace
from pathlib import Path

from rivals.contestant import PythonContestant, Work

__all__ = ["CRC_AND_MEMCPY", "MEMCPY", "RAW_FLOOR"]

RECORD_OVERHEAD_BYTES = 130
"""Of a record with topic, tag and CRC, beside its body."""


class RawFile:
    """pwrite, fdatasync; the disk's floor."""

    def __init__(self, directory: Path, work: Work) -> None:
        self._file = os.open(directory / "raw", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self._file, 0, (work.messages + work.batch) * work.body_bytes)
        os.fsync(self._file)
        self._end = 0
        self._lock = threading.Lock()

    def put(self, body: bytes, thread: int) -> None:
        with self._lock:
            os.pwrite(self._file, body, self._end)
            self._end += len(body)
            os.fdatasync(self._file)

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        with self._lock:
            self._end += os.pwritev(self._file, bodies, self._end)
            os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


class Memory:
    """Slice assignments into anonymous memory; the memory's ceiling. Each thread has its own part."""

    def __init__(self, directory: Path, work: Work) -> None:
        size = (work.messages + work.batch) * work.body_bytes
        self._memory = mmap.mmap(-1, size)
        self._memory.write(bytes(size))
        self._ends = [
            size // work.threads // work.body_bytes * work.body_bytes * n for n in range(work.threads)
        ]
        self._blob = work.body * work.batch

    def put(self, body: bytes, thread: int) -> None:
        end = self._ends[thread]
        stop = end + len(body)
        self._memory[end:stop] = body
        self._ends[thread] = stop

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        self.put(self._blob, thread)

    def close(self) -> None:
        self._memory.close()


class CrcAndMemory(Memory):
    """What a batch cannot do without: a CRC over its bodies, one over its records, and one copy."""

    def __init__(self, directory: Path, work: Work) -> None:
        record_bytes = work.body_bytes + RECORD_OVERHEAD_BYTES
        super().__init__(directory, replace(work, body_bytes=record_bytes))
        self._bodies = work.body * work.batch

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        zlib.crc32(self._bodies)
        zlib.crc32(self._blob)
        self.put(self._blob, thread)


class _RawFloor(PythonContestant):
    """It takes part in what is put in flight as well, where it does what it always does."""

    def can(self, work: Work) -> bool:
        return work.sync and not (work.keys or work.columns) and work.batch <= 1_000


class _Memcpy(PythonContestant):
    def can(self, work: Work) -> bool:
        return not work.sync and super().can(work)


RAW_FLOOR = _RawFloor("raw pwrite+fdatasync", RawFile, part=0.25)
MEMCPY = _Memcpy("memcpy", Memory)
CRC_AND_MEMCPY = _Memcpy("CRC + memcpy", CrcAndMemory)
