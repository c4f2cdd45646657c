"""What is compared: mqstore and its rivals behind one method, `put(body)`, each as its users would set it up.

A rival gets its best fair settings, named in its docstring; what would make a number dishonest is said there.
"""

import sqlite3
from pathlib import Path
from typing import Protocol

from mqstore import Message, MessageStore, StoreConfig

__all__ = ["WRITERS", "MqstoreWriter", "SqliteWriter", "Writer"]


class Writer(Protocol):
    """A store that takes one message at a time."""

    def put(self, body: bytes) -> None:
        """Store one message; on return it is as durable as the mode promises."""
        ...

    def close(self) -> None:
        """Give back files and threads."""
        ...


class MqstoreWriter:
    """`put_message` with topic, tag and queue id; all services running, the record CRC on (the default)."""

    def __init__(self, directory: Path) -> None:
        self._store = MessageStore.open(directory, StoreConfig(flush_disk_type="ASYNC_FLUSH"))

    def put(self, body: bytes) -> None:
        self._store.put_message(Message("orders", body, tags="created", queue_id=0))

    def close(self) -> None:
        self._store.close()


class SqliteWriter:
    """WAL, synchronous NORMAL, one insert a transaction: topic, queue, tag and body; an integer primary key.

    No secondary index is asked of it, so it does less than mqstore does (queue entries, CRCs).
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(directory / "messages.db", isolation_level=None)
        self._connection.execute("pragma journal_mode=wal")
        self._connection.execute("pragma synchronous=normal")
        self._connection.execute(
            "create table message"
            " (id integer primary key, topic text, queue_id integer, tags text, body blob)"
        )

    def put(self, body: bytes) -> None:
        self._connection.execute(
            "insert into message (topic, queue_id, tags, body) values (?, ?, ?, ?)",
            ("orders", 0, "created", body),
        )

    def close(self) -> None:
        self._connection.close()


WRITERS: dict[str, type[MqstoreWriter] | type[SqliteWriter]] = {
    "mqstore ASYNC_FLUSH": MqstoreWriter,
    "SQLite WAL NORMAL": SqliteWriter,
}
