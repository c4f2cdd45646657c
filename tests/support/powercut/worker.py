"""The worker: a process that works on a store as programs do, and says outside of the medium what it was
promised.

    python -m support.powercut.worker SETTINGS      (JSON: the fields of `Settings`)

Each line of the file `events` is one promise or announcement, with `at`: how many requests the block log of
the medium had then. Of a promise (put, kept, topic) it is read after the store has given it; of an
announcement (committing, expiring) before the store is asked. So a cut at entry n may be judged by the
lines with at <= n.

Putters put in SYNC_FLUSH, one by one, several at once and without waiting; a consumer pulls, commits, sends
back, looks for keys and flushes; retention deletes where it is wanted. Where the disk is to be full at
times, a ballast beside the store takes all its room and gives it back, again and again; what the store then
refuses with StoreFull was not promised, and is tried again. `plant` names a bug (planted_bugs.py). It ends
when it was promised enough and delayed messages have come due: with a clean close, or as a killed process
does.
"""

import contextlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from mqstore import Message, MessageStore, PutMessageResult, PutMessageStatus, StoreConfig
from mqstore.store.errors import StoreFull
from mqstore.store.log.retention import Retention
from mqstore.store.message.stored_message import StoredMessage
from support.powercut.block_log import entry_count
from support.powercut.sent import GROUP, LEVELS, Sent, key_of, sent

__all__ = ["BALLAST", "Settings", "as_message", "config"]

BALLAST = "ballast"
"""The file beside the store that fills the disk."""

_MANY = 8
# The delays are of one and two seconds.
_LEAST_S, _MOST_S = 2.6, 10
_BURST_EVERY_S, _BURST_S = 0.3, 0.06
_ROOM_FOR_S, _FULL_FOR_S = 0.2, 0.2
_LEFT_BYTES, _BLOCK_BYTES = 1 << 20, 4_096


class Settings(NamedTuple):
    """What the worker is to do. block_log: of the medium that `store` lies on."""

    store: str
    events: str
    block_log: str
    run: str
    threads: int
    acknowledgements: int
    retains: bool
    closes: bool
    fills: bool = False
    plant: str = ""


def config(**settings: Any) -> StoreConfig:
    """Small segments and queue files, so that both roll often."""
    small: dict[str, Any] = {
        "flush_disk_type": "SYNC_FLUSH",
        "mapped_file_size_commit_log": 131_072,
        "mapped_file_size_consume_queue": 2_000,
        "max_message_size": 60_000,
        "reserve_window_commit_log": 65_536,
        "reserve_window_consume_queue": 4_096,
        "max_hash_slot_num": 500,
        "max_index_num": 2_000,
        "message_delay_level": LEVELS,
        "default_topic_queue_nums": 4,
        "dispatch_interval": 5,
        "delivery_interval": 20,
        "flush_interval_consume_queue": 50,
        "flush_consumer_offset_interval": 70,
        "flush_delay_offset_interval": 60,
        "sync_flush_timeout": 60_000,
        "disk_max_used_space_ratio": 95,
        "clean_file_forcibly_enable": False,
        "delete_when": ";".join(map(str, range(24))),
    }
    return StoreConfig(**(small | settings))


def as_message(message: Sent) -> Message:
    """The message as the store takes it."""
    return Message(
        message.topic,
        message.body,
        tags=message.tags,
        keys=(message.key,),
        queue_id=message.queue_id,
        delay_level=message.delay_level,
        properties=message.properties,
    )


