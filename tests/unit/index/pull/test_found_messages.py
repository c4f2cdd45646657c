"""Messages that are made when they are looked at are those that a pull makes at once.

Each pull is made twice, lazily and not, over queues of all kinds; the objects must show the same, and where
nothing can be made later the answer must be the ordinary one.
"""

from pathlib import Path

import msgspec
import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.index.pull.found_messages import FoundMessages
from mqstore.index.pull.message_reader import GetMessageResult
from mqstore.store.status import GetMessageStatus

COUNT = 40


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    return MessageStore.open(tmp_path / "data")


def put(store: MessageStore, count: int = COUNT, tags: str | None = None) -> None:
    for number in range(count):
        store.put_message(Message("orders", f"{number}".encode(), tags=tags, queue_id=0))


def both(store: MessageStore, offset: int = 0, count: int = 32, tags: str = "*") -> GetMessageResult:
    """What a lazy pull answers; it was compared with the ordinary one."""
    plain = store.get_message("billing", "orders", 0, offset, count, tags)
    lazy = store.get_message("billing", "orders", 0, offset, count, tags, lazily=True)
    shown = [(one.queue_offset, one.physical_offset, one.body, one.tags) for one in plain.messages]
    assert [(one.queue_offset, one.physical_offset, one.body, one.tags) for one in lazy.messages] == shown
    assert msgspec.structs.replace(lazy, messages=[]) == msgspec.structs.replace(plain, messages=[])
    return lazy


def test_a_full_pull_makes_its_messages_later(store: MessageStore) -> None:
    """Number, offsets and truth are known before; then each is made once, and a slice is a tuple of them."""
    with store:
        put(store)
        found = store.get_message("billing", "orders", 0, 5, 32, lazily=True).messages
        assert isinstance(found, FoundMessages)
        assert len(found) == 32
        assert found
        assert repr(found) == "FoundMessages(32 messages)"
        assert found.first_queue_offset == 5
        assert [message.queue_offset for message in found] == [*range(5, 37)]
        assert found[0] is found[0]
        assert found[-1].body == b"36"
        assert found[1:3] == (found[1], found[2])
        assert list(found) == list(found[:])
        assert found[4] in found
        assert found.index(found[4]) == 4
        with pytest.raises(IndexError):
            found[32]


@pytest.mark.parametrize(
    ("offset", "count"), [(0, 32), (8, 32), (20, 32), (38, 32), (39, 1), (0, 3), (40, 32)]
)
def test_a_lazy_pull_answers_what_any_pull_does(store: MessageStore, offset: int, count: int) -> None:
    """At every place of the queue, the end included."""
    with store:
        put(store)
        both(store, offset, count)


@pytest.mark.parametrize("others", [range(0), range(20), range(12, 13)])
def test_records_are_joined_in_the_order_of_the_queue(store: MessageStore, others: range) -> None:
    """Those of another queue lie between them in the log, or some do, or none."""
    with store:
        for number in range(20):
            store.put("orders", b"%d" % number * number, keys=f"{number}", queue_id=1)
            if number in others:
                store.put("orders", b"another's", queue_id=0)
        found = store.get_message("billing", "orders", 1, 5, 8, lazily=True).messages
        assert isinstance(found, FoundMessages)
        joined = found.joined_records()
        assert joined == b"".join([message.record for message in found])
        assert [message.body for message in found] == [b"%d" % number * number for number in range(5, 13)]


def test_with_tags_nothing_is_made_later(store: MessageStore) -> None:
    """A filter has to look at the records anyhow."""
    with store:
        put(store, tags="paid")
        assert type(both(store, tags="paid").messages) is list
        assert both(store, tags="created").status is GetMessageStatus.NO_MATCHED_MESSAGE


def test_across_segments(tmp_path: Path) -> None:
    """A pull that ends in the next segment is an ordinary one."""
    config = StoreConfig(mapped_file_size_commit_log=69_632, max_message_size=4_000)
    with MessageStore.open(tmp_path / "data", config) as store:
        for number in range(COUNT):
            store.put_message(Message("orders", b"%d" % number * 1_500, queue_id=0))
        kinds = {type(both(store, offset, 8).messages) for offset in range(COUNT - 8)}
        assert kinds == {list, FoundMessages}


def test_up_to_a_limit_of_bytes(tmp_path: Path) -> None:
    """A pull that the limit of bytes ends is an ordinary one."""
    config = StoreConfig(max_transfer_bytes_on_message_in_memory=1_000)
    with MessageStore.open(tmp_path / "data", config) as store:
        put(store)
        assert len(both(store).messages) < 10
