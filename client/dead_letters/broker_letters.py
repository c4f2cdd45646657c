"""Dead letters of a broker over the network: beside a running `mqstore serve`, or in Apache RocketMQ.

As RocketMQ's dashboard does: the dead-letter topic is pulled from, and a message is sent. Pulls are those of
a group of their own, so that no other group's offset moves. A topic that may not be read, as older brokers
make dead-letter topics, is refused: `mqadmin updateTopicPerm` gives it permission 6.

Threads: any. Durability: as the broker's. Source: docs/spec/remoting.md sections 4, 6, 12.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mqstore.broker.broker import PullRequest
from mqstore.client.errors import BrokerRefused
from mqstore.client.remote.remote_broker import RemoteBroker
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import ResponseCode

__all__ = ["BrokerLetters"]

_READER_GROUP: Final = "CID_RMQ_SYS_RESEND_READER"
_TIMEOUT_MS: Final = 10_000
_PULL_COUNT: Final = 32


class BrokerLetters:
    """A `LetterSource` over a broker, which it does not close."""

    # What is sent one by one is known one by one, when a later one is refused.
    batch = 1

    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    @property
    def has_keys(self) -> bool:
        """As all brokers have, unless somebody turned them off, which they do not tell."""
        return True

    def topics(self) -> list[str]:
        """All of the cluster."""
        return self._broker.topics()

    def has_topic(self, topic: str) -> bool:
        """As `LetterSource`."""
        return self._broker.topic_route(topic) is not None

    def queue_ids(self, topic: str) -> list[int]:
        """As `LetterSource`."""
        route = self._broker.topic_route(topic)
        return [] if route is None else list(range(max(route.read_queue_nums, route.write_queue_nums)))

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """As `LetterSource`; a queue that does not exist is empty."""
        if queue_id not in self.queue_ids(topic):
            return 0, 0
        least = self._broker.min_offset(topic, queue_id)
        return least, max(least, self._broker.max_offset(topic, queue_id))

    def messages(self, topic: str, queue_id: int, begin: int, end: int) -> Iterator[StoredMessage]:
        """By pulls of 32."""
        while begin < end:
            count = min(_PULL_COUNT, end - begin)
            answer = self._broker.pull(PullRequest(_READER_GROUP, topic, queue_id, begin, count, "*"))
            for message in answer.messages:
                if begin <= message.queue_offset < end:
                    yield message
            if answer.next_begin_offset <= begin:
                return
            begin = answer.next_begin_offset

    def with_key(self, topic: str, key: str) -> Sequence[StoredMessage]:
        """As `LetterSource`."""
        return self._broker.query_message(topic, key)

    def put(self, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        """One after the other."""
        return [self._broker.send(message, timeout_ms=_TIMEOUT_MS) for message in messages]

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """As `LetterSource`."""
        return self._broker.query_consumer_offset(group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """As `LetterSource`; the broker ignores it while a reset is pending.

        RocketMQ 5.x keeps no offsets of a group that it does not know. Then copies are found by their keys
        alone.
        """
        try:
            self._broker.update_consumer_offset(group, topic, queue_id, offset)
        except BrokerRefused as refused:
            if refused.response_code is not ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise

    def delete_topic(self, topic: str) -> None:
        """At the broker and its name servers."""
        self._broker.delete_topic(topic)

    def __repr__(self) -> str:
        return f"BrokerLetters({self._broker!r})"
