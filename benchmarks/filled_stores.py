"""Stores with the same messages in them, to be read: mqstore, a copy of it for RocketMQ, and SQLite.

All are warm: just written, in the page cache, and read through before the rounds that count.
"""

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rivals import Work
from rivals.rocketmq import ROCKETMQ
from rivals.sqlite_store import SqliteWriter

from mqstore import Message, MessageStore, StoreConfig

__all__ = ["FilledStores", "fill", "filled_stores"]

BATCH = 1_000
JIT_MESSAGES = 1_000_000
"""Read by RocketMQ before it is measured."""


@dataclass(frozen=True)
class FilledStores:
    """Open for reading. `rocketmq`: whether the driver has its copy open."""

    messages: int
    mqstore: MessageStore
    sqlite: sqlite3.Connection
    rocketmq: bool


def fill(
    directory: Path, messages: int, body_bytes: int, *, config: StoreConfig | None = None
) -> MessageStore:
    """A new store with that many messages in queue 0 of topic orders; open."""
    body = Work(messages=messages, body_bytes=body_bytes).body
    store = MessageStore.open(directory, config)
    for _ in range(messages // BATCH):
        store.put_messages([Message("orders", body, tags="created", queue_id=0) for _ in range(BATCH)])
    return store


@contextmanager
def filled_stores(directory: Path, messages: int, body_bytes: int) -> Iterator[FilledStores]:
    """The three, closed afterwards."""
    ours, theirs = directory / "mqstore", directory / "rocketmq"
    fill(ours, messages, body_bytes).close()
    if ROCKETMQ.is_there:
        subprocess.run(["cp", "--recursive", "--sparse=always", str(ours), str(theirs)], check=True)
        ROCKETMQ.ask("open", path=str(theirs))
        ROCKETMQ.ask("get", messages=JIT_MESSAGES, at_once=32)
        ROCKETMQ.ask("look", messages=JIT_MESSAGES, seed=0)
    (directory / "sqlite").mkdir()
    work = Work(messages=messages, body_bytes=body_bytes)
    sqlite = SqliteWriter(directory / "sqlite", work)
    for _ in range(messages // BATCH):
        sqlite.put_batch([work.body] * BATCH, 0)
    with MessageStore.open(ours) as store:
        yield FilledStores(messages, store, sqlite.connection, ROCKETMQ.is_there)
    sqlite.close()
    if ROCKETMQ.is_there:
        ROCKETMQ.ask("close")
