"""Attributes of topics: RocketMQ's names and values, how changes are asked for, what is not kept here.

The rules are those of AttributeUtil#alterCurrentAttributes, as its unit tests state them, but that an
attribute that may not change may be given again with the value that it has.
"""

from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore
from mqstore.store.errors import AttributeIllegal, TopicNotSupported
from mqstore.store.files.file_tree import delete_tree
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.verify.verification import verify
from support.stores.small_store import SmallStore


@pytest.fixture
def small() -> SmallStore:
    return SmallStore(MemoryFileSystem(), Path("/store"))


ALLOWED: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"+message.type": "FIFO"}, {"message.type": "FIFO"}),
    ({"message.type": "DELAY"}, {"message.type": "DELAY"}),
    (
        {"+queue.type": "SimpleCQ", "+cleanup.policy": "DELETE"},
        {"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"},
    ),
    ({"+reserve.time": "-1"}, {"reserve.time": "-1"}),
    ({"+reserve.time": str(2**63 - 1)}, {"reserve.time": str(2**63 - 1)}),
    ({}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "found"), ALLOWED)
def test_a_topic_has_the_attributes_that_were_asked_for(
    small: SmallStore, asked: dict[str, str], found: dict[str, str]
) -> None:
    """By RocketMQ's names, and durably."""
    with small.open() as store:
        assert store.topics.create("orders", attributes=asked).attributes == found
        assert store.topics.create("orders", attributes=asked).attributes == found
    with small.open() as store:
        config = store.topics.get("orders")
        assert config is not None
        assert config.attributes == found


def test_changes_leave_other_attributes_as_they_are(small: SmallStore) -> None:
    """Set, set again, removed."""
    with small.open() as store:
        create = store.topics.create
        create("orders", attributes={"message.type": "FIFO", "reserve.time": "5", "queue.type": "SimpleCQ"})
        assert create("orders", attributes={"+reserve.time": "7"}).attributes == {
            "message.type": "FIFO", "reserve.time": "7", "queue.type": "SimpleCQ",
        }  # fmt: skip
        assert create("orders", attributes={"-reserve.time": ""}).attributes == {
            "message.type": "FIFO", "queue.type": "SimpleCQ",
        }  # fmt: skip
        assert create("orders", 4).attributes == {"message.type": "FIFO", "queue.type": "SimpleCQ"}


REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"colour": "blue"}, "attribute 'colour' of topic 'orders' is none: there are queue.type"),
    ({"+": "x"}, "is none"),
    ({"": "x"}, "is none"),
    ({"+-message.type": "FIFO"}, "is none"),
    ({1: "x"}, "attribute 1 of"),
    ({"+message.type": "fifo"}, "'message.type' = 'fifo' .* must be one of UNSPECIFIED, NORMAL"),
    ({"+message.type": 5}, "must be one of"),
    ({"+queue.type": ""}, "must be one of SimpleCQ, BatchCQ"),
    ({"+reserve.time": "-2"}, "whole number from -1 to 9223372036854775807"),
    ({"+reserve.time": str(2**63)}, "whole number"),
    ({"+reserve.time": "1.5"}, "whole number"),
    ({"+reserve.time": "--1"}, "whole number"),
    ({"+reserve.time": 5}, "whole number"),
    ({"+reserve.time": "5", "reserve.time": "6"}, "is named twice"),
    ({"+reserve.time": "5", "-reserve.time": ""}, "is named twice"),
    ({"-reserve.time": ""}, "is not there to be removed"),
]


@pytest.mark.parametrize("known", [True, False], ids=["known topic", "new topic"])
@pytest.mark.parametrize(("asked", "words"), REFUSED)
def test_what_is_no_attribute_changes_nothing(
    small: SmallStore, asked: dict[Any, Any], words: str, known: bool
) -> None:
    """The error names the topic, the attribute, its value and the rule."""
    with small.open() as store:
        if known:
            store.topics.create("orders", 2)
        before = store.topics.get("orders")
        with pytest.raises(AttributeIllegal, match=words):
            store.topics.create("orders", 4, attributes=asked)
        assert store.topics.get("orders") == before


@pytest.mark.parametrize(
    ("name", "first", "other"),
    [("queue.type", "SimpleCQ", "BatchCQ"), ("cleanup.policy", "DELETE", "COMPACTION")],
)
def test_what_lasts_is_neither_changed_nor_removed(
    small: SmallStore, name: str, first: str, other: str
) -> None:
    """Not even given later, for the queues are of one kind from their first message on."""
    with small.open() as store:
        store.topics.create("orders", attributes={name: first})
        store.topics.create("plain")
        for topic, change in (
            ("orders", {name: other}),
            ("orders", {f"-{name}": ""}),
            ("plain", {name: first}),
        ):
            with pytest.raises(AttributeIllegal, match="cannot be"):
                store.topics.create(topic, attributes=change)


