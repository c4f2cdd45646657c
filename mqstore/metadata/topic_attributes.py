"""The attributes of a topic: their names, their values, and how a change is written.

    name              may change   values
    queue.type        no           SimpleCQ, BatchCQ                                   (BatchCQ: not here)
    cleanup.policy    no           DELETE, COMPACTION                                  (COMPACTION: not here)
    message.type      yes          UNSPECIFIED, NORMAL, FIFO, DELAY, TRANSACTION, MIXED (MIXED: not here)
    reserve.time      yes          a whole number from -1

A change names an attribute as RocketMQ's tools do: `+name` with a value sets it, `-name` takes it out; a name
alone means `+name`. What a broker wrote into topics.json is kept as it is, but a topic of a kind that the
store does not keep takes no messages (`unsupported`).
Pure functions: any thread. Source: TopicAttributes, AttributeUtil#alterCurrentAttributes, TopicMessageType.
"""

from collections.abc import Mapping
from typing import Final

from mqstore.store.errors import AttributeIllegal, TopicNotSupported

__all__ = ["altered", "has_queues_of_brokers", "unsupported"]

_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "queue.type": ("SimpleCQ", "BatchCQ"),
    "cleanup.policy": ("DELETE", "COMPACTION"),
    "message.type": ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"),
}
_RESERVE_TIME: Final = "reserve.time"
_NAMES: Final = (*_VALUES, _RESERVE_TIME)
_LASTING: Final = frozenset({"queue.type", "cleanup.policy"})
_NOT_HERE: Final = {"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION"}
_LONGEST_TIME: Final = 2**63 - 1


def unsupported(attributes: Mapping[str, str]) -> tuple[str, str] | None:
    """Name and value of an attribute with which the store cannot keep the topic's messages; None if none."""
    return next((pair for pair in _NOT_HERE.items() if attributes.get(pair[0]) == pair[1]), None)


def has_queues_of_brokers(attributes: Mapping[str, str]) -> bool:
    """Whether a topic's queues are of a kind that a broker alone keeps: the store keeps none for it."""
    return attributes.get("queue.type") == "BatchCQ"


def altered(
    topic: str, before: Mapping[str, str], changes: Mapping[str, str], *, is_new: bool
) -> dict[str, str]:
    """The attributes of `topic` after `changes`. Raises AttributeIllegal, TopicNotSupported."""
    after = dict(before)
    seen: set[str] = set()
    for asked, value in changes.items():
        name = _name(topic, asked)
        if name in seen:
            raise AttributeIllegal(topic, asked, value, "is named twice: name it once")
        seen.add(name)
        if asked.startswith("-"):
            _remove(topic, after, asked, name, is_new=is_new)
            continue
        _check_value(topic, name, value)
        if not is_new and name in _LASTING and before.get(name) != value:
            raise AttributeIllegal(topic, name, value, "cannot be changed: create another topic")
        after[name] = value
    if pair := unsupported(after):
        raise TopicNotSupported(topic, *pair)
    return after


def _name(topic: str, asked: object) -> str:
    name = asked.removeprefix("+").removeprefix("-") if isinstance(asked, str) else ""
    if name not in _NAMES or (isinstance(asked, str) and asked.startswith("+-")):
        raise AttributeIllegal(topic, asked, None, f"is none: there are {', '.join(_NAMES)}")
    return name


def _remove(topic: str, after: dict[str, str], asked: str, name: str, *, is_new: bool) -> None:
    if is_new or name not in after:
        raise AttributeIllegal(topic, asked, None, "is not there to be removed")
    if name in _LASTING:
        raise AttributeIllegal(topic, asked, None, "cannot be removed: create another topic")
    del after[name]


def _check_value(topic: str, name: str, value: object) -> None:
    if name == _RESERVE_TIME:
        if not (isinstance(value, str) and _is_time(value)):
            raise AttributeIllegal(topic, name, value, f"must be a whole number from -1 to {_LONGEST_TIME}")
    elif value not in _VALUES[name]:
        raise AttributeIllegal(topic, name, value, f"must be one of {', '.join(_VALUES[name])}")
    elif value == "MIXED":
        raise TopicNotSupported(topic, name, value)


def _is_time(text: str) -> bool:
    digits = text.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and -1 <= int(text) <= _LONGEST_TIME
