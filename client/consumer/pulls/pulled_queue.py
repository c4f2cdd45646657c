"""A pulled queue: one queue that this consumer owns, what of it is in memory, and how far it was pulled.

It goes round between the pull service (pull_service.py) and what consumes; `Consuming` is what the pull
service asks of that. Whoever takes the queue away calls `drop`.
Threads: `answer` is written by the broker's callback and taken by the thread that pulls; that thread writes
the rest. A flag that another thread has just changed is seen at the next look.
Source: PullRequest of the client of Apache RocketMQ.
"""

import math
from collections.abc import Callable
from typing import Protocol

from mqstore.broker.broker import MessageQueue, PullAnswer
from mqstore.client.consumer.pulls.process_queue import ProcessQueue, PulledBatch
from mqstore.store.errors import StoreClosed
from mqstore.store.message.topic_names import is_retry_topic

__all__ = ["Consuming", "PulledQueue"]


class PulledQueue:
    """One queue, and the state of its pulls.

    subscription: `*` or tags. next_offset: of the next pull. process_queue: what is in memory. error: of the
    last pull, if it failed.
    """

    def __init__(self, queue: MessageQueue, subscription: str, next_offset: int) -> None:
        self.queue = queue
        self.subscription = subscription
        self.next_offset = next_offset
        self.process_queue = ProcessQueue()
        self.error: BaseException | None = None
        self.is_retry = is_retry_topic(queue.topic)
        # Waits for its turn; is asked of the broker; waits until messages have been worked off.
        self.is_ready = False
        self.is_pulling = False
        self.is_held_back = False
        # Will be looked at within 50 ms if it is still held back.
        self.is_looked_after = False
        # What the broker was told last, and when, by a clock that only goes forward.
        self.told_offset = 0
        self.told_s = -math.inf
        self.answer: PullAnswer | Exception | None = None
        # Given to the broker with each pull.
        self.callback: Callable[[PullAnswer | Exception], None] | None = None
        self.cancel: Callable[[], None] = _cancel_nothing

    def drop(self) -> None:
        """Take it away from this consumer: nothing more is pulled, and no result counts."""
        self.process_queue.dropped = True
        self.cancel()

    def __repr__(self) -> str:
        return f"PulledQueue({self.queue!r}, next_offset={self.next_offset}, {self.process_queue!r})"


class Consuming(Protocol):
    """What consumes the messages of pulled queues: concurrently, or in order."""

    def pause_ms(self, pulled: PulledQueue) -> int:
        """How long the queue may not be pulled for a reason of its own; 0: it may."""
        ...

    def submit(self, pulled: PulledQueue, batch: PulledBatch, answer: PullAnswer) -> None:
        """Consume a batch that was just cached, after the next `wake`."""
        ...

    def wake(self) -> None:
        """Begin with what was submitted."""
        ...

    def skip(self, pulled: PulledQueue, offset: int) -> None:
        """Nothing of the queue before `offset` is there any more, and nothing of it is in memory."""
        ...

    def end(self, broker_name: str, error: StoreClosed) -> None:
        """Nothing more is pulled from this broker: it is closed."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether `look_again` is to be called a moment later."""
        ...

    def look_again(self) -> None:
        """See that nothing waits that could be consumed."""
        ...


def _cancel_nothing() -> None:
    """For a queue that was not pulled yet."""
