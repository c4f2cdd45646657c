"""The options of the data source, checked: `spark.read.format("mqstore").option(name, value)`.

    path               the store's root directory (the one that holds `commitlog`); required
    topic, subscribe   read these topics only, comma-separated (`subscribe` is Kafka's name for it)
    subscribePattern   read the topics whose whole name matches this regular expression (Python's syntax)
    startingTimestamp  epoch ms: read messages stored at or after it
    endingTimestamp    epoch ms: read messages stored before it
    decompress         true (default): bodies that producers compressed are read as they were sent;
                       false: body and sysFlag as stored
    failOnDataLoss     true (default): missing or damaged segments are an error, and so are bodies that cannot
                       be decompressed; false: read what is whole, and such bodies as stored

Spark hands the names over in any case. An unknown name is an error, so that a misspelt `topic` cannot
silently read everything.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mqstore.store.errors import ConfigIllegal

__all__ = ["ReadOptions", "SparkOptionIllegal"]

_NAMES = (
    "path",
    "topic",
    "subscribe",
    "subscribePattern",
    "startingTimestamp",
    "endingTimestamp",
    "decompress",
    "failOnDataLoss",
)
_TOPIC_NAMES = ("topic", "subscribe", "subscribePattern")
_BOOLEANS = {"true": True, "false": False}


class SparkOptionIllegal(ConfigIllegal):
    """An option is unknown, missing, or has a value that cannot be used; nothing was read."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to read. `topics` None and `topic_pattern` None mean every topic."""

    path: Path
    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    decompress: bool = True
    fail_on_data_loss: bool = True

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "ReadOptions":
        """Check the options as Spark gives them. Raises SparkOptionIllegal."""
        values = _known(given)
        if not values.get("path"):
            raise SparkOptionIllegal("option 'path' is missing: give the store's root directory", key="path")
        _refuse_two_topic_choices(values)
        topics = values.get("topic", values.get("subscribe"))
        return cls(
            path=Path(values["path"]),
            topics=None if topics is None else _topics(topics),
            topic_pattern=_pattern(values.get("subscribePattern")),
            begin_ms=_epoch_ms("startingTimestamp", values),
            end_ms=_epoch_ms("endingTimestamp", values),
            decompress=_boolean("decompress", values, default=True),
            fail_on_data_loss=_boolean("failOnDataLoss", values, default=True),
        )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """The options under the spelling of `_NAMES`."""
    spelling = {name.lower(): name for name in _NAMES}
    values = {}
    for name, value in given.items():
        if name.lower() not in spelling:
            close = difflib.get_close_matches(name.lower(), spelling, n=1)
            hint = f"did you mean {spelling[close[0]]!r}?" if close else f"there are {', '.join(_NAMES)}"
            raise SparkOptionIllegal(f"unknown option {name!r}: {hint}", key=name, value=value)
        values[spelling[name.lower()]] = value
    return values


def _refuse_two_topic_choices(values: Mapping[str, str]) -> None:
    chosen = [name for name in _TOPIC_NAMES if name in values]
    if len(chosen) > 1:
        names = " and ".join(chosen)
        raise SparkOptionIllegal(f"options {names} exclude each other: give one", key=chosen[1])


def _topics(text: str) -> frozenset[str]:
    topics = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not topics:
        raise SparkOptionIllegal(
            f"no topic in {text!r}: give one or more names, or leave the option out to read all",
            key="topic",
            value=text,
        )
    return topics


def _pattern(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise SparkOptionIllegal(
            f"subscribePattern {text!r} is no regular expression: {error}", key="subscribePattern", value=text
        ) from error
    return text


def _epoch_ms(name: str, values: Mapping[str, str]) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise SparkOptionIllegal(
            f"{name} is {text!r}: give whole milliseconds since 1970-01-01 UTC", key=name, value=text
        ) from None


def _boolean(name: str, values: Mapping[str, str], *, default: bool) -> bool:
    text = values.get(name)
    if text is None:
        return default
    if text.strip().lower() not in _BOOLEANS:
        raise SparkOptionIllegal(f"{name} is {text!r}: give true or false", key=name, value=text)
    return _BOOLEANS[text.strip().lower()]
