"""The message store: the one object that a program opens, and the front door of all its parts.

Opening is in opening.py, what goes on in the background in services.py, closing in closing.py; putting in
put/put_path.py, pulling in index/pull/message_reader.py, sending back in schedule/retry/send_back.py, and
the order in which things become durable in persistence.py.

Threads: every method may be called from any thread. The store starts threads of its own (daemon) unless it
is opened with start=False; then `deliver_due`, `flush` and the others run when they are called.
Durability: as each method says; `close` makes everything durable. In a forked child it is closed
(forked_stores.py).
Source: DefaultMessageStore of Apache RocketMQ.
"""

import itertools
import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, Unpack

from mqstore.administration.administration import Administration, DeletedTopic
from mqstore.closing import Closing
from mqstore.forked_stores import ForkedStores
from mqstore.index.pull.entry_place import earliest_message_time, physical_offset_of, store_timestamp_of
from mqstore.index.pull.message_reader import GetMessageResult, MessageReader
from mqstore.index.pull.offset_by_time import offset_in_queue_by_time
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.lock_watch import LockWatch
from mqstore.metadata.pull_permission import refuse_pull, refuse_without_queues
from mqstore.metadata.topic_hints import TopicHints
from mqstore.metadata.topics import MAX_QUEUE_NUMS
from mqstore.opening import open_parts
from mqstore.persistence import Persistence
from mqstore.put.arrivals import ArrivalListener, Arrivals
from mqstore.put.put_parts import PutParts
from mqstore.put.put_path import PutPath
from mqstore.put.short_put import NO_JSON, message_of
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DelayOffsets
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.schedule.delivery.waiting_message import WaitingMessage
from mqstore.schedule.retry.send_back import SendBack, SendBackResult
from mqstore.services import Services
from mqstore.store.clock import END_OF_TIME_MS, Clock, SystemClock
from mqstore.store.config import StoreConfig
from mqstore.store.errors import ConfigIllegal, StoreClosed, StoreError, StoreForked, StoreFull, StoreReadOnly
from mqstore.store.events import events
from mqstore.store.events.event import log_event
from mqstore.store.files.file_system import BytesLike, DiskUsage, FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.forked_child import disarm, leave_to_parent
from mqstore.store.log.flusher import Flusher
from mqstore.store.log.recovery import RecoveryReport
from mqstore.store.message.message import Message, MessageFields
from mqstore.store.message.put_result import PutColumnsResult, PutMessageResult, SentPuts
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.progress import Progress
from mqstore.store.status import GetMessageStatus
from mqstore.store.threads.auto_reset_event import AutoResetEvent
from mqstore.store.threads.lock import Lock, SafeLock, SafeRLock
from mqstore.store_counters import StoreCounters
from mqstore.store_layout import StoreLayout, user_path
from mqstore.store_parts import StoreParts
from mqstore.store_stats import StoreStats, collect_stats

if TYPE_CHECKING:
    import pyarrow as pa

    from mqstore.administration.backup import BackupProgress, BackupReport, Cut
    from mqstore.index.queue.consume_queue import ConsumeQueue
    from mqstore.store.bulk.record_block import RecordBlock

    Columns: TypeAlias = pa.Table | pa.RecordBatch | Mapping[str, object]

__all__ = ["MessageStore"]

_logger = logging.getLogger(__name__)

# Parts of a store that stay good in a forked child: values, and an event that nobody waits for there.
_HARMLESS = (
    *(StoreParts, StoreConfig, StoreLayout, DelayLevels, RecoveryReport, AutoResetEvent),
    # Those of Python 3.14 and later.
    *(SafeLock, SafeRLock),
)


