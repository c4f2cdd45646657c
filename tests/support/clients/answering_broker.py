"""A broker that answers what a test tells it, and notes what it was asked.

Of the `Broker` interface it has what producers use. Answers are taken in order; without one a message is
stored. An answer is a status, an exception, or a callable that gives one of these; it may take time, by the
test's seconds.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

from mqstore.broker.broker import Broker, TopicRoute
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult, SentPut
from mqstore.store.status import PutMessageStatus
from support.manual_seconds import ManualSeconds

__all__ = ["Answer", "AnsweringBroker", "Gate", "StoreErrorWith", "Took", "as_broker"]

Outcome: TypeAlias = PutMessageStatus | Exception | KeyboardInterrupt
_HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


class Took(NamedTuple):
    """An answer that comes after some milliseconds."""

    ms: int
    outcome: Outcome = PutMessageStatus.PUT_OK


Answer: TypeAlias = Outcome | Took | Callable[[], Outcome]


class StoreErrorWith(StoreError):
    """What a broker answers with a code that none of our own errors has."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the broker answered {code}")
        self.response_code = code  # type: ignore[assignment,misc]


class Gate:
    """Where an answer waits: `begun` is set when it is asked for, and it comes once `opens` is set."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opens = threading.Event()

    def __call__(self) -> PutMessageStatus:
        self.begun.set()
        assert self.opens.wait(60)
        return PutMessageStatus.PUT_OK


class AnsweringBroker:
    """sent: the messages it was asked to store, in order. timeouts: the milliseconds it was given for
    each."""

    put_sent: SentPut | None = None

    def __init__(
        self,
        name: str = "broker-a",
        *answers: Answer,
        seconds: ManualSeconds | None = None,
        topics: dict[str, int] | None = None,
    ) -> None:
        """topics: how many queues each has; `orders` has 4 where nothing is said."""
        self.name = name
        self.answers = list(answers)
        self.seconds = seconds or ManualSeconds()
        self.routes: dict[str, TopicRoute | StoreError] = {
            topic: TopicRoute(count, count, is_readable=True, is_writable=True)
            for topic, count in ({"orders": 4} if topics is None else topics).items()
        }
        self.sent: list[Message] = []
        self.timeouts: list[int] = []
        self.asked_routes: list[str] = []
        self.futures: list[Future[PutMessageResult]] = []
        # Whether `send_async` leaves its futures to the test.
        self.is_slow = False
        self._asked_later = threading.Condition()

    def hold(self) -> Gate:
        """Have the next answer wait."""
        gate = Gate()
        self.answers.insert(0, gate)
        return gate

    def wait_for_futures(self, count: int) -> None:
        """Wait until so many messages were sent with `send_async`."""
        with self._asked_later:
            assert self._asked_later.wait_for(lambda: len(self.futures) >= count, 60)

    def topic_route(self, topic: str) -> TopicRoute | None:
        self.asked_routes.append(topic)
        route = self.routes.get(topic)
        if isinstance(route, StoreError):
            raise route
        return route

    def max_offset(self, topic: str, queue_id: int) -> int:
        self._take_answer()
        return 0

    def send(self, message: Message, *, timeout_ms: int) -> PutMessageResult:
        self.sent.append(message)
        self.timeouts.append(timeout_ms)
        return self._put(message)

    def send_all(self, messages: Sequence[Message], *, timeout_ms: int) -> Sequence[PutMessageResult]:
        self.sent += messages
        self.timeouts.append(timeout_ms)
        status = self._take_answer()
        return [self._result(message, status) for message in messages]

    def send_async(self, message: Message) -> "Future[PutMessageResult]":
        self.sent.append(message)
        future: Future[PutMessageResult] = Future()
        if not self.is_slow:
            future.set_result(self._put(message))
        with self._asked_later:
            self.futures.append(future)
            self._asked_later.notify_all()
        return future

    def store_late(self, number: int, status: PutMessageStatus = PutMessageStatus.PUT_OK) -> None:
        """Complete a future that `is_slow` left open."""
        self.futures[number].set_result(self._result(self.sent[number], status))

    def _put(self, message: Message) -> PutMessageResult:
        return self._result(message, self._take_answer())

    def _result(self, message: Message, status: PutMessageStatus) -> PutMessageResult:
        number = len(self.sent)
        return PutMessageResult(
            status, message.topic, message.queue_id, number, 100 * number, 100, 0, 0, _HOST
        )

    def _take_answer(self) -> PutMessageStatus:
        answer = self.answers.pop(0) if self.answers else PutMessageStatus.PUT_OK
        if isinstance(answer, Took):
            self.seconds.advance(answer.ms / 1000)
            answer = answer.outcome
        elif not isinstance(answer, PutMessageStatus | BaseException):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def as_broker(broker: AnsweringBroker) -> Broker:
    """The same, for a type checker: it has only what producers use."""
    return broker  # type: ignore[return-value]
