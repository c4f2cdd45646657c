"""The ratios as a picture: a line for each kind of work, a mark for each rival with its spread."""

from collections.abc import Sequence
from pathlib import Path

from results_file import COLUMNS, Results, Row

__all__ = ["draw"]

# Told apart in grey and by the colour-blind, too: Okabe and Ito's colours, and a mark of its own for each.
STYLES = {
    "RocketMQ": ("#D55E00", "D"),
    "SQLite": ("#0072B2", "o"),
    "LMDB": ("#009E73", "s"),
    "rocksdict": ("#CC79A7", "^"),
    "persist-queue": ("#8C6D1F", "v"),
    "diskcache": ("#56B4E9", "P"),
    "bare": ("#555555", "X"),
    "fresh JVM": ("#E69F00", "d"),
}
LABELS = {"bare": "bare disk or CRC", "fresh JVM": "RocketMQ in a fresh JVM"}
# It would take three quarters of the width to say that memory is faster than any store.
LEFT_OUT = frozenset(["memcpy"])


def draw(results: Results, rows: Sequence[Row], path: Path) -> None:
    """Write the picture to `path`; nothing when no row has a rival."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    rows = [row for row in rows if row.rivals]
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(11, 1.8 + 0.52 * len(rows)), layout="constrained")
    for column, names in COLUMNS.items():
        colour, marker = STYLES[column]
        places, medians, spreads = [], [], []
        for line, row in enumerate(rows):
            ratio = next((row.ratio(name) for name in names if name in row.us and name not in LEFT_OUT), None)
            if ratio is not None:
                # A little apart, so that rivals of the same speed do not hide each other.
                places.append(line + 0.09 * (list(COLUMNS).index(column) - 3))
                medians.append(ratio.median)
                spreads.append((ratio.median - ratio.least, ratio.greatest - ratio.median))
        if places:
            axes.errorbar(
                medians,
                places,
                xerr=list(zip(*spreads, strict=True)),
                fmt=marker,
                color=colour,
                markersize=8,
                elinewidth=1.4,
                capsize=3,
                label=LABELS.get(column, column),
            )
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [f"{row.work}\n{row.per_second():,.0f}/s" for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.grid(axis="x", which="major", color="#DDDDDD")
    for line in range(len(rows) - 1):
        axes.axhline(line + 0.5, color="#EEEEEE", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(
        "times as fast as the rival (right of 1: mqstore is faster); bars: least and greatest of the rounds"
    )
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    figure.text(0.01, -0.012, results.machine, fontsize=7, ha="left", va="top", wrap=True)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)
