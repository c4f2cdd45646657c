"""The options of the data source, checked: `spark.read.format("mqstore").option(name, value)`.

Names are those of Spark's Kafka source, of its file sources and of RocketMQ's connector; docs/spark.md tells
them all. Spark hands the names over in any case. An unknown name is an error, so that a misspelt `topic`
cannot silently read everything; Spark's own options for tables are ignored by name.

What the offsets mean is decided where a store is at hand (read/offset_bounds.py).
"""

import difflib
import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from mqstore.index.pull.tag_filter import parse_subscription
from mqstore.store.errors import ConfigIllegal, SubscriptionIllegal
from mqstore.tools.archive.archive_file_system import shown_address

__all__ = [
    "EARLIEST",
    "LATEST",
    "OffsetOptions",
    "ReadMode",
    "ReadOptions",
    "SparkOptionIllegal",
    "TriggerOptions",
    "absolute_path",
    "duration_ms",
    "is_address",
    "is_of_spark",
]

EARLIEST, LATEST = -2, -1
"""In JSON, the first offset of a queue that there is, and the one behind its last."""

_NAMES = (
    "path",
    "paths",
    "archive",
    "storageOptions",
    "topic",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingOffsets",
    "endingOffsets",
    "subExpression",
    "columns",
    "decompress",
    "checkCRC",
    "failOnDataLoss",
    "mode",
    "minPartitions",
    "maxPartitionBytes",
    "queueScan",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
_TOPIC_NAMES = ("topic", "subscribe", "subscribePattern", "assign")
# Spark's, of tables and of readers. They choose nothing here.
_OF_SPARK = frozenset(
    ["owner", "provider", "location", "comment", "external", "is_managed_location", "serialization.format"]
)
_PREFIXES_OF_SPARK = ("spark.", "option.")
_BOOLEANS = {"true": True, "false": False}
_COUNT = re.compile(r"[0-9]{1,15}")
_BYTES = re.compile(r"([0-9]{1,15})\s*([kmgt]?)i?b?", re.IGNORECASE)
_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|m|h|d)")
_DURATIONS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

