"""The oracle: judges a store that was opened after a crash by what was promised before it.

    present       every message that had to be durable lies where it was acknowledged, with its content
    whole         each record is whole, was sent, and lies in a topic that it was meant for
    numbered      the queue offsets of each queue follow the log without hole or repetition
    derived       consume queues and key index say exactly what the log says
    erased        behind the end of the log there are zeros
    delayed       a delayed or sent-back message that had to be durable still waits, or was delivered
    not early     no copy was delivered before its time
    offsets       no consumer stands beyond what was committed or beyond its queue, nor behind what was kept
    topics        a topic that was created durably is there

`judge` asks all that of a store as it was opened; `judge_afterwards` lets it go on and asks again. Both
return what is wrong as sentences. The log is read by log_walk.py, without the code under test.
"""

import struct
from collections import defaultdict
from typing import NamedTuple

from mqstore import Message, MessageStore
from mqstore.schedule.delay.delay_levels import DelayLevels
from support.crash.promises import Acknowledged, Promises
from support.crash.witness import ROOT, body_of
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.twins.log_walk import SCHEDULE_TOPIC, LogEnd, LogRecord, java_hash, walk_log

__all__ = ["judge", "judge_afterwards"]

_ENTRY = struct.Struct(">qiq")
_AFTERWARDS = 900_000
_Identity = tuple[int, int]


class _Seen(NamedTuple):
    """What the oracle reads of a store."""

    store: MessageStore
    disk: SimulatedDisk
    records: list[LogRecord]
    end: LogEnd
    delays_ms: list[int]

    def due_ms(self, record: LogRecord) -> int:
        """When a waiting record is due."""
        return record.store_timestamp + self.delays_ms[min(record.queue_id + 1, len(self.delays_ms) - 1)]


def _look(store: MessageStore, disk: SimulatedDisk) -> _Seen:
    delays_ms = DelayLevels.parse(store.config.message_delay_level).as_array().tolist()
    return _Seen(store, disk, *walk_log(disk, ROOT / "commitlog"), delays_ms)


def judge(store: MessageStore, disk: SimulatedDisk, promises: Promises, *, is_power_cut: bool) -> list[str]:
    """What is wrong with a store that has just been opened after a crash; [] when nothing is."""
    try:
        return _judge(store, disk, promises, is_power_cut=is_power_cut)
    except Exception as error:  # noqa: BLE001 - whatever it raises when asked is wrong
        return [f"asked, it raises {type(error).__name__}: {error}"]


def _judge(store: MessageStore, disk: SimulatedDisk, promises: Promises, *, is_power_cut: bool) -> list[str]:
    seen = _look(store, disk)
    required = promises.required(is_power_cut=is_power_cut)
    return [
        *_end_of_log(seen),
        *_present(seen, promises, required),
        *_whole(seen, promises),
        *_numbered(seen),
        *_queues(seen),
        *_keys(seen),
        *_delayed(seen, promises, required),
        *_early(seen),
        *_offsets(seen, promises),
        *_topics(seen, promises),
    ]


def judge_afterwards(
    store: MessageStore, disk: SimulatedDisk, promises: Promises, clock: ManualClock, *, is_power_cut: bool
) -> list[str]:
    """Let the store go on: put, wait until all is due, deliver. What is wrong then."""
    try:
        return _judge_afterwards(store, disk, promises, clock, is_power_cut=is_power_cut)
    except Exception as error:  # noqa: BLE001 - whatever it raises when it goes on is wrong
        return [f"going on, it raises {type(error).__name__}: {error}"]


