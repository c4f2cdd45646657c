"""A young queue: where a group that has no offset in it begins at the first message, not at the last.

A RocketMQ broker answers 0 instead of "no offset" if the queue still begins at 0 and its first message is
still in memory: within 40 % of the machine's memory behind the end of the log (4.9), or in the page cache
(5.x). The first rule is taken here, and its answer for a queue without messages, 0: whatever is put while a
new consumer looks for its place is then never skipped.

Threads: any. Source: docs/spec/remoting.md section 7.5; ConsumerManageProcessor#queryConsumerOffset,
DefaultMessageStore#checkInDiskByConsumeOffset of Apache RocketMQ.
"""

import os
from typing import Final

from mqstore.message_store import MessageStore

__all__ = ["begins_in_memory", "physical_memory_bytes"]

_RATIO: Final = 0.4
"""RocketMQ's accessMessageInMemoryMaxRatio."""


def physical_memory_bytes() -> int:
    """Memory of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def begins_in_memory(store: MessageStore, topic: str, queue_id: int, memory_bytes: int) -> bool:
    """Whether the queue begins at 0, and its first message, if there is one, is still in memory."""
    if store.get_min_offset_in_queue(topic, queue_id) > 0:
        return False
    physical_offset = store.get_commit_log_offset_in_queue(topic, queue_id, 0)
    if physical_offset < 0:
        return True
    return physical_offset >= store.min_offset and store.max_offset - physical_offset <= memory_bytes * _RATIO
