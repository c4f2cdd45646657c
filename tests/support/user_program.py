"""A user's program, as type checkers see it: `make types` runs mypy --strict and pyright on it.

It is not run. What each call gives is written beside it, so a type that got lost is an error.
"""

from collections.abc import Sequence
from typing import assert_type

from mqstore import Message, MessageStore, PutMessageResult, StoreConfig, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumerSettings,
    EmbeddedBroker,
    LitePullConsumer,
    Producer,
    PushConsumer,
    RemoteBroker,
    SendResult,
)


def charge(
    messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """A listener."""
    assert_type(messages[0].body, bytes)
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def embedded(path: str) -> None:
    """A store, a producer and a consumer in one process."""
    with (
        MessageStore.open(path, StoreConfig(flush_disk_type="SYNC_FLUSH")) as store,
        EmbeddedBroker(store) as broker,
        Producer(broker, "web") as producer,
        PushConsumer(broker, "billing", ConsumerSettings(max_reconsume_times=2)) as consumer,
    ):
        consumer.subscribe("orders")
        consumer.listener(charge)
        consumer.start()
        assert_type(store.put("orders", json={"id": 1}, delay_s=1), PutMessageResult)
        assert_type(producer.send(Message("orders", b"1", keys="o-1")), SendResult)
        for letter in store.get_message("support", "%DLQ%billing", 0, 0).messages:
            assert_type(letter, StoredMessage)


async def remote() -> None:
    """Over the network, in an event loop."""
    with RemoteBroker("127.0.0.1:9876") as broker:
        async with LitePullConsumer(broker, "reports") as consumer:
            consumer.subscribe("orders")
            async for message in consumer:
                assert_type(message.body, bytes)
