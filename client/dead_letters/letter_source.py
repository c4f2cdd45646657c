"""The source of dead letters: what `DeadLetters` asks of a store, or of a broker over the network.

    store_letters.py    an open MessageStore
    broker_letters.py   a RemoteBroker: `mqstore serve`, or Apache RocketMQ

It knows nothing of groups and letters: it reads queues and keys, puts messages, and keeps offsets.
Threads: any, each call for itself.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage

__all__ = ["LetterSource"]


class LetterSource(Protocol):
    """Where dead letters lie. batch: how many messages `put` takes at a time."""

    batch: int

    @property
    def has_keys(self) -> bool:
        """Whether keys are indexed, so that `with_key` finds what was put."""
        ...

    def topics(self) -> list[str]:
        """The topics that may hold dead letters, among others."""
        ...

    def has_topic(self, topic: str) -> bool:
        """Whether a topic exists, so that a put does not create it."""
        ...

    def queue_ids(self, topic: str) -> list[int]:
        """The queues of a topic, from the lowest on; none if it does not exist."""
        ...

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The offset of the first message that is still there, and that of the next one."""
        ...

    def messages(self, topic: str, queue_id: int, begin: int, end: int) -> Iterator[StoredMessage]:
        """Those from `begin` to before `end` that can be read, in order."""
        ...

    def with_key(self, topic: str, key: str) -> Sequence[StoredMessage]:
        """The newest messages with this key, or UNIQ_KEY; none where keys are not indexed."""
        ...

    def put(self, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        """Store messages, all or none."""
        ...

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """What a group has committed; below 1 if nothing."""
        ...

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit an offset; a reset by an operator has been seen with this."""
        ...

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and the offsets in it."""
        ...
