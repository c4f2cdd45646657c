"""The delivery progress of one level: how far a power cut may set its delivery back.

Two offsets move through the level's queue. The delivery's own (delay_offsets.py, in memory) is behind the
last entry that was put. `durable_offset`, kept here, is the one that may go to delayOffset.json. Why they
differ: an offset on disk that is ahead of the log would, after a power cut, skip messages.

The argument. A power cut leaves a prefix of the log that reaches at least to `flushed_offset`. Let the
offset on disk be n. Every entry below n must then be one of these:
 - delivered, and its delivered copy lies in the prefix. The waiting record was appended before its copy,
   so it lies there too, and recovery gives the queue the same entries below n, for entries are numbered
   by their records.
 - passed over, and the record that its number is known from lies in the prefix. Otherwise the number
   would be given again, to a message that nobody has delivered.
So each step notes the physical offset behind the last byte it depends on, and `settle` lets the durable
offset follow once the flush has passed that byte. Steps are in order of these bytes, because a level is
delivered by one thread at a time and the log only grows; the oldest step is the first that settles.

What is lost with the difference is progress alone: those entries are delivered a second time. For the
same reason retention keeps everything from `durable_offset` on, not only what was never put.

Threads: none of its own; level_delivery.py calls it under the lock of the level. No I/O.
"""

from collections import deque

__all__ = ["DeliveryProgress"]


class DeliveryProgress:
    """Steps of delivery that wait for the disk, oldest first."""

    __slots__ = ("_unflushed", "durable_offset")

    def __init__(self, durable_offset: int = 0) -> None:
        """`durable_offset`: the queue offset that the level starts from; it has been durable before."""
        self.durable_offset = durable_offset
        # (physical offset behind what the step depends on, queue offset after the step)
        self._unflushed: deque[tuple[int, int]] = deque()

    def advance(self, next_offset: int, end_physical_offset: int) -> None:
        """Note that all before `next_offset` is done once the log is durable up to `end_physical_offset`."""
        if self._unflushed:
            end_physical_offset = max(end_physical_offset, self._unflushed[-1][0])
        self._unflushed.append((end_physical_offset, next_offset))

    def settle(self, flushed_offset: int) -> int:
        """Follow the flush of the log up to `flushed_offset`; returns the durable offset."""
        while self._unflushed and self._unflushed[0][0] <= flushed_offset:
            settled = self._unflushed.popleft()[1]
            assert settled >= self.durable_offset, (settled, self.durable_offset)  # I8
            self.durable_offset = settled
        return self.durable_offset

    def restart(self, next_offset: int) -> None:
        """Forget all steps: the queue begins or ends elsewhere than they assumed."""
        self._unflushed.clear()
        self.durable_offset = next_offset

    def __repr__(self) -> str:
        return f"DeliveryProgress({self.durable_offset}, {len(self._unflushed)} steps unflushed)"
