"""The tables and the picture of a latency run, from its JSON.

usage: python benchmarks/latency_report.py RESULTS.json [--chart FILE.png] [--documents]

--documents writes them into docs/benchmarks.md, between the markers there.
"""

from pathlib import Path

import click
from latency.latencies import PERCENTILES
from latency.picture import draw
from latency.results import KindResults, Results, Row, load
from report import ROOT, markdown, replace_between, show

HEADINGS = (
    "load",
    "store",
    "puts/s",
    "puts a round",
    "segments",
    *("max" if percentile == 100 else f"p{percentile:g}" for percentile in PERCENTILES),
)
PAGE = ROOT / "docs" / "benchmarks.md"


def cells(row: Row) -> tuple[str, ...]:
    """A line of the table."""
    behind = f", fell behind in {row.rounds_behind}" if row.rounds_behind else ""
    return (
        row.load,
        row.store,
        f"{row.rate:,.0f}{behind}",
        f"{min(latencies.count for latencies in row.rounds):,}",
        str(row.segments or ""),
        *map(row.shown, PERCENTILES),
    )


def maxima_of(kind: KindResults) -> str:
    """What each store does at most, in a sentence."""
    rates = ", ".join(f"{store} {rate:,.0f}" for store, rate in kind.maxima.items())
    return f"Puts a second, one after the other: {rates}."


def page_text(results: Results, chart: Path | None) -> str:
    """What stands between the markers."""
    parts = []
    for kind in results.kinds:
        parts += [
            f"### {kind.title}",
            f"Latencies in microseconds. {maxima_of(kind)}",
            markdown(HEADINGS, map(cells, kind.rows)),
        ]
    parts.append(f"`make bench-latency`: {results.how}")
    if chart is not None:
        parts.append(f"![latencies](../{chart.resolve().relative_to(ROOT).as_posix()})")
    return "\n\n".join(parts)


@click.command(context_settings={"show_default": True})
@click.argument("results_path", type=click.Path(path_type=Path))
@click.option("--documents", is_flag=True)
@click.option("--chart", type=click.Path(path_type=Path))
def main(results_path: Path, documents: bool, chart: Path | None) -> None:
    """Print the tables."""
    results = load(results_path)
    for kind in results.kinds:
        show(f"latency of a put, µs: {kind.title}", HEADINGS, map(cells, kind.rows), maxima_of(kind))
    print(results.how)
    if chart is not None:
        draw(results, chart)
    if documents:
        replace_between(PAGE, "latency", page_text(results, chart))


if __name__ == "__main__":
    main()
