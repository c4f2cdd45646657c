"""Reading while the disk has no room for the entries of queues: what a put returned is found in the log.

Method: the memory's free bytes end when the log has its window and the queues have no more room, or no file.
"""

from pathlib import Path

import pytest

from mqstore import GetMessageStatus, Message, MessageStore, StoreConfig
from mqstore.store.files.memory_file_system import MemoryFileSystem


def opened(file_system: MemoryFileSystem) -> MessageStore:
    config = StoreConfig(
        mapped_file_size_consume_queue=2_000, reserve_window_consume_queue=4_096, key_index_enable=False
    )
    return MessageStore.open(Path("/store"), config, file_system=file_system, start=False)


@pytest.mark.slow
def test_a_queue_that_has_no_file_yet_is_read_from_the_log() -> None:
    """All messages, in order, with the offsets that they will have; none of another queue."""
    file_system = MemoryFileSystem()
    store = opened(file_system)
    store.put_message(Message("other", b"x", queue_id=0))
    store.topics.create("orders", 2)
    room, file_system.free_bytes = file_system.free_bytes, 0
    for number in range(10):
        store.put_message(Message("orders", b"%d" % number, queue_id=number % 2, tags=f"t{number % 4}"))
    assert store.get_max_offset_in_queue("orders", 1) == 5
    for begin in range(5):
        got = store.get_message("group", "orders", 1, begin, 3)
        assert got.status is GetMessageStatus.FOUND
        assert [bytes(each.body) for each in got.messages] == [b"1", b"3", b"5", b"7", b"9"][
            begin : begin + 3
        ]
        assert got.next_begin_offset == min(begin + 3, 5)
        assert (got.min_offset, got.max_offset) == (0, 5)
    assert store.get_message("group", "orders", 1, 5).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    assert store.get_message("group", "orders", 1, 9).next_begin_offset == 5
    assert store.get_message("group", "none", 0, 0).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
    tagged = store.get_message("group", "orders", 1, 0, tags="t3")
    assert [bytes(each.body) for each in tagged.messages] == [b"3", b"7"]
    file_system.free_bytes = room
    assert len(store.get_message("group", "orders", 1, 0).messages) == 5
    assert store.get_max_offset_in_queue("orders", 1) == 5
    store.close()


def test_a_queue_goes_on_in_the_log_where_its_file_ends() -> None:
    """What has entries comes from them, the next pull from the log."""
    file_system = MemoryFileSystem()
    store = opened(file_system)
    for number in range(90):
        store.put_message(Message("orders", b"%d" % number, queue_id=0))
    assert len(store.get_message("group", "orders", 0, 60).messages) == 30
    room, file_system.free_bytes = file_system.free_bytes, 0
    for number in range(90, 150):
        store.put_message(Message("orders", b"%d" % number, queue_id=0))
    for _ in range(2):
        found: list[bytes] = []
        offset = 0
        while (got := store.get_message("group", "orders", 0, offset)).status is GetMessageStatus.FOUND:
            found += [bytes(each.body) for each in got.messages]
            offset = got.next_begin_offset
        assert found == [b"%d" % number for number in range(150)]
        assert (offset, got.max_offset) == (150, 150)
        file_system.free_bytes = room
    store.close()
