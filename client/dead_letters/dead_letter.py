"""The dead letter: a message that a consumer group gave up on, as an operator sees it.

A value, made from a record of `%DLQ%group`. What RocketMQ's format keeps of a failure is: how often the group
failed, which message it was at first, and by which way it came here. Why the listener failed is not in it:
look into the consumer's log at `store_timestamp`.

It does not read queues (dead_letters.py) nor put anything (resent_message.py).
Threads: any; no I/O. The message is a view of the mapped log, and keeps it alive: do not keep many for long.
Source: docs/spec/schedule_and_retry.md section 8.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Self

import msgspec

from mqstore.store.errors import StoreError
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC

__all__ = [
    "RESENT_FROM",
    "RESENT_MESSAGE_ID",
    "Arrival",
    "DeadLetter",
    "DeadLetterNotFound",
    "DeadLetterNotSendable",
    "Resent",
]

RESENT_FROM = "RESENT_FROM"
"""Property of a resent message: the dead-letter topic that it comes from."""
RESENT_MESSAGE_ID = "RESENT_MESSAGE_ID"
"""Property of a resent message: the offset message id of the dead letter."""

Arrival = Literal["SENT_BACK", "DIVERTED", "PUT"]

_ARRIVALS: dict[str | None, Arrival] = {"0": "SENT_BACK", "-1": "DIVERTED"}


class DeadLetterNotFound(StoreError):
    """The group has no dead letter at this offset.

    near_group: one that has dead letters and nearly the same name, if this one has none.
    """

    def __init__(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        min_offset: int,
        max_offset: int,
        near_group: str | None = None,
    ) -> None:
        is_empty = min_offset >= max_offset
        held = "it holds none" if is_empty else f"it holds offsets {min_offset} to {max_offset - 1}"
        hint = "" if near_group is None else f". Did you mean the group {near_group!r}?"
        super().__init__(
            f"queue {queue_id} of {topic} has no dead letter at offset {queue_offset}: {held}{hint}"
        )
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.near_group = near_group


class DeadLetterNotSendable(StoreError):
    """A dead letter was not resent: it has no topic to go back to, or the store refused the copy.

    topic: where it would have gone. reason: why it did not; the cause is the error of the store, if it was
    that. resent: what became of each letter of a `resend` that raises this.
    """

    def __init__(self, letter: "DeadLetter", topic: str | None, reason: str | None = None) -> None:
        reason = reason or _why_not(letter, topic)
        super().__init__(
            f"dead letter {letter.queue_offset} in queue {letter.queue_id} of {letter.topic}: {reason}"
        )
        self.letter = letter
        self.topic = topic
        self.reason = reason
        self.resent: Sequence[Resent] = ()


class Resent(NamedTuple):
    """What became of one dead letter, or would become of it.

    put: where its copy is; None if it was not sent. topic: where it goes, None if it does not go.
    problem: why it could not be sent; None if it was sent, or if its message was resent before.
    """

    queue_id: int
    queue_offset: int
    put: PutMessageResult | None
    topic: str | None = None
    problem: DeadLetterNotSendable | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One message of a group's dead-letter topic.

    message: the record, with body, tags, keys and properties.
    original_topic: the topic that it was first put to; None if somebody else put it here without saying so.
    origin_message_id: the offset message id of its first record; None as before.
    reconsume_times: how often the group failed on it.
    store_timestamp: when it died, epoch ms. born_timestamp, born_host: when and where its producer made it.
    arrival: SENT_BACK by `consumer_send_msg_back`, DIVERTED when a client put its own retry once too often,
    PUT by anybody else.
    resent_message_id: of the dead letter that it was resent from, if it has died before.
    """

    message: StoredMessage
    group: str
    topic: str
    queue_id: int
    queue_offset: int
    message_id: str
    original_topic: str | None
    origin_message_id: str | None
    reconsume_times: int
    store_timestamp: int
    born_timestamp: int
    born_host: Host
    arrival: Arrival
    resent_message_id: str | None

    @classmethod
    def of(cls, group: str, message: StoredMessage) -> Self:
        """The dead letter of `group` that is this record."""
        properties = message.properties
        return cls(
            message=message,
            group=group,
            topic=message.topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            message_id=message.msg_id,
            original_topic=properties.get(RETRY_TOPIC),
            origin_message_id=properties.get(ORIGIN_MESSAGE_ID),
            reconsume_times=message.reconsume_times,
            store_timestamp=message.store_timestamp,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            arrival=_ARRIVALS.get(properties.get(DELAY), "PUT"),
            resent_message_id=properties.get(RESENT_MESSAGE_ID),
        )

    @property
    def is_placeholder(self) -> bool:
        """Whether a repair has put it in the place of a lost message."""
        return self.message.is_placeholder

    @property
    def first_message_id(self) -> str:
        """What all letters of one message share: the id of its first record, else that of this letter."""
        return self.origin_message_id or self.message_id

    def __repr__(self) -> str:
        return (
            f"DeadLetter({self.topic!r}, queue_id={self.queue_id}, queue_offset={self.queue_offset}, "
            f"original_topic={self.original_topic!r}, reconsume_times={self.reconsume_times})"
        )


def _why_not(letter: DeadLetter, topic: str | None) -> str:
    if letter.is_placeholder:
        return "it is a placeholder, which a repair put in the place of a lost message: nothing to send"
    if topic is None:
        return "it does not say where it came from: name a topic (topic=, or --to-topic)"
    return f"topic {topic!r} does not exist: create it, or name another topic (topic=, or --to-topic)"
