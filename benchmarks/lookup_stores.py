"""Stores whose messages differ, to be searched: each has its own key and time, and one of ten tags.

mqstore, a copy of its directory for RocketMQ (which opens queues and key index as they are), and SQLite with
an index for each question: it answers each as well as it can. All lie in the page cache.
"""

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rivals.rocketmq import ROCKETMQ

from mqstore import Message, MessageStore

__all__ = ["FIRST_MS", "TAGS", "LookupStores", "key_of", "lookup_stores", "tag_of"]

TAGS = 10
FIRST_MS = 1_700_000_000_000
"""Store time of the first message; each batch is a millisecond later."""

_BATCH = 10


def key_of(number: int) -> str:
    """The key of one message."""
    return f"order-{number}"


def tag_of(number: int) -> str:
    """The tag of one message: each of ten in turn."""
    return f"tag-{number % TAGS}"


@dataclass(frozen=True)
class LookupStores:
    """Open for reading. `rocketmq`: whether the driver has its copy open."""

    messages: int
    mqstore: MessageStore
    sqlite: sqlite3.Connection
    rocketmq: bool


class _Clock:
    """Time goes on by a millisecond when told to."""

    def __init__(self) -> None:
        self.ms = FIRST_MS

    def now_ms(self) -> int:
        return self.ms


def _fill_ours(directory: Path, messages: int, body: bytes) -> None:
    clock = _Clock()
    with MessageStore.open(directory, clock=clock) as store:
        for first in range(0, messages, _BATCH):
            store.put_messages(
                [
                    Message("orders", body, tags=tag_of(number), keys=key_of(number), queue_id=0)
                    for number in range(first, first + _BATCH)
                ]
            )
            clock.ms += 1


def _fill_sqlite(path: Path, messages: int, body: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=normal")
    connection.execute(
        "create table message (id integer primary key, tags text, key text, store_ms integer, body blob)"
    )
    connection.execute("begin")
    connection.executemany(
        "insert into message values (?, ?, ?, ?, ?)",
        ((n, tag_of(n), key_of(n), FIRST_MS + n // _BATCH, body) for n in range(messages)),
    )
    connection.execute("commit")
    for column in ("tags", "key", "store_ms"):
        connection.execute(f"create index by_{column} on message ({column})")
    return connection


@contextmanager
def lookup_stores(directory: Path, messages: int, body: bytes) -> Iterator[LookupStores]:
    """The three, closed afterwards."""
    ours, theirs = directory / "mqstore", directory / "rocketmq"
    _fill_ours(ours, messages, body)
    if ROCKETMQ.is_there:
        subprocess.run(["cp", "--recursive", "--sparse=always", str(ours), str(theirs)], check=True)
        # Files of our own: a broker passes them over.
        shutil.rmtree(theirs / "mqstore")
        ROCKETMQ.ask("open", path=str(theirs))
    sqlite = _fill_sqlite(directory / "messages.db", messages, body)
    with MessageStore.open(ours) as store:
        yield LookupStores(messages, store, sqlite, ROCKETMQ.is_there)
    sqlite.close()
    if ROCKETMQ.is_there:
        ROCKETMQ.ask("close")
