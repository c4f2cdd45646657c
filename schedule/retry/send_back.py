"""The send-back: what becomes of a message that a consumer group failed on.

    the failed record -> a copy for %RETRY%group, delayed by a level       (schedule/delay/delayed_message.py)
                      -> a copy for %DLQ%group, once it has failed too often (retry_policy.py)

A copy is a new record with reconsume times + 1; the failed one stays where it is. RETRY_TOPIC and
ORIGIN_MESSAGE_ID keep the first topic and the first id through all attempts.

It does not know how topics, groups and puts work: the caller passes them in, and the put does the delay
rewrite. Copies that a client puts by itself are in dead_letter.py. `consumer_send_msg_back` has every row of
the table in docs/spec/schedule_and_retry.md section 8, in its order, except that a retry topic is created
only after the record was found.

Threads: any. Durability: the copy is a put like any other and waits for the disk in SYNC_FLUSH. RocketMQ
does not wait, since the property WAIT of a copy is false, and may lose it in a power cut.
Source: AbstractSendMessageProcessor#consumerSendMsgBack, SendMessageProcessor#handleRetryAndDLQ.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.retry.dead_letter import tell_of_dead_letter
from mqstore.schedule.retry.retry_policy import next_retry_level, retry_or_dead_letter
from mqstore.store.errors import MessageNotFound, NoPermission
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import dead_letter_topic, retry_topic
from mqstore.store.record.host import Host
from mqstore.store.record.properties_format import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    TIMER_OUT_MS,
    TIMER_REQUESTS,
    WAIT,
)
from mqstore.store.status import Disposition, PutMessageStatus, ResponseCode

__all__ = ["RetryGroups", "RetryRecords", "RetryTopics", "SendBack", "SendBackResult"]

_READ_WRITE: Final = 6
_WRITE: Final = 2
_DEAD_LETTER_QUEUE_NUMS: Final = 1
_UNIT_SUBSCRIPTION: Final = 2


class _Group(Protocol):
    @property
    def retry_queue_nums(self) -> int: ...
    @property
    def retry_max_times(self) -> int: ...
    @property
    def group_retry_policy(self) -> Mapping[str, Any]: ...


class _Topic(Protocol):
    @property
    def perm(self) -> int: ...
    @property
    def read_queue_nums(self) -> int: ...


class RetryGroups(Protocol):
    """The consumer groups."""

    def find(self, group: str) -> _Group:
        """The group's settings, created where allowed. Raises SubscriptionGroupNotExist, GroupIllegal."""
        ...


class RetryTopics(Protocol):
    """The topics."""

    def get(self, topic: str) -> _Topic | None:
        """The topic's settings, if it exists."""
        ...

    def ensure(self, topic: str, queue_nums: int, *, perm: int, topic_sys_flag: int) -> _Topic:
        """Create the topic unless it exists; an existing one stays as it is."""
        ...


class RetryRecords(Protocol):
    """The commit log."""

    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...
    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None: ...


class SendBackResult(NamedTuple):
    """Outcome of a send-back.

    disposition: where the message goes. DISCARDED: nowhere, because the group has no retry queues.
    response_code: what a broker answers, SUCCESS unless the put was not PUT_OK. put: of the copy, for a RETRY
    in SCHEDULE_TOPIC_XXXX; None when DISCARDED.

    >>> from mqstore import MessageStore
    >>> with MessageStore.open("data") as store:
    ...     put = store.put("orders", b"first")
    ...     result = store.consumer_send_msg_back("billing", put.physical_offset)
    ...     result.disposition.name, result.put.topic, result.put.delay_level
    ('RETRY', 'SCHEDULE_TOPIC_XXXX', 3)
    """

    disposition: Disposition
    response_code: ResponseCode
    put: PutMessageResult | None

    @property
    def remark(self) -> str:
        """The put's status by name, as a broker adds it to an answer that is not SUCCESS; else empty."""
        return "" if self.response_code is ResponseCode.SUCCESS or self.put is None else self.put.status.name


