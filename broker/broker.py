"""What clients ask of a broker. Producers and consumers use nothing else, so they work over any of them.

`EmbeddedBroker` (embedded_broker.py) answers from a MessageStore of the same process. Methods raise a
StoreError; its `response_code` is what a RocketMQ broker would answer, and decides what a client tries again.
Threads: any thread may call any method. Callbacks come from a thread of the broker or from the caller's; they
must be quick and must not raise.
Source: docs/spec/client_consume.md, docs/spec/client_produce.md; MQClientAPIImpl of Apache RocketMQ.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from mqstore.store.errors import StoreClosed, StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult, SentPut
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import GetMessageStatus

__all__ = [
    "Broker",
    "BrokerClosed",
    "ConsumerData",
    "MessageModel",
    "MessageQueue",
    "PullAnswer",
    "PullRequest",
    "ReplyNotDelivered",
    "TopicRoute",
    "TransactionState",
]


class MessageQueue(NamedTuple):
    """One queue of one broker. They sort as RocketMQ's do: by topic, broker name, queue id.

    >>> min(MessageQueue("orders", "broker-b", 0), MessageQueue("orders", "broker-a", 7)).broker_name
    'broker-a'
    """

    topic: str
    broker_name: str
    queue_id: int


class TopicRoute(NamedTuple):
    """The queues of a topic on one broker: ids from 0 to read_queue_nums - 1, write_queue_nums - 1."""

    read_queue_nums: int
    write_queue_nums: int
    is_readable: bool
    is_writable: bool


class PullRequest(msgspec.Struct, frozen=True, gc=False):
    """A pull. subscription: `*`, or tags as `TagA || TagB`.

    suspend_ms: how long the broker may wait for a message where there is none; 0: not at all.
    """

    group: str
    topic: str
    queue_id: int
    offset: int
    max_nums: int
    subscription: str
    suspend_ms: int = 0


class PullAnswer(msgspec.Struct, frozen=True):
    """What a pull found. messages: of FOUND, as stored. next_begin_offset: where to pull next.

    is_illegal: the offset of the request is not in the queue (OFFSET_ILLEGAL of a client). size_bytes: of the
    records of all messages together; None if the broker does not know.
    """

    status: GetMessageStatus
    messages: Sequence[StoredMessage]
    next_begin_offset: int
    min_offset: int
    max_offset: int
    is_illegal: bool
    size_bytes: int | None = None


class MessageModel(enum.Enum):
    """CLUSTERING: the members of a group share the queues. BROADCASTING: each has all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumerData(msgspec.Struct, frozen=True):
    """What a member of a group tells of itself. subscriptions: topic -> `*` or tags."""

    message_model: MessageModel
    subscriptions: Mapping[str, str]


class TransactionState(enum.Enum):
    """What became of a local transaction (LocalTransactionState). UNKNOW: the broker asks again later."""

    COMMIT_MESSAGE = "COMMIT_MESSAGE"
    ROLLBACK_MESSAGE = "ROLLBACK_MESSAGE"
    UNKNOW = "UNKNOW"


class BrokerClosed(StoreClosed):
    """The broker was closed; its store may be open. place: the directory, or the address of a remote one."""

    def __init__(self, name: str, place: Path | str) -> None:
        StoreError.__init__(self, f"the broker {name!r} at {place} is closed: make another")
        self.name = name
        self.place = place


class ReplyNotDelivered(StoreError):
    """The broker knows no client that waits for this reply: it has stopped, or has other brokers."""

    def __init__(self, name: str, client_id: str) -> None:
        super().__init__(f"the broker {name!r} has no client {client_id!r} that waits for replies")
        self.name = name
        self.client_id = client_id


