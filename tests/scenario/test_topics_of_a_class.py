"""Topics that are instances of a program's own class of str: its code never runs within an append."""

from pathlib import Path

import pytest

from mqstore import Message, MessageStore


class PuttingTopic(str):
    """One that puts a message whenever it is hashed or compared."""

    store: MessageStore | None = None

    def __hash__(self) -> int:
        self._put()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        self._put()
        return str.__eq__(self, other)

    def _put(self) -> None:
        # An append refuses another one of its own thread (RuntimeError), which would pass on from here.
        if self.store is not None:
            self.store.put_message(Message("others", b"meanwhile"))


@pytest.mark.parametrize("count", [1, 3])
def test_a_topic_that_uses_the_store_is_put_to(tmp_path: Path, count: int) -> None:
    """Alone and in a list; the result names the topic by a plain str."""
    with MessageStore.open(tmp_path / "data") as store:
        topic = PuttingTopic("orders")
        topic.store = store
        messages = [Message(topic, b"body")] * count
        results = [store.put_message(messages[0])] if count == 1 else store.put_messages(messages)
        topic.store = None
        assert [(type(put.topic), put.topic) for put in results] == [(str, "orders")] * count
        assert store.wait_for_messages("orders", 0, count - 1, timeout_ms=10_000)
        found = [stored.body for stored in store.get_message("g", "orders", 0, 0).messages]
        assert found == [b"body"] * count
