"""Pulls as requests (11), and what their answers say.

    PullRequest -> fields, subscription included -> broker
    PullAnswer  <- records one after another     <- answer

The subscription goes with each pull, so what a broker keeps of the group's heartbeats does not matter. A
broker of RocketMQ compares hashes of tags only; what has another tag is dropped here. Messages are views of
the bytes that came.
Pure; any thread. Source: docs/spec/remoting.md section 6; PullAPIWrapper, MQClientAPIImpl#pullMessage.
"""

from typing import Final

from mqstore.broker.broker import PullAnswer, PullRequest
from mqstore.client.errors import BrokerRefused
from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.remoting.command import Command
from mqstore.remoting.errors import BodyIllegal, FieldsIllegal
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import FIXED_BYTES
from mqstore.store.status import GetMessageStatus, ResponseCode

__all__ = ["messages_in", "pull_answer_of", "pull_fields_of"]

_MAY_WAIT: Final = 2
_HAS_SUBSCRIPTION: Final = 4
_SIZE_BYTES: Final = 4
_STATUS_OF_ANSWER: Final = {
    ResponseCode.SUCCESS: GetMessageStatus.FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY: GetMessageStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_NOT_FOUND: GetMessageStatus.OFFSET_FOUND_NULL,
    ResponseCode.PULL_OFFSET_MOVED: GetMessageStatus.OFFSET_OVERFLOW_BADLY,
}
_STATUS_OF_REMARK: Final = {status.name: status for status in GetMessageStatus}


def pull_fields_of(request: PullRequest) -> dict[str, str]:
    """The fields of a pull."""
    may_wait = _MAY_WAIT if request.suspend_ms > 0 else 0
    return {
        "consumerGroup": request.group,
        "topic": request.topic,
        "queueId": str(request.queue_id),
        "queueOffset": str(request.offset),
        "maxMsgNums": str(request.max_nums),
        "sysFlag": str(_HAS_SUBSCRIPTION | may_wait),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(request.suspend_ms),
        "subVersion": "0",
        "subscription": request.subscription,
        "expressionType": "TAG",
    }


def pull_answer_of(answer: Command, request: PullRequest, broker_name: str) -> PullAnswer:
    """What a pull found. Raises BrokerRefused, FieldsIllegal, BodyIllegal, SubscriptionIllegal."""
    status = _STATUS_OF_ANSWER.get(answer.code)  # type: ignore[call-overload]
    if status is None:
        raise BrokerRefused(broker_name, answer.code, answer.remark)
    fields = answer.fields_as_texts()
    try:
        next_begin, least, greatest = (
            int(fields[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset")
        )
    except (KeyError, ValueError) as error:
        raise FieldsIllegal(answer.code, repr(error)) from error
    messages: list[StoredMessage] = []
    if status is GetMessageStatus.FOUND:
        messages = messages_in(answer.body)
        wanted = parse_subscription(request.subscription)
        if wanted is not None:
            messages = [message for message in messages if wanted.wants(message)]
        if not messages:
            status = GetMessageStatus.NO_MATCHED_MESSAGE
    else:
        # The remark says it more exactly, where it says it.
        status = _STATUS_OF_REMARK.get(answer.remark or "", status)
    return PullAnswer(
        status,
        messages,
        next_begin,
        least,
        greatest,
        answer.code == ResponseCode.PULL_OFFSET_MOVED,
        len(answer.body),
    )


def messages_in(body: memoryview) -> list[StoredMessage]:
    """The messages of records that follow each other. Raises BodyIllegal if their lengths do not add up."""
    messages: list[StoredMessage] = []
    at, end = 0, len(body)
    while at < end:
        size = int.from_bytes(body[at : at + _SIZE_BYTES], "big")
        if not FIXED_BYTES <= size <= end - at:
            raise BodyIllegal("records", f"byte {at} says {size} bytes, and {end - at} are left")
        message = StoredMessage(body, at, at + size)
        if not message.is_whole:
            raise BodyIllegal("records", f"the {size} bytes from byte {at} on are no record")
        messages.append(message)
        at += size
    return messages
