"""A consume request: one pulled batch on its way to the application, and how far it was handed out.

Source: docs/spec/client_produce.md section 9; ConsumeRequest of DefaultLitePullConsumerImpl.
"""

from mqstore.broker.broker import PullAnswer
from mqstore.client.consumer.pulls.process_queue import PulledBatch
from mqstore.client.consumer.pulls.pulled_queue import PulledQueue

__all__ = ["ConsumeRequest"]


class ConsumeRequest:
    """The messages of one batch.

    handed: how many of them the application has got. Whoever hands out sets it last, behind every call: an
    interrupt (Ctrl-C) comes before it, and the same messages are handed out again, or behind it.
    taker: the thread that is handing out just now; None: anybody may. end_offset: what to commit when all is
    done. is_cached: whether the process queue still counts its messages. is_shown: whether hooks have seen
    them.
    """

    __slots__ = ("batch", "end_offset", "handed", "is_cached", "is_shown", "messages", "pulled", "taker")

    def __init__(self, pulled: PulledQueue, batch: PulledBatch, answer: PullAnswer) -> None:
        self.pulled = pulled
        self.batch = batch
        # The batch forgets them when they leave the process queue.
        self.messages = batch.messages
        self.end_offset = min(self.messages[-1].queue_offset + 1, answer.next_begin_offset)
        self.handed = 0
        self.taker: int | None = None
        self.is_cached = True
        self.is_shown = False

    @property
    def is_handed_out(self) -> bool:
        """Whether the application has got all of it."""
        return self.handed == len(self.messages)

    def __repr__(self) -> str:
        return f"ConsumeRequest({self.pulled.queue!r}, {self.handed} of {len(self.messages)} handed out)"
