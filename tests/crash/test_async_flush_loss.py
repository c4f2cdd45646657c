"""What a power cut takes of a store in ASYNC_FLUSH: no more than StoreConfig says, and not much less.

Method: a store on the simulated disk, its services called at their periods by a clock that the test moves, a
message every few milliseconds. At many moments the power is cut: of all that was not synced nothing is there.
The store is opened on what is left, and the age of the oldest message that is gone is measured.
"""

from typing import NamedTuple

import pytest

from mqstore import Message, MessageStore, StoreConfig
from support.disks.medium import Medium
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_log import small_config

ROOT = "/store"
RUN_MS = 4_000
CUT_EVERY_MS = 37


class Loss(NamedTuple):
    """Of one power cut: the age of the oldest message that is gone, and the bytes older than one interval."""

    age_ms: int
    old_bytes: int


def losses(config: StoreConfig, put_every_ms: int, body_bytes: int) -> list[Loss]:
    """What each power cut of one run takes."""
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    medium, applied = Medium(disk), 0
    found: list[Loss] = []
    puts: list[tuple[int, int]] = []
    with MessageStore.open(ROOT, config, clock=clock, file_system=disk, start=False) as store:
        periodic = [
            (config.flush_consumer_offset_interval, store._persistence.persist_state),
            (config.flush_interval_consume_queue, store._persistence.flush_in_background),
            (config.flush_interval_commit_log, store._flusher.run_once),
        ]
        for now_ms in range(1, RUN_MS):
            clock.advance(1)
            if now_ms % put_every_ms == 0:
                put = store.put_message(Message("orders", b"x" * body_bytes))
                puts.append((now_ms, put.physical_offset))
            for period_ms, step in periodic:
                if now_ms % period_ms == 0:
                    step()
            if now_ms % CUT_EVERY_MS == 0:
                for one in disk.steps[applied:]:
                    medium.apply(one)
                applied = len(disk.steps)
                found.append(_loss(medium, config, puts, now_ms))
    return found


def _loss(medium: Medium, config: StoreConfig, puts: list[tuple[int, int]], now_ms: int) -> Loss:
    units = medium.units()
    left = SimulatedDisk(medium.image(units, [0] * len(units)))
    with MessageStore.open(ROOT, config, file_system=left, start=False) as store:
        gone = [(put_ms, offset) for put_ms, offset in puts if offset >= store.max_offset]
        end_offset = store.max_offset
    oldest_ms = gone[0][0] if gone else now_ms
    old = [offset for put_ms, offset in gone if now_ms - put_ms > config.flush_interval_commit_log]
    return Loss(now_ms - oldest_ms, max(old) - end_offset if old else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "expected_ms"),
    [
        ({}, 1_000),
        ({"flush_interval_commit_log": 200, "flush_commit_log_least_pages": 0}, 200),
        ({"flush_interval_consume_queue": 300}, 300),
        ({"flush_interval_consume_queue": 3_000, "flush_consumer_offset_interval": 700}, 700),
    ],
    ids=str,
)
@pytest.mark.parametrize(("put_every_ms", "body_bytes"), [(40, 20), (8, 700)])
def test_a_power_cut_takes_what_the_settings_say(
    settings: dict[str, int], expected_ms: int, put_every_ms: int, body_bytes: int
) -> None:
    """Neither older messages, nor more of the old ones than the pages that a flush may leave."""
    config = small_config(mapped_file_size_commit_log=2**21, reserve_window_commit_log=2**20, **settings)
    assert config.longest_unflushed_ms == expected_ms
    found = losses(config, put_every_ms, body_bytes)
    assert len(found) > 100
    assert max(loss.age_ms for loss in found) <= expected_ms
    assert max(loss.old_bytes for loss in found) < max(1, 4_096 * config.flush_commit_log_least_pages)
    if body_bytes == 20:
        # Messages that do not fill the pages wait as long as that: the figure is no idle bound.
        assert max(loss.age_ms for loss in found) > expected_ms - 2 * put_every_ms


@pytest.mark.slow
def test_sync_flush_loses_nothing() -> None:
    """For what a put has answered, whatever the intervals are."""
    config = small_config(flush_disk_type="SYNC_FLUSH", flush_interval_consume_queue=3_000)
    assert config.longest_unflushed_ms == 0
    assert set(losses(config, 40, 20)) == {Loss(0, 0)}
