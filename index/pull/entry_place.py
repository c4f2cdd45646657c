"""The place of an entry: where in the log its record begins, and when that was stored.

offset_by_time.py finds the entry of a time. -1 stands for an entry or record that is not there, as in
RocketMQ.
Threads: any; no lock is taken.
Source: DefaultMessageStore#getMessageStoreTimeStamp, #getCommitLogOffsetInQueue, #getEarliestMessageTime.
"""

from mqstore.index.queue.consume_queue import ConsumeQueue
from mqstore.index.queue.consume_queue_format import BLANK_SIZE, ENTRY
from mqstore.store.log.commit_log import CommitLog

__all__ = ["earliest_message_time", "physical_offset_of", "store_timestamp_of"]


def physical_offset_of(queue: ConsumeQueue, log: CommitLog, queue_offset: int) -> int:
    """Where the record of an entry begins; -1 when the queue has no such entry."""
    if not queue.min_offset <= queue_offset < queue.end_below(log.visible_offset):
        return -1
    entry = queue.view_from(queue_offset, 1)
    if not entry:
        return -1
    physical_offset, size, _ = ENTRY.unpack_from(entry)
    return -1 if size == BLANK_SIZE else int(physical_offset)


def store_timestamp_of(queue: ConsumeQueue, log: CommitLog, queue_offset: int) -> int:
    """When the message of an entry was stored, epoch ms; -1 when entry or record are not there."""
    physical_offset = physical_offset_of(queue, log, queue_offset)
    return -1 if physical_offset < 0 else log.store_timestamp_at(physical_offset)


def earliest_message_time(queue: ConsumeQueue, log: CommitLog) -> int:
    """When the oldest message of a queue that is still there was stored, epoch ms; -1 when it is empty."""
    return store_timestamp_of(queue, log, queue.min_offset)