class Broker(Protocol):
    """One broker, by its name."""

    @property
    def name(self) -> str:
        """The broker's name: unique among the brokers that a client is given."""
        ...

    # -- topics and queues ------------------------------------------------------------------------

    def topic_route(self, topic: str) -> TopicRoute | None:
        """The queues of `topic`; None if it does not exist here."""
        ...

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the next message; 0 for a queue without any."""
        ...

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the first message that is still there."""
        ...

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The offset of the first message stored at that time or later."""
        ...

    # -- sending ----------------------------------------------------------------------------------

    def send(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        """Store a message in its `queue_id`.

        One to `%RETRY%group` goes to the dead letters if it was tried too often, or if the group consumes in
        order (SendMessageProcessor#handleRetryAndDLQ).
        """
        ...

    @property
    def put_sent(self) -> SentPut | None:
        """Puts the usual message of a producer directly: to a queue, with a UNIQ_KEY.

        It answers None for a message that is to be sent by `send`, with nothing changed, and for all once the
        broker is closed. None itself where a broker has no such way. Producers keep it.
        """
        ...

    def send_all(self, messages: Sequence[Message], *, timeout_ms: int) -> Sequence[PutMessageResult]:
        """Store messages of one topic: all or none."""
        ...

    def send_async(self, message: Message) -> "Future[PutMessageResult]":
        """As `send`; the caller does not wait for the disk. Raises what is known at once.

        A request, with the property REPLY_TO_CLIENT, gets the property CLUSTER: its reply needs it.
        """
        ...

    def send_message_back(
        self,
        group: str,
        message: StoredMessage,
        *,
        delay_level: int,
        max_reconsume_times: int,
        timeout_ms: int,
    ) -> None:
        """Have a message come again to `group` later, or make it a dead letter (request code 36).

        Raises a StoreError unless the copy is stored; one that FLUSH_DISK_TIMEOUT was told of is stored.
        """
        ...

    def delay_level_of(self, delay_ms: int) -> int:
        """The delay level that is the nearest and not shorter; the longest one where all are shorter."""
        ...

    def send_reply(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        """Hand a reply to the client that its property REPLY_TO_CLIENT names, then store it.

        Raises ReplyNotDelivered, with nothing stored, where this broker has no such client, and as `send`.
        """
        ...

    def register_reply_receiver(self, client_id: str, receive: Callable[[Message], None]) -> None:
        """`receive` is called with each reply to this client, whose body may be compressed."""
        ...

    def unregister_reply_receiver(self, client_id: str) -> None:
        """No more replies for this client."""
        ...

    # -- transactions -----------------------------------------------------------------------------

    def send_half(self, message: Message, producer_group: str, *, timeout_ms: int) -> PutMessageResult:
        """Store the half of a transaction: nobody sees it until it is committed.

        A delay is dropped. Raises as `send`, and GroupIllegal.
        """
        ...

    def end_transaction(self, half: PutMessageResult, producer_group: str, state: TransactionState) -> None:
        """Commit or roll back; UNKNOW leaves it to the check. One that was ended before is left as it is.

        half: from `send_half`, or from the check. Raises a StoreError if nothing was ended, such as
        TransactionIllegal for a half of another group.
        """
        ...

    def register_producer(
        self, group: str, client_id: str, check: Callable[[StoredMessage, PutMessageResult], None]
    ) -> None:
        """`check` is called with each half message of the group that nobody has ended for too long.

        It gets the message under the topic that it was sent to, and the half to end: now or later, by this
        client or another. Of several clients of a group, one is asked, in turn.
        """
        ...

    def unregister_producer(self, group: str, client_id: str) -> None:
        """No more checks for this client."""
        ...

    # -- pulling ----------------------------------------------------------------------------------

    def pull(self, request: PullRequest) -> PullAnswer:
        """What is there now; `suspend_ms` is ignored."""
        ...

    def pull_later(
        self, request: PullRequest, callback: Callable[[PullAnswer | Exception], None]
    ) -> Callable[[], None]:
        """As `pull`, but where nothing is there wait for a message, up to `suspend_ms`.

        `callback` is called once, from a thread of the broker or, if something is there already, by the
        caller's own before this returns. It gets the StoreError that a pull would raise. A client that pulls
        again within it must leave the call first, or it may be called ever deeper.
        What is returned cancels the wait; `callback` is not called then, unless it has begun already.
        """
        ...

    # -- offsets ----------------------------------------------------------------------------------

    def query_consumer_offset(self, group: str, topic: str, queue_id: int) -> int:
        """The offset to consume next; -1 if the group has none there.

        0 for a group that has none in a queue that still begins at 0 (docs/spec/remoting.md 7.5).
        """
        ...

    def update_consumer_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit an offset, as it is told."""
        ...

    def take_reset_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """An offset that an operator has set for the group, once; None if there is none."""
        ...

    # -- members of a group -----------------------------------------------------------------------

    def register_consumer(
        self, group: str, client_id: str, data: ConsumerData, on_change: Callable[[], None]
    ) -> None:
        """Make a client a member of a group; `on_change` is called when other members have changed.

        A group without a retry topic gets one. Raises SubscriptionGroupNotExist, GroupIllegal,
        SubscriptionIllegal.
        """
        ...

    def unregister_consumer(self, group: str, client_id: str) -> None:
        """Leave the group, and give up its locks."""
        ...

    def consumer_ids(self, group: str) -> list[str]:
        """The members of a group."""
        ...

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues for 60 s; returns those that this client has now."""
        ...

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up locks of this client."""
        ...
