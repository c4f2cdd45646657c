"""The charts of the report, as SVG texts to stand in a page.

Matplotlib is imported when a chart is drawn; it opens no window. Texts stay texts, in the font of the page.
"""

import io
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from mqstore.store.errors import StoreError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ChartsNotInstalled", "draw_charts", "require_charts"]

Rows = Sequence[Mapping[str, Any]]

_COLORS: Final = {"no_later_failure": "#2f855a", "waiting": "#d69e2e", "dead": "#b10026"}
_MOST_BARS: Final = 20
_MOST_TOPICS: Final = 8
_MOST_LETTERS: Final = 40
_SECOND_MS: Final = 1_000
_DAY_MS: Final = 86_400_000
_LAST_DAY_MS: Final = 2_932_896 * _DAY_MS
"""9999-12-31: matplotlib has no later times."""


class ChartsNotInstalled(StoreError):
    """The package matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the page of the report needs matplotlib: pip install matplotlib, or leave the page out"
        )


def require_charts() -> None:
    """Raise ChartsNotInstalled where no chart can be drawn."""
    if find_spec("matplotlib") is None:
        raise ChartsNotInstalled


def draw_charts(tables: Mapping[str, Rows]) -> dict[str, str]:
    """A chart for each table that has rows to draw, by the table's name."""
    drawers: dict[str, Callable[[Axes, Rows], None]] = {
        "attempts": _draw_attempts,
        "recovery": _draw_recovery,
        "dead_letters": _draw_dead_letters,
        "lateness": _draw_lateness,
        "growth": _draw_growth,
    }
    drawn = dict(tables) | {"lateness": [row for row in tables["lateness"] if row["delivered"]]}
    return {name: _svg(draw, drawn[name]) for name, draw in drawers.items() if drawn[name]}


def _svg(draw: "Callable[[Axes, Rows], None]", rows: Rows) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": draw.__name__,
        "font.size": 10,
        "text.parse_math": False,  # a dollar sign in a topic's name begins no formula
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        # Of letters that its own font lacks; the page is shown in fonts of the reader.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        axes = figure.subplots()
        draw(axes, rows)
        axes.spines[["top", "right"]].set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # Ids are those of one file; several charts stand in one page.
    name = draw.__name__.removeprefix("_draw_")
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)


def _label(text: str) -> str:
    """Shortened, for a name may have 127 characters and more."""
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def _explain(axes: "Axes") -> None:
    """A legend above the chart, where it hides nothing."""
    axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def _bars(axes: "Axes", labels: Sequence[str], values: Sequence[float], color: str, **more: Any) -> None:
    places = range(len(labels))
    axes.barh(places, values, color=color, **more)
    axes.set_yticks(places, [_label(label) for label in labels])


def _draw_attempts(axes: "Axes", rows: Rows) -> None:
    failures = sorted({row["failures"] for row in rows})
    bottoms = [0] * len(failures)
    for name, color in _COLORS.items():
        counts = [sum(row[name] for row in rows if row["failures"] == each) for each in failures]
        axes.bar(list(map(str, failures)), counts, bottom=bottoms, color=color, label=name.replace("_", " "))
        bottoms = [one + other for one, other in zip(bottoms, counts, strict=True)]
    axes.set_xlabel("Failures so far, all groups")
    axes.set_ylabel("Messages")
    _explain(axes)


def _draw_recovery(axes: "Axes", rows: Rows) -> None:
    shown = sorted(rows, key=lambda row: row["messages"])[-_MOST_BARS:]
    labels = [row["group"] for row in shown]
    _bars(axes, labels, [row["p95_ms"] / _SECOND_MS for row in shown], "#c3dafe", label="95 of 100 within")
    _bars(
        axes, labels, [row["median_ms"] / _SECOND_MS for row in shown], "#3c6ab5", height=0.4, label="median"
    )
    axes.set_xlabel("Seconds from birth to the last attempt")
    _explain(axes)


def _draw_dead_letters(axes: "Axes", rows: Rows) -> None:
    shown = list(reversed(rows[:_MOST_BARS]))
    labels = [f"{row['topic']} · {row['group']} · {row['tags'] or 'no tag'}" for row in shown]
    _bars(axes, labels, [row["dead_letters"] for row in shown], _COLORS["dead"])
    axes.set_xlabel("Dead letters, by topic, group and tag")


def _draw_lateness(axes: "Axes", rows: Rows) -> None:
    shown = rows[:_MOST_BARS]
    labels = [f"level {row['level']} ({row['delay_ms'] / _SECOND_MS:g} s)" for row in shown]
    _bars(axes, labels, [row["p95_ms"] for row in shown], "#fbd38d", label="95 of 100 within")
    _bars(axes, labels, [row["median_ms"] for row in shown], "#c05621", height=0.4, label="median")
    axes.set_xlabel("Milliseconds late")
    _explain(axes)


def _draw_growth(axes: "Axes", rows: Rows) -> None:
    totals: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        totals[row["topic"]] += row["messages"]
    greatest = sorted(totals, key=lambda topic: (-totals[topic], topic))[:_MOST_TOPICS]
    bucket_ms = rows[0]["bucket_ms"]
    begins = [begin for begin in sorted({row["begin_ms"] for row in rows}) if 0 <= begin < _LAST_DAY_MS]
    counts: dict[str, dict[int, int]] = {topic: {} for topic in [*greatest, "others"]}
    for row in rows:
        of_topic = counts[row["topic"] if row["topic"] in greatest else "others"]
        of_topic[row["begin_ms"]] = of_topic.get(row["begin_ms"], 0) + row["messages"]
    counts = {topic: of_topic for topic, of_topic in counts.items() if of_topic}
    days = [begin / _DAY_MS for begin in begins]  # matplotlib's dates: days since 1970
    bars, bottoms = [], [0] * len(days)
    for of_topic in counts.values():
        heights = [of_topic.get(begin, 0) for begin in begins]
        bars.append(axes.bar(days, heights, bucket_ms / _DAY_MS, bottoms, align="edge"))
        bottoms = [one + other for one, other in zip(bottoms, heights, strict=True)]
    axes.xaxis_date(UTC)
    axes.set_xlabel("Store time, UTC")
    axes.set_ylabel("Messages")
    labels = [_label(topic) for topic in counts]
    axes.legend(bars, labels, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.tick_params(axis="x", labelrotation=20)