NOT_KEPT = [("queue.type", "BatchCQ"), ("cleanup.policy", "COMPACTION")]


@pytest.mark.parametrize(("name", "value"), [*NOT_KEPT, ("message.type", "MIXED")])
def test_a_kind_of_topic_that_is_not_kept_is_not_created(small: SmallStore, name: str, value: str) -> None:
    """With a plain queue for it, a broker might not start."""
    with small.open() as store:
        with pytest.raises(TopicNotSupported, match=f"topic 'orders' has {name} = {value}") as caught:
            store.topics.create("orders", attributes={f"+{name}": value})
        assert (caught.value.attribute, caught.value.value) == (name, value)
        assert "orders" not in store.topics


@pytest.mark.parametrize(("name", "value"), NOT_KEPT)
def test_a_topic_of_a_broker_that_is_not_kept_takes_nothing(small: SmallStore, name: str, value: str) -> None:
    """By no way to put; its settings stay as they were, and what it has is read."""
    with small.open() as store:
        for _ in range(3):
            store.put_message(Message("orders", b"x"))
    file = small.path / "config" / "topics.json"
    text = small.file_system.read(file).decode()
    written = text.replace('"attributes":{}', f'"attributes":{{"{name}":"{value}"}}')
    assert written != text
    small.file_system.write(file, written.encode())
    message = Message("orders", b"y")
    with small.open() as store:
        puts = (
            lambda: store.put_message(message),
            lambda: store.put_message_async(message),
            lambda: store.put_messages([message]),
            lambda: store.put_messages([message] * 50),
            lambda: store.put_columns({"topic": "orders", "body": [b"y"]}),
        )
        for put in puts:
            end_offset = store.max_offset
            with pytest.raises(TopicNotSupported, match=f"'orders' has {name} = {value}"):
                put()
            assert store.max_offset == end_offset
        if value == "COMPACTION":
            assert found(store) == [b"x"] * 3
        config = store.topics.get("orders")
        assert config is not None
        assert config.attributes[name] == value


def found(store: MessageStore) -> list[bytes]:
    return [message.body for message in store.get_message("billing", "orders", 0, 0).messages]


def as_of_a_broker(small: SmallStore) -> None:
    """Make `orders` a topic of BatchCQ: its queue is not among ours, and a group has read far."""
    files = small.file_system
    for name in ("topics.json", "topics.json.bak"):
        if files.exists(small.path / "config" / name):
            text = files.read(small.path / "config" / name).decode()
            parted = text.partition('"orders":')
            assert parted[1]
            kind = '"attributes":{"queue.type":"BatchCQ"}'
            text = parted[0] + parted[1] + parted[2].replace('"attributes":{}', kind, 1)
            files.write(small.path / "config" / name, text.encode())
    delete_tree(files, small.path / "consumequeue" / "orders")


def broker_store(file_system: MemoryFileSystem, *, delayed: bool = False) -> SmallStore:
    small = SmallStore(file_system, Path("/store"))
    with small.open() as store:
        for _ in range(3):
            store.put_message(Message("orders", b"x", keys="k"))
        if delayed:
            store.put_message(Message("orders", b"late", delay_level=1))
        store.put_message(Message("others", b"y"))
        store.consumer_offsets.commit("billing", "orders", 0, 2)
    as_of_a_broker(small)
    return small


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_topic_of_batches_gets_no_plain_queue(is_killed: bool) -> None:
    """A broker would not start with one. Its records stay readable, its consumers keep their place."""
    small = broker_store(MemoryFileSystem())
    if is_killed:
        small.file_system.write(small.path / "abort", b"")
    for read_only in (False, True, False):
        with small.open(read_only=read_only) as store:
            with pytest.raises(TopicNotSupported, match="'orders' has queue"):
                store.get_message("billing", "orders", 0, 0)
            assert [message.body for message in store.query_message("orders", "k")] == [b"x"] * 3
            assert store.get_message("billing", "others", 0, 0).messages[0].body == b"y"
            assert store.consumer_offsets.query("billing", "orders", 0) == 2
            if not read_only:
                store.flush()
        names = [entry.name for entry in small.file_system.list(small.path / "consumequeue")]
        assert "orders" not in names
    report = verify(small.path, file_system=small.file_system)
    assert not [finding for finding in report.findings if finding.is_damage], report.findings


def test_a_delayed_message_of_such_a_topic_waits_visibly() -> None:
    """Delivered, it would have a queue offset that is a broker's to give; its level tells why it stands."""
    small = broker_store(MemoryFileSystem(), delayed=True)
    with small.open() as store:
        small.clock.advance(2_000)
        end_offset = store.max_offset
        store.deliver_due()
        assert store.max_offset == end_offset
        assert any("BatchCQ" in str(status.error) for status in store.delivery.status())