def _judge_afterwards(
    store: MessageStore, disk: SimulatedDisk, promises: Promises, clock: ManualClock, *, is_power_cut: bool
) -> list[str]:
    seen = _look(store, disk)
    required = promises.required(is_power_cut=is_power_cut)
    ends: dict[tuple[str, int], int] = {}
    for record in seen.records:
        ends[record.topic, record.queue_id] = record.queue_offset + 1
    wrong = []
    for number, topic in enumerate(("a", "b"), _AFTERWARDS):
        promises.bodies[number] = body_of(number, 80)
        promises.topics_of[number] = {topic}
        put = store.put_message(Message(topic, promises.bodies[number], keys=(f"k{number % 10}",)))
        expected = ends.get((topic, 0), seen.store.get_min_offset_in_queue(topic, 0))
        if put.queue_offset != expected:
            wrong.append(f"the next message of {topic}/0 got queue offset {put.queue_offset}, not {expected}")
    wrong += _early(_look(store, disk)) if store.deliver_due() else []
    clock.advance(max(seen.delays_ms) + 1)
    while store.deliver_due():
        clock.advance(max(seen.delays_ms) + 1)
    wrong += [f"level {level.level}: {level.error}" for level in store.delivery.status() if level.error]
    after = _look(store, disk)
    arrived = {_identity(record) for record in after.records if record.topic != SCHEDULE_TOPIC}
    wrong += [
        f"delayed message {message.number} was never delivered"
        for message in required
        if message.topic == SCHEDULE_TOPIC
        and (identity := (message.number, message.reconsume_times)) not in arrived
        and identity not in promises.delivered
    ]
    return [
        *wrong,
        *_whole(after, promises),
        *_numbered(after),
        *_queues(after),
        *_early(after),
    ]


def _identity(record: LogRecord) -> _Identity:
    return record.number, record.reconsume_times


def _end_of_log(seen: _Seen) -> list[str]:
    wrong = []
    if seen.end.offset != seen.store.max_offset:
        wrong.append(f"the log ends at {seen.store.max_offset}, but whole records at {seen.end.offset}")
    if seen.end.bytes_behind:
        wrong.append(f"{seen.end.bytes_behind} bytes behind the end of the log are not zero")
    return wrong


def _present(seen: _Seen, promises: Promises, required: list[Acknowledged]) -> list[str]:
    places = {record.physical_offset: record for record in seen.records}
    wrong = []
    for message in required:
        record = places.get(message.physical_offset)
        if record is None:
            if message.physical_offset >= promises.expired_below:
                wrong.append(f"acknowledged message {message.number} at {message.physical_offset} is lost")
        elif (
            record.body != promises.bodies[message.number]
            or (record.topic, record.queue_id, record.queue_offset) != message[2:5]
            or record.reconsume_times != message.reconsume_times
        ):
            wrong.append(f"in the place of {message} there is {record}")
    return wrong


def _whole(seen: _Seen, promises: Promises) -> list[str]:
    wrong = []
    for record in seen.records:
        if not record.is_whole:
            wrong.append(f"the record at {record.physical_offset} is not whole: {record}")
        elif promises.bodies.get(record.number) != record.body:
            wrong.append(f"nobody has sent the body of the record at {record.physical_offset}")
        elif record.topic not in promises.topics_of[record.number]:
            wrong.append(f"message {record.number} was not sent to {record.topic}")
    return wrong


def _numbered(seen: _Seen) -> list[str]:
    wrong = []
    ends: dict[tuple[str, int], int] = {}
    first = 0 if seen.store.min_offset == 0 else None
    for record in seen.records:
        queue = record.topic, record.queue_id
        expected = ends.get(queue, first)
        if expected is not None and record.queue_offset != expected:
            wrong.append(f"{queue} goes on with queue offset {record.queue_offset}, not {expected}")
        ends[queue] = record.queue_offset + 1
    return wrong


def _queues(seen: _Seen) -> list[str]:
    expected: defaultdict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
    for record in seen.records:
        if record.topic == SCHEDULE_TOPIC:
            code = seen.due_ms(record)
        else:
            code = java_hash(record.properties.get("TAGS", ""))
        entry = _ENTRY.pack(record.physical_offset, record.size, code)
        expected[record.topic, record.queue_id].append((record.queue_offset, entry))
    wrong = []
    seen.store.get_max_offset_in_queue("a", 0)  # brings the queues up to date
    for queue in {*expected, *seen.store.consume_queues.queues()}:
        found = _entries(seen.store, *queue)
        if found != expected.get(queue, []):
            wrong.append(f"queue {queue}: {_difference(found, expected.get(queue, []))}")
    return wrong


