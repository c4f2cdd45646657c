"""A message that comes back, as a listener sees it: under the topic that it was first sent to.

It lies in `%RETRY%group`; its property RETRY_TOPIC names the topic that the listener subscribed to, and that
is what `topic` says here (DefaultMQPushConsumerImpl#resetRetryAndNamespace). A message that could not be sent
back comes again from memory, with a reconsume time more than its record has. Body and sys flag are as they
were sent, everything else is as stored. Messages of other topics are handed out as they were pulled.
"""

from collections.abc import Sequence

from mqstore.store.message import topic_names
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import ORIGIN_MESSAGE_ID, RETRY_TOPIC

__all__ = ["ReceivedMessage", "in_words"]


class ReceivedMessage(StoredMessage, eq=False, gc=False):
    """A stored message whose `topic` is the original one; `stored_topic` is where it lies.

    local_reconsume_times: how often it has come again from memory.
    """

    local_reconsume_times: int = 0

    @classmethod
    def again(cls, message: StoredMessage) -> "ReceivedMessage":
        """The message, with one more local reconsume time."""
        received = cls.of(message.record)
        received.local_reconsume_times = getattr(message, "local_reconsume_times", 0) + 1
        return received

    @property
    def stored_topic(self) -> str:
        """The topic of the record, `%RETRY%group` for a message that came back."""
        return super().topic

    @property
    def topic(self) -> str:
        """The topic that the message was first sent to."""
        stored_topic = self.stored_topic
        if not topic_names.is_retry_topic(stored_topic):
            return stored_topic
        return self.properties.get(RETRY_TOPIC, stored_topic)

    @property
    def reconsume_times(self) -> int:
        """How often its consumer group has failed on it, from memory too."""
        return super().reconsume_times + self.local_reconsume_times

    def detached(self) -> "ReceivedMessage":
        """A copy with bytes of its own: it keeps no segment mapped, however long it is kept."""
        return _of_bytes(self.record.tobytes(), self.local_reconsume_times)

    def __reduce__(self) -> tuple[object, ...]:
        """For pickle and deepcopy: the record's bytes, and how often it has come from memory."""
        return _of_bytes, (self.record.tobytes(), self.local_reconsume_times)


def in_words(messages: Sequence[StoredMessage]) -> str:
    """For a log, what a listener had: the first message with its id, keys and attempt, and how many more.

    The id is the one that `mqstore dlq show` gives as the origin message id of a dead letter.
    """
    first = messages[0]
    more = f", and {len(messages) - 1} more" if len(messages) > 1 else ""
    if not first.is_whole:
        return f"{first!r}{more}"
    origin = first.properties.get(ORIGIN_MESSAGE_ID) or first.msg_id
    keys = " ".join(first.keys)
    return (
        f"message {origin} of topic {first.topic}, keys {keys!r}, attempt {first.reconsume_times + 1} "
        f"({first!r}){more}"
    )


def _of_bytes(record: bytes, local_reconsume_times: int) -> ReceivedMessage:
    received = ReceivedMessage.of(memoryview(record))
    received.local_reconsume_times = local_reconsume_times
    return received
