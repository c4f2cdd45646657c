"""The whole store against a model of dictionaries and lists, under random sequences of everything it can do.

The model is a list of records and a list per queue; it knows the rules of pulling, delaying and sending back,
and nothing of files. The store runs in memory with small segments and queue files, so that a few dozen steps
cross their borders, and is closed, killed and opened again in between. Time passes only when a step says so.

Runs differ from each other. A failure prints the steps that led to it, shrunk, and with them the line
`@reproduce_failure(...)` that replays it; hypothesis also keeps it in .hypothesis/ and tries it first the
next time.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mqstore import Disposition, GetMessageStatus, Message, MessageStore, StoredMessage
from mqstore.store.errors import MessageIllegal, QueueIllegal
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.manual_clock import ManualClock
from support.stores.small_store import SmallStore, kill

TOPICS = st.sampled_from(["orders", "events"])
QUEUES = st.integers(0, 2)
TAGS = st.sampled_from([None, "Aa", "BB", "paid"])
KEYS = st.sampled_from([(), ("k1",), ("k1", "k2"), ("k3",)])
SUBSCRIPTIONS = st.sampled_from(["*", "Aa", "BB || paid", "none"])
LENGTHS = st.sampled_from([0, 1, 40, 300, 5_000, 30_000])
DELAYS_MS = (1_000, 2_000, 5_000, 10_000, 20_000)
LEVELS = st.integers(1, len(DELAYS_MS) + 2)
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
GROUP, MAX_RECONSUME_TIMES = "billing", 2
FILE_ENTRIES = 100
PULL_LIMIT = 32
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC

Queue = tuple[str, int]


@dataclass(frozen=True)
class Record:
    """What the model keeps of one record."""

    body: bytes
    queue: Queue
    tags: str | None
    keys: tuple[str, ...]
    store_timestamp: int
    physical_offset: int
    queue_offset: int | None
    reconsume_times: int = 0
    sys_flag: int = 0
    due_ms: int = 0
    real_queue: Queue = ("", 0)


@dataclass
class Model:
    """What must be in the store, and what must be on its disk."""

    log: list[Record] = field(default_factory=list)
    queues: defaultdict[Queue, list[Record]] = field(default_factory=lambda: defaultdict(list))
    # Next entry to deliver of each level's queue; and how far a kill sets it back.
    delivered: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    delivered_on_disk: dict[int, int] = field(default_factory=dict)
    committed: dict[Queue, int] = field(default_factory=dict)
    committed_on_disk: dict[Queue, int] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        self.log.append(record)
        if record.queue_offset is not None:
            assert record.queue_offset == len(self.queues[record.queue]), record
            self.queues[record.queue].append(record)

    def due(self, now_ms: int) -> dict[int, list[Record]]:
        """By level, what has to be delivered now."""
        return {
            queue_id: waiting
            for (topic, queue_id), records in self.queues.items()
            if topic == SCHEDULE and (waiting := self._due_of(records, self.delivered[queue_id], now_ms))
        }

    @staticmethod
    def _due_of(records: list[Record], start: int, now_ms: int) -> list[Record]:
        due = []
        for record in records[start:]:
            if record.due_ms > now_ms:
                break
            due.append(record)
        return due

    def persist(self) -> None:
        """What `flush` and `close` bring to the disk."""
        self.delivered_on_disk = dict(self.delivered)
        self.committed_on_disk = {
            queue: min(offset, len(self.queues[queue])) for queue, offset in self.committed.items()
        }

    def forget(self) -> None:
        """What a kill takes away: progress, never a message."""
        self.delivered = defaultdict(int, self.delivered_on_disk)
        self.committed = dict(self.committed_on_disk)

    def pull(
        self, queue: Queue, offset: int, max_msg_nums: int, tags: str
    ) -> tuple[GetMessageStatus, int, list[Record]]:
        """Status, next offset and messages, by RocketMQ's rules."""
        records = self.queues.get(queue)
        if not records:
            return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, []
        if offset < 0:
            return GetMessageStatus.OFFSET_TOO_SMALL, 0, []
        if offset == len(records):
            return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset, []
        if offset > len(records):
            return GetMessageStatus.OFFSET_OVERFLOW_BADLY, len(records), []
        wanted = None if tags == "*" else {tag.strip() for tag in tags.split("||")}
        found: list[Record] = []
        next_offset = offset
        for record in records[offset : (offset // FILE_ENTRIES + 1) * FILE_ENTRIES]:
            if len(found) >= min(max_msg_nums, PULL_LIMIT):
                break
            next_offset += 1
            if wanted is None or record.tags in wanted:
                found.append(record)
        return GetMessageStatus.FOUND if found else GetMessageStatus.NO_MATCHED_MESSAGE, next_offset, found


def same(message: StoredMessage, record: Record) -> None:
    """Assert that the message is the record."""
    assert (message.topic, message.queue_id) == record.queue
    assert message.physical_offset == record.physical_offset
    assert message.queue_offset == (record.queue_offset or 0)
    assert (message.stored_body, message.tags, message.keys) == (record.body, record.tags, record.keys)
    assert message.store_timestamp == record.store_timestamp
    assert (message.reconsume_times, message.stored_sys_flag) == (record.reconsume_times, record.sys_flag)


class StoreMachine(RuleBasedStateMachine):
    """Steps on the store and on the model; whatever the store answers must be what the model says."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.clock = ManualClock()
        self.small = SmallStore(MemoryFileSystem(), Path("/store"), clock=self.clock)
        self.bodies = 0
        self.settings: dict[str, Any] = {}
        self.store: MessageStore

    @initialize(flush_disk_type=st.sampled_from(["ASYNC_FLUSH", "SYNC_FLUSH"]), append_crc=st.booleans())
    def begin(self, flush_disk_type: str, append_crc: bool) -> None:
        self.settings = {
            "flush_disk_type": flush_disk_type,
            "enabled_append_prop_crc": append_crc,
            "message_delay_level": " ".join(f"{delay // 1_000}s" for delay in DELAYS_MS),
            "max_transfer_bytes_on_message_in_memory": 2**30,
        }
        self.store = self.small.open(**self.settings)

    def teardown(self) -> None:
        if self.settings:
            self.check_everything(self.store)
            self.store.close()

    # -- putting --------------------------------------------------------------------------------------

    def body(self, length: int) -> bytes:
        """No two are alike, but for the empty ones."""
        self.bodies += 1
        return (b"%d " % self.bodies * (length // 2 + 1))[:length]

    def message(
        self, topic: str, queue_id: int, length: int, tags: str | None, keys: tuple[str, ...], **fields: Any
    ) -> Message:
        return Message(topic, self.body(length), queue_id=queue_id, tags=tags, keys=keys, **fields)

    def expect(self, message: Message, physical_offset: int) -> Record:
        """The record that a producer's message must have become."""
        now_ms = self.clock.now_ms()
        queue, due_ms = (message.topic, message.queue_id), 0
        takes_offset = message.sys_flag in (0, COMMIT)
        if message.delay_level > 0 and takes_offset:
            level = min(message.delay_level, len(DELAYS_MS))
            queue, due_ms = (SCHEDULE, level - 1), now_ms + DELAYS_MS[level - 1]
        record = Record(
            bytes(message.body),
            queue,
            message.tags,
            tuple(message.keys),
            now_ms,
            physical_offset,
            len(self.model.queues[queue]) if takes_offset else None,
            message.reconsume_times,
            message.sys_flag,
            due_ms,
            (message.topic, message.queue_id),
        )
        self.model.add(record)
        return record

    @rule(
        topic=TOPICS,
        queue_id=QUEUES,
        length=LENGTHS,
        tags=TAGS,
        keys=KEYS,
        sys_flag=st.sampled_from([0, 0, 0, PREPARED, COMMIT, ROLLBACK]),
        delay_level=st.sampled_from([0, 0, 1, 3]),
    )
    def put(self, sys_flag: int, delay_level: int, **fields: Any) -> None:
        """One message of any kind, at once or later."""
        message = self.message(**fields, sys_flag=sys_flag, delay_level=delay_level)
        put = self.store.put_message(message)
        record = self.expect(message, put.physical_offset)
        assert ((put.topic, put.queue_id), put.queue_offset) == (record.queue, record.queue_offset or 0)
        assert put.store_timestamp == record.store_timestamp

    @rule(
        messages=st.lists(
            st.tuples(TOPICS, QUEUES, LENGTHS, TAGS, KEYS, st.sampled_from([0, 0, 2])), max_size=25
        ),
        asynchronous=st.booleans(),
    )
    def put_many(
        self, messages: list[tuple[str, int, int, str | None, tuple[str, ...], int]], asynchronous: bool
    ) -> None:
        """Messages of several queues at once, or one by one without waiting."""
        made = [self.message(*fields, delay_level=level) for *fields, level in messages]  # type: ignore[arg-type]
        if asynchronous:
            futures = [self.store.put_message_async(message) for message in made]
            self.store.flush()
            self.model_puts(made, [future.result(0) for future in futures])
            self.model.persist()
        else:
            self.model_puts(made, self.store.put_messages(made))

    def model_puts(self, messages: list[Message], puts: list[Any]) -> None:
        for message, put in zip(messages, puts, strict=True):
            record = self.expect(message, put.physical_offset)
            assert ((put.topic, put.queue_id), put.queue_offset) == (record.queue, record.queue_offset)

    @rule(good=st.integers(0, 3), bad=st.sampled_from([{"queue_id": 99}, {"tags": "\x02"}, {"flag": 2**40}]))
    def put_a_bad_one(self, good: int, bad: dict[str, Any]) -> None:
        """With good ones in front of it: none of them is stored."""
        messages = [Message("orders", b"good")] * good + [Message("orders", b"bad", **bad)]
        with pytest.raises(MessageIllegal):
            self.store.put_messages(messages)

    # -- later and again ------------------------------------------------------------------------------

    @rule(duration_ms=st.sampled_from([0, 1, 999, 1_000, 5_000, 30_000]))
    def let_time_pass_and_deliver(self, duration_ms: int) -> None:
        """Exactly what is due is delivered, in the order of each level, each to its own queue."""
        self.clock.advance(duration_ms)
        due = self.model.due(self.clock.now_ms())
        end = self.store.max_offset
        assert self.store.deliver_due() == sum(map(len, due.values()))
        for message in self.records_from(end):
            level = int(message.properties["DELAY"]) - 1
            waiting = due[level].pop(0)
            self.model.delivered[level] += 1
            record = Record(
                waiting.body,
                waiting.real_queue,
                waiting.tags,
                waiting.keys,
                self.clock.now_ms(),
                message.physical_offset,
                len(self.model.queues[waiting.real_queue]),
                waiting.reconsume_times,
                waiting.sys_flag,
            )
            same(message, record)
            self.model.add(record)
        assert not any(due.values())
        assert self.store.deliver_due() == 0

    @rule(choice=st.integers(0, 2**31), delay_level=st.sampled_from([0, 0, 0, -1, 1, 9]))
    def send_back(self, choice: int, delay_level: int) -> None:
        """Any message: to its retry topic by way of a delay, or to the dead letters."""
        if not self.model.log:
            return
        failed = self.model.log[choice % len(self.model.log)]
        end = self.store.max_offset
        if failed.sys_flag in (PREPARED, ROLLBACK) or failed.queue[0] == SCHEDULE:
            return
        result = self.store.consumer_send_msg_back(
            GROUP, failed.physical_offset, delay_level, max_reconsume_times=MAX_RECONSUME_TIMES
        )
        is_dead = failed.reconsume_times >= MAX_RECONSUME_TIMES or delay_level < 0
        assert (result.disposition is Disposition.DEAD_LETTER) == is_dead
        level = 0 if is_dead else delay_level or 3 + failed.reconsume_times
        target = Message(
            f"%DLQ%{GROUP}" if is_dead else f"%RETRY%{GROUP}",
            failed.body,
            tags=failed.tags,
            keys=failed.keys,
            delay_level=level,
            reconsume_times=failed.reconsume_times + 1,
            sys_flag=failed.sys_flag,
        )
        assert result.put is not None
        (message,) = self.records_from(end)
        same(message, self.expect(target, result.put.physical_offset))

    def records_from(self, offset: int) -> list[StoredMessage]:
        """The records from a byte of the log on."""
        found = []
        segment_bytes = self.store.config.mapped_file_size_commit_log
        while offset < self.store.max_offset:
            message = self.store.look_message_by_offset(offset)
            if message is None:
                offset = (offset // segment_bytes + 1) * segment_bytes
            else:
                found.append(message)
                offset += message.store_size
        return found

    # -- asking ---------------------------------------------------------------------------------------

    @rule(
        topic=st.sampled_from(["orders", "events", f"%RETRY%{GROUP}", f"%DLQ%{GROUP}", "nothing"]),
        queue_id=QUEUES,
        place=st.floats(0, 1.2),
        max_msg_nums=st.integers(1, 40),
        tags=SUBSCRIPTIONS,
    )
    def get(self, topic: str, queue_id: int, place: float, max_msg_nums: int, tags: str) -> None:
        """From anywhere in a queue, or beside it."""
        queue = (topic, queue_id)
        offset = int(place * (len(self.model.queues[queue]) + 2)) - 1
        config = self.store.topics.get(topic)
        if config is not None and queue_id >= config.read_queue_nums:
            with pytest.raises(QueueIllegal):
                self.store.get_message("test", topic, queue_id, offset, max_msg_nums, tags)
            return
        result = self.store.get_message("test", topic, queue_id, offset, max_msg_nums, tags)
        status, next_offset, records = self.model.pull(queue, offset, max_msg_nums, tags)
        assert (result.status, result.next_begin_offset) == (status, next_offset)
        assert len(result.messages) == len(records)
        for message, record in zip(result.messages, records, strict=True):
            same(message, record)

    @rule(choice=st.integers(0, 2**31), beside=st.integers(-3, 3))
    def look(self, choice: int, beside: int) -> None:
        """At a record's first byte it is found, at any other none."""
        if not self.model.log:
            return
        record = self.model.log[choice % len(self.model.log)]
        message = self.store.look_message_by_offset(record.physical_offset + beside)
        assert (message is not None) == (beside == 0)
        if message is not None:
            same(message, record)

    @rule(
        topic=TOPICS,
        key=st.sampled_from(["k1", "k2", "k3", "k4"]),
        max_num=st.sampled_from([1, 5, 1_000]),
        since=st.floats(0, 1),
    )
    def query(self, topic: str, key: str, max_num: int, since: float) -> None:
        """The newest records of a key within a time, oldest first."""
        begin_ms, now_ms = self.since(since), self.clock.now_ms()
        records = [
            record
            for record in self.model.log
            if record.queue[0] == topic
            and key in record.keys
            and record.sys_flag != ROLLBACK
            and begin_ms <= record.store_timestamp <= now_ms
        ]
        found = self.store.query_message(topic, key, begin_ms, now_ms, max_num)
        assert [message.physical_offset for message in found] == [
            record.physical_offset for record in records[-max_num:]
        ]

    def since(self, share: float) -> int:
        """A moment between the first record and now."""
        first_ms = self.model.log[0].store_timestamp if self.model.log else 0
        return int(first_ms + share * (self.clock.now_ms() - first_ms))

    @rule(topic=TOPICS, queue_id=QUEUES, when=st.floats(0, 1))
    def ask_for_a_time(self, topic: str, queue_id: int, when: float) -> None:
        """Where the queue stood then: both boundaries."""
        time_ms = self.since(when)
        times = [record.store_timestamp for record in self.model.queues[topic, queue_id]]
        lower = self.store.get_offset_in_queue_by_time(topic, queue_id, time_ms)
        upper = self.store.get_offset_in_queue_by_time(topic, queue_id, time_ms, "UPPER")
        assert lower == sum(time < time_ms for time in times)
        assert upper == max(0, sum(time <= time_ms for time in times) - 1)

    # -- consumers ------------------------------------------------------------------------------------

    @rule(topic=TOPICS, queue_id=QUEUES, offset=st.integers(0, 60))
    def commit(self, topic: str, queue_id: int, offset: int) -> None:
        """Forwards or backwards, even beyond the end."""
        self.store.consumer_offsets.commit(GROUP, topic, queue_id, offset)
        self.model.committed[topic, queue_id] = offset

    @invariant()
    def offsets_are_the_committed_ones(self) -> None:
        if self.settings:
            for (topic, queue_id), offset in self.model.committed.items():
                assert self.store.consumer_offsets.query(GROUP, topic, queue_id) == offset

    # -- opening and closing --------------------------------------------------------------------------

    @rule()
    def flush(self) -> None:
        """Everything durable, state files too."""
        self.store.flush()
        self.model.persist()
        assert self.store.stats().flush_behind_bytes == 0

    @rule()
    def close_and_open(self) -> None:
        """Nothing is lost, progress neither."""
        self.store.close()
        self.model.persist()
        self.model.forget()
        self.store = self.small.open(**self.settings)
        self.check_everything(self.store)

    @rule()
    def kill_and_open(self) -> None:
        """No message is lost; deliveries and consumers may stand where they last were on the disk."""
        kill(self.store)
        self.model.forget()
        self.store = self.small.open(**self.settings)
        self.check_everything(self.store)

    @rule()
    def read_beside_it(self) -> None:
        """A reader of the same directory sees what was flushed: here, all."""
        self.store.flush()
        self.model.persist()
        with self.small.open(read_only=True, **self.settings) as reader:
            self.check_everything(reader)

    def check_everything(self, store: MessageStore) -> None:
        """Every record, every queue."""
        store.get_max_offset_in_queue("orders", 0)  # The reader helps the dispatcher: all is dispatched now.
        for record in self.model.log:
            message = store.look_message_by_offset(record.physical_offset)
            assert message is not None, record
            same(message, record)
        queues = {queue: records for queue, records in self.model.queues.items() if records}
        assert store.consume_queues.queues() == sorted(queues)
        for (topic, queue_id), records in queues.items():
            queue = store.consume_queues.find(topic, queue_id)
            assert queue is not None
            assert (store.get_min_offset_in_queue(topic, queue_id), queue.max_offset) == (0, len(records))
            entries = queue.entries_from(0, 2**31)
            while len(entries) < len(records):
                entries = [*entries, *queue.entries_from(len(entries), 2**31)]
            assert [int(entry["physical_offset"]) for entry in entries] == [
                r.physical_offset for r in records
            ]


StoreMachine.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestStoreMachine = pytest.mark.slow(StoreMachine.TestCase)
