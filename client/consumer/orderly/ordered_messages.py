"""The ordered messages: what of one queue waits for the listener, in order, and what the listener has.

    add        -> waiting: behind what waits already
    take       waiting -> consuming: the first ones; when none waits the run ends, and the next add begins one
    commit     consuming -> done: the offset behind the last of them
    rollback   consuming -> waiting, in front
    put_back   the same for some of them

With autoCommit a batch leaves `consuming` before the next is taken. Without it, messages gather there until
the listener says COMMIT or ROLLBACK.

Counts and committed offsets are the process queue's (client/consumer/pulls/process_queue.py): here is only
whose turn it is. Threads: `add` by the one that pulls, all else by the one run of the queue; one lock.
Source: docs/spec/client_consume.md section 3; takeMessages, commit, rollback of ProcessQueue.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mqstore.client.consumer.pulls.process_queue import ProcessQueue, PulledBatch
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.lock import Lock

__all__ = ["OrderedMessage", "OrderedMessages"]

NOTHING_TO_COMMIT = -1


class OrderedMessage(NamedTuple):
    """A message, and its place in the batch that it was pulled with."""

    batch: PulledBatch
    place: int
    message: StoredMessage


class OrderedMessages:
    """Those of one queue. has_begun: the queue was pulled since it was locked."""

    def __init__(self, process_queue: ProcessQueue) -> None:
        self.has_begun = False
        self._process_queue = process_queue
        self._lock = Lock()
        # All of these under the lock.
        self._waiting: deque[OrderedMessage] = deque()
        self._consuming: list[OrderedMessage] = []
        self._is_running = False

    def add(self, batch: PulledBatch) -> bool:
        """Have a batch wait for the listener; whether a run must begin, for there is none."""
        with self._lock:
            self._waiting.extend(
                OrderedMessage(batch, place, message) for place, message in enumerate(batch.messages)
            )
            begins = bool(self._waiting) and not self._is_running
            self._is_running |= begins
            return begins

    def take(self, count: int) -> list[OrderedMessage]:
        """The next messages for the listener, at most `count`. None: the run has ended."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
            self._consuming += taken
            self._is_running = bool(taken)
            return taken

    def commit(self) -> int:
        """All that the listener has is done. The offset to commit, or NOTHING_TO_COMMIT (-1)."""
        with self._lock:
            done, self._consuming = self._consuming, []
        if not done:
            return NOTHING_TO_COMMIT
        # Read before they leave: the process queue forgets them.
        end_offset = done[-1].message.queue_offset + 1
        masks: dict[PulledBatch, int] = {}
        for batch, place, _ in done:
            masks[batch] = masks.get(batch, 0) | 1 << place
        left_offset = NOTHING_TO_COMMIT
        for batch, mask in masks.items():
            left_offset = self._process_queue.remove(batch, mask)
        # Singles of an inner batch may lie behind the offset that the queue goes on at.
        return min(end_offset, left_offset)

    def rollback(self) -> None:
        """All that the listener has comes again, before what waits."""
        with self._lock:
            self._waiting.extendleft(reversed(self._consuming))
            self._consuming = []

    def put_back(self, taken: Sequence[OrderedMessage]) -> None:
        """These, which were taken last, come again; the messages may be others now."""
        with self._lock:
            del self._consuming[len(self._consuming) - len(taken) :]
            self._waiting.extendleft(reversed(taken))

    def __repr__(self) -> str:
        state = ", running" if self._is_running else ""
        return f"OrderedMessages({len(self._waiting)} wait, the listener has {len(self._consuming)}{state})"
