"""The witness: a producer and consumer that notes what the store promises it, outside of the store.

All messages of the crash tests are put through it. Each body begins with a number of six digits and is
made from it, so that whatever is found after a crash can be told to be whole, known and in its place.
"""

import random
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mqstore import Message, MessageStore, PutMessageResult, StoreConfig
from mqstore.schedule.retry.send_back import SendBackResult
from mqstore.store.message.put_result import PutColumnsResult
from mqstore.store.status import PutMessageStatus
from support.crash.promises import (
    Acknowledged,
    Committed,
    Event,
    Expired,
    Flushed,
    Kept,
    Promises,
    Reopened,
    Sent,
    TimeIs,
    TopicCreated,
)
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.twins.log_walk import SCHEDULE_TOPIC, walk_log
from support.twins.message_rows import as_values

__all__ = ["ROOT", "Witness", "body_of", "crash_config"]

ROOT = Path("/store")


def crash_config(**settings: Any) -> StoreConfig:
    """The smallest segments there are, queues of 104 entries a file, levels of seconds."""
    small: dict[str, Any] = {
        "mapped_file_size_commit_log": 68_096,
        "max_message_size": 2_500,
        "mapped_file_size_consume_queue": 2_080,
        "reserve_window_commit_log": 65_536,
        "reserve_window_consume_queue": 4_096,
        "flush_disk_type": "SYNC_FLUSH",
        "default_topic_queue_nums": 2,
        "delete_when": ";".join(map(str, range(24))),
    }
    return StoreConfig(**(small | settings))


def body_of(number: int, size: int) -> bytes:
    """The body of message `number`: that number, then bytes that depend on it, none of them zero."""
    start = b"%06d|" % number
    return start + random.Random(number).randbytes(max(0, size - len(start))).replace(b"\0", b"\1")


