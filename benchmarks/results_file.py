"""The JSON of a run as rows: what each contestant needed in each round, and the ratios.

A ratio is the rival's time over ours in neighbouring rounds: above 1 we are faster.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "Ratio", "Results", "Row", "load", "machine_of", "short"]

OURS = "mqstore"

COLUMNS: dict[str, tuple[str, ...]] = {
    "RocketMQ": ("RocketMQ",),
    "SQLite": ("SQLite WAL NORMAL", "SQLite WAL FULL"),
    "LMDB": ("LMDB nosync", "LMDB sync"),
    "rocksdict": ("rocksdict", "rocksdict sync"),
    "persist-queue": ("persist-queue file", "persist-queue SQLite"),
    "diskcache": ("diskcache Deque",),
    "bare": (
        "raw pwrite+fdatasync",
        "memcpy",
        "CRC + memcpy",
        "zlib.crc32",
        "get_message loop",
        "put_message",
    ),
    "fresh JVM": ("RocketMQ, fresh JVM",),
}
"""Column of the table -> the contestants that stand in it; a row has one of them."""


@dataclass(frozen=True)
class Ratio:
    """The rival's time over ours: median, and the spread over the rounds."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, theirs: Sequence[float], ours: Sequence[float]) -> "Ratio":
        """Of neighbouring rounds."""
        ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{short(self.median)} ({short(self.least)}-{short(self.greatest)})"


@dataclass(frozen=True)
class Row:
    """One kind of work. us: contestant -> microseconds a message, round by round. figures: other numbers."""

    work: str
    us: dict[str, list[float]]
    figures: dict[str, list[float]]

    def per_second(self, name: str = OURS) -> float:
        """Messages a second, the median of the rounds."""
        return 1e6 / statistics.median(self.us[name])

    def ratio(self, rival: str) -> Ratio | None:
        """None when the rival took no part."""
        return Ratio.of(self.us[rival], self.us[OURS]) if rival in self.us else None

    @property
    def rivals(self) -> list[str]:
        """All but ourselves."""
        return [name for name in self.us if name != OURS]


@dataclass(frozen=True)
class Results:
    """A run: its rows by title, and the machine in one line."""

    rows: dict[str, Row]
    machine: str


def load(path: Path) -> Results:
    """Read the JSON that pytest-benchmark wrote."""
    run = json.loads(path.read_text("utf-8"))
    infos = [benchmark["extra_info"] for benchmark in run["benchmarks"]]
    rows = {info["work"]: Row(info["work"], info["us"], info.get("figures", {})) for info in infos}
    return Results(rows, machine_of(run))


def machine_of(run: dict[str, Any]) -> str:
    """The machine, the versions and the load in one line."""
    info = run["machine_info"]
    cpu = info["cpu"]
    brand = cpu.get("brand_raw") or info.get("processor") or info["machine"]
    parts = [
        brand,
        f"{cpu.get('count')} cores",
        f"{info['memory_gib']} GiB",
        f"{info['system']} {info['release']}",
        f"{info['file_system']} for the stores",
        f"Python {info['python_version']}",
        f"RocketMQ {info['rocketmq'] or 'not there'}",
        f"load {info['load_at_start']} at the start",
        run["datetime"][:10],
    ]
    return ", ".join(parts)


def short(number: float) -> str:
    """Two significant digits, more where they are before the point."""
    if number >= 10:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2g}"
