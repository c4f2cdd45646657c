"""The resent message: what is put when an operator sends a dead letter again.

    kept     body, flag, tags, keys, UNIQ_KEY, all properties of the user, born time and host
    kept     ORIGIN_MESSAGE_ID, so that the first record can still be named, however often it is resent
    dropped  what delays, retries, timers, pops and transactions left in the properties (`_OF_THE_RETRY`)
    new      reconsume times 0: the group tries it as often as a new message
    new      RESENT_FROM and RESENT_MESSAGE_ID: the dead-letter topic, and the id of the dead letter
    new      UNIQ_KEY, where the producer gave none: the id of the first record. By it the copy is found again

The queue is the store's choice: the record of a dead letter no longer says which one it was.

Pure functions: any thread, no I/O. Putting is dead_letters.py.
Source: docs/spec/schedule_and_retry.md sections 2 and 8. RocketMQ has no such call in its broker.
"""

from typing import Final

from mqstore.client.dead_letters.dead_letter import RESENT_FROM, RESENT_MESSAGE_ID, DeadLetter
from mqstore.store.message.message import Message
from mqstore.store.message.topic_names import retry_topic
from mqstore.store.record.properties_format import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    REAL_QID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TIMER_OUT_MS,
    TIMER_REQUESTS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    WAIT,
)
from mqstore.store.record.sys_flag import TRANSACTION_MASK

__all__ = ["copy_keys", "resent_message"]

_OF_THE_RETRY: Final = frozenset(
    {
        *(DELAY, REAL_QID, REAL_TOPIC, RETRY_TOPIC, WAIT),
        *(RECONSUME_TIME, MAX_RECONSUME_TIMES, "CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET"),
        *(*TIMER_REQUESTS, TIMER_OUT_MS, "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"),
        *("TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL", "POP_CK", "1ST_POP_TIME"),
        *(TRANSACTION_PREPARED, TRANSACTION_ID, TRANSACTION_CHECK_TIMES, TRANSACTION_PREPARED_QUEUE_OFFSET),
        CHECK_IMMUNITY_TIME_IN_SECONDS,
    }
)


def copy_keys(letter: DeadLetter) -> tuple[str, ...]:
    """The UNIQ_KEY that copies of the message of `letter` have, and the one that older versions gave."""
    unique_key = letter.message.unique_key
    return (unique_key,) if unique_key else tuple(dict.fromkeys((letter.first_message_id, letter.message_id)))


def resent_message(letter: DeadLetter, topic: str, *, only_group: bool = False) -> Message:
    """The message to put for `letter`.

    topic: where it goes. only_group: it goes to the group's retry topic instead, with `topic` as the one
    that its consumers see; then other groups of `topic` do not get it.
    """
    message = letter.message
    properties = {name: value for name, value in message.properties.items() if name not in _OF_THE_RETRY}
    properties.setdefault(ORIGIN_MESSAGE_ID, letter.message_id)
    properties[UNIQ_KEY] = copy_keys(letter)[0]
    properties[RESENT_FROM] = letter.topic
    properties[RESENT_MESSAGE_ID] = letter.message_id
    if only_group:
        properties[RETRY_TOPIC] = topic
    return Message(
        retry_topic(letter.group) if only_group else topic,
        message.stored_body_view,
        queue_id=-1,
        properties=properties,
        flag=message.flag,
        sys_flag=message.stored_sys_flag & ~TRANSACTION_MASK,
        born_timestamp=letter.born_timestamp,
        born_host=letter.born_host,
    )