class SendBack:
    """Sends messages back for one store."""

    def __init__(
        self,
        groups: RetryGroups,
        topics: RetryTopics,
        records: RetryRecords,
        put: Callable[[Message], PutMessageResult],
        levels: DelayLevels,
        *,
        choice: random.Random | None = None,
        broker_permission: int = _READ_WRITE,
    ) -> None:
        """`put` stores one message of the store's own, after the delay rewrite. levels: of that rewrite.

        choice: picks the retry queue. broker_permission: of the broker that embeds the store, as a topic's.
        """
        self.broker_permission = broker_permission
        self._groups = groups
        self._topics = topics
        self._records = records
        self._put = put
        self._levels = levels
        self._choice = choice or random.Random()

    def consumer_send_msg_back(
        self,
        group: str,
        physical_offset: int,
        delay_level: int = 0,
        *,
        max_reconsume_times: int | None = None,
        unit_mode: bool = False,
    ) -> SendBackResult:
        """Send back the record at `physical_offset`, on which `group` failed.

        delay_level: 0 as the group's policy says, 3 + reconsume times without one; negative for the dead
        letters at once. max_reconsume_times:
        instead of the group's, also when 0. unit_mode: the sys flag of a retry topic that is created.
        Raises SubscriptionGroupNotExist and GroupIllegal (the group is not there and cannot be),
        NoPermission (broker or retry topic is not writeable), MessageNotFound (no record there), and what
        the put raises; nothing is stored then.
        """
        settings = self._groups.find(group)
        topic = retry_topic(group)
        if not self.broker_permission & _WRITE:
            raise NoPermission(topic, self.broker_permission, "send back (it is the broker's)")
        if settings.retry_queue_nums <= 0:
            return SendBackResult(Disposition.DISCARDED, ResponseCode.SUCCESS, None)
        self._check_writable(topic)
        stored = self._record(physical_offset)
        times = stored.header.reconsume_times
        decision = retry_or_dead_letter(
            times,
            delay_level or next_retry_level(settings.group_retry_policy, times, self._levels),
            settings.retry_max_times if max_reconsume_times is None else max_reconsume_times,
        )
        sys_flag = _UNIT_SUBSCRIPTION if unit_mode else 0
        retry = self._topics.ensure(
            topic, settings.retry_queue_nums, perm=_READ_WRITE, topic_sys_flag=sys_flag
        )
        if decision.disposition is Disposition.DEAD_LETTER:
            topic, queue_id = dead_letter_topic(group), 0
            self._topics.ensure(topic, _DEAD_LETTER_QUEUE_NUMS, perm=_READ_WRITE, topic_sys_flag=0)
        else:
            # An existing topic keeps its queues when the group gets more, and no consumer reads others.
            queue_nums = min(settings.retry_queue_nums, retry.read_queue_nums)
            # Nearly always there is one queue, and a random number takes as long as the decision.
            queue_id = self._choice.randrange(queue_nums) if queue_nums > 1 else 0
        put = self._put(_copy(stored, topic, queue_id, decision.delay_level))
        if decision.disposition is Disposition.DEAD_LETTER:
            tell_of_dead_letter(group, stored, times + 1)
        is_ok = put.status is PutMessageStatus.PUT_OK
        code = ResponseCode.SUCCESS if is_ok else ResponseCode.SYSTEM_ERROR
        return SendBackResult(decision.disposition, code, put)

    def _check_writable(self, topic: str) -> None:
        existing = self._topics.get(topic)
        if existing is not None and not existing.perm & _WRITE:
            raise NoPermission(topic, existing.perm, "send back")

    def _record(self, physical_offset: int) -> StoredMessage:
        stored = self._records.look_message_by_offset(physical_offset)
        if stored is None:
            raise MessageNotFound(physical_offset, self._records.min_offset, self._records.max_offset)
        return stored

    def __repr__(self) -> str:
        return f"SendBack(broker_permission={self.broker_permission})"


def _copy(stored: StoredMessage, topic: str, queue_id: int, delay_level: int) -> Message:
    """The message to put for the next attempt, or as a dead letter."""
    # All fields at once: so many, one by one, would take twice as long.
    header = stored.header
    properties = dict(stored.properties)
    properties.setdefault(RETRY_TOPIC, stored.topic)
    if not properties.get(ORIGIN_MESSAGE_ID, "").strip():
        properties[ORIGIN_MESSAGE_ID] = stored.msg_id
    properties[WAIT] = "false"
    properties[DELAY] = str(delay_level)
    if not delay_level and TIMER_OUT_MS not in properties:
        # Without a level the put would refuse such a message, and its group could never finish it.
        for name in TIMER_REQUESTS:
            properties.pop(name, None)
    return Message(
        topic,
        stored.stored_body_view,
        queue_id=queue_id,
        properties=properties,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=Host.decode(header.born_host),
        reconsume_times=header.reconsume_times + 1,
    )
