"""RocksDB by rocksdict, raw mode: a growing number of eight bytes as the key, the body alone as the value.

Its write-ahead log is on; `sync` is RocksDB's own write option. Batches are a WriteBatch.
"""

import itertools
import struct
from pathlib import Path

import rocksdict

from rivals.contestant import PythonContestant, Work

__all__ = ["ROCKSDICT", "ROCKSDICT_SYNC"]

KEY = struct.Struct(">Q")


class RocksdictWriter:
    """Puts under growing keys."""

    def __init__(self, directory: Path, work: Work) -> None:
        self._database = rocksdict.Rdict(str(directory), rocksdict.Options(raw_mode=True))
        self._options = rocksdict.WriteOptions()
        self._options.sync = work.sync
        self._numbers = itertools.count()

    def put(self, body: bytes, thread: int) -> None:
        self._database.put(KEY.pack(next(self._numbers)), body, self._options)

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for body in bodies:
            batch.put(KEY.pack(next(self._numbers)), body)
        self._database.write(batch, self._options)

    def close(self) -> None:
        self._database.close()


class _Rocksdict(PythonContestant):
    def __init__(self, name: str, *, sync: bool) -> None:
        super().__init__(name, RocksdictWriter, part=0.2 if sync else 0.5)
        self._sync = sync

    def can(self, work: Work) -> bool:
        return work.sync is self._sync and super().can(work)


ROCKSDICT = _Rocksdict("rocksdict", sync=False)
ROCKSDICT_SYNC = _Rocksdict("rocksdict sync", sync=True)
