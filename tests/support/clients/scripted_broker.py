"""A broker that answers what a test tells it to, and notes what it is asked."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from mqstore.broker.broker import (
    ConsumerData,
    MessageQueue,
    PullAnswer,
    PullRequest,
    TopicRoute,
    TransactionState,
)
from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import GetMessageStatus

__all__ = ["BROKER", "ScriptedBroker", "answer_of", "found", "nothing_found"]

BROKER = "broker-a"

Callback = Callable[[PullAnswer | Exception], None]


class ScriptedBroker:
    """A `Broker`. answers: of pulls that are answered at once, in order; without one a pull waits in `held`.

    Whatever is an exception is raised.
    """

    name = BROKER

    def __init__(self) -> None:
        self.answers: deque[PullAnswer | Exception] = deque()
        self.pulls: list[PullRequest] = []
        self.held: list[tuple[PullRequest, Callback]] = []
        self.routes: dict[str, TopicRoute] = {}
        self.offsets: dict[tuple[str, str, int], int | Exception] = {}
        self.commits: list[tuple[str, str, int, int]] = []
        self.commit_errors: dict[str, Exception] = {}
        self.resets: dict[tuple[str, str, int], int] = {}
        self.max_offsets: dict[tuple[str, int], int] = {}
        self.searched: list[int] = []
        self.send_back_error: Exception | None = None
        self.send_error: Exception | None = None
        self.sent_back: list[tuple[StoredMessage, int, int]] = []
        self.sent: list[Message] = []
        self.members: dict[str, Callable[[], None]] = {}
        self.registered: list[ConsumerData] = []

    # -- what a test does -------------------------------------------------------------------------

    def answer_held(self, answer: PullAnswer | Exception, place: int = 0) -> None:
        """Answer a pull that waits, from the caller's thread."""
        self.held.pop(place)[1](answer)

    def add_topic(self, topic: str, queue_nums: int = 1) -> None:
        """Have a topic."""
        self.routes[topic] = TopicRoute(queue_nums, queue_nums, is_readable=True, is_writable=True)

    # -- what a client does -----------------------------------------------------------------------

    def topic_route(self, topic: str) -> TopicRoute | None:
        return self.routes.get(topic)

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.max_offsets.get((topic, queue_id), 0)

    def min_offset(self, topic: str, queue_id: int) -> int:
        return 0

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        self.searched.append(timestamp_ms)
        return 4

    def send(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        if self.send_error is not None:
            raise self.send_error
        self.sent.append(message)
        # Nobody reads it: a message that was sent is stored, whatever the status.
        return None  # type: ignore[return-value]

    def send_all(self, messages: Sequence[Message], *, timeout_ms: int) -> Sequence[PutMessageResult]:
        return [self.send(message, timeout_ms=timeout_ms) for message in messages]

    def send_async(self, message: Message) -> "Future[PutMessageResult]":
        raise AssertionError("no consumer asks this")

    def send_message_back(
        self,
        group: str,
        message: StoredMessage,
        *,
        delay_level: int,
        max_reconsume_times: int,
        timeout_ms: int,
    ) -> None:
        if self.send_back_error is not None:
            raise self.send_back_error
        self.sent_back.append((message, delay_level, max_reconsume_times))

    def delay_level_of(self, delay_ms: int) -> int:
        return DelayLevels.parse(DEFAULT_DELAY_LEVELS).level_of(delay_ms)

    def send_half(self, message: Message, producer_group: str, *, timeout_ms: int) -> PutMessageResult:
        raise AssertionError("no consumer asks this")

    def end_transaction(self, half: PutMessageResult, producer_group: str, state: TransactionState) -> None:
        raise AssertionError("no consumer asks this")

    def register_producer(
        self, group: str, client_id: str, check: Callable[[StoredMessage, PutMessageResult], None]
    ) -> None:
        raise AssertionError("no consumer asks this")

    def unregister_producer(self, group: str, client_id: str) -> None:
        raise AssertionError("no consumer asks this")

    def pull(self, request: PullRequest) -> PullAnswer:
        raise AssertionError("no push consumer asks this")

    def pull_later(self, request: PullRequest, callback: Callback) -> Callable[[], None]:
        self.pulls.append(request)
        if self.answers:
            answer = self.answers.popleft()
            callback(answer)
            return lambda: None
        entry = (request, callback)
        self.held.append(entry)

        def cancel() -> None:
            if entry in self.held:
                self.held.remove(entry)

        return cancel

    def query_consumer_offset(self, group: str, topic: str, queue_id: int) -> int:
        offset = self.offsets.get((group, topic, queue_id), -1)
        if isinstance(offset, Exception):
            raise offset
        return offset

    def update_consumer_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        if topic in self.commit_errors:
            raise self.commit_errors[topic]
        self.commits.append((group, topic, queue_id, offset))
        self.offsets[group, topic, queue_id] = offset

    def take_reset_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.resets.pop((group, topic, queue_id), None)

    def register_consumer(
        self, group: str, client_id: str, data: ConsumerData, on_change: Callable[[], None]
    ) -> None:
        self.registered.append(data)
        self.members[client_id] = on_change

    def unregister_consumer(self, group: str, client_id: str) -> None:
        self.members.pop(client_id, None)

    def consumer_ids(self, group: str) -> list[str]:
        return sorted(self.members)

    def lock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        raise AssertionError("no concurrent consumer asks this")

    def unlock_queues(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        raise AssertionError("no concurrent consumer asks this")


def found(messages: Sequence[StoredMessage], next_begin_offset: int | None = None) -> PullAnswer:
    """A pull that found these."""
    end = messages[-1].queue_offset + 1 if next_begin_offset is None else next_begin_offset
    return PullAnswer(GetMessageStatus.FOUND, messages, end, 0, end, is_illegal=False)


def nothing_found(next_begin_offset: int) -> PullAnswer:
    """A pull that found nothing before this offset."""
    return answer_of(GetMessageStatus.NO_MATCHED_MESSAGE, next_begin_offset)


def answer_of(status: GetMessageStatus, next_begin_offset: int, *, is_illegal: bool = False) -> PullAnswer:
    """A pull that found nothing, for this reason."""
    return PullAnswer(status, [], next_begin_offset, 0, 0, is_illegal)
