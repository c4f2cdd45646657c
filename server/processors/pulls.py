"""Pulls (11, 361): messages of a queue, now, or once one arrives.

A pull that may wait and finds nothing is held by the broker (broker/held_pulls.py), which wakes it when a
message with a wanted tag arrives. It ends with its connection. The answer is made in the loop's thread.

What a consumer wants of a topic is told by the pull itself (C++, Node, lite pull), or by the group's
heartbeats. An offset that an operator has set is told with the next pull, as RocketMQ tells it.

Threads: the loop's; the broker's thread hands over what a held pull has found.
Source: docs/spec/remoting.md section 6; PullMessageProcessor of Apache RocketMQ.
"""

import itertools
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mqstore.broker.broker import PullAnswer, PullRequest
from mqstore.index.pull.found_messages import FoundMessages
from mqstore.remoting.headers import PullHeader
from mqstore.remoting.request_codes import RequestCode
from mqstore.server.answer import Answer, answer_of
from mqstore.server.parts import ServerParts, Table, in_loop
from mqstore.server.request import Request
from mqstore.server.workers import BUSY
from mqstore.store.errors import StoreError
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.status import GetMessageStatus, ResponseCode

__all__ = ["PullProcessor"]

_COMMITS: Final = 1
_MAY_WAIT: Final = 2
_HAS_SUBSCRIPTION: Final = 4
_TAG: Final = "TAG"
_CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_NOT_FOUND,
}
"""Of an offset that may be asked for; all others are PULL_OFFSET_MOVED."""


class PullProcessor:
    """Answers pulls."""

    def __init__(self, parts: ServerParts) -> None:
        self._loop = parts.loop
        self._broker = parts.broker
        self._topics = parts.store.topics
        self._clients = parts.clients
        self._check_group = parts.check_group
        self._max_held = parts.settings.max_held_pulls
        self._numbers = itertools.count()

    def table(self) -> Table:
        """The codes that it answers."""
        return {
            RequestCode.PULL_MESSAGE: in_loop(self.pull),
            RequestCode.LITE_PULL_MESSAGE: in_loop(self.pull),
        }

    def pull(self, request: Request) -> Answer | None:
        """11, 361."""
        fields = request.fields_as(PullHeader)
        group, topic, queue_id = fields.consumer_group, fields.topic, fields.queue_id
        if self._topics.lookup(topic) is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        self._check_group(group)
        subscription = self._subscription(fields)
        if isinstance(subscription, Answer):
            return subscription
        if fields.sys_flag & _COMMITS and fields.sys_flag & _MAY_WAIT:
            # Of a queue that the broker does not have: the pull itself says so.
            with suppress(StoreError):
                self._broker.update_consumer_offset(group, topic, queue_id, fields.commit_offset)
        moved = self._broker.take_reset_offset(group, topic, queue_id)
        if moved is not None:
            return self._moved(fields, moved)
        may_wait = fields.sys_flag & _MAY_WAIT and fields.suspend_timeout_millis > 0
        if may_wait and len(request.connection.held) >= self._max_held:
            return BUSY
        asked = PullRequest(
            group,
            topic,
            queue_id,
            fields.queue_offset,
            max(1, fields.max_msg_nums),
            subscription,
            fields.suspend_timeout_millis if may_wait else 0,
        )
        if not may_wait:
            return _answer_of_pull(self._broker.pull(asked))
        return self._pull_later(request, asked)

    def _pull_later(self, request: Request, asked: PullRequest) -> Answer | None:
        """The answer, if there is one at once; else it is sent when the broker has it."""
        here = threading.get_ident()
        at_once: list[Answer] = []
        held, number = request.connection.held, next(self._numbers)

        def found(outcome: PullAnswer | Exception) -> None:
            if threading.get_ident() == here:
                at_once.append(_answer_of_outcome(outcome))
            else:
                # After a stop the loop is closed, and nobody waits for the answer.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(send, outcome)

        def send(outcome: PullAnswer | Exception) -> None:
            if held.pop(number, None) is not None:
                request.send(_answer_of_outcome(outcome))

        cancel = self._broker.pull_later(asked, found)
        if at_once:
            return at_once[0]
        # It may wait for minutes, and thousands beside it: nothing that came with it stays.
        request = request.without_content()

        def give_up() -> None:
            cancel()
            request.send(_nothing_found(asked))

        held[number] = give_up
        return None

    def _subscription(self, fields: PullHeader) -> str | Answer:
        """The tags that are wanted, or why the pull is refused."""
        if (fields.expression_type or _TAG) != _TAG:
            return _NO_SQL
        if fields.sys_flag & _HAS_SUBSCRIPTION:
            return fields.subscription or "*"
        group, topic = fields.consumer_group, fields.topic
        if not self._clients.subscriptions(group):
            return Answer(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        known = self._clients.subscription(group, topic)
        if known is None:
            reason = f"the consumer's subscription not exist, group: {group}, topic: {topic}"
            return Answer(ResponseCode.SUBSCRIPTION_NOT_EXIST, reason)
        if known.sub_version < fields.sub_version:
            return Answer(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        if (known.expression_type or _TAG) != _TAG:
            return _NO_SQL
        return known.sub_string

    def _moved(self, fields: PullHeader, offset: int) -> Answer:
        topic, queue_id = fields.topic, fields.queue_id
        return Answer(
            ResponseCode.PULL_OFFSET_MOVED,
            "the offset of the group was reset",
            _offsets(
                offset,
                self._broker.min_offset(topic, queue_id),
                self._broker.max_offset(topic, queue_id),
            ),
        )


_NO_SQL: Final = Answer(
    ResponseCode.SYSTEM_ERROR, "The broker does not support consumer to filter message by SQL92"
)


def _answer_of_outcome(outcome: PullAnswer | Exception) -> Answer:
    return answer_of(outcome) if isinstance(outcome, Exception) else _answer_of_pull(outcome)


def _answer_of_pull(found: PullAnswer) -> Answer:
    moved = ResponseCode.PULL_OFFSET_MOVED
    code = moved if found.is_illegal else _CODES.get(found.status, moved)
    fields = _offsets(found.next_begin_offset, found.min_offset, found.max_offset)
    return Answer(code, found.status.name, fields, _records(found.messages))


def _nothing_found(asked: PullRequest) -> Answer:
    """For a pull that waits when the server stops. Its client asks another broker, or again."""
    return Answer(ResponseCode.PULL_NOT_FOUND, "the broker stops", _offsets(asked.offset, 0, asked.offset))


def _offsets(next_begin_offset: int, min_offset: int, max_offset: int) -> dict[str, str]:
    """The fields that each answer has: Java's client fails without one of them."""
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_begin_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
    }


def _records(messages: Sequence[StoredMessage]) -> bytes:
    """The records one after another."""
    if isinstance(messages, FoundMessages):
        return messages.joined_records()
    return b"".join([message.record for message in messages])
