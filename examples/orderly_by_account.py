"""Bookings of three accounts: those of one account are consumed in the order in which they were sent.

    python examples/orderly_by_account.py

The selector sends all bookings of an account to one queue, and the listener in order has each queue in one
thread at a time. A booking that fails holds back what is behind it, until it succeeds.
"""

import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence

from mqstore import Message, MessageStore, StoredMessage
from mqstore.client import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    EmbeddedBroker,
    Producer,
    PushConsumer,
    select_message_queue_by_hash,
)

BOOKINGS = [("alice", 50), ("bob", 20), ("alice", -30), ("carol", 5), ("alice", -20), ("bob", -20)]

balances: dict[str, int] = defaultdict(int)
booked: dict[str, list[int]] = defaultdict(list)
done = threading.Semaphore(0)


def book(messages: Sequence[StoredMessage], context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
    """The first attempt at the account of bob fails: his second booking waits for it."""
    (message,) = messages
    account, amount = message.keys[0], int(message.body)
    if account == "bob" and message.reconsume_times == 0 and not booked["bob"]:
        context.suspend_current_queue_time_millis = 100
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
    balances[account] += amount
    booked[account].append(amount)
    done.release()
    return ConsumeOrderlyStatus.SUCCESS


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        MessageStore.open(directory) as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "bank") as producer,
        PushConsumer(broker, "ledger") as consumer,
    ):
        for account, amount in BOOKINGS:
            booking = Message("bookings", b"%d" % amount, keys=(account,))
            producer.send(booking, selector=select_message_queue_by_hash, arg=account)
        consumer.subscribe("bookings")
        consumer.orderly_listener(book)
        consumer.start()
        for _ in BOOKINGS:
            done.acquire(timeout=30)
    for account in sorted(booked):
        print(f"{account}: {booked[account]}, balance {balances[account]}")


if __name__ == "__main__":
    main()
