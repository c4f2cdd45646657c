"""What a store looks like from outside, asked for in the same words on both sides, and how two differ.

A `Picture` is all there is: the range of the log, every queue with every entry, every message with every
field. `Questions` are what may be answered in many ways: pulls at the edges of each queue, offsets by time,
keys. They are made from a picture, so that both sides get the same.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from support.interop.messages import QUEUES, TAGS
from support.interop.process import StoreProcess

__all__ = [
    "Picture",
    "Questions",
    "answers_of",
    "assert_same_answers",
    "differences",
    "directory_bytes",
    "take_picture",
]

Json = dict[str, Any]

_PULL_OFFSETS = (-1, 0, 1)
_END_OF_TIME_MS = 2**62
_MAX_SHOWN = 20


@dataclass(frozen=True)
class Picture:
    """Everything that a store holds. Queues by "topic/queue id", messages by physical offset."""

    log: dict[str, int]
    queues: dict[str, Json]
    messages: dict[int, Json | None]


def take_picture(
    store: StoreProcess, also: list[int] | None = None, *, with_deliver_times: bool = True
) -> Picture:
    """The picture of an open store; `also` names records that no queue has (half and rollback records).

    with_deliver_times: False leaves out the tags codes of waiting messages.
    """
    queues = {
        f"{queue['topic']}/{queue['queue_id']}": queue
        for queue in store.ask("queues")
        # RocketMQ makes a queue when it is asked for one.
        if queue["max_offset"]
    }
    for queue in queues.values():
        if not with_deliver_times and queue["topic"] == SCHEDULE_TOPIC:
            queue["entries"] = [entry[:2] for entry in queue["entries"]]
    offsets = {entry[0] for queue in queues.values() for entry in queue["entries"]} | set(also or ())
    ordered = sorted(offsets)
    messages = dict(zip(ordered, store.ask("messages", physical_offsets=ordered), strict=True))
    for message in messages.values():
        if message is not None:
            # RocketMQ hands out the record's CRC as if it were a property, and no table where none is.
            message["properties"] = message["properties"] or {}
            message["properties"].pop("__CRC32#", None)
    return Picture(store.ask("range"), dict(sorted(queues.items())), messages)


@dataclass(frozen=True)
class Questions:
    """Requests to be answered alike; see mqstore.py for their fields."""

    pulls: list[list[Any]]
    times: list[list[Any]]
    keys: list[list[Any]]

    @classmethod
    def about(cls, picture: Picture, seed: int | str) -> "Questions":
        """Questions about each edge of each queue, and some in between."""
        random = Random(seed)
        pulls: list[list[Any]] = []
        times: list[list[Any]] = []
        for queue in picture.queues.values():
            place = [queue["topic"], queue["queue_id"]]
            first, end = queue["min_offset"], queue["max_offset"]
            edges = [edge + by for edge in (0, first, end) for by in _PULL_OFFSETS]
            edges += [end + 1_000, 2**40, random.randrange(end), random.randrange(end), 299, 300, 301]
            tags = ["*", "TagA", f"{random.choice(TAGS)} || {random.choice(TAGS)}||", "no such tag"]
            pulls += [
                ["group-1", *place, offset, count, tag]
                for offset in dict.fromkeys(edges)
                for count, tag in ((32, "*"), (1, "*"), *((random.choice((3, 32, 100)), tag) for tag in tags))
            ]
            times += [[*place, moment, side] for moment in _moments(picture, queue) for side in _BOUNDARIES]
        pulls += [["group-1", "TopicA", QUEUES + 7, offset, 32, "*"] for offset in (-1, 0, 1)]
        pulls += [["group-1", "no-such-topic", 0, offset, 32, "*"] for offset in (-1, 0, 1)]
        times += [["no-such-topic", 0, 1, side] for side in _BOUNDARIES]
        keys = [[topic, key, 32, 0, _END_OF_TIME_MS] for topic, key in _rare_keys(picture, random)]
        keys.append(["TopicA", "no such key", 32, 0, _END_OF_TIME_MS])
        return cls(pulls, times, keys)

    def without_deliver_times(self) -> "Questions":
        """The same, but for those whose answer hangs on tags codes of waiting messages."""
        pulls = [pull for pull in self.pulls if pull[1] != SCHEDULE_TOPIC or pull[5] == "*"]
        return Questions(pulls, self.times, self.keys)


_BOUNDARIES = ("LOWER", "UPPER")


def _moments(picture: Picture, queue: Json) -> list[int]:
    stored = [picture.messages[entry[0]] for entry in queue["entries"]]
    times = sorted({message["store_timestamp"] for message in stored if message is not None})
    some = times[:: max(1, len(times) // 8)] + times[-1:]
    return sorted({0, 2**60, *(moment + by for moment in some for by in (-1, 0, 1))})


def _rare_keys(picture: Picture, random: Random) -> list[tuple[str, str]]:
    """Keys with few messages: of more, a store answers the newest, and the two may count differently."""
    counts: Counter[tuple[str, str]] = Counter()
    for message in picture.messages.values():
        if message is not None:
            counts.update((message["topic"], key) for key in _keys_of(message))
    rare = sorted(key for key, count in counts.items() if count <= 20)
    return random.sample(rare, min(200, len(rare)))


def _keys_of(message: Json) -> set[str]:
    properties = message["properties"]
    return set(filter(None, (properties.get("UNIQ_KEY"), *properties.get("KEYS", "").split(" "))))


def answers_of(store: StoreProcess, questions: Questions, *, with_keys: bool = True) -> Json:
    """What an open store answers, by kind of question; a kind that it does not know is left out."""
    answers: Json = {"pulls": store.ask("get", requests=questions.pulls)}
    if store.has_boundaries:
        answers["times"] = store.ask("by_time", requests=questions.times)
    if with_keys:
        answers["keys"] = _verified(store, questions.keys, store.ask("query", requests=questions.keys))
    return answers


def assert_same_answers(questions: Questions, theirs: Json, ours: Json) -> None:
    """Assert that two stores answered alike what both answered."""
    for kind in sorted(theirs.keys() & ours.keys()):
        _assert_same(kind, getattr(questions, kind), theirs[kind], ours[kind])


def _verified(store: StoreProcess, requests: list[list[Any]], found: list[list[int]]) -> list[list[int]]:
    """What is left when the client has compared topics and keys: the index compares hashes only.

    After a kill RocketMQ puts the last record that it finds in the index in once more.
    """
    every = sorted({offset for offsets in found for offset in offsets})
    messages = dict(zip(every, store.ask("messages", physical_offsets=every), strict=True))
    return [
        [
            offset
            for offset in dict.fromkeys(offsets)
            if messages[offset]["topic"] == topic and key in _keys_of(messages[offset])
        ]
        for (topic, key, *_), offsets in zip(requests, found, strict=True)
    ]


def _assert_same(what: str, requests: list[list[Any]], theirs: list[Any], ours: list[Any]) -> None:
    answers = zip(requests, theirs, ours, strict=True)
    unlike = [
        f"{what}, {request}:\n    theirs {one}\n    ours   {other}"
        for request, one, other in answers
        if one != other
    ]
    shown = "\n".join(unlike[:_MAX_SHOWN])
    assert not unlike, f"{len(unlike)} of {len(requests)} answers differ\n{shown}"


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two nested values differ, as lines "path: one != other"; the first few hundred."""
    if isinstance(one, Picture) and isinstance(other, Picture):
        return [
            line
            for name in ("log", "queues", "messages")
            for line in differences(getattr(one, name), getattr(other, name), name)
        ]
    if isinstance(one, dict) and isinstance(other, dict):
        found: list[str] = []
        for key in sorted(one.keys() | other.keys(), key=str):
            if key not in one or key not in other:
                found.append(f"{path}.{key}: only in the {'first' if key in one else 'second'}")
            elif one[key] != other[key]:
                found += differences(one[key], other[key], f"{path}.{key}")
        return found[:300]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        found = [
            line
            for at, (a, b) in pairs
            if _as_list(a) != _as_list(b)
            for line in differences(a, b, f"{path}[{at}]")
        ]
        return found[:300]
    return [] if _as_list(one) == _as_list(other) else [f"{path}: {one!r:.200} != {other!r:.200}"]


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def directory_bytes(directory: Path) -> dict[str, bytes]:
    """The bytes of each file under `directory`, by its path."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