class Witness:
    """One producer and consumer of one store on `disk`."""

    def __init__(
        self,
        disk: SimulatedDisk,
        clock: ManualClock,
        config: StoreConfig,
        *,
        promises: Promises | None = None,
        first_number: int = 0,
    ) -> None:
        """`promises`: what held before the first step of the disk."""
        self.disk = disk
        self.clock = clock
        self.config = config
        self.before = promises or Promises(now_ms=clock.now_ms())
        self.events: list[tuple[int, Event]] = []
        self._store: MessageStore | None = None
        self._number = first_number
        self._offsets: dict[tuple[str, str, int], int] = {}

    @property
    def store(self) -> MessageStore:
        assert self._store is not None
        return self._store

    def note(self, event: Event) -> None:
        self.events.append((len(self.disk.steps), event))

    # -- life -----------------------------------------------------------------------------------------

    def open(self) -> MessageStore:
        """Open the store; what it then shows as durable it must not lose any more."""
        store = MessageStore.open(ROOT, self.config, clock=self.clock, file_system=self.disk, start=False)
        # The retry queue is chosen at random; a run must be the same each time.
        store._send_back._choice = random.Random(1)
        self._store = store
        self._offsets = {}
        self.note(
            Reopened({(row.group, row.topic, row.queue_id): row.offset for row in store.consumer_offsets})
        )
        known = {(message.physical_offset, message.size) for message in self.before.acknowledged}
        known |= {
            (event.physical_offset, event.size) for _, event in self.events if isinstance(event, Acknowledged)
        }
        records, _ = walk_log(self.disk, ROOT / "commitlog")
        for record in records:
            if (record.physical_offset, record.size) not in known:
                self.note(
                    Acknowledged(
                        record.number,
                        record.reconsume_times,
                        record.topic,
                        record.queue_id,
                        record.queue_offset,
                        record.physical_offset,
                        record.size,
                        is_durable=False,
                    )
                )
        self._observe()
        return store

    def close(self) -> None:
        self.store.close()
        self._observe()
        # After a failed sync it has written nothing more.
        if not self.store.commit_log.is_poisoned:
            self._keep_offsets()

    def kill(self) -> None:
        """The process ends here; the machine goes on."""
        self.disk.kill()
        self._store = None

    def pass_time(self, duration_ms: int) -> None:
        self.clock.advance(duration_ms)
        self.note(TimeIs(self.clock.now_ms()))

    def _observe(self) -> None:
        self.note(Flushed(self.store.commit_log.flushed_offset))

    # -- producing ------------------------------------------------------------------------------------

    def message(self, topic: str, size: int = 100, **fields: Any) -> tuple[int, Message]:
        """The next message, noted as one that may be found from now on."""
        self._number += 1
        body = body_of(self._number, size)
        delayed = (SCHEDULE_TOPIC,) if fields.get("delay_level") else ()
        self.note(Sent(self._number, body, (topic, *delayed)))
        return self._number, Message(topic, body, keys=(f"k{self._number % 10}",), **fields)

    def put(self, topic: str, size: int = 100, **fields: Any) -> PutMessageResult:
        number, message = self.message(topic, size, **fields)
        result = self.store.put_message(message)
        self._acknowledge(number, result, waits=message.wait_store_msg_ok)
        return result

    def put_all(self, *wanted: tuple[str, int, dict[str, Any]]) -> list[PutMessageResult]:
        """A batch, each as (topic, size, fields)."""
        made = [self.message(topic, size, **fields) for topic, size, fields in wanted]
        results = self.store.put_messages([message for _, message in made])
        for (number, _), result in zip(made, results, strict=True):
            self._acknowledge(number, result)
        return results

    def put_columns(self, *wanted: tuple[str, int, int, int]) -> PutColumnsResult:
        """The same as columns, each as (topic, size, queue id, delay level)."""
        made = [
            self.message(topic, size, queue_id=queue_id, delay_level=level)
            for topic, size, queue_id, level in wanted
        ]
        put = self.store.put_columns(as_values([message for _, message in made]))
        for row, (number, message) in enumerate(made):
            level = message.delay_level
            place = (SCHEDULE_TOPIC, level - 1) if level else (message.topic, message.queue_id)
            offsets = int(put.queue_offsets[row]), int(put.physical_offsets[row])
            size, stored_at, flushed = int(put.store_sizes[row]), put.store_timestamp, put.flushed_offset
            result = PutMessageResult(put.status, *place, *offsets, size, stored_at, flushed, b"")
            self._acknowledge(number, result)
        return put

    def put_later(self, topic: str, size: int = 100) -> "Future[PutMessageResult]":
        number, message = self.message(topic, size)
        future = self.store.put_message_async(message)
        future.add_done_callback(lambda done: self._acknowledge(number, done.result()))
        return future

    def _acknowledge(
        self, number: int, result: PutMessageResult, *, waits: bool = True, reconsume_times: int = 0
    ) -> None:
        is_durable = (
            waits and self.config.is_sync_flush and result.status is PutMessageStatus.PUT_OK
        ) or result.physical_offset + result.store_size <= result.flushed_offset
        self.note(
            Acknowledged(
                number,
                reconsume_times,
                result.topic,
                result.queue_id,
                result.queue_offset,
                result.physical_offset,
                result.store_size,
                is_durable,
            )
        )
        self.note(Flushed(result.flushed_offset))

    # -- consuming ------------------------------------------------------------------------------------

    def pull(self, group: str, topic: str, queue_id: int = 0, *, commit: bool = True) -> list[Any]:
        """The messages of a queue that this witness has not pulled for the group yet."""
        key = (group, topic, queue_id)
        offset = self._offsets.get(key, max(0, self.store.consumer_offsets.query(*key)))
        result = self.store.get_message(group, topic, queue_id, offset)
        self._offsets[key] = result.next_begin_offset
        if commit:
            self.commit(group, topic, queue_id, result.next_begin_offset)
        return list(result.messages)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.note(Committed(group, topic, queue_id, offset))
        self.store.consumer_offsets.commit(group, topic, queue_id, offset)

    def send_back(self, group: str, stored: Any, delay_level: int = 0, **settings: Any) -> SendBackResult:
        number = int(bytes(stored.body[:6]))
        retry, dead = f"%RETRY%{group}", f"%DLQ%{group}"
        self.note(Sent(number, stored.body, (SCHEDULE_TOPIC, retry, dead)))
        result = self.store.consumer_send_msg_back(group, stored.physical_offset, delay_level, **settings)
        if result.put is not None:
            self._acknowledge(number, result.put, reconsume_times=stored.reconsume_times + 1)
        return result

    def deliver(self) -> int:
        delivered = self.store.deliver_due()
        self._observe()
        return delivered

    # -- the store as a whole -------------------------------------------------------------------------

    def flush(self) -> None:
        self.store.flush()
        self._observe()
        self._keep_offsets()

    def _keep_offsets(self) -> None:
        """What a flush has made durable: of each consumer what it committed, up to the end of the queue."""
        queues = self.store.consume_queues
        offsets = {
            (row.group, row.topic, row.queue_id): min(
                row.offset, queues.next_queue_offset(row.topic, row.queue_id)
            )
            for row in self.store.consumer_offsets
        }
        self.note(Kept(offsets))

    def create_topic(self, topic: str, queue_nums: int) -> None:
        self.store.topics.create(topic, queue_nums)
        self.note(TopicCreated(topic, queue_nums))

    def retain(self) -> None:
        """One round of retention, announced before it acts."""
        log = self.store.commit_log
        records, _ = walk_log(self.disk, ROOT / "commitlog")
        delivered = frozenset(
            (record.number, record.reconsume_times)
            for record in records
            if record.topic != SCHEDULE_TOPIC
            and "REAL_TOPIC" in record.properties
            and record.physical_offset + record.size <= log.flushed_offset
        )
        self.note(Expired(log.files.files[-1].start_offset if log.files.files else 0, delivered))
        self.store._services.retain()