QueueNumbers = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""A number for each queue of each topic: ((topic, ((queue id, number), ...)), ...)."""


class SparkOptionIllegal(ConfigIllegal):
    """An option is unknown, missing, or has a value that cannot be used; nothing was read."""


class ReadMode(enum.Enum):
    """What is done with damage, as Spark's sources of text files do it.

    FAILFAST: it is an error. PERMISSIVE: a row in its place tells of it, in the column `_corrupt_record`.
    DROPMALFORMED: it is passed over, and logged.
    """

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


@dataclass(frozen=True, kw_only=True)
class OffsetOptions:
    """Where to begin, or to end, as the options say; the first that is given counts.

    timestamp_ms: of every queue. timestamps_ms, offsets: of each queue, by topic and queue id.
    word: `earliest` or `latest`, where that is given.
    """

    timestamp_ms: int | None = None
    timestamps_ms: QueueNumbers | None = None
    offsets: QueueNumbers | None = None
    word: str | None = None

    @property
    def by_queue(self) -> QueueNumbers | None:
        """The numbers of the queues that count, if any."""
        if self.timestamp_ms is not None:
            return None
        return self.timestamps_ms if self.timestamps_ms is not None else self.offsets


@dataclass(frozen=True, kw_only=True)
class TriggerOptions:
    """How much one batch of a stream reads. None: as much as there is.

    max_delay_ms: how long fewer than `min_offsets` messages wait for more.
    """

    max_bytes: int | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to read. Without topics, a pattern and an assignment: every topic.

    paths: absolute paths of directories of stores and archives, and globs of them; addresses of archives.
    archive: the address of the archive of the one store that is read, whose log is then read from its
    beginning in the archive. storage_options: for the file systems of archives, a JSON object, which may hold
    secrets. assign: the queues of each topic.
    latest_if_none: for startingOffsetsByTimestamp, where no message is as young as that.
    """

    paths: tuple[str, ...] = field(repr=False)
    archive: str | None = field(default=None, repr=False)
    storage_options: str = field(default="{}", repr=False)
    topics: frozenset[str] | None = None
    topic_pattern: str | None = None
    assign: tuple[tuple[str, frozenset[int]], ...] | None = None
    starting: OffsetOptions = OffsetOptions()
    ending: OffsetOptions = OffsetOptions()
    latest_if_none: bool = False
    tags: frozenset[str] | None = None
    columns: tuple[str, ...] | None = None
    decompress: bool = True
    check_crc: bool = True
    fail_on_data_loss: bool = True
    mode: ReadMode = ReadMode.FAILFAST
    min_partitions: int | None = None
    max_partition_bytes: int | None = None
    queue_scan: bool | None = None
    trigger: TriggerOptions = TriggerOptions()

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "ReadOptions":
        """Check the options as Spark gives them, for a batch or for a stream. Raises SparkOptionIllegal."""
        values = _known(given)
        _refuse_two(values, _TOPIC_NAMES)
        topics = values.get("topic", values.get("subscribe"))
        assign = _assign(values.get("assign"))
        if assign is not None:
            topics = ",".join(topic for topic, _ in assign)
        fails = _boolean("failOnDataLoss", values, default=True)
        paths = _paths(values)
        return cls(
            paths=paths,
            archive=_archive(values, paths),
            storage_options=_storage_options(values),
            topics=None if topics is None else _topics(topics),
            topic_pattern=_pattern(values.get("subscribePattern")),
            assign=assign,
            starting=_offsets("starting", values),
            ending=_offsets("ending", values),
            latest_if_none=_strategy(values),
            tags=_tags(values.get("subExpression")),
            columns=_columns(values.get("columns")),
            decompress=_boolean("decompress", values, default=True),
            check_crc=_boolean("checkCRC", values, default=True),
            fail_on_data_loss=fails,
            mode=_mode(values, fails=fails),
            min_partitions=_count("minPartitions", values),
            max_partition_bytes=_bytes("maxPartitionBytes", values),
            queue_scan=_queue_scan(values),
            trigger=_trigger(values),
        )

    def for_batch(self) -> "ReadOptions":
        """These options, for a read in one batch. Raises SparkOptionIllegal for those of streams."""
        if self.trigger != TriggerOptions():
            raise SparkOptionIllegal(
                "maxBytesPerTrigger, maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay are "
                "options of streams: leave them out, or use readStream",
                key="maxBytesPerTrigger",
            )
        if self.starting.by_queue is None and self.starting.word == "latest":
            raise _illegal(
                "startingOffsets", "latest", "'earliest', or JSON: a read in one batch would be empty"
            )
        if self.starting.offsets and LATEST in _numbers(self.starting.offsets):
            raise _illegal("startingOffsets", str(LATEST), f"no {LATEST}: a read in one batch would be empty")
        return self

    def for_stream(self) -> "ReadOptions":
        """These options, for a stream. Raises SparkOptionIllegal for an end, and for several stores."""
        if self.ending != OffsetOptions() and self.ending != OffsetOptions(word="latest"):
            raise SparkOptionIllegal(
                "a stream has no end: leave out endingTimestamp, endingOffsets and "
                "endingOffsetsByTimestamp, and read what is there by Trigger.AvailableNow",
                key="endingOffsets",
            )
        if is_address(self.paths[0]):
            raise SparkOptionIllegal(
                f"a stream reads a store: give its directory as path, and {shown_address(self.paths[0])} as "
                "option archive",
                key="path",
            )
        if self.has_several_stores:
            raise SparkOptionIllegal(
                f"a stream reads one store, not {', '.join(self.paths)}: start a stream for each, and unite "
                "the DataFrames",
                key="path",
            )
        return self

    @property
    def is_by_queue(self) -> bool:
        """Whether queues are assigned, or the read begins or ends at offsets of queues."""
        return bool(self.assign or self.starting.by_queue or self.ending.by_queue)

    @property
    def has_several_stores(self) -> bool:
        """Whether rows may come from more than one store."""
        return len(self.paths) > 1 or any(
            set("*?[{") & set(path) for path in self.paths if not is_address(path)
        )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """The options under the spelling of `_NAMES`, without those of Spark."""
    spelling = {name.lower(): name for name in _NAMES}
    values = {}
    for name, value in given.items():
        if name.lower() in spelling:
            values[spelling[name.lower()]] = value
        elif not is_of_spark(name):
            close = difflib.get_close_matches(name.lower(), spelling, n=1)
            hint = f"did you mean {spelling[close[0]]!r}?" if close else f"there are {', '.join(_NAMES)}"
            raise SparkOptionIllegal(f"unknown option {name!r}: {hint}", key=name, value=value)
    return values


