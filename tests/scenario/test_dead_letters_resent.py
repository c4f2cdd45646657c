"""A day of an operator: a group fails until its messages are dead; they are listed, shown, resent, consumed.

Method: the store, the push consumer and the dead letters together, on a clock that a test moves.
"""

from collections.abc import Sequence
from pathlib import Path

from mqstore import Message, MessageStore
from mqstore.client import (
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    DeadLetters,
    PushConsumer,
    ReceivedMessage,
)
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore

HOUR_MS = 3_600_000


def consume_all(store: MessageStore, small: SmallStore, consumer: PushConsumer) -> None:
    """Until nothing comes any more, retries and their delays among it."""
    while consumer.run_once() or store.delivery.pending():
        small.clock.advance(HOUR_MS)
        store.deliver_due()


def test_dead_letters_are_resent_once_their_consumer_is_mended() -> None:
    """Both orders die after three attempts; resent, they are consumed with their keys, once each."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    is_broken, attempts, done = True, 0, list[tuple[str, tuple[str, ...], bytes]]()

    def bill(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus:
        nonlocal attempts
        attempts += len(messages)
        if is_broken:
            raise RuntimeError("the other side does not answer")
        done.extend((message.topic, message.keys, message.body) for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    with small.open() as store:
        store.topics.create("orders", 1)
        store.put_messages([Message("orders", b"%d" % n, keys=f"o-{n}", queue_id=0) for n in range(2)])
        consumer = PushConsumer(
            store,
            "billing",
            {"orders": "*"},
            bill,
            max_reconsume_times=2,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consume_all(store, small, consumer)
        assert (attempts, done) == (6, [])

        letters = DeadLetters(store, "billing")
        listed = [(letter.original_topic, letter.message.keys, letter.reconsume_times) for letter in letters]
        assert listed == [("orders", ("o-0",), 3), ("orders", ("o-1",), 3)]
        assert not any(letters.is_resent(letter) for letter in letters)

        is_broken = False
        letters.resend()
        letters.resend()
        consume_all(store, small, consumer)
        assert done == [("orders", ("o-0",), b"0"), ("orders", ("o-1",), b"1")]
        assert [letters.is_resent(letter) for letter in letters] == [True, True]
        assert letters.purge() == 2
