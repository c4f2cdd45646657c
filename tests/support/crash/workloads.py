"""The workloads of the crash simulator: what a witness does while every step of the disk is recorded.

Each takes a witness that has opened nothing yet, and a source of chance for sizes and orders; the same
seed does the same steps. `WORKLOADS` names them; the comment beside each says what only it brings about.
"""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from mqstore import Host
from support.baton import Baton, BatonLock, BatonWaiters
from support.crash.witness import Witness
from support.crash.workloads_of_two import forked_children, lost_lock

__all__ = ["WORKLOADS", "Workload"]

_HOUR_MS = 3_600_000
_V2_TOPIC = "%RETRY%" + "long-group-name-" * 9
_IPV6 = Host.parse("[2001:db8::7]:4711")


class Workload(NamedTuple):
    """`run(witness, chance)`, with these settings of the store."""

    run: Callable[[Witness, random.Random], None]
    settings: dict[str, Any]


def _puts_of_all_kinds(witness: Witness, chance: random.Random) -> None:
    witness.open()
    witness.put("a", 60)
    witness.put("b", chance.randrange(100, 2_000), tags="red", properties={"colour": "r" * 1_100})
    witness.put_all(*(("a", chance.randrange(7, 900), {"queue_id": at % 2}) for at in range(5)))
    witness.put(_V2_TOPIC, 300, born_host=_IPV6)
    witness.put("a", 0 + 40, wait_store_msg_ok=False)
    witness.put("b", 700, born_host=_IPV6, queue_id=1, delay_level=1)
    futures = [witness.put_later("a", 200), witness.put_later("b", 200)]
    witness.pull("group", "a")
    witness.flush()
    assert all(future.done() for future in futures)
    witness.pull("group", "b")
    witness.put("a", chance.randrange(100, 2_000))
    witness.pass_time(1_500)
    witness.deliver()
    witness.pull("group", "b", 1)
    witness.close()
    witness.open()
    witness.put("b", 90, tags="blue")
    witness.pull("group", "a")
    witness.close()


def _long_properties(witness: Witness, chance: random.Random) -> None:
    """Records whose middle sectors are all properties: missing, they leave body and lengths as they were."""
    witness.open()
    witness.put("a", 60)
    witness.flush()
    for _ in range(3):
        for _ in range(2):
            witness.put("b", 40, properties={"colour": "r" * chance.randrange(900, 2_500)})
        witness.flush()
    witness.close()


def _rolling_segments(witness: Witness, chance: random.Random) -> None:
    witness.open()
    for _ in range(4):
        sizes = [chance.randrange(1_800, 2_500) for _ in range(9)]
        witness.put_all(*(("a", size, {"queue_id": at % 2}) for at, size in enumerate(sizes)))
        for size in (2_400, chance.randrange(7, 2_000)):
            witness.put("b", size)
    witness.flush()
    for _ in range(3):
        witness.put_all(*(("a", 2_300, {}) for _ in range(8)))
        witness.put("b", 900)
    witness.pull("group", "a")
    witness.close()


def _prepared_segments(witness: Witness, chance: random.Random) -> None:
    """Segments that are made ahead of need; some lives end before the last one is used."""
    for _ in range(3):
        witness.open()
        for _ in range(chance.randrange(2, 6)):
            witness.put_all(
                *(("a", chance.randrange(1_800, 2_450), {"queue_id": at % 2}) for at in range(10))
            )
            witness.store.commit_log.reserve_ahead()
            if chance.random() < 0.4:
                witness.flush()
        if chance.random() < 0.6:
            witness.kill()
        else:
            witness.close()
    witness.open()
    witness.put("b", 2_400)
    witness.flush()


def _full_segments(witness: Witness, chance: random.Random) -> None:
    """The BLANK at a segment's end lies on two sectors; some processes are killed right after it."""
    for _ in range(3):
        witness.open()
        for _ in range(chance.randrange(1, 3)):
            _fill_segment(witness, chance)
            if chance.random() < 0.5:
                witness.store.commit_log.reserve_ahead()
            if chance.random() < 0.7:
                witness.flush()
            # There is no room for it: it closes the segment.
            witness.put("a", 2_400)
        witness.kill()
    witness.open()
    witness.put("b", 100)
    witness.flush()


