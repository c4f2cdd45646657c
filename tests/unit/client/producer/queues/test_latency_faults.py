"""The latency faults: the table of durations, and each row of "fault item" in docs/spec/client_produce.md
section 3."""

import random
from collections.abc import Callable

import pytest

from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.queues.latency_faults import LatencyFaults
from support.manual_seconds import ManualSeconds


def faults(
    seconds: ManualSeconds,
    *,
    is_known: Callable[[str], bool] = lambda name: True,
    answers: Callable[[str], object] = lambda name: None,
    **settings: bool,
) -> LatencyFaults:
    settings = ProducerSettings(**{"send_latency_enable": True, **settings})  # type: ignore[arg-type]
    return LatencyFaults(settings, is_known, answers, seconds, random.Random(1))


def told(kept: LatencyFaults, latency_ms: int = 0, *, isolated: bool = False, reachable: bool = True) -> None:
    kept.update("a", latency_ms, is_isolated=isolated, is_reachable=reachable)


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [
        (0, 0),
        (100, 0),
        (549, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (2_999, 5_000),
        (3_000, 6_000),
        (4_999, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
        (99_999, 30_000),
    ],
)
def test_for_how_long_a_slow_broker_is_avoided(
    seconds: ManualSeconds, latency_ms: int, avoided_ms: int
) -> None:
    """Rows duration, 7: latency table, and available: now >= until."""
    kept = faults(seconds)
    told(kept, latency_ms)
    seconds.advance((avoided_ms - 1) / 1000)
    assert kept.is_available("a") is (avoided_ms == 0)
    seconds.advance(0.001)
    assert kept.is_available("a")


def test_an_isolated_broker_is_out_for_10_s(seconds: ManualSeconds) -> None:
    """Row duration: 10,000 if isolated."""
    kept = faults(seconds)
    told(kept, 1, isolated=True)
    seconds.advance(9.999)
    assert not kept.is_available("a")
    seconds.advance(0.001)
    assert kept.is_available("a")


def test_a_quick_success_does_not_end_an_isolation(seconds: ManualSeconds) -> None:
    """Row until: only ever moved later, and not at all by 0."""
    kept = faults(seconds)
    told(kept, 15_000)
    told(kept, 1)
    told(kept, 600)
    seconds.advance(29.999)
    assert not kept.is_available("a")
    seconds.advance(-29.0)
    told(kept, 15_000)
    seconds.advance(29.999)
    assert not kept.is_available("a"), "moved later"


def test_reachable_is_as_told_last(seconds: ManualSeconds) -> None:
    """Rows available, reachable: an unknown broker is both; set back by the next update."""
    kept = faults(seconds)
    assert (kept.is_available("a"), kept.is_reachable("a")) == (True, True)
    told(kept, isolated=True, reachable=False)
    assert (kept.is_available("a"), kept.is_reachable("a")) == (False, False)
    told(kept)
    assert kept.is_reachable("a")


def test_nothing_is_kept_while_it_is_off(seconds: ManualSeconds) -> None:
    """Off by default (sendLatencyEnable)."""
    assert not LatencyFaults(ProducerSettings(), bool, bool, seconds, random.Random(1)).is_enabled
    kept = faults(seconds, send_latency_enable=False)
    told(kept, 15_000, isolated=True, reachable=False)
    assert (kept.is_available("a"), kept.is_reachable("a")) == (True, True)


def test_the_detector_sets_reachable_back(seconds: ManualSeconds) -> None:
    """Row detector: each item not looked at for 2 s; one that answers within 200 ms is reachable."""
    asked = []
    answer: list[Exception | float] = [OSError("no"), 0.201, 0.2]

    def ask(name: str) -> None:
        asked.append(name)
        outcome = answer.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        seconds.advance(outcome)

    kept = faults(seconds, answers=ask)
    told(kept, isolated=True, reachable=False)
    reachable = []
    for _ in range(3):
        kept.detect_once()
        reachable.append(kept.is_reachable("a"))
        seconds.advance(1)
        kept.detect_once()
        seconds.advance(1)
    assert reachable == [False, False, True]
    assert len(asked) == 3


def test_the_detector_forgets_brokers_that_are_gone(seconds: ManualSeconds) -> None:
    """Row detector: address unknown: item removed."""
    kept = faults(seconds, is_known=lambda name: False)
    told(kept, isolated=True, reachable=False)
    kept.detect_once()
    assert (kept.is_available("a"), kept.is_reachable("a")) == (True, True)


def test_pick_one_at_least(seconds: ManualSeconds) -> None:
    """Row pickOneAtLeast: a random one among the reachable items, else none."""
    kept = faults(seconds)
    assert kept.pick_one_at_least() is None
    for name, reachable in (("a", False), ("b", True), ("c", True)):
        kept.update(name, 0, is_isolated=True, is_reachable=reachable)
    assert {kept.pick_one_at_least() for _ in range(40)} == {"b", "c"}


def test_the_detector_runs_only_when_it_is_wanted(seconds: ManualSeconds) -> None:
    """Row detector: off by default. With it on there is a thread until `stop`."""
    off, on = faults(seconds), faults(seconds, start_detector_enable=True)
    off.start()
    assert off._detector._thread is None
    on.start()
    thread = on._detector._thread
    assert thread is not None
    assert thread.is_alive()
    on.stop()
    assert not thread.is_alive()
    off.stop()
