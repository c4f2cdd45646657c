"""Latencies of one run as an HDR histogram: three significant digits, from a nanosecond to an hour.

Its text is HdrHistogram's own (compressed, base64), which the Java driver writes as well. Histograms of
several runs can be added, so that nothing but the figures themselves is kept in a results file.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from hdrh.histogram import HdrHistogram

__all__ = ["PERCENTILES", "Latencies"]

PERCENTILES = (50.0, 99.0, 99.9, 99.99, 100.0)
"""Those of the tables; 100 is the greatest."""

_GREATEST_NS = 3_600_000_000_000
_DIGITS = 3


class Latencies:
    """How often each latency was measured."""

    def __init__(self, histogram: HdrHistogram | None = None) -> None:
        self._histogram = HdrHistogram(1, _GREATEST_NS, _DIGITS) if histogram is None else histogram

    @classmethod
    def of(cls, latencies_ns: Sequence[int]) -> "Latencies":
        """Counts each of `latencies_ns`."""
        latencies = cls()
        values, counts = np.unique(np.asarray(latencies_ns, np.int64), return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            is_counted = latencies._histogram.record_value(max(1, value), count)
            assert is_counted, f"{value} ns is longer than an hour"
        return latencies

    @classmethod
    def decode(cls, text: str) -> "Latencies":
        """From `encode`, or from the Java driver."""
        return cls(HdrHistogram.decode(text))

    @classmethod
    def together(cls, several: Iterable["Latencies"]) -> "Latencies":
        """The sum of several runs."""
        total = cls()
        for latencies in several:
            total._histogram.add(latencies._histogram)
        return total

    def encode(self) -> str:
        """HdrHistogram's text."""
        text: bytes = self._histogram.encode()
        return text.decode()

    def at_us(self, percentile: float) -> float:
        """The latency that so many percent do not exceed, in microseconds."""
        ns: int = self._histogram.get_value_at_percentile(percentile)
        return ns / 1e3

    @property
    def count(self) -> int:
        """How many were counted."""
        total: int = self._histogram.get_total_count()
        return total

    def __repr__(self) -> str:
        shown = ", ".join(f"p{percentile:g}={self.at_us(percentile):g} us" for percentile in PERCENTILES)
        return f"Latencies({self.count:,}: {shown})" if self.count else "Latencies(0)"
