"""The due block: the records to deliver for a run of due entries, made by a compiled loop.

An entry that is out of the ordinary ends the block before it; level_delivery.py takes such entries one by
one, by `restore` of delayed_message.py. For ordinary entries both make the same bytes.
It does not decide what is due (due_entries.py) and does not append. Threads: any; it changes nothing.
"""

from typing import Final

import numpy as np

from mqstore.schedule.delivery.due_entries import Entries
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.config import StoreConfig
from mqstore.store.log.commit_log import CommitLog

__all__ = ["DueBlocks"]

_FEW: Final = 2
"""For fewer messages the compiled loop gains nothing, and is not loaded."""
_MAX_GROUPS: Final = 64
"""Topics and queues in one block."""


class DueBlocks:
    """Makes the blocks of one store."""

    def __init__(self, config: StoreConfig, commit_log: CommitLog) -> None:
        self._commit_log = commit_log
        self._append_crc = config.enabled_append_prop_crc
        self._max_body_bytes = config.max_message_size
        self._store_host = np.frombuffer(config.store_host.encode(), np.uint8)

    def restore(self, entries: Entries, queue_id: int, queue_offset: int) -> RecordBlock | None:
        """The records to deliver for the first of `entries`; None when the first is out of the ordinary.

        entries: due, of queue `queue_id` of SCHEDULE_TOPIC_XXXX from entry `queue_offset` on.
        """
        segment = self._commit_log.files.file_for(int(entries["physical_offset"][0]))
        if len(entries) < _FEW or segment is None:
            return None
        from mqstore.schedule.delivery import delivery_kernels
        from mqstore.store.bulk.encode_kernels import HAS_CRC

        physical_offsets = entries["physical_offset"].astype(np.int64)
        sizes = entries["size"].astype(np.int32)
        # A damaged entry may have a size below 0. It ends the block, and must not reduce the room before it.
        room = int(sizes.clip(0).sum(dtype=np.int64)) + delivery_kernels.MAX_GROWTH_BYTES * len(sizes)
        target = np.empty(room, np.uint8)
        starts = np.empty(len(sizes) + 1, np.int64)
        groups = np.empty(len(sizes), np.int32)
        group_places = np.empty((_MAX_GROUPS, 3), np.int64)
        count, group_count = delivery_kernels.restore_rows(
            segment.array,
            min(self._commit_log.visible_offset - segment.start_offset, segment.size_bytes),
            segment.start_offset,
            physical_offsets,
            sizes,
            queue_id,
            queue_offset,
            self._store_host,
            self._append_crc,
            self._max_body_bytes,
            target,
            starts,
            groups,
            group_places,
        )
        if not count:
            return None
        queues = [
            (target[at : at + length].tobytes().decode("ascii"), home_queue_id)
            for at, length, home_queue_id in group_places[:group_count].tolist()
        ]
        marks = np.full(count, HAS_CRC if self._append_crc else 0, np.uint8)
        return RecordBlock(target, starts[: count + 1], marks, queues, groups[:count])
