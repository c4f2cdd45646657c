"""The process of a soak: eight producers and three groups of four consumers over one store.

    python worker.py DIRECTORY JOURNAL SEED RUN KIND SECONDS

KIND restless: consumers leave and join all the time, and it goes on until it is killed. steady: nobody
leaves; after SECONDS the producers stop, the groups consume everything that there is, and it ends with 0.
rest: as steady, without producers.
"""

import contextlib
import faulthandler
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mqstore import Message, MessageStore, StoreConfig, StoredMessage
from mqstore.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    ConsumerSettings,
    EmbeddedBroker,
    Producer,
    PushConsumer,
)

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from support.soak.fates import GROUPS, ORDERLY_GROUP, RETRIES, TOPIC, fate_of
from support.soak.journal import Journal

__all__ = ["CONFIG", "QUEUES"]

PRODUCERS = 8
MEMBERS = 4
QUEUES = 8
_PATIENCE_S = 120.0
CONFIG = StoreConfig(
    default_topic_queue_nums=QUEUES,
    mapped_file_size_commit_log=4 << 20,
    max_message_size=65_536,
    mapped_file_size_consume_queue=20_000,
    message_delay_level="1s 1s 1s 1s 1s 1s 1s",
    flush_consumer_offset_interval=100,
    flush_delay_offset_interval=100,
)
_SETTINGS = ConsumerSettings(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    max_reconsume_times=RETRIES,
    consume_thread_min=4,
    consume_message_batch_max_size=1,
    persist_consumer_offset_interval=100,
    suspend_current_queue_time_millis=20,
)


