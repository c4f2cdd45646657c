"""The judge of a state after a power cut: compares what was promised before the cut with what is there
after it.

It is given the store as the cut left it and as it was after it had been opened, gone on and closed, both
read by plain_reader.py, what the reopener saw (reopener.py), and the promises of the lives before. What is
wrong comes back as `Violation`s:

    lost       an acknowledged message is not in its place, byte for byte; a delayed one never comes
    reused     an offset was given twice
    early      a delayed message was delivered before its time
    ahead      a consumer or delay offset stands beyond the log, or behind what was kept
    derived    a consume queue, a pull or a key search does not say what the log says
    opening    the store does not open, does not go on, or verify calls it damaged
"""

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from support.powercut.plain_reader import PlainStore, QueueEntry
from support.powercut.sent import DELAY_MS, GROUP, sent
from support.twins.log_walk import SCHEDULE_TOPIC, LogRecord, java_hash

__all__ = ["Acknowledged", "Promises", "Violation", "judge_as_left", "judge_reopened", "read_promises"]

_Identity = tuple[str, int]


class Violation(NamedTuple):
    """Something that must not be. kind: as in the header."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Acknowledged(NamedTuple):
    """A message that the store has promised to keep."""

    key: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    reconsume_times: int


class Promises(NamedTuple):
    """What the lives before a cut were promised, and what they announced.

    committed, kept: by (topic, queue id), of the one group. expired_below: segments below it may be deleted.
    failures: what the workers themselves found wrong.
    """

    acknowledged: list[Acknowledged]
    committed: dict[tuple[str, int], int]
    kept: dict[tuple[str, int], int]
    topics: dict[str, int]
    expired_below: int
    failures: list[str]


def read_promises(lives: Iterable[tuple[Path, int]]) -> Promises:
    """Of each life its file of events, and at how many requests its block log was cut."""
    promises = Promises([], {}, {}, {}, 0, [])
    expired_below = 0
    for events, cut in lives:
        for line in _lines(events):
            if line["at"] > cut:
                continue
            if line["kind"] == "expiring":
                expired_below = max(expired_below, line["below"])
            _add(promises, line)
    return promises._replace(expired_below=expired_below)


def _lines(events: Path) -> Iterator[dict[str, Any]]:
    if events.exists():
        for line in events.read_text().splitlines(keepends=True):
            # The last line of a process that was stopped may be cut.
            if line.endswith("\n"):
                yield json.loads(line)


def _add(promises: Promises, line: dict[str, Any]) -> None:
    match line["kind"]:
        case "put":
            promises.acknowledged.append(_acknowledged(line))
        case "committing":
            queue = line["topic"], line["queue_id"]
            promises.committed[queue] = max(promises.committed.get(queue, 0), line["offset"])
        case "kept":
            for topic, queue_id, offset in line["offsets"]:
                promises.kept[topic, queue_id] = offset
        case "topic":
            promises.topics[line["topic"]] = line["queues"]
        case "failed":
            promises.failures.append(line["error"])


def _acknowledged(line: dict[str, Any]) -> Acknowledged:
    return Acknowledged(*(line[name] for name in Acknowledged._fields))


# -- as the cut left it -------------------------------------------------------------------------------------


def judge_as_left(left: PlainStore, promises: Promises) -> list[Violation]:
    """What is wrong with the directory before anything has opened it."""
    return [
        *(Violation("opening", f"before the cut: {failure}") for failure in promises.failures),
        *_present(left, promises),
        *_reused(promises.acknowledged),
        *_log_is_sound(left),
        *_early(left.records),
        *_offsets(left, promises),
        *_delays(left),
        *(
            Violation(
                "lost", f"topic {topic} was created with {queues} queues, but has {left.topics.get(topic)}"
            )
            for topic, queues in promises.topics.items()
            if left.topics.get(topic) != queues
        ),
    ]


def _present(store: PlainStore, promises: Promises) -> Iterator[Violation]:
    """Every acknowledged message lies where it was put, or retention was free to delete it."""
    records = {record.physical_offset: record for record in store.records}
    for message in promises.acknowledged:
        record = records.get(message.physical_offset)
        if record is None:
            if not message.physical_offset < store.min_offset <= promises.expired_below:
                yield Violation(
                    "lost", f"{message} is gone; the log is {store.min_offset} to {store.end.offset}"
                )
        elif _place(record) != message[1:] or record.properties.get("KEYS") != message.key:
            yield Violation("lost", f"in the place of {message} there is {_place(record)}")


def _place(record: LogRecord) -> tuple[str, int, int, int, int, int]:
    return (
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.physical_offset,
        record.size,
        record.reconsume_times,
    )


def _reused(acknowledged: Iterable[Acknowledged]) -> Iterator[Violation]:
    queue_places = Counter((each.topic, each.queue_id, each.queue_offset) for each in acknowledged)
    log_places = Counter(each.physical_offset for each in acknowledged)
    for place, count in (*queue_places.items(), *log_places.items()):
        if count > 1:
            yield Violation("reused", f"{place} was given {count} times")


def _log_is_sound(store: PlainStore) -> Iterator[Violation]:
    """Segments and queue offsets without holes; every record was sent by a producer, byte for byte."""
    full = max((size for _, size in store.segments), default=0)
    for (start, _), (following, _) in zip(store.segments, store.segments[1:], strict=False):
        if following != start + full:
            yield Violation("lost", f"between the segments {start} and {following} there is a hole")
    ends: dict[tuple[str, int], int] = {}
    for record in store.records:
        queue = record.topic, record.queue_id
        expected = ends.get(queue, 0 if store.min_offset == 0 else record.queue_offset)
        if record.queue_offset != expected:
            kind = "reused" if record.queue_offset < expected else "lost"
            yield Violation(kind, f"{queue} goes on with {record.queue_offset}, not {expected}")
        ends[queue] = record.queue_offset + 1
        if not record.is_whole or not _is_as_sent(record):
            yield Violation("lost", f"the record at {record.physical_offset} is not as it was sent: {record}")


def _is_as_sent(record: LogRecord) -> bool:
    message = sent(record.properties["KEYS"])
    is_delayed = record.topic == SCHEDULE_TOPIC
    topic = record.properties.get("REAL_TOPIC") if is_delayed else record.topic
    return (
        record.body == message.body
        and record.properties.get("TAGS") == message.tags
        and all(record.properties.get(name) == value for name, value in message.properties.items())
        and topic in {message.topic, f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"}
    )


def _identity(record: LogRecord) -> _Identity:
    return record.properties["KEYS"], record.reconsume_times


def _due_ms(record: LogRecord) -> int:
    return record.store_timestamp + DELAY_MS[record.queue_id]


def _early(records: list[LogRecord]) -> Iterator[Violation]:
    due: dict[_Identity, int] = {}
    for record in records:
        identity = _identity(record)
        if record.topic == SCHEDULE_TOPIC:
            due[identity] = min(_due_ms(record), due.get(identity, _due_ms(record)))
        elif record.store_timestamp < due.get(identity, 0):
            yield Violation("early", f"{identity} came {due[identity] - record.store_timestamp} ms early")


def _offsets(store: PlainStore, promises: Promises) -> Iterator[Violation]:
    """No consumer stands beyond its queue or what it committed, nor behind what was kept."""
    ends = _ends(store)
    for (_, topic, queue_id), offset in store.consumer_offsets.items():
        queue = topic, queue_id
        # Retention may have deleted the last record of a queue.
        if offset > ends.get(queue, 0) and not (store.min_offset and queue not in ends):
            yield Violation(
                "ahead", f"the group stands at {offset} of {queue}, which ends at {ends.get(queue)}"
            )
        if offset > promises.committed.get(queue, 0):
            yield Violation("ahead", f"the group stands at {offset} of {queue}, which it never committed")
    for queue, offset in promises.kept.items():
        if store.consumer_offsets.get((GROUP, *queue), 0) < offset:
            found = store.consumer_offsets.get((GROUP, *queue))
            yield Violation("ahead", f"the group stands at {found} of {queue}, but {offset} was kept")


def _ends(store: PlainStore) -> dict[tuple[str, int], int]:
    return {(record.topic, record.queue_id): record.queue_offset + 1 for record in store.records}


def _delays(store: PlainStore) -> Iterator[Violation]:
    """No delay offset stands beyond the log, or has passed a message whose copy is not there."""
    ends = _ends(store)
    for level, offset in store.delay_offsets.items():
        queue = SCHEDULE_TOPIC, level - 1
        if offset > ends.get(queue, 0) and not (store.min_offset and queue not in ends):
            yield Violation(
                "ahead", f"level {level} stands at {offset}, but its queue ends at {ends.get(queue)}"
            )
    passed = [
        record
        for record in store.records
        if record.topic == SCHEDULE_TOPIC
        and record.queue_offset < store.delay_offsets.get(record.queue_id + 1, 0)
    ]
    yield from _delivered(store, passed)


def _delivered(store: PlainStore, delayed: list[LogRecord]) -> Iterator[Violation]:
    arrived = Counter(_identity(record) for record in store.records if record.topic != SCHEDULE_TOPIC)
    for identity, count in Counter(map(_identity, delayed)).items():
        if arrived[identity] < count:
            yield Violation(
                "lost", f"delayed {identity} waits no more, but came {arrived[identity]} times of {count}"
            )


# -- opened, gone on, closed --------------------------------------------------------------------------------


def judge_reopened(
    left: PlainStore, after: PlainStore, seen: dict[str, Any], promises: Promises, asked: list[Acknowledged]
) -> list[Violation]:
    """What is wrong once it was opened, has gone on and was closed. asked: whose keys were looked for."""
    later = [_acknowledged(put) for put in seen["puts"]]
    all_promises = promises._replace(acknowledged=[*promises.acknowledged, *later])
    return [
        *(Violation("opening", f"verify, before the opening: {damage}") for damage in seen["damages_before"]),
        *(Violation("opening", f"verify, after the close: {damage}") for damage in seen["damages_after"]),
        *(Violation("opening", f"service {name}: {error}") for name, error in seen["errors"].items()),
        *_present(after, all_promises),
        *_reused(all_promises.acknowledged),
        *_log_is_sound(after),
        *_end(left, after, seen),
        *_early(after.records),
        *_delivered(after, [record for record in after.records if record.topic == SCHEDULE_TOPIC]),
        *_queues(after),
        *_pulled(left, after, seen["pulled"]),
        *(
            Violation("derived", f"{message.key} of {message.topic} is not found by its key")
            for message, found in zip(asked, seen["found"], strict=True)
            if message.physical_offset not in found
        ),
    ]


def _end(left: PlainStore, after: PlainStore, seen: dict[str, Any]) -> Iterator[Violation]:
    if after.end.offset != seen["end_at_close"] or after.end.bytes_behind:
        yield Violation(
            "lost",
            f"whole records end at {after.end.offset}, the log at {seen['end_at_close']}; "
            f"{after.end.bytes_behind} bytes behind are not zero",
        )
    end, end_of_records, bytes_behind = seen.get("recovered", (0, 0, 0))
    if end != end_of_records or bytes_behind:
        yield Violation(
            "opening",
            f"recovery ends the log at {end}, whole records end at {end_of_records}, "
            f"{bytes_behind} bytes behind are not zero",
        )
    if seen["end"] > max(after.end.offset, left.end.offset):
        yield Violation("opening", f"opened, the log ended at {seen['end']}")
    if seen["waiting"]:
        yield Violation("lost", f"{seen['waiting']} delayed messages are not delivered")


def _queues(store: PlainStore) -> Iterator[Violation]:
    """Each record has its entry, and there are no others behind the log's beginning."""
    expected: dict[tuple[str, int], dict[int, QueueEntry]] = {}
    for record in store.records:
        code = (
            _due_ms(record)
            if record.topic == SCHEDULE_TOPIC
            else java_hash(record.properties.get("TAGS", ""))
        )
        entry = QueueEntry(record.physical_offset, record.size, code)
        expected.setdefault((record.topic, record.queue_id), {})[record.queue_offset] = entry
    for queue in {*expected, *store.queues}:
        wanted = expected.get(queue, {})
        found = {
            number: entry
            for number, entry in store.queues.get(queue, {}).items()
            if entry.physical_offset >= store.min_offset
        }
        if found != wanted:
            wrong = [number for number in {*found, *wanted} if found.get(number) != wanted.get(number)]
            yield Violation(
                "derived",
                f"{queue} has {len(found)} entries, the log {len(wanted)}; first difference at {min(wrong)}: "
                f"{found.get(min(wrong))}, not {wanted.get(min(wrong))}",
            )


def _pulled(left: PlainStore, after: PlainStore, pulled: list[dict[str, Any]]) -> Iterator[Violation]:
    """What a consumer got is what the log has, without a hole, and nothing of it is missing."""
    known = {(record.topic, record.queue_id, record.queue_offset): record for record in after.records}
    got = set()
    for queue in pulled:
        for queue_offset, physical_offset, crc, key in queue["rows"]:
            place = queue["topic"], queue["queue_id"], queue_offset
            got.add(place)
            record = known.get(place)
            if record is None or (physical_offset, crc, key) != (
                record.physical_offset,
                zlib.crc32(record.body),
                record.properties["KEYS"],
            ):
                yield Violation(
                    "derived", f"a pull of {place} got {physical_offset}, {key}, but the log has {record}"
                )
    for record in left.records:
        place = record.topic, record.queue_id, record.queue_offset
        if place not in got:
            yield Violation("derived", f"{place} is in the log, but a pull of its queue did not get it")