def is_of_spark(name: str) -> bool:
    """Whether Spark hands an option over of its own accord, or for its tables."""
    return name.lower() in _OF_SPARK or name.lower().startswith(_PREFIXES_OF_SPARK)


def _refuse_two(values: Mapping[str, str], exclusive: tuple[str, ...]) -> None:
    chosen = [name for name in exclusive if name in values]
    if len(chosen) > 1:
        names = " and ".join(chosen)
        raise SparkOptionIllegal(f"options {names} exclude each other: give one", key=chosen[1])


# -- where ------------------------------------------------------------------------------------------------


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    """`path`, or the list that Spark makes of `load([one, other])`."""
    given = [values["path"]] if values.get("path") else []
    if "paths" in values:
        listed = _json("paths", values["paths"], "a list of paths")
        if not isinstance(listed, list) or not all(isinstance(path, str) for path in listed):
            raise _illegal("paths", values["paths"], 'a JSON list of paths, as ["a", "b"]')
        given += listed
    if not given:
        raise SparkOptionIllegal(
            "option 'path' is missing: give the store's root directory. In SQL make a TEMPORARY VIEW: Spark "
            "hands no options of a table to a data source in Python",
            key="path",
        )
    return tuple(dict.fromkeys(path if is_address(path) else absolute_path(path) for path in given))


def is_address(path: str) -> bool:
    """Whether it is the address of an archive in another file system than this machine's."""
    return "://" in path and not path.lower().startswith("file:/")


def _archive(values: Mapping[str, str], paths: tuple[str, ...]) -> str | None:
    given = values.get("archive")
    if not given:
        return None
    if len(paths) > 1 or is_address(paths[0]):
        raise SparkOptionIllegal(
            "option 'archive' is the archive of one store: give the directory of that store as path; an "
            "archive alone is read with its address as path",
            key="archive",
        )
    return given if is_address(given) else absolute_path(given)


def _storage_options(values: Mapping[str, str]) -> str:
    text = values.get("storageOptions", "{}")
    wanted = 'a JSON object, as {"endpoint_override": "127.0.0.1:9000", "scheme": "http"}'
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        # What was given may be secret.
        raise SparkOptionIllegal(
            f"storageOptions cannot be read: give {wanted}", key="storageOptions"
        ) from None
    return json.dumps(given, sort_keys=True)


def absolute_path(path: str) -> str:
    """Of the driver's working directory: a worker has another one. Raises SparkOptionIllegal."""
    try:
        return _resolved(path)
    except (ValueError, RuntimeError) as error:
        if isinstance(error, SparkOptionIllegal):
            raise
        raise SparkOptionIllegal(
            f"path {path!r} cannot be used: {error}. Give the store's root directory", key="path", value=path
        ) from error


