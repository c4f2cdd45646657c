"""The waiting message: an entry of SCHEDULE_TOPIC_XXXX that is still to be delivered, as operators see it.

A value; delivery_service.py lists them. Threads: any. The message is a view of the mapped log.
"""

from typing import NamedTuple

from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import REAL_TOPIC

__all__ = ["WaitingMessage"]


class WaitingMessage(NamedTuple):
    """One that waits.

    queue_offset: its entry in the level's queue. due_ms: when it is due, epoch ms. message: the waiting
    record. is_cancelled: it will be passed over.
    """

    level: int
    queue_offset: int
    due_ms: int
    message: StoredMessage
    is_cancelled: bool

    @property
    def real_topic(self) -> str | None:
        """The topic to which it will be delivered: of a retry, the group's retry topic."""
        return self.message.properties.get(REAL_TOPIC)