class MessageStore:
    """A persistent message store in a directory; open it with `MessageStore.open`.

    topics, subscription_groups, consumer_offsets: the state that RocketMQ keeps as JSON.
    delay_levels: the table of delays. delivery: the state of each level, and `skip` for one that is blocked.
    recovery: what opening found.
    """

    def __init__(self, parts: StoreParts) -> None:
        """For `open`, which recovers first."""
        path = parts.layout.root
        self.path = path
        self.config = parts.config
        self.clock = parts.clock
        self.read_only = parts.read_only
        self.commit_log = parts.commit_log
        self.consume_queues = parts.consume_queues
        self.topics = parts.topics
        self.subscription_groups = parts.subscription_groups
        self.consumer_offsets = parts.consumer_offsets
        self.delay_levels = parts.delay_levels
        self.recovery = parts.recovery
        self._parts = parts
        self._closed = False
        self._is_forgotten = False
        # Makes the error that a closed store raises.
        self._ending: Callable[[], StoreError] = lambda: StoreClosed(path)
        self._lock_watch = LockWatch(path, parts.lock, self._stop_for_good)
        self._refresh_lock = Lock()
        self._flusher = Flusher(parts.commit_log, parts.config)
        self._arrivals = Arrivals(parts.commit_log, self._flusher)
        self._puts = PutPath(
            PutParts(
                parts.config,
                parts.commit_log,
                self._flusher,
                parts.topics,
                parts.subscription_groups,
                parts.delay_levels,
                self._arrivals,
            )
        )
        self._closed_groups = parts.subscription_groups.closed_groups
        self._queues_to_read = parts.topics.queues_to_read
        self._topic_hints = TopicHints(parts.topics)
        self._counters = StoreCounters(parts.consume_queues, parts.commit_log.max_offset)
        self._reader = MessageReader(parts.commit_log, parts.consume_queues, parts.config)
        self.delivery = DeliveryService(
            parts.consume_queues,
            parts.commit_log,
            self._puts.put_internal,
            parts.delay_levels,
            DelayOffsets(parts.file_system, parts.layout.config, parts.clock),
            parts.clock,
            blocks=DueBlocks(parts.config, parts.commit_log),
            put_block=self._puts.put_restored_block,
        )
        self._send_back = SendBack(
            parts.subscription_groups,
            parts.topics,
            parts.commit_log,
            self._puts.put_rewritten,
            parts.delay_levels,
        )
        self._persistence = Persistence(parts, self._flusher, self.delivery, self._lock_watch)
        self._administration = Administration(
            parts, self._flusher, self._persistence, self.get_offset_in_queue_by_time
        )
        self._services = Services(
            parts,
            self._flusher,
            self._persistence,
            self.delivery,
            self._counters,
            self._lock_watch,
            self._catch_up,
        )
        self._closing = Closing(
            parts,
            self._flusher,
            self._persistence,
            self._services,
            self.delivery,
            self._arrivals,
            self._lock_watch,
        )
        ForkedStores.add(self)

    @classmethod
    def open(
        cls,
        path: str | Path,
        config: StoreConfig | None = None,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        file_system: FileSystem | None = None,
        start: bool = True,
        on_progress: Progress | None = None,
    ) -> "MessageStore":
        """Open the store in directory `path`, creating it where it does not exist, and recover it.

        path: `~` at its beginning is the home directory, as in all paths that users give.
        read_only: take no lock and change nothing, beside a live writer or after a crash.
        start: run the services (flush, dispatch, delivery, retention) on threads of their own.
        Settings that are not named are as the directory remembers them; `config` of the store has them all.
        Raises ConfigIllegal, StoreLocked, StoreNotFound, SegmentSizeMismatch, StateFileCorrupt,
        CorruptRecord: nothing has been changed then.

        >>> import tempfile
        >>> with MessageStore.open(tempfile.mkdtemp()) as store:
        ...     put = store.put_message(Message("orders", b"first"))
        ...     store.look_message_by_offset(put.physical_offset).body
        b'first'
        """
        config = config or StoreConfig()
        clock = clock or SystemClock()
        file_system = file_system or OsFileSystem(config.mapped_writes)
        # Files are opened as they are needed, wherever the process has gone by then.
        path = user_path(path).absolute()
        undo = ExitStack()
        try:
            parts = open_parts(
                path,
                config,
                read_only=read_only,
                clock=clock,
                file_system=file_system,
                on_progress=on_progress,
                undo=undo,
            )
            store = cls(parts)
            # Before the directory is unlocked.
            undo.callback(store._services.stop)
            store.delivery.load(read_only=read_only)
            if start and not read_only:
                store._services.start()
            log_event(
                *(_logger, events.STORE_OPENED, "%s is open", path),
                store_path=str(path),
                read_only=read_only,
                min_offset=store.min_offset,
                max_offset=store.max_offset,
            )
            return store
        except BaseException:
            undo.close()
            raise

    # -- putting --------------------------------------------------------------------------------------

    def put(
        self,
        topic: str,
        body: BytesLike | None = None,
        *,
        json: Any = NO_JSON,
        delay_s: float | None = None,
        **fields: Unpack[MessageFields],
    ) -> PutMessageResult:
        """Store one message, given as its parts; otherwise as `put_message`.

        json: instead of `body`, anything that msgspec writes as JSON. delay_s: it comes after so many seconds
        or a little later, at the nearest delay level that is not shorter; `delay_level` of the result is that
        level, and `delay_levels` of the store says how long it waits. fields: those of Message.
        Raises as `put_message`; MessageIllegal for a delay beyond the longest level, too.

        >>> with MessageStore.open("in_short") as store:
        ...     put = store.put("orders", json={"amount": 42}, tags="created")
        ...     later = store.put("orders", b"remind", delay_s=90)
        ...     store.look_message_by_offset(put.physical_offset).json(), later.delay_level
        ({'amount': 42}, 6)
        """
        return self.put_message(message_of(topic, body, json, delay_s, self.delay_levels, fields))

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message.

        In SYNC_FLUSH it is durable when this returns PUT_OK; FLUSH_DISK_TIMEOUT means it is stored and the
        disk was slow. In ASYNC_FLUSH `flushed_offset` of the result says how far the log is durable. `topic`
        of the result says where it went: to SCHEDULE_TOPIC_XXXX when it waits, and to %DLQ%group when one to
        %RETRY%group has failed more often than the group tries (its property RECONSUME_TIME counts).
        Raises MessageIllegal and its leaves, TopicNotExist, NoPermission, StoreFull, StorePoisoned,
        StoreClosed, StoreReadOnly; nothing is stored then.
        """
        return self._puts.put(message)

    def sent_puts(self) -> SentPuts | None:
        """For a broker in this process: puts messages as its producers send them, until the broker closes it.

        None where puts are interpreted, and for a class with a `put_message` of its own. Its `put` is called
        with a message that has no properties, its topic and body, the queue to take instead of its own, and a
        UNIQ_KEY for it. Otherwise as `put_message`, but for a message that cannot be put so it answers None:
        nothing is changed then, and `put_message` is to be asked.
        """
        return self._puts.sent_puts() if type(self).put_message is MessageStore.put_message else None

    def put_messages(self, messages: Sequence[Message]) -> Sequence[PutMessageResult]:
        """Store messages, of one queue or many, with one lock and one wait for the disk: all or none.

        One result for each message, in their order; those of a long list are made when they are read.
        A crash, or an interrupt amid the append, may keep the first messages only. Raises as `put_message`.
        """
        return self._puts.put_all(messages)

    def put_columns(
        self, columns: "Columns", *, topic: str | None = None, queue_id: int | None = None
    ) -> PutColumnsResult:
        """Store thousands of messages without a Python object for any of them: all or none.

        columns: a Table or RecordBatch of Arrow, or a mapping of names to arrays, one row a message: topic,
        queue_id (negative: the store chooses), body, tags, keys, properties, delay_level, flag and
        born_timestamp. All but `body` and `topic` may be missing. docs/bulk_puts.md says what each may hold.
        Buffers are read and not kept. Rows to a retry topic may not have RECONSUME_TIME: `put_messages` takes
        those. topic, queue_id: of all rows, where `columns` has no such column.

        A crash or an interrupt may keep the first rows only. Raises as `put_message`; a MessageIllegal has
        the `row`.

        >>> import numpy as np
        >>> with MessageStore.open("in_bulk") as store:
        ...     bodies = np.frombuffer(b"onetwothree", np.uint8), np.array([0, 3, 6, 11])
        ...     put = store.put_columns({"topic": "orders", "body": bodies, "tags": "created"})
        ...     put.queue_offsets.tolist(), store.look_message_by_offset(int(put.physical_offsets[2])).body
        ([0, 1, 2], b'three')
        """
        return self._puts.put_columns(columns, topic, queue_id)

    def put_block(self, block: "RecordBlock") -> int:
        """For the sink of Spark: store records that were encoded before, with this store's settings.

        block: as ColumnsEncoder makes it (mqstore/store/bulk). It is trusted: one that was made otherwise may
        end the process. Its buffer is written to, and is the caller's again on return. Topics must be there;
        whether they take puts and have the queues is not asked. Returns where the last record ends: when
        `flush` has returned, it is durable. All or none is stored, but a crash may keep the first records.
        Raises StoreFull, StorePoisoned, StoreClosed, StoreReadOnly.
        """
        return self._puts.put_block(block).appended.end_offset

    def put_message_async(self, message: Message) -> "Future[PutMessageResult]":
        """Store one message without waiting for the disk.

        In SYNC_FLUSH the future is done once the message is durable, in ASYNC_FLUSH at once. The message
        has its place in the log when this returns. Raises as `put_message`, except that a failing disk
        shows in the future. `done`, `result` and `exception` of the future cost next to nothing; with a
        callback, `wait`, or asyncio it is an ordinary one.
        """
        return self._puts.put_later(message)

    def put_retry(self, message: Message, *, is_in_order: bool) -> PutMessageResult:
        """Store one message to `%RETRY%group`, as `put_message`.

        is_in_order: whether the group consumes in order, which a broker knows. Such a group retries in place,
        so what it sends to its retry topic becomes a dead letter, however often it was tried.
        """
        return self._puts.put_retry(message, is_in_order=is_in_order)

    def check_message(self, message: Message) -> Message:
        """Check a message as `put_message` does, and store nothing; a missing topic is created.

        Returns it with a queue chosen for a negative `queue_id`. Raises as `put_message`.
        """
        self._check_writable()
        return self._puts.check(message)

    def put_own(self, messages: Sequence[Message]) -> list[PutMessageResult]:
        """Store messages of the broker that embeds the store: to system topics too, all or none.

        Their properties are taken as they are: no delay, and no dead letter. Missing topics are created. A
        crash or an interrupt may keep the first messages only. Raises as `put_message`, except for
        NoPermission.
        """
        return self._puts.put_internal(messages)

    # -- getting --------------------------------------------------------------------------------------

    def get_message(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        max_msg_nums: int = 32,
        tags: str = "*",
        *,
        lazily: bool = False,
    ) -> GetMessageResult:
        """Messages of a queue from entry `offset` on, and in every case the offset to ask for next.

        group: the consumer group. tags: `*`, or tags separated by `||`. Every put that has returned is found.
        The messages are views of the mapped log: copy what is to be kept long. An inner batch (which brokers
        write) is returned as its single messages. A topic that is not there has no message; if another has
        nearly its name, a warning is logged, once. lazily: the messages are a Sequence that makes them when
        the first is looked at, for those who hand them on.
        Raises ConsumeNotEnabled, NoPermission, SubscriptionGroupNotExist, SubscriptionIllegal, QueueIllegal;
        a store that is opened read_only asks for no permission. Raises CorruptRecord.
        """
        is_up_to_date = self._catch_up()
        if group in self._closed_groups or not 0 <= queue_id < self._queues_to_read(topic, MAX_QUEUE_NUMS):
            self._refuse_pull(group, topic, queue_id)
        if is_up_to_date:
            result = self._reader.get_message(topic, queue_id, offset, max_msg_nums, tags, lazily=lazily)
        else:
            dispatched_offset = self._parts.dispatcher.dispatched_offset
            result = self._reader.get_from_log(topic, queue_id, offset, max_msg_nums, tags, dispatched_offset)
        if result.messages:
            self._counters.got(group, topic, len(result.messages), result.buffer_total_size)
        elif result.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE:
            self._topic_hints.note_empty(topic)
        return result

    def look_message_by_offset(self, physical_offset: int) -> StoredMessage | None:
        """The message whose record begins at this byte of the log; None when none does."""
        self._check_open()
        return self.commit_log.look_message_by_offset(physical_offset)

    def to_arrow(
        self,
        topic: str,
        queue_id: int | None = None,
        begin_offset: int = 0,
        end_offset: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        lend_bodies: bool = False,
        decompress: bool = True,
    ) -> "pa.Table":
        """The messages of a queue as an Arrow table, one row each, in queue order.

        queue_id: None for all queues of the topic, one after the other. begin_offset, end_offset: offsets of
        the one queue, the last not included; None means to the end. Offsets outside the queue are ignored.
        columns: names of fields of `StoredMessage` (topic, queue_id,
        queue_offset, physical_offset, tags, keys, body, properties, flag, sys_flag, born_timestamp,
        store_timestamp, born_host, store_host, reconsume_times, store_size); None means all. The fewer, the
        faster. lend_bodies: bodies are not copied but are views of the mapped log, as Arrow's binary_view,
        which few of Arrow's functions take as yet: cast to `pyarrow.binary()` for those. decompress: bodies
        that producers compressed are shown as they were sent, in copies; False shows body and sys_flag as
        stored.

        Needs pyarrow (`pip install pyarrow`). Raises ConfigIllegal, CorruptRecord,
        CorruptBody, BodyTooLarge.

        >>> with MessageStore.open("data") as store:
        ...     put = store.put_message(Message("orders", b"first", tags="created", queue_id=0))
        ...     store.to_arrow("orders", 0, columns=["queue_offset", "tags", "body"]).to_pylist()
        [{'queue_offset': 0, 'tags': 'created', 'body': b'first'}]
        """
        from mqstore.index.arrow.queue_table import joined_tables, queue_table, table_schema

        self._catch_up()
        schema = table_schema(columns, lend_bodies=lend_bodies)
        parts = self._queue_ranges(topic, queue_id, begin_offset, end_offset)
        return joined_tables(
            [queue_table(self.commit_log, *part, schema, decompress=decompress) for part in parts], schema
        )

    def _queue_ranges(
        self, topic: str, queue_id: int | None, begin_offset: int, end_offset: int | None
    ) -> "list[tuple[ConsumeQueue, int, int]]":
        """One queue of a topic, or all of them, and from where to where they are to be read."""
        if queue_id is None:
            for name, value in (("begin_offset", begin_offset), ("end_offset", end_offset)):
                if value:
                    raise ConfigIllegal(f"{name} is of one queue: give queue_id, too", key=name, value=value)
        queues = self.consume_queues.queues()
        queue_ids = (
            [queue_id] if queue_id is not None else sorted(number for name, number in queues if name == topic)
        )
        found = (self.consume_queues.find(topic, number) for number in queue_ids)
        ranges = [
            (queue, begin_offset, queue.max_offset if end_offset is None else end_offset)
            for queue in found
            if queue is not None
        ]
        if not ranges:
            self._topic_hints.note_empty(topic)
        return ranges

    def to_arrow_batches(
        self,
        topic: str,
        queue_id: int | None = None,
        begin_offset: int = 0,
        end_offset: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        decompress: bool = True,
        keep_broken: bool = False,
    ) -> "Iterator[pa.RecordBatch]":
        """The rows of `to_arrow` in batches, each read when it is asked for: for more than memory holds.

        A batch has at most 65,536 rows, and 64 MiB of records or of decompressed bodies (a longer body is a
        batch of its own). Without `end_offset` the last one is where the queue ends at this call.
        keep_broken: bodies that cannot be decompressed are shown as stored, and a warning is logged for each,
        instead of CorruptBody and BodyTooLarge. Raises as `to_arrow`, and StoreClosed between two batches.

        >>> with MessageStore.open("data") as store:
        ...     put = store.put_message(Message("parcels", b"first", queue_id=0))
        ...     sum(batch.num_rows for batch in store.to_arrow_batches("parcels", 0))
        1
        """
        from mqstore.index.arrow.queue_table import queue_batches, table_schema

        self._catch_up()
        schema = table_schema(columns, lend_bodies=False)
        parts = self._queue_ranges(topic, queue_id, begin_offset, end_offset)
        batches = (
            queue_batches(self.commit_log, *part, schema, decompress=decompress, keep_broken=keep_broken)
            for part in parts
        )
        return self._while_open(itertools.chain.from_iterable(batches))

    def _while_open(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        while True:
            self._check_open()
            batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def query_message(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS, max_num: int = 32
    ) -> list[StoredMessage]:
        """The newest `max_num` messages of `topic` with this key (or UNIQ_KEY), oldest first.

        begin_ms, end_ms: bounds of the store time, both included. Exact: no message without the key.
        """
        if self._closed:
            raise self._ending()
        feeds = self._parts.key_feeds
        if not feeds:
            return []
        asked, visible_offset = feeds[0], self.commit_log.offsets.visible_offset
        if asked.dispatcher.dispatched_offset < visible_offset:
            asked.dispatcher.catch_up(visible_offset)
        return asked.index.query(topic, key, begin_ms, end_ms, max_num)

    def get_offset_in_queue_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Literal["LOWER", "UPPER"] = "LOWER"
    ) -> int:
        """The entry at which the queue stood at a time; 0 for a queue that does not exist."""
        self._catch_up()
        queue = self.consume_queues.find(topic, queue_id)
        return 0 if queue is None else offset_in_queue_by_time(queue, self.commit_log, timestamp_ms, boundary)

    def get_min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Number of the first entry of a queue; 0 when there is no such queue."""
        self._catch_up()
        queue = self.consume_queues.find(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def get_max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        """Number that the next entry of a queue will get; 0 when there is no such queue."""
        if not self._catch_up():
            offset = self._parts.dispatcher.dispatched_offset
            first_offset, missing = self.consume_queues.entries_without_room(
                self.commit_log, offset, topic, queue_id
            )
            if missing:
                return first_offset + len(missing) // ENTRY_BYTES
        queue = self.consume_queues.find(topic, queue_id)
        return 0 if queue is None else queue.end_below(self.commit_log.visible_offset)

    def get_message_total_in_queue(self, topic: str, queue_id: int) -> int:
        """How many entries a queue has; -1 when there is no such queue."""
        self._catch_up()
        queue = self.consume_queues.find(topic, queue_id)
        return -1 if queue is None else queue.end_below(self.commit_log.visible_offset) - queue.min_offset

    def get_message_store_timestamp(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message of an entry was stored, epoch ms; -1 when there is none."""
        self._catch_up()
        queue = self.consume_queues.find(topic, queue_id)
        return -1 if queue is None else store_timestamp_of(queue, self.commit_log, offset)

    def get_earliest_message_time(self, topic: str | None = None, queue_id: int | None = None) -> int:
        """When the oldest message was stored, epoch ms; -1 when there is none.

        Looks at one queue, at all queues of a topic, or without either at the whole log.
        """
        self._catch_up()
        log = self.commit_log
        if topic is None:
            return log.store_timestamp_at(log.min_offset)
        asked = (name for name in self.consume_queues.queues() if name[0] == topic)
        queues = [self.consume_queues.find(*name) for name in asked if queue_id in (None, name[1])]
        times = [earliest_message_time(queue, log) for queue in queues if queue is not None]
        return min((time for time in times if time >= 0), default=-1)

    def get_commit_log_offset_in_queue(self, topic: str, queue_id: int, offset: int) -> int:
        """Physical offset of the record of an entry, kept or expired; -1 when there is no such entry."""
        self._catch_up()
        queue = self.consume_queues.find(topic, queue_id)
        return -1 if queue is None else physical_offset_of(queue, self.commit_log, offset)

    def wait_for_messages(self, topic: str, queue_id: int, offset: int, timeout_ms: int) -> bool:
        """Wait until the queue has an entry at `offset`; False when the time is up."""

        def arrived() -> bool:
            if self.read_only:
                self.refresh()
            return self.get_max_offset_in_queue(topic, queue_id) > offset

        return self._arrivals.wait(arrived, timeout_ms)

    def add_arrival_listener(
        self,
        listener: ArrivalListener,
        *,
        queues: Container[tuple[str, int]] | None = None,
        on_close: Callable[[], object] | None = None,
    ) -> None:
        """Call `listener(arrival)` for each message from now on, once it can be got.

        An `Arrival` has topic, queue_id, next_offset, tags_code, store_timestamp, properties and the message.
        Half messages and rollbacks of transactions get no entry in a queue and are not announced.
        queues: the (topic, queue_id)s to hear of, None for all. It may change: each put asks it, and puts to
        other queues cost next to nothing. on_close: called when the store closes, or is closed already.
        Called in the thread that puts, or in the one that syncs or closes: be quick.
        """
        self._arrivals.add_listener(listener, queues=queues, on_close=on_close)

    def remove_arrival_listener(self, listener: ArrivalListener) -> None:
        """Call `listener` no more; nothing happens when it was not added."""
        self._arrivals.remove_listener(listener)

    def when_visible(self, action: Callable[[], None]) -> None:
        """Call `action` once all that was put before this call can be got: at once, or after the next sync.

        Never after a sync that failed. Called in this thread, or in the one that syncs: be quick.
        """
        self._check_open()
        self._flusher.when_visible(self.commit_log.max_offset, action)

    # -- consuming ------------------------------------------------------------------------------------

    def consumer_send_msg_back(
        self,
        group: str,
        physical_offset: int,
        delay_level: int = 0,
        *,
        max_reconsume_times: int | None = None,
        unit_mode: bool = False,
    ) -> SendBackResult:
        """Send back a message that `group` failed to process: it is retried later, or becomes a dead letter.

        physical_offset: of the record that failed. delay_level: 0 chooses 3 + reconsume times, a negative
        one sends to the dead letters at once. max_reconsume_times: overrides the group's.
        Raises SubscriptionGroupNotExist, NoPermission, MessageNotFound, and as `put_message`.
        """
        self._check_writable()
        result = self._send_back.consumer_send_msg_back(
            group,
            physical_offset,
            delay_level,
            max_reconsume_times=max_reconsume_times,
            unit_mode=unit_mode,
        )
        if result.put is not None:
            self._counters.sent_back(group, result.put.topic)
        return result

    def deliver_due(self) -> int:
        """Deliver the delayed messages that are due now; returns how many. A service does so periodically."""
        self._check_writable()
        return self._services.deliver()

    def waiting_messages(self, level: int | None = None) -> Iterator[WaitingMessage]:
        """The delayed messages still to be delivered, level by level; retries that wait are among them.

        In a `read_only` store those that the writer has delivered since it last saved its progress, some ten
        seconds ago, are shown, too.
        """
        self._catch_up()
        return self.delivery.waiting(level)

    def cancel_waiting_message(self, physical_offset: int) -> WaitingMessage:
        """Let a delayed message not be delivered; durable on return, in ASYNC_FLUSH too.

        physical_offset: of its record in SCHEDULE_TOPIC_XXXX, which the put returned. The record stays: what
        is stored besides is a record that cancels it (schedule/delivery/cancelled_delays.py). A RocketMQ
        broker that opens the directory does not know that and delivers the message. Whoever cancels a retry
        lets its group never see the message again.
        Raises MessageNotFound, DelayNotWaiting (it was delivered, say), and as `put_message`.
        """
        self._check_writable()
        self._catch_up()
        return self.delivery.cancel(physical_offset, self._flusher.flush)

    # -- administration -------------------------------------------------------------------------------

    def delete_topic(self, topic: str) -> list[DeletedTopic]:
        """Delete a topic: its settings, queues and offsets, and the pop retry topics of its groups.

        Its records stay in the log until they expire. Its delayed messages are still delivered, which creates
        the topic again; it then begins at queue offset 0, as after any other put to it. Raises
        TopicIllegal for a system topic, StorePoisoned, StoreFull; call it again after an error or a crash.
        """
        self._check_writable()
        return self._administration.delete_topic(topic)

    def delete_subscription_group(self, group: str, *, clean_offset: bool = False) -> bool:
        """Delete a group's settings, and with `clean_offset` its offsets; False when there was nothing."""
        self._check_writable()
        return self._administration.delete_group(group, clean_offset=clean_offset)

    def reset_offset(
        self,
        group: str,
        topic: str,
        queue_id: int | None = None,
        *,
        offset: int | None = None,
        timestamp_ms: int | None = None,
    ) -> dict[int, int]:
        """Move a group in one queue, or in all, to `offset` or to a time, else to the end.

        Consumers that are at work follow with their next pull. Returns the new offset by queue id. Raises
        TopicNotExist, SubscriptionGroupNotExist, QueueIllegal (an offset that the queue does not have).
        """
        self._check_writable()
        return self._administration.reset_offset(group, topic, queue_id, offset, timestamp_ms)

    def delete_expired_files(self) -> int:
        """Delete the segments past file_reserved_time now, at whatever hour; returns how many.

        A segment with a message that is still to be delivered is kept. Queues and keys follow the log.
        """
        self._check_writable()
        self._flusher.flush()
        self._catch_up()
        return self._services.delete_expired_now()

    def expired_files(self) -> list[Path]:
        """The segments that `delete_expired_files` would delete."""
        self._catch_up()
        return self._services.expired_files()

    def delete_unused_topics(self) -> list[DeletedTopic]:
        """Delete the queues of topics that have no settings (RocketMQ: cleanUnusedTopic).

        These are topics whose settings were removed since the store was opened: opening gives settings to
        every topic that has queues and none.
        """
        self._check_writable()
        return self._administration.delete_unused_topics()

    def unused_topics(self) -> list[str]:
        """The topics whose queues `delete_unused_topics` would delete, by name."""
        self._catch_up()
        return self._administration.unused_topics()

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Delete the queues of which no message is left (RocketMQ: cleanExpiredConsumerQueue).

        Their next message is number 0; the offsets of their groups are set to 0.
        """
        self._check_writable()
        return self._administration.delete_expired_queues()

    def expired_queues(self) -> list[tuple[str, int]]:
        """Topic and id of what `delete_expired_queues` would delete, after `delete_expired_files`."""
        files = self.expired_files()
        segment_bytes = self.config.mapped_file_size_commit_log
        return self._administration.expired_queues(self.min_offset + len(files) * segment_bytes)

    # -- the store as a whole -------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """Physical offset of the first byte that is kept."""
        return self.commit_log.min_offset

    @property
    def max_offset(self) -> int:
        """Physical offset behind the last record."""
        return self.commit_log.max_offset

    def flush(self) -> None:
        """Make everything durable: log, queues, keys and state files. Raises StorePoisoned, StoreFull."""
        self._check_writable()
        self._flusher.complete_pending()
        # Consumer offsets are saved up to the durable end of each queue, so the log is synced first.
        self._flusher.flush()
        self._services.dispatch()
        self._persistence.flush_all()

    def backup(self, directory: str | Path, *, on_progress: "BackupProgress | None" = None) -> "BackupReport":
        """Copy the store into a new directory, while it is at work.

        The copy opens without damage, here and in RocketMQ, and holds all that was put before this call. The
        progress of consumers and deliveries in it is that of this store; from a `read_only` store it is what
        the writer last saved, a few seconds before.
        directory: must not exist or be empty. on_progress: called with (bytes copied, bytes to copy, about).
        A backup that is killed leaves `directory` as it was, and a partial copy in `directory`.unfinished.
        Raises BackupRefused, BackupFull, StoreLocked (another backup to this place is under way),
        CorruptRecord.

        >>> with MessageStore.open("to_be_copied") as store:
        ...     put = store.put_message(Message("orders", b"first"))
        ...     report = store.backup("copied")
        >>> with MessageStore.open("copied") as copy:
        ...     copy.look_message_by_offset(put.physical_offset).body
        b'first'
        """
        from mqstore.administration.backup import Source, copy_store

        self._check_open()
        if self.recovery.damage is not None:
            raise self.recovery.damage
        segment_bytes = self.config.mapped_file_size_commit_log
        source = Source(
            self.path, segment_bytes, self._make_derived_durable, self._cut, self._copy_keys, self._open_once
        )
        return copy_store(source, user_path(directory), self._parts.file_system, on_progress)

    def _make_derived_durable(self) -> None:
        if not self.read_only:
            self._services.dispatch()
            self._persistence.flush_derived(thoroughly=True)

    def _cut(self) -> "Cut":
        from mqstore.administration.backup import Cut, read_state_files

        def read() -> dict[Path, bytes]:
            return read_state_files(self._parts.file_system, self._parts.layout)

        if self.read_only:
            state_files = read()
            # After the reading: the end of the log is then behind every offset in them.
            self.refresh()
            return Cut(self.max_offset, state_files)
        self._check_open()
        return Cut(*self._persistence.cut(read))

    def _copy_keys(self, directory: Path) -> None:
        for feed in self._parts.key_feeds:
            feed.index.copy_to(directory)

    def _open_once(self, copy_path: Path) -> tuple[int, int, int]:
        with MessageStore.open(
            copy_path, self.config, file_system=self._parts.file_system, start=False
        ) as copy:
            return copy.min_offset, copy.max_offset, len(copy.commit_log.files.files)

    def refresh(self) -> None:
        """In a `read_only` store: read what the writer has added since. Else it does nothing."""
        if self.read_only:
            self._check_open()
            with self._refresh_lock:
                self._parts.refresh()

    def disk_usage(self) -> DiskUsage:
        """Room on the file system that the store lies on, for an unprivileged writer. Raises OSError."""
        return self._parts.file_system.disk_usage(self.path)

    def stats(self) -> StoreStats:
        """Sizes, offsets, errors and counters of the store, as they are now."""
        return collect_stats(self._parts, self._flusher, self.delivery, self._services, self._counters)

    def close(self) -> None:
        """Stop the services, make everything durable and unlock the directory. Safe to call twice.

        After a failed sync nothing more is written, and the next opening recovers. The same holds when
        derived files do not fit the disk: a warning is logged; no data is lost. Raises StoreFull when the
        state files do not fit; the directory is unlocked all the same.
        """
        if self._is_forgotten:
            return
        self._closed = True
        try:
            self._closing.run()
        finally:
            if self._closing.is_over:
                ForkedStores.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._is_forgotten:
            return f"MessageStore({str(self.path)!r}, closed, opened by a parent process)"
        state = "closed" if self._closed else "read-only" if self.read_only else "open"
        puts = "compiled" if self._puts.is_compiled else "interpreted"
        told = f", puts {puts}" if state == "open" else ""
        return f"MessageStore({str(self.path)!r}, {state}, max_offset={self.max_offset}{told})"

    # -- inside ---------------------------------------------------------------------------------------

    def _stop_for_good(self, reason: Callable[[], StoreError]) -> None:
        """Refuse every call from now on: the lock is lost, and the directory may be another writer's."""
        lost = str(reason())
        log_event(*(_logger, events.STORE_LOCK_LOST, "%s", lost), store_path=str(self.path), reason=lost)
        self._ending = reason
        self._closed = True
        self.commit_log.refuse_for_good(reason)
        for state in (self.topics, self.subscription_groups, self.consumer_offsets):
            state.refuse(reason)
        self._arrivals.close()

    def _forget(self, opener_pid: int) -> None:
        """In a forked child: be closed, and touch nothing that is the parent's (forked_stores.py)."""
        self._closed = self._is_forgotten = True
        self._ending = lambda: StoreForked(self.path, opener_pid)
        leave_to_parent(dict(vars(self)))
        not_ours = (self._parts.lock, self._parts.file_system, self._parts.clock)
        log = self._parts.commit_log
        for part in (*vars(log).values(), *vars(self._parts).values(), *vars(self).values()):
            is_ours = type(part).__module__.startswith("mqstore.")
            # The lock handles the fork itself; the file system and the clock may be the caller's.
            is_left = part in not_ours or isinstance(part, _HARMLESS)
            if is_ours and not is_left:
                disarm(part, self._ending)

    def _check_open(self) -> None:
        if self._closed:
            raise self._ending()

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise StoreReadOnly(self.path)

    def _refuse_pull(self, group: str, topic: str, queue_id: int) -> None:
        if self.read_only:
            refuse_without_queues(self.topics, topic)
        else:
            refuse_pull(self.subscription_groups, self.topics, group, topic, queue_id)

    def _catch_up(self) -> bool:
        """Dispatch what is visible in the log before a read, ahead of the dispatch service.

        False on a disk that is full or fails: the queues stay behind and reads go on; `stats` has the error.
        """
        if self._closed:
            raise self._ending()
        if self.read_only:
            return True
        dispatcher, visible_offset = self._parts.dispatcher, self.commit_log.offsets.visible_offset
        if dispatcher.dispatched_offset < visible_offset:
            try:
                dispatcher.catch_up(visible_offset)
            except (StoreFull, OSError) as error:
                raise_foreign(error)
                return False
        return True
