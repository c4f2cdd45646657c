"""Seats are booked in SQLite, and a message tells of each booking: both happen, or neither.

    python examples/transaction.py

The half of a message is stored first, and nobody sees it. Then the database commits, or fails, and the half
is committed or rolled back. For seat-3 the process "dies" in between: the broker asks later, and the listener
looks into the database.
"""

import sqlite3
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    EmbeddedBroker,
    PushConsumer,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
)


class Bookings:
    """The listener: does the local transaction, and says what became of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE bookings (seat TEXT PRIMARY KEY)")

    def execute_local_transaction(self, message: Message, arg: Any) -> TransactionState:
        seat = message.keys[0]
        try:
            with sqlite3.connect(self._path) as database:
                database.execute("INSERT INTO bookings VALUES (?)", (seat,))
        except sqlite3.IntegrityError:
            return TransactionState.ROLLBACK_MESSAGE
        # As if the process had died before it could say so.
        return TransactionState.UNKNOW if seat == "seat-3" else TransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: StoredMessage) -> TransactionState:
        with sqlite3.connect(self._path) as database:
            found = database.execute("SELECT 1 FROM bookings WHERE seat = ?", message.keys).fetchone()
        return TransactionState.COMMIT_MESSAGE if found else TransactionState.ROLLBACK_MESSAGE


def main() -> None:
    told: list[str] = []
    heard = threading.Semaphore(0)

    def hear(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
        told.extend(message.keys[0] for message in messages)
        heard.release()

    # RocketMQ asks after 6 s and every 30 s.
    soon = TransactionSettings(transaction_timeout=100, transaction_check_interval=200)
    with (
        tempfile.TemporaryDirectory() as directory,
        MessageStore.open(Path(directory, "data")) as store,
        EmbeddedBroker(store, transaction_settings=soon) as broker,
        TransactionProducer(broker, "box-office", Bookings(Path(directory, "seats.sqlite"))) as producer,
        PushConsumer(broker, "tickets") as consumer,
    ):
        consumer.subscribe("bookings")
        consumer.listener(hear)
        consumer.start()
        for seat in ("seat-1", "seat-2", "seat-1", "seat-3"):
            message = Message("bookings", b"booked", keys=(seat,))
            result = producer.send_message_in_transaction(message)
            print(f"{seat}: {result.local_transaction_state.name}")
        for _ in range(3):
            heard.acquire(timeout=30)
    print(f"tickets for: {', '.join(sorted(told))}")


if __name__ == "__main__":
    main()