def _resolved(path: str) -> str:
    parts = urlparse(path)
    if parts.scheme == "file" and path.lower().startswith("file:/"):
        if parts.netloc not in ("", "localhost"):
            raise SparkOptionIllegal(
                f"path {path!r} is on the machine {parts.netloc!r}: give a path that every worker can read",
                key="path",
                value=path,
            )
        # What follows ? and # belongs to the name: it is a file's.
        path = unquote(path[path.index(":") + 1 :].removeprefix(f"//{parts.netloc}"))
    elif "://" in path:
        raise SparkOptionIllegal(
            f"path {path!r} is not in a file system that is mounted: give a directory, or a file: URL",
            key="path",
            value=path,
        )
    store = Path(path).expanduser().absolute()
    # Who gives the log means the store.
    return str(store.parent if store.name == "commitlog" and store.is_dir() else store)


# -- topics -----------------------------------------------------------------------------------------------


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


def _assign(text: str | None) -> tuple[tuple[str, frozenset[int]], ...] | None:
    if text is None:
        return None
    wanted = 'queues by topic, as {"orders": [0, 1]}'
    given = _json("assign", text, wanted)
    if not isinstance(given, dict) or not given or not all(map(_is_queue_list, given.values())):
        raise _illegal("assign", text, wanted)
    return tuple((topic, frozenset(queues)) for topic, queues in sorted(given.items()))


def _is_queue_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int and one >= 0 for one in value)


def _tags(expression: str | None) -> frozenset[str] | None:
    try:
        wanted = parse_subscription(expression)
    except SubscriptionIllegal as error:
        raise SparkOptionIllegal(
            f"subExpression {expression!r} names no tag: give * or tags, as 'created || paid'",
            key="subExpression",
            value=expression,
        ) from error
    return None if wanted is None else wanted.tags


# -- offsets and times --------------------------------------------------------------------------------------


def _offsets(side: str, values: Mapping[str, str]) -> OffsetOptions:
    return OffsetOptions(
        timestamp_ms=_epoch_ms(f"{side}Timestamp", values),
        timestamps_ms=_timestamps(f"{side}OffsetsByTimestamp", values),
        offsets=_queue_offsets(f"{side}Offsets", values),
        word=_word(f"{side}Offsets", values),
    )


def _epoch_ms(name: str, values: Mapping[str, str]) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise _illegal(name, text, "whole milliseconds since 1970-01-01 UTC") from None


def _timestamps(name: str, values: Mapping[str, str]) -> QueueNumbers | None:
    if name not in values:
        return None
    return _queue_numbers(name, values[name], least=0)


def _word(name: str, values: Mapping[str, str]) -> str | None:
    """`earliest` or `latest`; None if the option is not given, or is JSON."""
    text = values.get(name, "").strip().lower()
    if text == "earliest" and name == "endingOffsets":
        raise _illegal(name, text, "'latest', or JSON: the read would be empty")
    return text if text in ("earliest", "latest") else None


def _queue_offsets(name: str, values: Mapping[str, str]) -> QueueNumbers | None:
    text = values.get(name, "").strip()
    if text.lower() in ("", "earliest", "latest"):
        return None
    offsets = _queue_numbers(name, text, least=EARLIEST)
    if name == "endingOffsets" and EARLIEST in _numbers(offsets):
        raise _illegal(name, text, f"no {EARLIEST}: the read would be empty")
    return offsets


def _numbers(offsets: QueueNumbers) -> set[int]:
    return {number for _, queues in offsets for _, number in queues}


def _queue_numbers(name: str, text: str, *, least: int) -> QueueNumbers:
    wanted = 'numbers by topic and queue, as {"orders": {"0": 23, "1": 5}}'
    given = _json(name, text, wanted)
    if not isinstance(given, dict) or not given:
        raise _illegal(name, text, wanted)
    return tuple(
        (topic, _by_queue(name, text, queues, least, wanted)) for topic, queues in sorted(given.items())
    )


