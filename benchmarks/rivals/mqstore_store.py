"""mqstore as its users open it: all services running, the record CRC on (the default), default segments.

Messages have a topic, a tag and a queue; one of eight queues for each thread. Their making counts.
"""

from collections import deque
from concurrent.futures import Future
from pathlib import Path

import pyarrow

from mqstore import Message, MessageStore, StoreConfig
from rivals.contestant import Loop, PythonContestant, Work, Writer

__all__ = ["MQSTORE", "MqstoreWriter"]

QUEUES = 8


class MqstoreWriter:
    """`put_message` and `put_messages`."""

    def __init__(self, directory: Path, work: Work) -> None:
        config = StoreConfig(flush_disk_type="SYNC_FLUSH" if work.sync else "ASYNC_FLUSH")
        self.store = MessageStore.open(directory, config)

    def put(self, body: bytes, thread: int) -> None:
        self.store.put_message(Message("orders", body, tags="created", queue_id=thread % QUEUES))

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        queue_id = thread % QUEUES
        self.store.put_messages(
            [Message("orders", body, tags="created", queue_id=queue_id) for body in bodies]
        )

    def close(self) -> None:
        self.store.close()


class _Mqstore(PythonContestant):
    """All kinds of work."""

    def can(self, work: Work) -> bool:
        return True

    def loop(self, writer: Writer, work: Work) -> Loop:
        assert isinstance(writer, MqstoreWriter)
        if work.in_flight:
            return _in_flight(writer.store, work)
        if work.columns:
            return _columns(writer.store, work)
        if work.batch == 1:
            return _singly(writer.store, work)
        return super().loop(writer, work)


def _singly(store: MessageStore, work: Work) -> Loop:
    """As a program calls it, without the detour over `Writer`, which the fastest would feel most."""
    put, body = store.put_message, work.body

    def put_singly(thread: int, messages: int) -> None:
        queue_id = thread % QUEUES
        if work.attributes:
            for number in range(messages):
                # A dictionary for each message, as a program has it.
                properties = {"region": "eu", "source": "web"}
                key = f"order-{number}"
                put(Message("orders", body, "created", key, properties=properties, queue_id=queue_id))
        elif work.keys:
            for number in range(messages):
                put(Message("orders", body, tags="created", keys=f"order-{number}", queue_id=queue_id))
        else:
            for _ in range(messages):
                put(Message("orders", body, tags="created", queue_id=queue_id))

    return put_singly


def _in_flight(store: MessageStore, work: Work) -> Loop:
    put, body = store.put_message_async, work.body

    def put_without_waiting(thread: int, messages: int) -> None:
        waiting: deque[Future[object]] = deque()
        for _ in range(messages):
            if len(waiting) >= work.in_flight:
                waiting.popleft().result()
            waiting.append(put(Message("orders", body, tags="created", queue_id=thread % QUEUES)))  # type: ignore[arg-type]
        for future in waiting:
            future.result()

    return put_without_waiting


def _columns(store: MessageStore, work: Work) -> Loop:
    """The table is there before, as it is where one was read from a file or came from a query."""
    put_columns = store.put_columns
    table = pyarrow.table({"body": [work.body] * work.batch, "tags": ["created"] * work.batch})

    def put_tables(thread: int, messages: int) -> None:
        for _ in range(messages // work.batch):
            put_columns(table, topic="orders", queue_id=thread % QUEUES)

    return put_tables


MQSTORE = _Mqstore("mqstore", MqstoreWriter)
