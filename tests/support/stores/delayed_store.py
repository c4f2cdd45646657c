"""The parts under a delivery service, wired by hand: a log, its queues, and puts that can be made to fail.

Nothing runs by itself: `dispatch` brings what was put into the queues, `flush` makes it durable, and
`power_cut` opens what a power cut leaves of it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mqstore.index.queue.consume_queue_format import ENTRY, ENTRY_BYTES
from mqstore.index.queue.consume_queue_store import ConsumeQueueStore
from mqstore.schedule.delay.delay_history import DelayHistory
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delay_offsets import DELAY_OFFSET_FILE_NAME, DelayOffsets
from mqstore.schedule.delay.delayed_message import rewrite
from mqstore.schedule.delivery.delivery_service import DeliveryService
from mqstore.schedule.delivery.due_block import DueBlocks
from mqstore.store.bulk.record_block import RecordBlock
from mqstore.store.config import StoreConfig
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.message.message import Message
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.record_format import HEADER_BYTES
from mqstore.store.status import PutMessageStatus
from support.manual_clock import ManualClock

__all__ = ["DelayedStore"]

LEVELS = "1s 5s 10s"


class DelayedStore:
    """A log and its queues in memory, with a delivery service over them."""

    def __init__(
        self,
        *,
        clock: ManualClock | None = None,
        levels: str = LEVELS,
        log_bytes: bytes = b"",
        delay_offsets: bytes = b"",
        segment_bytes: int = 1_048_576,
        in_blocks: bool = True,
        **settings: Any,
    ) -> None:
        """`log_bytes`: what the first segment begins with. `delay_offsets`: the text of delayOffset.json.

        in_blocks: copies are made by the compiled loop where it can.
        """
        self.clock = clock or ManualClock()
        self.file_system = MemoryFileSystem()
        self.config = StoreConfig(
            mapped_file_size_commit_log=segment_bytes,
            max_message_size=min(65_536, segment_bytes - 65_544),
            mapped_file_size_consume_queue=20 * 100,
            reserve_window_commit_log=65_536,
            reserve_window_consume_queue=4_096,
            message_delay_level=levels,
            **settings,
        )
        self.levels = DelayLevels.parse(levels)
        self.queues = ConsumeQueueStore(
            self.file_system,
            Path("/queues"),
            self.config,
            DelayHistory.of(self.levels).as_array(),
            read_only=False,
        )
        self.log = CommitLog(
            self.file_system,
            Path("/log"),
            self.config,
            self.clock,
            first_queue_offset=self.queues.next_queue_offset,
        )
        self._begin_with(log_bytes)
        self.queues.load()
        self._dispatched_offset = 0
        self.dispatch()
        self._encoder = MessageEncoder(self.config)
        # What the next puts of deliveries do: a call to make first; an error to raise, by topic; or a status
        # to answer.
        self.before_put: Callable[[], object] = lambda: None
        self.put_errors: dict[str, Exception] = {}
        self.put_status = PutMessageStatus.PUT_OK
        self.delivered_batches: list[int] = []
        self.delay_offset_path = Path("/config") / DELAY_OFFSET_FILE_NAME
        self.file_system.make_directories(self.delay_offset_path.parent)
        if delay_offsets:
            self.file_system.write(self.delay_offset_path, delay_offsets)
        self.delay_offsets = DelayOffsets(self.file_system, self.delay_offset_path.parent, self.clock)
        self.delivery = DeliveryService(
            self.queues,
            self.log,
            self.put_restored,
            self.levels,
            self.delay_offsets,
            self.clock,
            blocks=DueBlocks(self.config, self.log) if in_blocks else None,
            put_block=self.put_block,
        )
        self.delivery.load()

    def _begin_with(self, log_bytes: bytes) -> None:
        self.log.load()
        if log_bytes:
            segment = self.log.files.append_file(0)
            segment.write(0, log_bytes)
        self.log.set_end(len(log_bytes), 0)

    # -- putting --------------------------------------------------------------------------------------

    def put(self, message: Message) -> PutMessageResult:
        """Put as a producer does, with the delay rewrite, and dispatch it."""
        return self.put_as_it_is([rewrite(message, self.levels)])[0]

    def put_as_it_is(self, messages: Sequence[Message]) -> list[PutMessageResult]:
        encoded = [self._encoder.encode(message) for message in messages]
        places = self.log.append_all(encoded)
        self.dispatch()
        return [
            PutMessageResult(
                self.put_status,
                message.topic,
                message.queue_id,
                place.queue_offset,
                place.physical_offset,
                place.store_size,
                place.store_timestamp,
                self.log.flushed_offset,
                self.config.store_host.encode(),
            )
            for message, place in zip(encoded, places, strict=True)
        ]

    def put_restored(self, messages: Sequence[Message]) -> list[PutMessageResult]:
        """What the delivery service puts with."""
        self.before_put()
        for message in messages:
            if message.topic in self.put_errors:
                raise self.put_errors[message.topic]
        results = self.put_as_it_is(messages)
        self.delivered_batches.append(len(messages))
        return results

    def put_block(self, block: RecordBlock) -> int | None:
        """What it puts blocks with; a topic that makes trouble is left to `put_restored`."""
        if self.put_errors or self.put_status is not PutMessageStatus.PUT_OK:
            return None
        appended = self.log.append_block(block)
        self.dispatch()
        self.delivered_batches.append(len(block))
        return appended.end_offset

    def delay(self, level: int, *bodies: bytes, topic: str = "orders") -> list[PutMessageResult]:
        """Put messages that wait at `level`."""
        return [self.put(Message(topic, body, delay_level=level)) for body in bodies]

    # -- time and disk --------------------------------------------------------------------------------

    def dispatch(self) -> None:
        while chunk := self.log.chunk(self._dispatched_offset, 65_536):
            self._dispatched_offset += self.queues.absorb(chunk)

    def deliver_after(self, duration_ms: int) -> int:
        """Let time pass, then make one pass of the delivery."""
        self.clock.advance(duration_ms)
        return self.delivery.run_once()

    def flush(self) -> None:
        for mapped_file in self.log.files.files:
            mapped_file.sync()
        self.log.flushed_offset = self.log.max_offset

    @property
    def log_bytes(self) -> bytes:
        """All that was written to the log, which is in its first segment."""
        files = self.log.files.files
        return bytes(files[0].view[: self.log.max_offset]) if files else b""

    def power_cut(self) -> "DelayedStore":
        """A store of what is durable now: the flushed log, no queues, delayOffset.json as it is."""
        return DelayedStore(
            clock=self.clock,
            levels=self.levels.text,
            log_bytes=self.log_bytes[: self.log.flushed_offset],
            delay_offsets=self.delay_offset_text,
        )

    # -- looking --------------------------------------------------------------------------------------

    @property
    def delay_offset_text(self) -> bytes:
        path = self.delay_offset_path
        return self.file_system.read(path) if self.file_system.exists(path) else b""

    def messages(self, topic: str, queue_id: int = 0) -> list[StoredMessage]:
        """Every message of a queue."""
        queue = self.queues.find(topic, queue_id)
        if queue is None:
            return []
        looks = [
            self.log.look_message_by_offset(int(queue.entries_from(offset, 1)[0]["physical_offset"]))
            for offset in range(queue.min_offset, queue.max_offset)
        ]
        return [message for message in looks if message is not None]

    def bodies(self, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.messages(topic, queue_id)]

    def waiting(self, level: int) -> list[StoredMessage]:
        """The records of a level's queue, delivered or not."""
        return self.messages(SCHEDULE_TOPIC, level - 1)

    def entry(self, level: int, queue_offset: int) -> tuple[int, int, int]:
        """Physical offset, size and deliver time of one waiting entry."""
        queue = self.queues.find(SCHEDULE_TOPIC, level - 1)
        entry = None if queue is None else queue.entry_at(queue_offset)
        assert entry is not None
        return entry

    def replace_entry(self, level: int, queue_offset: int, entry: tuple[int, int, int]) -> None:
        """Make a queue say something else, in its first file."""
        path = Path("/queues") / SCHEDULE_TOPIC / str(level - 1) / f"{0:020d}"
        region = self.file_system.map(path, self.config.mapped_file_size_consume_queue)
        region.write(queue_offset * ENTRY_BYTES, ENTRY.pack(*entry))

    def damage(self, physical_offset: int) -> None:
        """Turn one bit of a record's body; a second call turns it back."""
        mapped_file = self.log.files.file_for(physical_offset)
        assert mapped_file is not None
        at = physical_offset - mapped_file.start_offset + HEADER_BYTES
        mapped_file.write(at, bytes([mapped_file.view[at] ^ 1]))