def _entries(store: MessageStore, topic: str, queue_id: int) -> list[tuple[int, bytes]]:
    queue = store.consume_queues.find(topic, queue_id)
    entries: list[tuple[int, bytes]] = []
    if queue is not None:
        at = queue.min_offset
        while at < queue.max_offset and (data := bytes(queue.view_from(at, queue.max_offset - at))):
            entries += [(at + i // 20, data[i : i + 20]) for i in range(0, len(data), 20)]
            at += len(data) // 20
    return entries


def _difference(found: list[tuple[int, bytes]], expected: list[tuple[int, bytes]]) -> str:
    for ours, theirs in zip(found, expected, strict=False):
        if ours != theirs:
            (at, entry), (wanted_at, wanted) = ours, theirs
            return (
                f"entry {at} is {_ENTRY.unpack(entry)}, but the log has {wanted_at} {_ENTRY.unpack(wanted)}"
            )
    return f"{len(found)} entries, but the log has {len(expected)}"


def _keys(seen: _Seen) -> list[str]:
    expected: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for record in seen.records:
        for key in record.properties.get("KEYS", "").split():
            expected[record.topic, key].append(record.physical_offset)
    wrong = []
    for (topic, key), offsets in expected.items():
        found = [message.physical_offset for message in seen.store.query_message(topic, key, max_num=1000)]
        if found != offsets:
            wrong.append(f"key {key} of {topic}: found {found}, but the log has {offsets}")
    return wrong


def _delayed(seen: _Seen, promises: Promises, required: list[Acknowledged]) -> list[str]:
    arrived = {_identity(record) for record in seen.records if record.topic != SCHEDULE_TOPIC}
    present = {record.physical_offset for record in seen.records}
    next_offsets = {level.level: level.next_offset for level in seen.store.delivery.status()}
    wrong = []
    for message in required:
        identity = message.number, message.reconsume_times
        if message.topic == SCHEDULE_TOPIC and identity not in arrived | promises.delivered:
            waits = next_offsets.get(message.queue_id + 1, 0) <= message.queue_offset
            if not waits or message.physical_offset not in present:
                wrong.append(f"delayed message {message.number} is neither waiting nor delivered")
    return wrong


def _early(seen: _Seen) -> list[str]:
    due = {}
    for record in seen.records:
        if record.topic == SCHEDULE_TOPIC:
            due[_identity(record)] = seen.due_ms(record)
    return [
        f"message {record.number} was delivered at {record.store_timestamp}, before {due[_identity(record)]}"
        for record in seen.records
        if record.topic != SCHEDULE_TOPIC and record.store_timestamp < due.get(_identity(record), 0)
    ]


def _offsets(seen: _Seen, promises: Promises) -> list[str]:
    wrong = []
    found = {}
    for row in seen.store.consumer_offsets:
        key = (row.group, row.topic, row.queue_id)
        found[key] = row.offset
        end = seen.store.get_max_offset_in_queue(row.topic, row.queue_id)
        if row.offset > end:
            wrong.append(f"{key} stands at {row.offset}, but its queue ends at {end}")
        if row.offset > promises.committed.get(key, 0):
            wrong.append(
                f"{key} stands at {row.offset}, but at most {promises.committed.get(key)} was committed"
            )
    for key, offset in promises.kept.items():
        if found.get(key, -1) < offset:
            wrong.append(f"{key} stands at {found.get(key)}, but {offset} was kept")
    return wrong


def _topics(seen: _Seen, promises: Promises) -> list[str]:
    wrong = []
    for topic, queue_nums in promises.created_topics.items():
        config = seen.store.topics.get(topic)
        if config is None or config.write_queue_nums != queue_nums:
            wrong.append(f"topic {topic} was created with {queue_nums} queues, but is {config}")
    return wrong
