"""The JSON of a latency run as rows: a store at a load, with a histogram for each round."""

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results_file import machine_of, short

from latency.latencies import Latencies
from latency.rounds import LOADS, OUR_LOADS, OURS, OWN_LOADS

__all__ = ["KindResults", "Results", "Row", "load"]


@dataclass(frozen=True)
class Row:
    """rate: puts due in each second. rounds: the latencies of each. segments: the fewest of a round."""

    load: str
    store: str
    rate: float
    rounds: tuple[Latencies, ...]
    segments: int
    rounds_behind: int

    def at_us(self, percentile: float) -> tuple[float, float, float]:
        """Median, least and greatest of the rounds, in microseconds."""
        values = [latencies.at_us(percentile) for latencies in self.rounds]
        return statistics.median(values), min(values), max(values)

    def shown(self, percentile: float) -> str:
        """As a cell of the table."""
        median, least, greatest = self.at_us(percentile)
        return f"{short(median)} ({short(least)}-{short(greatest)})"


@dataclass(frozen=True)
class KindResults:
    """One kind of put. maxima: by store, puts a second one after the other. rows: in the table's order."""

    title: str
    maxima: dict[str, float]
    rows: tuple[Row, ...]

    def at(self, load: str) -> list[Row]:
        """The rows of one load. At its own rate, mqstore stands beside the others that run at it too."""
        ours = dict(zip(OUR_LOADS, OWN_LOADS, strict=True)).get(load)
        return [row for row in self.rows if row.load == load or (row.load == ours and row.store == OURS)]


@dataclass(frozen=True)
class Results:
    """A run: what was put, and the machine with the load averages in one line."""

    kinds: tuple[KindResults, ...]
    how: str


def load(path: Path) -> Results:
    """Read the JSON that pytest-benchmark wrote."""
    run = json.loads(path.read_text("utf-8"))
    infos = [benchmark["extra_info"] for benchmark in run["benchmarks"]]
    rounds = [measured for info in infos for row in info["runs"] for measured in row["rounds"]]
    averages = [measured["load_average"] for measured in rounds]
    count = max(len(row["rounds"]) for info in infos for row in info["runs"])
    how = (
        f"{count} rounds of {infos[0]['seconds']:g} s, median (least-greatest). {machine_of(run)}, "
        f"{min(averages):.1f} to {max(averages):.1f} during the rounds (the generator alone is 1)."
    )
    return Results(tuple(map(_kind, infos)), how)


def _kind(info: dict[str, Any]) -> KindResults:
    rows = sorted(map(_row, info["runs"]), key=lambda row: LOADS.index(row.load))
    maxima = {store: statistics.median(rates) for store, rates in info["maxima"].items()}
    return KindResults(info["kind"], maxima, tuple(rows))


def _row(run: dict[str, Any]) -> Row:
    return Row(
        run["load"],
        run["store"],
        run["rate"],
        tuple(Latencies.decode(measured["histogram"]) for measured in run["rounds"]),
        min(measured["segments"] for measured in run["rounds"]),
        sum(measured["fell_behind"] for measured in run["rounds"]),
    )
