"""A record under another topic: a decoder reads it, and all but topic and queue is as it lies in the log."""

import pytest

from mqstore import Message, MessageStore, StoredMessage
from mqstore.remoting.message_format import record_under


@pytest.mark.parametrize("topic", ["t", "a-longer-topic", "%RETRY%" + "g" * 130])
def test_a_record_is_read_under_its_new_topic(store: MessageStore, topic: str) -> None:
    """With the topic of either length of field, and without the record's CRC."""
    put = store.put_message(Message("orders", b"body", tags="A", keys="k", properties={"x": "y"}, flag=5))
    stored = store.look_message_by_offset(put.physical_offset)
    assert stored is not None
    found = StoredMessage.of(memoryview(record_under(stored, topic, 3)))
    assert (found.topic, found.queue_id, found.store_size) == (topic, 3, len(found.record))
    assert (found.body, found.properties, found.flag) == (b"body", stored.properties, 5)
    assert (found.physical_offset, found.queue_offset) == (stored.physical_offset, stored.queue_offset)
    assert b"__CRC32#" not in bytes(found.record)