def _fill_segment(witness: Witness, chance: random.Random) -> None:
    """Put until the next record would begin 4 bytes before a sector's end, and not far from the segment's."""
    put = witness.put("a", 100)
    overhead = put.store_size - 100
    segment_bytes = witness.config.mapped_file_size_commit_log
    end = segment_bytes - 512 * chance.randrange(1, 4) - 4
    left = end - (put.physical_offset + put.store_size) % segment_bytes
    sizes = []
    while left:
        record = left if left <= 2_400 else min(2_400, left - 1_000)
        sizes.append(record - overhead)
        left -= record
    witness.put_all(*(("a", size, {}) for size in sizes))


def _group_commit(witness: Witness, chance: random.Random) -> None:
    store = witness.open()
    baton = Baton(chance)
    log, flusher = store.commit_log, store._flusher
    witness.put("a", 50)
    log._gate._lock = BatonLock(baton)  # type: ignore[assignment]
    flusher._sync_lock = BatonLock(baton, is_owned=True)  # type: ignore[assignment]
    flusher._waiters = BatonWaiters(baton)
    witness.disk.before = lambda what, path: baton.pass_on()

    def producer(topic: str) -> Callable[[], None]:
        def produce() -> None:
            for size in (90, 600, 1_300, 40):
                witness.put(topic, size)

        return produce

    baton.run([producer(topic) for topic in ("a", "b", "c", "d")])
    witness.disk.before = lambda what, path: None
    witness.flush()
    witness.close()


def _retry_ladder(witness: Witness, chance: random.Random) -> None:
    witness.open()
    witness.put("orders", 200, tags="red")
    failed = witness.pull("billing", "orders")
    while failed:
        result = witness.send_back("billing", failed[0])
        assert result.put is not None
        if result.put.topic == "%DLQ%billing":
            break
        if chance.random() < 0.3:
            witness.put("orders", 60)
        witness.pass_time(2 * _HOUR_MS)
        witness.deliver()
        failed = witness.pull("billing", "%RETRY%billing")
        if chance.random() < 0.3:
            witness.flush()
    witness.close()


def _delays(witness: Witness, chance: random.Random) -> None:
    witness.open()
    for _ in range(3):
        for level in (1, 2, 1, 3):
            witness.put("a", chance.randrange(40, 400), delay_level=level)
        witness.put("b", 50)
        witness.pass_time(chance.choice((300, 1_100, 5_100)))
        witness.deliver()
        witness.store._persistence.persist_delay_offsets()
        witness.put("b", 50, delay_level=chance.randrange(1, 4))
        witness.pass_time(1_000)
        witness.deliver()
        if chance.random() < 0.5:
            witness.flush()
    witness.close()
    witness.open()
    witness.pass_time(20_000)
    witness.deliver()
    witness.close()


def _lazy_delays(witness: Witness, chance: random.Random) -> None:
    """Deliveries that are persisted while neither waiting record nor copy is durable."""
    witness.open()
    for _ in range(4):
        for level in (1, 1, 2):
            witness.put("a", chance.randrange(40, 400), delay_level=level)
        if chance.random() < 0.5:
            witness.store._flusher.flush()
            witness._observe()
        witness.pass_time(chance.choice((1_100, 5_100)))
        witness.deliver()
        witness.pull("group", "a")
        witness.store._persistence.persist_delay_offsets()
        witness.put("b", 2_000)
        witness.put("a", 90)
        witness.pull("group", "b")
        witness.pull("group", "a")
        witness.store._persistence.persist_state()
    witness.flush()


def _retention(witness: Witness, chance: random.Random) -> None:
    witness.open()
    for round_number in range(5):
        witness.put("b", 300, delay_level=chance.randrange(1, 4))
        witness.put_all(*(("a", 2_450, {"queue_id": at % 2}) for at in range(14)))
        witness.put_all(*(("a", 2_450, {}) for _ in range(12)))
        witness.pull("group", "b")
        witness.pass_time(73 * _HOUR_MS)
        # In the rounds before, what waits is in the segment that is old enough to go.
        if round_number in (2, 4):
            witness.deliver()
            witness.flush()
        witness.retain()
    witness.put("a", 100)
    witness.close()
    witness.open()
    witness.deliver()
    witness.retain()
    witness.put("a", 100)
    witness.close()


def _state_files(witness: Witness, chance: random.Random) -> None:
    witness.open()
    witness.create_topic("first", 4)
    witness.put_all(*(("a", 60, {}) for _ in range(4)))
    for at in range(3):
        witness.commit("group", "a", 0, at)
        witness.store._persistence.persist_state()
        witness._keep_offsets()
    witness.create_topic("second", 3)
    witness.commit("group", "a", 0, 4)
    witness.put("a", 60)
    witness.close()
    witness.open()
    witness.create_topic("third", 2)
    for at in range(4):
        witness.put("a", 60)
        witness.commit("other", "a", 0, at + 1)
        if chance.random() < 0.7:
            witness.flush()
    witness.close()


