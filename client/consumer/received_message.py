"""A message as a listener sees it: under the topic that it was first sent to.

A message that comes back lies in `%RETRY%group`; its property RETRY_TOPIC names the topic that the
listener subscribed to, and that is what `topic` says here (DefaultMQPushConsumerImpl
#resetRetryAndNamespace). Body and sys flag are as they were sent, everything else is as stored.
"""

from mqstore.store.message import topic_names
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.properties_format import RETRY_TOPIC

__all__ = ["ReceivedMessage"]


class ReceivedMessage(StoredMessage, eq=False, gc=False):
    """A stored message whose `topic` is the original one; `stored_topic` is where it lies."""

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
