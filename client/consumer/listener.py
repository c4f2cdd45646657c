"""What a listener answers for a batch of messages, and the context that it may set before it answers.

Names are RocketMQ's (ConsumeConcurrentlyStatus, ConsumeConcurrentlyContext).
Threads: a context belongs to one call of the listener.
"""

import enum
from dataclasses import dataclass

__all__ = ["ConsumeContext", "ConsumeStatus"]

ALL_ACKNOWLEDGED = 2**31 - 1


class ConsumeStatus(enum.Enum):
    """CONSUME_SUCCESS: done with them. RECONSUME_LATER: hand them out again after a delay."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


@dataclass(slots=True)
class ConsumeContext:
    """Where one batch comes from, and the two things a listener may set about its answer."""

    topic: str
    """The topic that was pulled: `%RETRY%group` for messages that come back."""
    queue_id: int
    ack_index: int = ALL_ACKNOWLEDGED
    """With CONSUME_SUCCESS: the last message that succeeded; those after it are sent back."""
    delay_level_when_next_consume: int = 0
    """0: 3 + reconsume times. 1 and more: that delay level. Negative: a dead letter at once."""

    def acknowledged_count(self, status: ConsumeStatus, batch_size: int) -> int:
        """Number of leading messages of the batch that need not be sent back."""
        if status is not ConsumeStatus.CONSUME_SUCCESS:
            return 0
        return max(0, min(self.ack_index + 1, batch_size))