def _long_queue(witness: Witness, chance: random.Random) -> None:
    """More than two files of one queue, in some runs without a flush in between."""
    flushes = chance.random() < 0.6
    witness.open()
    # Entry 102 lies across two sectors, its offset in the first: a flush ends right before it.
    for count in (61, 41):
        witness.put_all(*(("c", 7, {}) for _ in range(count)))
    witness.flush()
    witness.put_all(*(("c", 7, {}) for _ in range(3)))
    for round_number in range(8):
        witness.put_all(*(("a", chance.randrange(7, 30), {}) for _ in range(chance.randrange(20, 32))))
        witness.pull("group", "a")
        if flushes and round_number % 3 == 1:
            witness.flush()
    witness.put("b", 100)
    witness.close()


def _kills(witness: Witness, chance: random.Random) -> None:
    """The process is killed again and again, and the machine goes on: none of that is durable by itself."""
    for _ in range(5):
        witness.open()
        for at in range(chance.randrange(1, 4)):
            witness.put("a", chance.randrange(40, 900), delay_level=at % 2)
        if chance.random() < 0.6:
            witness.pull("group", "a")
            witness.pass_time(1_100)
            witness.deliver()
        if chance.random() < 0.6:
            witness.store._persistence.flush_all()
            witness._observe()
        witness.put("b", 300)
        if chance.random() < 0.5:
            witness.store._persistence.persist_state()
        witness.kill()
    witness.open()
    witness.put("a", 100)
    witness.flush()


def _columns(witness: Witness, chance: random.Random) -> None:
    """Blocks of records that cross pages, segments and queues; some rows are delayed."""
    witness.open()
    witness.put("a", 60)
    for round_number in range(5):
        sizes = [chance.randrange(7, 2_400) for _ in range(chance.randrange(1, 24))]
        witness.put_columns(*(("a" if at % 3 else "b", size, at % 2, 0) for at, size in enumerate(sizes)))
        witness.put_all(*(("c", chance.randrange(7, 300), {"queue_id": at % 2}) for at in range(18)))
        witness.put_columns(*(("b", 90, 0, level) for level in (0, 1, 0, 2)))
        if round_number == 2:
            witness.pull("group", "a")
            witness.flush()
    witness.pass_time(5_100)
    witness.deliver()
    witness.pull("group", "b")
    witness.close()
    witness.open()
    witness.put("a", 60)
    witness.close()


_ASYNC = {"flush_disk_type": "ASYNC_FLUSH"}
_LEVELS = {"message_delay_level": "1s 5s 10s"}

_INDEX_FILES = {"key_index": "index_file", "max_hash_slot_num": 50, "max_index_num": 40}

WORKLOADS: dict[str, Workload] = {
    "puts": Workload(_puts_of_all_kinds, {}),
    "puts-async": Workload(_puts_of_all_kinds, _ASYNC),
    "columns": Workload(_columns, _LEVELS),
    "columns-async": Workload(_columns, _LEVELS | _ASYNC),
    "long-properties-async": Workload(_long_properties, _ASYNC),
    "rolling": Workload(_rolling_segments, {}),
    "rolling-async": Workload(_rolling_segments, _ASYNC),
    "prepared": Workload(_prepared_segments, {}),
    "prepared-async": Workload(_prepared_segments, _ASYNC),
    "full-segments-async": Workload(_full_segments, _ASYNC),
    "rolling-index-files": Workload(_rolling_segments, _INDEX_FILES | _ASYNC),
    "kills-index-files": Workload(_kills, _INDEX_FILES),
    "group-commit": Workload(_group_commit, {}),
    "ladder": Workload(_retry_ladder, {}),
    "delays": Workload(_delays, _LEVELS),
    "delays-async": Workload(_lazy_delays, _LEVELS | _ASYNC),
    "retention": Workload(_retention, _LEVELS),
    "state-files": Workload(_state_files, {}),
    "long-queue": Workload(_long_queue, {}),
    "long-queue-async": Workload(_long_queue, _ASYNC),
    "kills": Workload(_kills, {}),
    "kills-async": Workload(_kills, _ASYNC),
    "lost-lock": Workload(lost_lock, _LEVELS),
    "lost-lock-async": Workload(lost_lock, _LEVELS | _ASYNC),
    "forked-children": Workload(forked_children, _ASYNC),
}