def _by_queue(name: str, text: str, queues: Any, least: int, wanted: str) -> tuple[tuple[int, int], ...]:
    if not isinstance(queues, dict) or not queues:
        raise _illegal(name, text, wanted)
    for queue_id, number in queues.items():
        if not (queue_id.isascii() and queue_id.isdigit()) or str(int(queue_id)) != queue_id:
            raise _illegal(name, text, wanted)
        if type(number) is not int or number < least:
            raise _illegal(name, text, wanted)
    return tuple(sorted((int(queue_id), number) for queue_id, number in queues.items()))


def _strategy(values: Mapping[str, str]) -> bool:
    text = values.get("startingOffsetsByTimestampStrategy", "error")
    if text.lower() not in ("error", "latest"):
        raise _illegal("startingOffsetsByTimestampStrategy", text, "error or latest")
    return text.lower() == "latest"


# -- the rest -----------------------------------------------------------------------------------------------


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise _illegal("columns", text, "names separated by commas, as 'topic, bodySize'")
    return names


def _boolean(name: str, values: Mapping[str, str], *, default: bool) -> bool:
    text = values.get(name)
    if text is None:
        return default
    if text.strip().lower() not in _BOOLEANS:
        raise _illegal(name, text, "true or false")
    return _BOOLEANS[text.strip().lower()]


def _mode(values: Mapping[str, str], *, fails: bool) -> ReadMode:
    if "mode" not in values:
        return ReadMode.FAILFAST if fails else ReadMode.DROPMALFORMED
    text = values["mode"]
    if text.upper() not in ReadMode.__members__:
        raise _illegal("mode", text, ", ".join(ReadMode.__members__))
    return ReadMode[text.upper()]


def _queue_scan(values: Mapping[str, str]) -> bool | None:
    if values.get("queueScan", "auto").strip().lower() == "auto":
        return None
    if values["queueScan"].strip().lower() not in _BOOLEANS:
        raise _illegal("queueScan", values["queueScan"], "auto, true or false")
    return _boolean("queueScan", values, default=True)


def _count(name: str, values: Mapping[str, str]) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not _COUNT.fullmatch(text.strip()) or int(text) < 1:
        raise _illegal(name, text, "a whole number from 1 on")
    return int(text)


def _trigger(values: Mapping[str, str]) -> TriggerOptions:
    least, most = _count("minOffsetsPerTrigger", values), _count("maxOffsetsPerTrigger", values)
    if least is not None and most is not None and least > most:
        raise SparkOptionIllegal(
            f"minOffsetsPerTrigger is {least} and maxOffsetsPerTrigger {most}: give a minimum that is not "
            "above the maximum",
            key="minOffsetsPerTrigger",
            value=str(least),
        )
    if "maxTriggerDelay" in values and least is None:
        raise SparkOptionIllegal(
            "maxTriggerDelay says how long minOffsetsPerTrigger is waited for: give both",
            key="maxTriggerDelay",
            value=values["maxTriggerDelay"],
        )
    return TriggerOptions(
        max_bytes=_bytes("maxBytesPerTrigger", values),
        max_offsets=most,
        min_offsets=least,
        max_delay_ms=duration_ms("maxTriggerDelay", values.get("maxTriggerDelay", "15m")),
    )


def duration_ms(name: str, text: str) -> int:
    """Milliseconds of a text such as 30s or 15m. Raises SparkOptionIllegal, with the option's name."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise _illegal(name, text, "a duration, as 500ms, 30s, 15m, 2h or 1d")
    return int(found[1]) * _DURATIONS_MS[found[2]]


def _bytes(name: str, values: Mapping[str, str]) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    found = _BYTES.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise _illegal(name, text, "a number of bytes, as 134217728 or 128m")
    return int(found[1]) * _FACTORS[found[2].lower()]


def _json(name: str, text: str, wanted: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _illegal(name, text, wanted) from None


def _illegal(name: str, value: str, wanted: str) -> SparkOptionIllegal:
    return SparkOptionIllegal(f"{name} is {value!r}: give {wanted}", key=name, value=value)
