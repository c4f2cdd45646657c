"""The half message: how a transaction lies on disk, from its half to its end. Values and pure functions.

    half      RMQ_SYS_TRANS_HALF_TOPIC, queue 0: the message, with REAL_TOPIC and REAL_QID. Its sys flag has
              no transaction bits, so it takes a queue offset
    op        RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0, tag `d`: body `12,15,`, the queue offsets of ended halves
    final     the real topic and queue: what a commit makes of a half. Sys flag: committed; its prepared
              transaction offset is the half's physical offset
    renewed   a copy of the half with TRANSACTION_CHECK_TIMES + 1, each time that its producer is asked
    carried   a copy of the half with the queue offset of the earlier one in TRAN_PREPARED_QUEUE_OFFSET, and
              no op: nobody is asked, but the earlier one lies far behind. An end names both
    given up  TRANS_CHECK_MAX_TIME_TOPIC, queue 0: a half that nobody has ended

All keep the properties of the half, TRAN_MSG and REAL_TOPIC among them, as RocketMQ's records do up to 5.3;
from 5.4 on its final messages lack REAL_TOPIC and REAL_QID. The flag is kept too, which RocketMQ loses when
it renews a half.
What is put when: transactions.py. Any thread.
Source: docs/spec/remoting.md section 9; TransactionalMessageBridge, TransactionalMessageServiceImpl,
EndTransactionProcessor, DefaultTransactionalMessageCheckListener.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from mqstore.store.record.properties_format import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    DELAY,
    PRODUCER_GROUP,
    REAL_QID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    WAIT,
)
from mqstore.store.record.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

__all__ = [
    "HALF_QUEUE_ID",
    "HalfMessage",
    "carried",
    "ended_offsets",
    "final_of",
    "given_up",
    "half_of",
    "op_of",
    "renewed",
]

HALF_QUEUE_ID: Final = 0
"""The one queue of halves, and that of their ops."""

_ENDED_TAG: Final = "d"
_SEPARATOR: Final = ","
_NUMBER = re.compile(r"\d{1,18}")


class HalfMessage(StoredMessage, eq=False, gc=False):
    """A record of a half, under the topic and queue to which it will go; `stored_topic` is where it lies."""

    @property
    def stored_topic(self) -> str:
        """The topic of the record."""
        return super().topic

    @property
    def topic(self) -> str:
        """The topic that the message was sent to."""
        return self.properties.get(REAL_TOPIC) or self.stored_topic

    @property
    def queue_id(self) -> int:
        """The queue that the message was sent to."""
        return self._number(REAL_QID, 0)

    @property
    def producer_group(self) -> str:
        """The group that ends it, and that is asked."""
        return self.properties.get(PRODUCER_GROUP, "")

    @property
    def check_times(self) -> int:
        """How often its producer was asked."""
        return self._number(TRANSACTION_CHECK_TIMES, 0)

    @property
    def first_queue_offset(self) -> int | None:
        """Of a carried half: the queue offset of the first that it stands for. No op names that one alone."""
        offset = self._number(TRANSACTION_PREPARED_QUEUE_OFFSET, -1)
        return None if offset < 0 else offset

    @property
    def is_sound(self) -> bool:
        """Whether it says where it belongs, and to whom."""
        properties = self.properties
        has_queue = _NUMBER.fullmatch(properties.get(REAL_QID, "")) is not None
        return has_queue and REAL_TOPIC in properties and PRODUCER_GROUP in properties

    def is_too_young(self, now_ms: int, timeout_ms: int) -> bool:
        """Whether its producer has time left, by its own wish or else `timeout_ms`, before it is asked."""
        age_ms = now_ms - self.born_timestamp
        own_s = self._number(CHECK_IMMUNITY_TIME_IN_SECONDS, -1)
        if own_s >= 0:
            return age_ms <= own_s * 1000
        # Of another time: the clock was set back, or is not the producer's.
        return 0 <= age_ms <= timeout_ms

    def _number(self, name: str, default: int) -> int:
        text = self.properties.get(name, "")
        return int(text) if _NUMBER.fullmatch(text) else default


def half_of(message: Message, producer_group: str) -> Message:
    """The half of a checked message. A delay is dropped: RocketMQ's clients do that as well.

    Its put waits for the disk in any case, for a half that cannot be read cannot be ended.
    """
    properties = {name: value for name, value in message.properties.items() if name != DELAY}
    if not message.wait_store_msg_ok:
        properties[WAIT] = "false"
    if properties.get(UNIQ_KEY):
        properties[TRANSACTION_ID] = properties[UNIQ_KEY]
    properties |= {
        TRANSACTION_PREPARED: "true",
        PRODUCER_GROUP: producer_group,
        REAL_TOPIC: message.topic,
        REAL_QID: str(message.queue_id),
    }
    return msgspec.structs.replace(
        message,
        topic=TRANS_HALF_TOPIC,
        queue_id=HALF_QUEUE_ID,
        delay_level=0,
        properties=properties,
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
        wait_store_msg_ok=True,
    )


def final_of(half: HalfMessage) -> Message:
    """What consumers get once a half is committed."""
    return msgspec.structs.replace(
        _copy(half),
        topic=half.topic,
        queue_id=half.queue_id,
        sys_flag=half.stored_sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half.physical_offset,
    )


def renewed(half: HalfMessage) -> Message:
    """The half with which its producer is asked once more."""
    properties = {**half.properties, TRANSACTION_CHECK_TIMES: str(half.check_times + 1)}
    # It would name an offset that is ended by now.
    properties.pop(TRANSACTION_PREPARED_QUEUE_OFFSET, None)
    return msgspec.structs.replace(_copy(half), properties=properties)


def carried(half: HalfMessage) -> Message:
    """The half that stands for one that lies far behind."""
    first = half.queue_offset if half.first_queue_offset is None else half.first_queue_offset
    properties = {**half.properties, TRANSACTION_PREPARED_QUEUE_OFFSET: str(first)}
    return msgspec.structs.replace(_copy(half), properties=properties)


def given_up(half: HalfMessage) -> Message:
    """What is kept of a half that nobody has ended."""
    return msgspec.structs.replace(
        _copy(half), topic=TRANS_CHECK_MAX_TIME_TOPIC, queue_id=0, reconsume_times=half.reconsume_times
    )


def _copy(half: HalfMessage) -> Message:
    return Message(
        TRANS_HALF_TOPIC,
        half.stored_body_view,
        queue_id=HALF_QUEUE_ID,
        properties=half.properties,
        flag=half.flag,
        sys_flag=half.stored_sys_flag,
        born_timestamp=half.born_timestamp,
        born_host=half.born_host,
    )


def op_of(queue_offsets: Iterable[int], now_ms: int) -> Message:
    """The record that says that the halves at these queue offsets are ended."""
    body = "".join(f"{offset}{_SEPARATOR}" for offset in queue_offsets)
    return Message(
        TRANS_OP_HALF_TOPIC,
        body.encode(),
        tags=_ENDED_TAG,
        queue_id=HALF_QUEUE_ID,
        properties={WAIT: "true"},
        born_timestamp=now_ms,
    )


def ended_offsets(op: StoredMessage) -> list[int]:
    """The queue offsets that an op names; none if it is of a kind that is not known."""
    if op.tags != _ENDED_TAG:
        return []
    names = op.body.decode("utf-8", "replace").split(_SEPARATOR)
    return [int(name) for name in names if _NUMBER.fullmatch(name)]
