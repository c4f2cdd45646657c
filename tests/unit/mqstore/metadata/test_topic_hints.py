"""Who reads a misspelt topic is warned, once a name; who waits for a topic that is yet to come is not."""

import logging
from pathlib import Path

import pytest

from mqstore import GetMessageStatus, Message, MessageStore
from mqstore.metadata.topic_hints import MOST_WARNINGS, nearest_topic
from support.stores.small_log import small_config


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "mqstore.metadata.topic_hints"]


def test_a_misspelt_topic_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The answer is RocketMQ's; the warning names the topic that is there. A reader is warned as well."""
    with MessageStore.open(tmp_path, small_config()) as store:
        store.put_message(Message("orders", b"x"))
        store.flush()
        for _ in range(3):
            found = store.get_message("billing", "ordres", 0, 0)
            assert (found.status, found.messages) == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, [])
        expected = "there is no topic 'ordres' to get messages of: did you mean 'orders'?"
        assert warnings_of(caplog) == [expected]
        with MessageStore.open(tmp_path, small_config(), read_only=True) as reader:
            reader.get_message("billing", "ordres", 0, 0)
        assert warnings_of(caplog) == [expected] * 2


@pytest.mark.parametrize("queue_id", [None, 0])
def test_a_table_of_a_misspelt_topic_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, queue_id: int | None
) -> None:
    """It is empty; so are its batches."""
    with MessageStore.open(tmp_path, small_config()) as store:
        store.put_message(Message("orders", b"x"))
        assert store.to_arrow("ordres", queue_id).num_rows == 0
        assert not list(store.to_arrow_batches("order", queue_id))
    assert [warning[:26] for warning in warnings_of(caplog)] == [
        "there is no topic 'ordres'",
        "there is no topic 'order' ",
    ]


@pytest.mark.parametrize("topic", ["orders", "invoices", "%RETRY%orders", "%DLQ%order", "SCHEDULE_TOPIC_XXX"])
def test_who_may_be_right_is_not_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture, topic: str) -> None:
    """An empty queue of a topic, a topic that nothing is near to, and those that come by themselves."""
    with MessageStore.open(tmp_path, small_config()) as store:
        store.put_message(Message("orders", b"x"))
        store.get_message("billing", topic, 1, 0)
    assert not warnings_of(caplog)


def test_warnings_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A program that makes up names does not fill the log, nor the memory."""
    caplog.set_level(logging.WARNING)
    with MessageStore.open(tmp_path, small_config()) as store:
        store.put_message(Message("orders-of-today", b"x"))
        for number in range(MOST_WARNINGS + 50):
            store.get_message("billing", f"orders-of-today{number}", 0, 0)
    assert len(warnings_of(caplog)) == MOST_WARNINGS


@pytest.mark.parametrize(
    ("topic", "near"),
    [("ordres", "orders"), ("Orders", "orders"), ("order", "orders"), ("orders", None), ("xyzzy", None)],
)
def test_the_nearest_topic(tmp_path: Path, topic: str, near: str | None) -> None:
    """By letters, whatever their case; never one of RocketMQ's own."""
    with MessageStore.open(tmp_path, small_config()) as store:
        store.topics.create("orders")
        store.topics.create("invoices")
        assert nearest_topic(topic, store.topics) == near
        assert nearest_topic("TBW10", store.topics) is None
