"""py-lmdb: a growing number of eight bytes as the key, the body alone as the value, appended.

One put a transaction, or a batch in one with putmulti. `sync` is LMDB's own setting: False leaves the disk
to the kernel. LMDB has one writer at a time; its own lock orders the threads.
"""

import struct
import threading
from pathlib import Path

import lmdb

from rivals.contestant import PythonContestant, Work

__all__ = ["LMDB", "LMDB_SYNC"]

KEY = struct.Struct(">Q")


class LmdbWriter:
    """Appends under growing keys."""

    def __init__(self, directory: Path, work: Work) -> None:
        self.environment = lmdb.open(
            str(directory), map_size=8 << 30, sync=work.sync, metasync=work.sync, max_readers=256
        )
        self._number = 0
        self._lock = threading.Lock()

    def put(self, body: bytes, thread: int) -> None:
        with self._lock, self.environment.begin(write=True) as transaction:
            self._number += 1
            transaction.put(KEY.pack(self._number), body, append=True)

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        with self._lock, self.environment.begin(write=True) as transaction:
            first = self._number + 1
            self._number += len(bodies)
            items = [(KEY.pack(number), body) for number, body in enumerate(bodies, first)]
            transaction.cursor().putmulti(items, append=True)

    def close(self) -> None:
        self.environment.close()


class _Lmdb(PythonContestant):
    def __init__(self, name: str, *, sync: bool) -> None:
        super().__init__(name, LmdbWriter, part=0.2 if sync else 0.5)
        self._sync = sync

    def can(self, work: Work) -> bool:
        return work.sync is self._sync and super().can(work)


LMDB = _Lmdb("LMDB nosync", sync=False)
LMDB_SYNC = _Lmdb("LMDB sync", sync=True)