class Soak:
    """What one process has."""

    def __init__(self, path: Path, journal: Journal, seed: int, run: int) -> None:
        self.journal = journal
        self.seed = seed
        self.run = run
        self.chance = random.Random(f"{seed} {run}")
        self.store = MessageStore.open(path, CONFIG)
        self.broker = EmbeddedBroker(self.store)
        self.members: dict[tuple[str, int], PushConsumer] = {}
        self.stop = threading.Event()

    # -- consumers --------------------------------------------------------------------------------

    def join(self, group: str, place: int) -> None:
        """A new member at this place of the group."""
        member = f"{place}-{time.monotonic_ns()}"
        consumer = PushConsumer(self.broker, group, _SETTINGS)
        consumer.subscribe(TOPIC)
        if group == ORDERLY_GROUP:
            consumer.orderly_listener(self._in_order(group, member))
        else:
            consumer.listener(self._listener(group, member))
        consumer.start()
        self.members[group, place] = consumer

    def join_all(self) -> None:
        """All members; then wait until each group has shared the queues."""
        for group in GROUPS:
            for place in range(MEMBERS):
                self.join(group, place)
        wait_until(self._is_shared, "the groups share their queues")

    def _is_shared(self) -> bool:
        """Whether each member has its share, and no queue has two owners.

        Queues that all have an owner are not enough: one that has too many gives them to a member that has
        not looked yet, and what is under way is then delivered again.
        """
        for group in GROUPS:
            shares = [
                [queue for queue in consumer.queues if queue.topic == TOPIC]
                for (name, _), consumer in self.members.items()
                if name == group
            ]
            owned = {queue for share in shares for queue in share}
            if any(len(share) != QUEUES // MEMBERS for share in shares) or len(owned) != QUEUES:
                return False
        return True

    def _consume(self, group: str, member: str, message: StoredMessage) -> str:
        """What the seed has decided for this delivery: done, answer, raise or exit."""
        key = message.keys[0]
        times = message.reconsume_times
        place = (group, member, key, message.queue_id, message.queue_offset, times)
        self.journal.write("begin", *place)
        fate = fate_of(self.seed, group, key)
        if fate.slow_s:
            time.sleep(fate.slow_s)
        has_failed = times < fate.failures
        self.journal.write("end", *place, "failed" if has_failed else "done")
        return fate.way if has_failed else "done"

    def _listener(
        self, group: str, member: str
    ) -> Callable[[Sequence[StoredMessage], ConsumeConcurrentlyContext], ConsumeConcurrentlyStatus]:
        def listen(
            messages: Sequence[StoredMessage], context: ConsumeConcurrentlyContext
        ) -> ConsumeConcurrentlyStatus:
            outcome = self._consume(group, member, messages[0])
            fail(outcome)
            is_done = outcome == "done"
            return (
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                if is_done
                else ConsumeConcurrentlyStatus.RECONSUME_LATER
            )

        return listen

    def _in_order(
        self, group: str, member: str
    ) -> Callable[[Sequence[StoredMessage], ConsumeOrderlyContext], ConsumeOrderlyStatus]:
        def listen(messages: Sequence[StoredMessage], context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
            outcome = self._consume(group, member, messages[0])
            fail(outcome)
            is_done = outcome == "done"
            return (
                ConsumeOrderlyStatus.SUCCESS
                if is_done
                else ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            )

        return listen

    def be_restless(self) -> None:
        """Members leave and join until the process is killed."""
        while not self.stop.wait(self.chance.uniform(0.05, 0.5)):
            group, place = self.chance.choice(GROUPS), self.chance.randrange(MEMBERS)
            self.members[group, place].close()
            self.stop.wait(self.chance.uniform(0, 0.5))
            self.join(group, place)

    # -- producers --------------------------------------------------------------------------------

    def produce(self, producer: Producer, number: int) -> None:
        """Send until `stop`; each message says so once it is acknowledged."""
        chance = random.Random(f"{self.seed} {self.run} {number}")
        count = 0
        while not self.stop.wait(chance.expovariate(40)):
            key = f"{self.run}-{number}-{count}"
            producer.send(Message(TOPIC, b"x" * chance.randrange(1, 500), keys=(key,)))
            self.journal.write("sent", key)
            count += 1

    # -- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Until every group has consumed everything."""
        wait_until(self._is_drained, "the groups consume everything")
        self.journal.write("drained")

    def _is_drained(self) -> bool:
        for consumer in self.members.values():
            consumer.persist_consumer_offset()
        if next(self.store.waiting_messages(), None) is not None:
            return False
        committed = {(row.group, row.topic, row.queue_id): row.offset for row in self.store.consumer_offsets}
        return all(
            committed.get((group, topic, queue_id), 0) == self.store.get_max_offset_in_queue(topic, queue_id)
            for group in GROUPS
            for topic, queue_nums in ((TOPIC, QUEUES), (f"%RETRY%{group}", 1))
            for queue_id in range(queue_nums)
        )

    def close(self) -> None:
        """All of it; nothing may be left."""
        for consumer in self.members.values():
            consumer.close()
        self.broker.close()
        self.store.close()
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("mqstore")]
        assert not left, f"threads are left: {left}"
        self.journal.write("closed")


def fail(outcome: str) -> None:
    """Raise, for the two ways of failing that raise."""
    if outcome == "raise":
        raise ValueError("as the seed has decided")
    if outcome == "exit":
        raise SystemExit("as the seed has decided")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Raises AssertionError if it takes longer than anybody has patience."""
    end_s = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > end_s:
            faulthandler.dump_traceback(all_threads=True)
            raise AssertionError(f"waited {_PATIENCE_S:g} s until {what}")
        time.sleep(0.05)


def main(path: Path, journal_path: Path, seed: int, run: int, kind: str, seconds: float) -> None:
    """One run."""
    logging.disable(logging.CRITICAL)
    journal = Journal(journal_path, run)
    journal.write("run", kind)
    soak = Soak(path, journal, seed, run)
    soak.store.topics.create(TOPIC, QUEUES)
    soak.join_all()
    journal.write("ready")
    with contextlib.ExitStack() as senders:
        threads = []
        for number in range(PRODUCERS if kind != "rest" else 0):
            producer = senders.enter_context(Producer(soak.broker, "soak"))
            threads.append(threading.Thread(target=soak.produce, args=(producer, number), daemon=True))
        for thread in threads:
            thread.start()
        if kind == "restless":
            soak.be_restless()
        soak.stop.wait(seconds)
        soak.stop.set()
        for thread in threads:
            thread.join()
        soak.drain()
    soak.close()


if __name__ == "__main__":
    store_path, journal_file, seed_text, run_text, run_kind, seconds_text = sys.argv[1:]
    run_number, run_seconds = int(run_text), float(seconds_text)
    main(Path(store_path), Path(journal_file), int(seed_text), run_number, run_kind, run_seconds)
