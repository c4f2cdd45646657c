"""Names of topics and consumer groups: which are legal, and which have a meaning in RocketMQ.

Which topics and groups exist is not known here (mqstore/metadata/topics.py,
mqstore/metadata/subscription_groups.py). Pure functions: any thread, no I/O. Only new names are checked;
names read back from a broker's directory are accepted unchanged.
Source: docs/spec/commitlog.md section 11; TopicValidator, Validators and MixAll of Apache RocketMQ.
"""

import re
from typing import Final

from mqstore.store.errors import GroupIllegal, TopicIllegal

__all__ = [
    "AUTO_CREATE_TOPIC_KEY_TOPIC",
    "CANCELLED_DELAYS_TOPIC",
    "DLQ_GROUP_TOPIC_PREFIX",
    "MAX_GROUP_LENGTH",
    "MAX_RETRY_TOPIC_LENGTH",
    "MAX_TOPIC_LENGTH",
    "NOT_ALLOWED_SEND_TOPICS",
    "RETRY_GROUP_TOPIC_PREFIX",
    "SCHEDULE_TOPIC",
    "SYSTEM_TOPICS",
    "SYSTEM_TOPIC_PREFIX",
    "TIMER_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "TRANS_GROUP",
    "TRANS_HALF_TOPIC",
    "TRANS_OP_HALF_TOPIC",
    "check_group",
    "check_topic",
    "dead_letter_topic",
    "is_dead_letter_topic",
    "is_retry_topic",
    "is_system_group",
    "is_system_topic",
    "reply_topic",
    "retry_topic",
]

MAX_TOPIC_LENGTH: Final = 127
"""Characters (all are ASCII, so bytes too) of a topic that is not a retry topic."""
MAX_RETRY_TOPIC_LENGTH: Final = 255
"""Characters of a topic that begins with `%RETRY%`; above 127 its records are V2."""
MAX_GROUP_LENGTH: Final = 120
"""Characters of a group: its retry topic then still has at most 127."""

RETRY_GROUP_TOPIC_PREFIX: Final = "%RETRY%"
DLQ_GROUP_TOPIC_PREFIX: Final = "%DLQ%"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Where delayed messages wait: queue = level - 1."""
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Where a broker keeps messages with an arbitrary deliver time."""
AUTO_CREATE_TOPIC_KEY_TOPIC: Final = "TBW102"
"""The topic whose settings an automatically created topic inherits."""
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Where the halves of transactions are kept."""
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
"""Which halves are ended."""
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Halves that nobody has ended, however often their producers were asked."""
CANCELLED_DELAYS_TOPIC: Final = "rmq_sys_mqstore_cancelled_delays"
"""Which delayed messages are not to be delivered: ours, see schedule/delivery/cancelled_delays.py."""
TRANS_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group whose offsets say which halves and ends have been dealt with."""

NOT_ALLOWED_SEND_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        CANCELLED_DELAYS_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that a broker, or this store, writes itself and accepts from no client."""

SYSTEM_TOPICS: Final = NOT_ALLOWED_SEND_TOPICS | {
    AUTO_CREATE_TOPIC_KEY_TOPIC,
    "BenchmarkTest",
    "CHECKPOINT_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
}
"""The broker's own topics, except those that begin with `rmq_sys_`."""

_ALLOWED = "% | a-z A-Z 0-9 _ -"
_FOREIGN_CHARACTER = re.compile(r"[^%|a-zA-Z0-9_-]")


def check_topic(topic: str) -> None:
    """Raise TopicIllegal unless `topic` is a name under which messages may be stored.

    At most 127 characters, 255 for a `%RETRY%` topic. Dead-letter topics have no exemption: RocketMQ's
    put check has none, and a group of legal length never needs one.
    """
    is_retry = isinstance(topic, str) and is_retry_topic(topic)
    limit = MAX_RETRY_TOPIC_LENGTH if is_retry else MAX_TOPIC_LENGTH
    if reason := _broken_rule("topic", topic, limit):
        raise TopicIllegal(reason, value=topic, limit=limit)


def check_group(group: str) -> None:
    """Raise GroupIllegal unless `group` is a name that a consumer group may have (120 characters)."""
    if reason := _broken_rule("consumer group", group, MAX_GROUP_LENGTH):
        raise GroupIllegal(reason, value=group, limit=MAX_GROUP_LENGTH)


def _broken_rule(kind: str, name: str, limit: int) -> str:
    """The rule that `name` breaks, as a sentence; empty when it breaks none."""
    if not isinstance(name, str):
        return f"{kind} {name!r} is a {type(name).__name__}: give a str"
    if not name:
        return f"{kind} is empty: give 1 to {limit} characters out of {_ALLOWED}"
    if foreign := _FOREIGN_CHARACTER.search(name):
        return (
            f"{kind} {name!r} has {foreign.group()!r} at position {foreign.start()}: "
            f"only the characters {_ALLOWED} are allowed"
        )
    if len(name) > limit:
        return f"{kind} {name!r} has {len(name)} characters: at most {limit} are allowed"
    return ""


def retry_topic(group: str) -> str:
    """The topic through which failed messages come back to `group`.

    >>> retry_topic("billing")
    '%RETRY%billing'
    """
    return RETRY_GROUP_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of the messages that `group` gave up on.

    >>> dead_letter_topic("billing")
    '%DLQ%billing'
    """
    return DLQ_GROUP_TOPIC_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic in which the brokers of `cluster` keep the replies to requests.

    >>> reply_topic("DefaultCluster")
    'DefaultCluster_REPLY_TOPIC'
    """
    return f"{cluster}_REPLY_TOPIC"


def is_retry_topic(topic: str) -> bool:
    """Whether `topic` is some group's retry topic."""
    return topic.startswith(RETRY_GROUP_TOPIC_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    """Whether `topic` is some group's dead-letter topic."""
    return topic.startswith(DLQ_GROUP_TOPIC_PREFIX)


def is_system_topic(topic: str) -> bool:
    """Whether `topic` belongs to the broker and not to a user."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether `group` is the broker's own; such groups are created even where others are not."""
    return group.startswith(SYSTEM_GROUP_PREFIX)