class Worker:
    """One life of a store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._block_log = os.open(settings.block_log, os.O_RDONLY)
        self._events = os.open(settings.events, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()
        self._acknowledged = 0
        self._promised = threading.Event()
        self._enough = threading.Event()
        # Under the lock: what a key search must find from now on.
        self._recent: list[tuple[str, str, int]] = []

    def say(self, kind: str, at: int | None = None, **fields: Any) -> None:
        line = {"kind": kind, "at": self._at() if at is None else at, **fields}
        os.write(self._events, json.dumps(line).encode() + b"\n")

    def _at(self) -> int:
        return entry_count(self._block_log)

    # -- the life --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Open, work, and close if that is wanted."""
        settings = self._settings
        self.say("opening")
        retention = {"file_reserved_time": 0, "clean_resource_interval": 150} if settings.retains else {}
        store = MessageStore.open(settings.store, config(**retention))
        self.say("open")
        store.topics.create("orders", 4)
        self.say("topic", topic="orders", queues=4)
        threads = [
            threading.Thread(target=self._guarded, args=(self._put_for_ever, store, thread))
            for thread in range(settings.threads)
        ]
        threads.append(threading.Thread(target=self._guarded, args=(self._consume_for_ever, store)))
        if settings.fills:
            threads.append(threading.Thread(target=self._guarded, args=(self._fill_for_ever,)))
        for thread in threads:
            thread.start()
        time.sleep(_LEAST_S)
        self._promised.wait(_MOST_S)
        self._enough.set()
        if not settings.closes:
            os._exit(0)
        for thread in threads:
            thread.join()
        store.close()
        self.say("closed")

    def _guarded(self, work: Any, *arguments: Any) -> None:
        """An error in a thread of ours is an event: nothing here has cause to fail."""
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, the judge must hear of it
            self.say("failed", 0, error=f"{type(error).__name__}: {error}")
            self._promised.set()

    # -- producing -------------------------------------------------------------------------------------

    def _put_for_ever(self, store: MessageStore, thread: int) -> None:
        number = 0
        while not self._enough.is_set():
            try:
                number += self._put_some(store, thread, number)
            except StoreFull:
                # Nothing of these was promised, so they are put once more.
                time.sleep(0.01)
            if not self._in_burst():
                self._enough.wait(_BURST_EVERY_S * random.random())

    def _in_burst(self) -> bool:
        """Putters work in bursts, all together, so that a life is long without a long log."""
        return time.monotonic() % _BURST_EVERY_S < _BURST_S

    def _put_some(self, store: MessageStore, thread: int, number: int) -> int:
        """Put the next messages of a thread, one way or another; returns how many."""
        count = (1, 1, 1, 4)[number % 4]
        messages = [sent(key_of(self._settings.run, thread, number + extra)) for extra in range(count)]
        made = [as_message(message) for message in messages]
        if count == 1:
            puts = [store.put_message(made[0])]
        elif number % 3:
            puts = list(store.put_messages(made))
        else:
            puts = self._put_without_waiting(store, made)
        at = self._at()
        for message, put in zip(messages, puts, strict=False):
            self._acknowledge(message.key, put, 0, at)
        return len(puts)

    @staticmethod
    def _put_without_waiting(store: MessageStore, made: list[Message]) -> list[PutMessageResult]:
        """The results of the messages before the first that finds no room."""
        futures = []
        for message in made:
            try:
                futures.append(store.put_message_async(message))
            except StoreFull:
                if not futures:
                    raise
                break
        return [future.result() for future in futures]

    def _acknowledge(self, key: str, put: PutMessageResult, reconsume_times: int, at: int) -> None:
        if put.status is not PutMessageStatus.PUT_OK:
            return
        self.say(
            "put",
            at,
            key=key,
            topic=put.topic,
            queue_id=put.queue_id,
            queue_offset=put.queue_offset,
            physical_offset=put.physical_offset,
            size=put.store_size,
            reconsume_times=reconsume_times,
        )
        with self._lock:
            self._acknowledged += 1
            self._recent = [*self._recent[-_MANY:], (put.topic, key, put.physical_offset)]
            if self._acknowledged >= self._settings.acknowledgements:
                self._promised.set()

    # -- consuming -------------------------------------------------------------------------------------

    def _consume_for_ever(self, store: MessageStore) -> None:
        offsets: dict[tuple[str, int], int] = {}
        turn = 0
        while not self._enough.is_set():
            turn += 1
            with contextlib.suppress(StoreFull):
                self._consume(store, offsets)
                if turn % 3 == 0:
                    store.flush()
                    self.say("kept", offsets=[[*queue, offset] for queue, offset in offsets.items()])
            time.sleep(0.01)

    def _consume(self, store: MessageStore, offsets: dict[tuple[str, int], int]) -> None:
        """What each queue has by now, and the keys of what was put last."""
        for topic, queue_id in store.consume_queues.queues():
            if not topic.startswith("SCHEDULE"):
                self._pull(store, topic, queue_id, offsets)
        self._look_for_keys(store)

    def _pull(
        self, store: MessageStore, topic: str, queue_id: int, offsets: dict[tuple[str, int], int]
    ) -> None:
        offset = offsets.get((topic, queue_id), max(0, store.consumer_offsets.query(GROUP, topic, queue_id)))
        result = store.get_message(GROUP, topic, queue_id, offset)
        for message in result.messages:
            if message.queue_offset % 5 == 2 and not topic.startswith("%DLQ%"):
                self._send_back(store, message)
        if result.next_begin_offset > offset:
            offset = result.next_begin_offset
            self.say("committing", topic=topic, queue_id=queue_id, offset=offset)
            store.consumer_offsets.commit(GROUP, topic, queue_id, offset)
            offsets[topic, queue_id] = offset

    def _send_back(self, store: MessageStore, message: StoredMessage) -> None:
        (key,), times = message.keys, message.reconsume_times
        back = store.consumer_send_msg_back(
            GROUP, message.physical_offset, 1 + times % 2, max_reconsume_times=2
        )
        if back.put is not None:
            self._acknowledge(key, back.put, times + 1, self._at())

    def _look_for_keys(self, store: MessageStore) -> None:
        with self._lock:
            recent = self._recent
        for topic, key, physical_offset in recent:
            found = [message.physical_offset for message in store.query_message(topic, key)]
            if physical_offset not in found and physical_offset >= store.min_offset:
                self.say("failed", 0, error=f"{key} of {topic} is not found by its key")

    # -- filling the disk ------------------------------------------------------------------------------

    def _fill_for_ever(self) -> None:
        """Take all room of the disk, hold it for a moment, give it back."""
        ballast = Path(self._settings.store).with_name(BALLAST)
        while not self._enough.wait(_ROOM_FOR_S):
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                status = os.statvfs(ballast.parent)
                os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_bsize - _LEFT_BYTES))
                file.seek(0, os.SEEK_END)
                while file.write(bytes(_BLOCK_BYTES)):
                    pass
            self.say("full")
            self._enough.wait(_FULL_FOR_S)
            ballast.unlink()


@contextlib.contextmanager
def announced_retention(worker: Worker) -> Any:
    """Makes retention announce what it may delete."""
    genuine = Retention.run_once

    def run_once(retention: Retention) -> int:
        files = retention._log.files.files
        worker.say("expiring", below=files[-1].start_offset if files else 0)
        return genuine(retention)

    with mock.patch.object(Retention, "run_once", run_once):
        yield


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    worker = Worker(settings)
    with contextlib.ExitStack() as stack:
        if settings.plant:
            from support.crash.planted_bugs import PLANTED_BUGS

            stack.enter_context(PLANTED_BUGS[settings.plant].plant())
        stack.enter_context(announced_retention(worker))
        worker.run()


if __name__ == "__main__":
    main()
