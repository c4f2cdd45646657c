"""The stores under the generator, in this process: each is opened in a directory and puts one message a call.

A message is built in the call, as a program builds it. With attributes it has a key of its own, a tag and two
properties. mqstore indexes keys, so SQLite has an index over them, and RocksDB gets a second entry in the
same WriteBatch. mqstore runs as its users open it, with all services; but segments are short and are deleted
a second after they are full, so that a run of ten seconds sees both many times. The rivals delete nothing.
"""

import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from latency.arrivals import Operation

__all__ = ["EMPTY", "IN_PROCESS", "Kind"]

QUEUES = 8
EVERY_HOUR = ";".join(f"{hour:02}" for hour in range(24))
RETENTION_PERIOD_MS = 1_000


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is put. sync: it is on the disk when the put returns. attributes: a key, a tag, two properties."""

    title: str
    sync: bool
    body_bytes: int
    attributes: bool
    segment_bytes: int

    @property
    def body(self) -> bytes:
        """The body of every message: all byte values in turn."""
        return (bytes(range(256)) * (self.body_bytes // 256 + 1))[: self.body_bytes]


@contextmanager
def mqstore(directory: Path, kind: Kind) -> Iterator[Operation]:
    """`put_message`, with all services."""
    from mqstore import Message, MessageStore, StoreConfig

    config = StoreConfig(
        flush_disk_type="SYNC_FLUSH" if kind.sync else "ASYNC_FLUSH",
        mapped_file_size_commit_log=kind.segment_bytes,
        file_reserved_time=0,
        delete_when=EVERY_HOUR,
        clean_resource_interval=RETENTION_PERIOD_MS,
    )
    body = kind.body
    with MessageStore.open(directory, config) as store:
        put = store.put_message

        def put_plain(number: int) -> None:
            put(Message("orders", body, queue_id=number % QUEUES))

        def put_with_attributes(number: int) -> None:
            put(
                Message(
                    "orders",
                    body,
                    tags="created",
                    keys=f"order-{number}",
                    queue_id=number % QUEUES,
                    properties={"region": "eu", "source": "web"},
                )
            )

        yield put_with_attributes if kind.attributes else put_plain


@contextmanager
def sqlite(directory: Path, kind: Kind) -> Iterator[Operation]:
    """One insert a transaction; WAL, synchronous NORMAL or FULL."""
    connection = sqlite3.connect(directory / "messages.db", isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute(f"pragma synchronous={'full' if kind.sync else 'normal'}")
    connection.execute(
        "create table message (id integer primary key, topic text, queue_id integer, tags text, keys text,"
        " region text, source text, body blob)"
    )
    execute, body = connection.execute, kind.body

    def put_plain(number: int) -> None:
        execute(
            "insert into message (topic, queue_id, body) values (?, ?, ?)", ("orders", number % QUEUES, body)
        )

    def put_with_attributes(number: int) -> None:
        execute(
            "insert into message (topic, queue_id, tags, keys, region, source, body)"
            " values (?, ?, ?, ?, ?, ?, ?)",
            ("orders", number % QUEUES, "created", f"order-{number}", "eu", "web", body),
        )

    if kind.attributes:
        connection.execute("create index by_key on message (keys)")
    yield put_with_attributes if kind.attributes else put_plain
    connection.close()


@contextmanager
def rocksdict(directory: Path, kind: Kind) -> Iterator[Operation]:
    """A put or a WriteBatch of two; the write-ahead log is on, `sync` is RocksDB's write option."""
    import rocksdict

    database = rocksdict.Rdict(str(directory), rocksdict.Options(raw_mode=True))
    options = rocksdict.WriteOptions()
    options.sync = kind.sync
    message_key, body, encode = struct.Struct(">cQ").pack, kind.body, msgspec.msgpack.encode

    def put_plain(number: int) -> None:
        database.put(message_key(b"m", number), encode(("orders", number % QUEUES, body)), options)

    def put_with_attributes(number: int) -> None:
        key = f"order-{number}"
        properties = {"region": "eu", "source": "web"}
        place = message_key(b"m", number)
        batch = rocksdict.WriteBatch(raw_mode=True)
        batch.put(place, encode(("orders", number % QUEUES, "created", key, properties, body)))
        batch.put(b"k" + key.encode(), place)
        database.write(batch, options)

    yield put_with_attributes if kind.attributes else put_plain
    database.close()


@contextmanager
def nothing(directory: Path, kind: Kind) -> Iterator[Operation]:
    """The control: what the generator measures of itself."""

    def do_nothing(number: int) -> None:
        pass

    yield do_nothing


EMPTY = "empty operation"
IN_PROCESS: dict[str, Callable[[Path, Kind], AbstractContextManager[Operation]]] = {
    "mqstore": mqstore,
    "SQLite": sqlite,
    "rocksdict": rocksdict,
    EMPTY: nothing,
}
"""By the name in the tables."""
