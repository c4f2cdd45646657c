"""The duty cycle of expensive work: how long a pause is, and that failed work needs none."""

import pytest

from mqstore.store.threads.duty_cycle import LONGEST_PAUSE_S, DutyCycle


class Clock:
    """Seconds, turned by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, 0.0), (0.5, 4.5), (1_000.0, LONGEST_PAUSE_S)])
def test_a_pause_is_nine_times_the_work(took_s: float, pause_s: float) -> None:
    """So the work takes a tenth of the time; but a minute is the longest pause."""
    clock = Clock()
    duty_cycle = DutyCycle(clock)
    assert duty_cycle.is_due

    def work() -> None:
        clock.now_s += took_s

    duty_cycle.run(work)
    assert duty_cycle.is_due == (pause_s == 0)
    clock.now_s += pause_s
    assert repr(duty_cycle) == "DutyCycle(is_due=True)"


def test_failed_work_may_be_tried_at_once() -> None:
    """Nothing is known of what it takes."""
    duty_cycle = DutyCycle(Clock())

    def fail() -> None:
        raise OSError("no such disk")

    with pytest.raises(OSError, match="no such disk"):
        duty_cycle.run(fail)
    assert duty_cycle.is_due
