"""The delayed message in its two forms: waiting in SCHEDULE_TOPIC_XXXX, and delivered to its own topic.

`rewrite` addresses a message that asks for delay to the queue of its level; `restore` makes the message
to deliver from the waiting record. The properties string of the delivered record is that of the waiting
one, so DELAY, REAL_TOPIC and REAL_QID stay in it (as RocketMQ leaves them), and `rewrite` must not get it
again: delivery puts restored messages without the rewrite (level_delivery.py).

Pure functions of their arguments: any thread, no I/O. They do not compute when a message is due; the
dispatcher writes store time + delay into the consume queue.
Source: docs/spec/schedule_and_retry.md sections 3 and 5; HookUtils#handleScheduleMessage,
ScheduleMessageService#messageTimeUp.
"""

import re
from collections.abc import Mapping

import msgspec

from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.errors import MessageIllegal, TimerNotEnabled
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC
from mqstore.store.record.properties_format import DELAY, REAL_QID, REAL_TOPIC, TIMER_OUT_MS, TIMER_REQUESTS
from mqstore.store.record.sys_flag import takes_queue_offset

__all__ = [
    "is_half_message",
    "level_of_queue",
    "parse_level",
    "queue_of_level",
    "restore",
    "rewrite",
    "timer_not_enabled",
]

_JAVA_INT = re.compile(r"[+-]?[0-9]{1,10}")


def queue_of_level(level: int) -> int:
    """The queue of SCHEDULE_TOPIC_XXXX in which messages of `level` wait."""
    return level - 1


def level_of_queue(queue_id: int) -> int:
    """The level whose messages wait in this queue of SCHEDULE_TOPIC_XXXX."""
    return queue_id + 1


def rewrite(message: Message, levels: DelayLevels) -> Message:
    """The message to store for `message`: itself, or its delayed form when it asks for delay.

    It asks by `delay_level`, or else by its property DELAY. A level above the table's becomes the highest;
    0 and below ask for no delay; half and rollback messages of a transaction are never delayed. A request
    for a time (TIMER_REQUESTS) is dropped if there is a level, and refused if there is none.
    Callers on the hot path test first whether the message asks for anything.
    Raises MessageIllegal when DELAY is no whole number of 32 bits, and TimerNotEnabled.
    """
    level = min(_requested_level(message), levels.max_level)
    if not takes_queue_offset(message.sys_flag):
        return message
    if level <= 0:
        _refuse_time(message)
        return message
    properties = {name: value for name, value in message.properties.items() if name not in TIMER_REQUESTS}
    properties[DELAY] = str(level)
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QID] = str(message.queue_id)
    return msgspec.structs.replace(
        message,
        topic=SCHEDULE_TOPIC,
        queue_id=queue_of_level(level),
        delay_level=0,
        properties=properties,
    )


def _requested_level(message: Message) -> int:
    if message.delay_level:
        return message.delay_level
    return parse_level(message.properties.get(DELAY, "0"))


def parse_level(text: str) -> int:
    """The level that the property DELAY asks for. Raises MessageIllegal."""
    level = int(text) if _JAVA_INT.fullmatch(text) else 2**31
    if not -(2**31) <= level < 2**31:
        raise MessageIllegal(
            f"property {DELAY} is {text!r}: give a delay level as a whole number of at most 32 bits",
            value=text,
            limit="a whole number of 32 bits",
        )
    return level


def _refuse_time(message: Message) -> None:
    # TIMER_OUT_MS: a broker's timer has delivered the message already.
    if message.topic == TIMER_TOPIC or TIMER_OUT_MS in message.properties:
        return
    for name in TIMER_REQUESTS:
        if name in message.properties:
            raise timer_not_enabled(name, message.properties[name])


def timer_not_enabled(name: str, value: str, row: int | None = None) -> TimerNotEnabled:
    """The error for a message that asks for a time by the property `name`."""
    where = "" if row is None else f"row {row}: "
    return TimerNotEnabled(
        f"{where}property {name} is {value!r}, but there is no timer here for times of one's own: give a "
        "delay_level, or take the property out",
        value=value,
        limit="a delay level",
        row=row,
    )


def restore(stored: StoredMessage) -> Message:
    """The message to put when `stored`, a record of SCHEDULE_TOPIC_XXXX, is due.

    Body (a view, not a copy), flag, sys flag, born time and host and reconsume times are those of the
    record; topic and queue are REAL_TOPIC and REAL_QID. All properties stay as they are, TAGS and KEYS
    among them. WAIT changes nothing here: in SYNC_FLUSH a delivered copy waits for the disk like any put.
    Raises MessageIllegal if the record has no valid REAL_TOPIC and REAL_QID.
    """
    properties = stored.properties
    return Message(
        _real_topic(stored, properties),
        stored.stored_body_view,
        queue_id=_real_queue_id(stored, properties),
        properties=properties,
        flag=stored.flag,
        sys_flag=stored.stored_sys_flag,
        born_timestamp=stored.born_timestamp,
        born_host=stored.born_host,
        reconsume_times=stored.reconsume_times,
    )


def _real_topic(stored: StoredMessage, properties: Mapping[str, str]) -> str:
    topic = properties.get(REAL_TOPIC)
    # A message delivered to this topic would be due again at once, or after each delay, for ever.
    if topic is None or topic == SCHEDULE_TOPIC:
        raise _homeless(stored, REAL_TOPIC, topic, "another topic")
    return topic


def _real_queue_id(stored: StoredMessage, properties: Mapping[str, str]) -> int:
    text = properties.get(REAL_QID, "")
    if not _JAVA_INT.fullmatch(text) or int(text) < 0:
        raise _homeless(stored, REAL_QID, text or None, "a queue id from 0")
    return int(text)


def _homeless(stored: StoredMessage, name: str, value: str | None, wanted: str) -> MessageIllegal:
    return MessageIllegal(
        f"the delayed record at physical offset {stored.physical_offset} has {name} = {value!r}, "
        f"but {wanted} is needed to deliver it",
        value=value,
        limit=wanted,
    )


def is_half_message(message: Message) -> bool:
    """Whether a restored message is the half of a transaction; it is passed over, not delivered."""
    return message.topic == TRANS_HALF_TOPIC
