"""SQLite in WAL mode: topic, queue, tag and body in one table with an integer primary key.

synchronous NORMAL does not sync at a commit, FULL does; batches are one transaction with executemany. It
keeps no second index and no checksum, so it does less than mqstore. With many threads, one connection
under a lock: connections of their own wait for each other in the file and are slower.
"""

import sqlite3
import threading
from pathlib import Path

from rivals.contestant import PythonContestant, Work

__all__ = ["SQLITE_FULL", "SQLITE_NORMAL"]

INSERT = "insert into message (topic, queue_id, tags, body) values (?, ?, ?, ?)"


class SqliteWriter:
    """One insert a transaction, or many."""

    def __init__(self, directory: Path, work: Work) -> None:
        self.connection = sqlite3.connect(
            directory / "messages.db", isolation_level=None, check_same_thread=False
        )
        self.connection.execute("pragma journal_mode=wal")
        self.connection.execute(f"pragma synchronous={'full' if work.sync else 'normal'}")
        self.connection.execute(
            "create table message"
            " (id integer primary key, topic text, queue_id integer, tags text, body blob)"
        )
        self._lock = threading.Lock()

    def put(self, body: bytes, thread: int) -> None:
        with self._lock:
            self.connection.execute(INSERT, ("orders", thread, "created", body))

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        with self._lock:
            self.connection.execute("begin")
            self.connection.executemany(INSERT, [("orders", thread, "created", body) for body in bodies])
            self.connection.execute("commit")

    def close(self) -> None:
        self.connection.close()


class _Sqlite(PythonContestant):
    def __init__(self, name: str, *, sync: bool) -> None:
        super().__init__(name, SqliteWriter, part=0.2)
        self._sync = sync

    def can(self, work: Work) -> bool:
        return work.sync is self._sync and super().can(work)


SQLITE_NORMAL = _Sqlite("SQLite WAL NORMAL", sync=False)
SQLITE_FULL = _Sqlite("SQLite WAL FULL", sync=True)
