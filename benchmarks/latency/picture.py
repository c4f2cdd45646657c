"""The latencies as a picture: a row for each kind of put, a column for each load, a line for each store.

From left to right the percentiles, each mark ten times as rare as the one before it; both axes are
logarithmic. The line is the sum of all rounds, the band goes from the least to the greatest round.
"""

from pathlib import Path
from typing import Any

import numpy as np

from latency.latencies import Latencies
from latency.puts import EMPTY
from latency.results import KindResults, Results, Row
from latency.rounds import LOADS, OURS

__all__ = ["draw"]

# Told apart in grey and by the colour-blind, too, and as in chart.py.
STYLES = {
    OURS: ("#000000", "-"),
    "RocketMQ": ("#D55E00", "--"),
    "SQLite": ("#0072B2", "-."),
    "rocksdict": ("#CC79A7", (0, (5, 1))),
    EMPTY: ("#999999", ":"),
}
MARKS = {0.5: "50", 0.1: "90", 0.01: "99", 0.001: "99.9", 0.0001: "99.99"}
"""The share that is slower -> the percentile."""


def draw(results: Results, path: Path) -> None:
    """Write the picture to `path`."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    height = 0.9 + 3.1 * len(results.kinds)
    figure, grid = plt.subplots(
        len(results.kinds),
        len(LOADS),
        figsize=(15, height),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey="row",
    )
    for line, kind in zip(grid, results.kinds, strict=True):
        for axes, load in zip(line, LOADS, strict=True):
            _panel(axes, kind, load)
        line[0].set_ylabel(f"{kind.title}\nlatency, µs")
    for axes, load in zip(grid[0], LOADS, strict=True):
        axes.set_title(load, fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("percentile")
    handles = {
        handle.get_label(): handle for axes in grid.flat for handle in axes.get_legend_handles_labels()[0]
    }
    figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=5, frameon=False)
    figure.text(0.01, -0.01, results.how, fontsize=7, ha="left", va="top", wrap=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def _panel(axes: Any, kind: KindResults, load: str) -> None:
    for row in kind.at(load):
        _line(axes, row)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.6, 0.00001)
    axes.set_xticks(list(MARKS), list(MARKS.values()), fontsize=8)
    axes.minorticks_off()
    axes.grid(which="major", color="#DDDDDD")
    axes.set_axisbelow(True)


def _line(axes: Any, row: Row) -> None:
    """Up to the share of which there was one put: the slowest of all."""
    colour, style = STYLES[row.store]
    together = Latencies.together(row.rounds)
    slower = np.geomspace(0.5, max(1 / together.count, 0.00001), 60)
    percentiles = [100 * (1 - share) for share in slower]
    of_rounds = [[latencies.at_us(percentile) for percentile in percentiles] for latencies in row.rounds]
    axes.plot(
        slower,
        [together.at_us(percentile) for percentile in percentiles],
        color=colour,
        linestyle=style,
        linewidth=1.6,
        label=row.store,
    )
    axes.fill_between(
        slower, np.min(of_rounds, axis=0), np.max(of_rounds, axis=0), color=colour, alpha=0.12, linewidth=0
    )
