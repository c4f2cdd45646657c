"""The deleted topics: up to which physical offset records of a topic have no entries any more.

Deleting a topic deletes its queues; its records stay in the log until they expire. Dispatch, and any
comparison of the log with the queues, skips records of a deleted topic before the offset at which the log
ended then. A topic that is created again begins its queues at 0 behind that offset.

Immutable, any thread. Where it is stored: mqstore/settings/directory_settings_file.py.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import ENTRY_BYTES

__all__ = ["DeletedTopics"]


class DeletedTopics:
    """Topics, each with the offset before which its records have no entries.

    >>> DeletedTopics({"orders": 4096}).end_of("orders"), DeletedTopics({}).end_of("orders")
    (4096, 0)
    """

    __slots__ = ("_newest", "offsets")

    def __init__(self, offsets: Mapping[str, int]) -> None:
        self.offsets = dict(offsets)
        self._newest = max(self.offsets.values(), default=0)

    def end_of(self, topic: str) -> int:
        """Records of `topic` before this offset have no entries; 0 for a topic that was never deleted."""
        return self.offsets.get(topic, 0)

    def plus(self, topic: str, end_offset: int) -> "DeletedTopics":
        """With a topic that is deleted while the log ends at `end_offset`."""
        return DeletedTopics(self.offsets | {topic: end_offset})

    def within(self, min_offset: int, end_offset: int) -> "DeletedTopics":
        """What matters to a log from `min_offset` to `end_offset`; its records behind that are lost."""
        return DeletedTopics(
            {topic: min(end, end_offset) for topic, end in self.offsets.items() if end > min_offset}
        )

    def concern(self, base_offset: int) -> bool:
        """Whether records from there on may be of a deleted topic."""
        return base_offset < self._newest

    def remaining(
        self, data: npt.NDArray[np.uint8], entries: npt.NDArray[np.uint8], runs: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """`runs` of `entries` (entry_kernels.py, `consume_queue_entries`), without deleted topics."""
        kept = list(self._remaining(data, entries, runs))
        return np.array(kept, np.int64).reshape(-1, runs.shape[1])

    def _remaining(
        self, data: npt.NDArray[np.uint8], entries: npt.NDArray[np.uint8], runs: npt.NDArray[np.int64]
    ) -> Iterator[list[int]]:
        for index, count, queue_offset, topic_at, topic_length, queue_id in runs.tolist():
            gone = 0
            topic = data[topic_at : topic_at + topic_length].tobytes()
            end_offset = self.end_of(topic.decode(errors="replace"))
            if end_offset:
                rows = entries[index * ENTRY_BYTES : (index + count) * ENTRY_BYTES].reshape(-1, ENTRY_BYTES)
                offsets = rows[:, :8].copy().view(">i8").reshape(-1)
                gone = int(np.count_nonzero(offsets < end_offset))
            if gone < count:
                yield [index + gone, count - gone, queue_offset + gone, topic_at, topic_length, queue_id]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeletedTopics) and self.offsets == other.offsets

    def __hash__(self) -> int:
        return hash(frozenset(self.offsets.items()))

    def __repr__(self) -> str:
        return f"DeletedTopics({self.offsets!r})"
