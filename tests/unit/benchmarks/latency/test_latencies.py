"""Latencies: histograms of runs.

Goal: no operation is lost on the way from the generator to the table, and the text that the Java driver
writes is understood. Method: known latencies, counted, encoded, decoded and added.
"""

import pytest
from latency.latencies import Latencies

# Written by HdrHistogram 2.2.2 in Java: 1, 1,000 and 1,000,000 ns, one of each.
WRITTEN_IN_JAVA = "HISTFAAAACl4nJNpmSzMwMDAyQABzFCaEch0M9ixgMH+A1SE6TQ/0/t5jEwAgfEGwg=="


def test_percentiles() -> None:
    """So many percent of the operations were not slower, to three digits."""
    latencies = Latencies.of([microsecond * 1_000 for microsecond in range(1, 10_001)])
    assert latencies.count == 10_000
    assert latencies.at_us(50) == pytest.approx(5_000, rel=0.001)
    assert latencies.at_us(99.9) == pytest.approx(9_990, rel=0.001)
    assert latencies.at_us(100) == pytest.approx(10_000, rel=0.001)


def test_text_and_back() -> None:
    """The text of a histogram is all of it."""
    latencies = Latencies.of([1, 250, 250, 90_000, 7_000_000_000])
    again = Latencies.decode(latencies.encode())
    assert repr(again) == repr(latencies)
    assert again.count == 5


def test_the_text_of_the_java_driver() -> None:
    """Both sides write the same format."""
    latencies = Latencies.decode(WRITTEN_IN_JAVA)
    assert latencies.count == 3
    assert latencies.at_us(50) == pytest.approx(1, rel=0.001)
    assert latencies.at_us(100) == pytest.approx(1_000, rel=0.001)


def test_rounds_together() -> None:
    """The sum counts what each round counted."""
    together = Latencies.together([Latencies.of([1_000] * 99), Latencies.of([5_000_000])])
    assert together.count == 100
    assert together.at_us(99) == pytest.approx(1, rel=0.001)
    assert together.at_us(100) == pytest.approx(5_000, rel=0.001)


def test_what_is_longer_than_an_hour_is_an_error() -> None:
    """It is not dropped."""
    with pytest.raises(AssertionError, match="longer than an hour"):
        Latencies.of([36_000_000_000_000])


def test_what_ended_when_it_was_due_counts() -> None:
    """A clock that does not move between due time and end is no reason to drop the operation."""
    assert Latencies.of([0]).count == 1
