"""A day of an operator: a group fails until its messages are dead; they are listed, shown, resent, consumed.

Method: the store, the push consumer and the dead letters together. A retry waits for one second.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    ConsumerSettings,
    DeadLetters,
    EmbeddedBroker,
    PushConsumer,
)

CONFIG = StoreConfig(message_delay_level="1s 1s 1s 1s 1s")


@pytest.mark.slow
def test_dead_letters_are_resent_once_their_consumer_is_mended(tmp_path: Path) -> None:
    """Both orders die after three attempts; resent, they are consumed with their keys, once each."""
    attempts, done = 0, list[tuple[str, tuple[str, ...], bytes]]()
    is_broken, are_dead, are_done = True, threading.Event(), threading.Event()
    dead = 0

    with MessageStore.open(tmp_path / "store", CONFIG) as store, EmbeddedBroker(store) as broker:

        def count_dead(_: object) -> None:
            nonlocal dead
            dead += 1
            if dead == 2:
                are_dead.set()

        store.topics.create("orders", 1)
        store.add_arrival_listener(lambda arrival: arrival.topic == "%DLQ%billing" and count_dead(arrival))
        store.put_messages([Message("orders", b"%d" % n, keys=f"o-{n}", queue_id=0) for n in range(2)])
        with PushConsumer(broker, "billing", ConsumerSettings(max_reconsume_times=2)) as consumer:
            consumer.subscribe("orders", "*")

            @consumer.listener
            def bill(messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext) -> None:
                nonlocal attempts
                attempts += len(messages)
                if is_broken:
                    raise RuntimeError("the other side does not answer")
                done.extend((message.topic, tuple(message.keys), bytes(message.body)) for message in messages)
                if len(done) == 2:
                    are_done.set()

            consumer.start()
            assert are_dead.wait(60)
            assert (attempts, done) == (6, [])

            letters = DeadLetters(store, "billing")
            listed = [
                (letter.original_topic, tuple(letter.message.keys), letter.reconsume_times)
                for letter in letters
            ]
            assert sorted(listed) == [("orders", ("o-0",), 3), ("orders", ("o-1",), 3)]
            assert not any(letters.is_resent(letter) for letter in letters)

            is_broken = False
            letters.resend()
            letters.resend()
            assert are_done.wait(60)
        assert sorted(done) == [("orders", ("o-0",), b"0"), ("orders", ("o-1",), b"1")]
        assert [letters.is_resent(letter) for letter in letters] == [True, True]
        assert letters.purge() == 2
