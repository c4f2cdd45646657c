"""The flights chart: dead letters per carrier and month as a heat map, their totals beside it, as a PNG file.

Matplotlib is imported when a chart is drawn; it opens no window.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ReportRow", "draw_chart"]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_COLORS = "YlOrRd"
_BAR_COLOR = "#b10026"
_DARK_SHARE = 9.0  # percent; figures on darker cells are white
_DARKEST_SHARE = 15.0  # percent; one bad month of a small carrier must not make all others pale


class ReportRow(NamedTuple):
    """One carrier in one month. `missing` is what the CSV says; the three before it, what Spark found."""

    carrier: str
    month: int
    flights: int
    retry_deliveries: int
    dead_letters: int
    missing: int


def draw_chart(rows: Sequence[ReportRow], carrier_names: Mapping[str, str], chart_path: Path) -> None:
    """Draw `rows` into `chart_path`, making its directory. A carrier without a name shows its code."""
    from matplotlib.figure import Figure

    carriers = _most_dead_letters_first(rows)
    figure = Figure(figsize=(14, 7.5), layout="constrained")
    figure.suptitle("Flights without an arrival: dead letters of New York's departures, 2013", fontsize=16)
    shares, totals = figure.subplots(1, 2, width_ratios=(3.2, 1), sharey=True)
    _draw_shares(figure, shares, rows, list(carriers))
    shares.set_yticks(range(len(carriers)), [_label(carrier, carrier_names) for carrier in carriers])
    _draw_totals(totals, list(carriers.values()))
    chart_path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(chart_path, dpi=120)


def _most_dead_letters_first(rows: Sequence[ReportRow]) -> dict[str, int]:
    dead_letters: Counter[str] = Counter()
    for row in rows:
        dead_letters[row.carrier] += row.dead_letters
    return dict(dead_letters.most_common())


def _label(carrier: str, names: Mapping[str, str]) -> str:
    name = names.get(carrier, "").removesuffix("Inc.").removesuffix("Co.").strip()
    return f"{name}  {carrier}" if name else carrier


def _draw_shares(figure: "Figure", axes: "Axes", rows: Sequence[ReportRow], carriers: list[str]) -> None:
    shares = _share_table(rows, carriers)
    image = axes.imshow(shares, cmap=_COLORS, vmin=0, vmax=_DARKEST_SHARE, aspect="auto")
    for (carrier, month), share in np.ndenumerate(shares):
        if not np.isnan(share):
            color = "white" if share > _DARK_SHARE else "black"
            axes.text(month, carrier, f"{share:.1f}", ha="center", va="center", fontsize=8, color=color)
    axes.set_title("Dead letters in percent of the month's flights")
    axes.set_xlabel("Month")
    axes.set_ylabel("Carrier")
    axes.set_xticks(range(len(_MONTHS)), _MONTHS)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, location="left", pad=0.02, shrink=0.6, extend="max")
    bar.set_label("% of flights in %DLQ%arrivals (no flights: blank)")


def _share_table(rows: Sequence[ReportRow], carriers: list[str]) -> npt.NDArray[np.float64]:
    """Percent of dead letters, carriers down and months across; NaN where nothing flew."""
    shares = np.full((len(carriers), len(_MONTHS)), np.nan)
    for row in rows:
        if row.flights and 1 <= row.month <= len(_MONTHS):
            shares[carriers.index(row.carrier), row.month - 1] = 100 * row.dead_letters / row.flights
    return shares


def _draw_totals(axes: "Axes", totals: list[int]) -> None:
    bars = axes.barh(range(len(totals)), totals, color=_BAR_COLOR, label="%DLQ%arrivals")
    axes.bar_label(bars, labels=[f"{total:,}" for total in totals], padding=4, fontsize=9)
    axes.set_title(f"In the year: {sum(totals):,}")
    axes.set_xlabel("Dead letters")
    axes.margins(x=0.22)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.legend(loc="lower right", frameon=False, bbox_to_anchor=(1, 0.1))
