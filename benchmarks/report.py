"""The tables of a run, from its JSON: ratios with their spread, and the goals.

usage: python benchmarks/report.py RESULTS.json [--documents] [--chart FILE.png]

--documents writes the table of goals' rows into README.md, and all rows and goals into docs/benchmarks.md,
between the markers there. Without it nothing is written but the chart, if one is asked for.
"""

from collections.abc import Iterable
from pathlib import Path

import click
from goals import GOALS
from results_file import COLUMNS, Results, Row, load
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
HEADINGS = ("work", "ours/s", *COLUMNS)
GOAL_HEADINGS = ("work", "at least", "measured", "")
SYNC_OF_ONE = "put_message, 1 thread, SYNC, 1 KiB"
BARE_DISK = "raw pwrite+fdatasync"


def cells(row: Row) -> tuple[str, ...]:
    """Our rate, and the ratio to the contestant of each column."""
    taken = [next((name for name in names if name in row.us), None) for names in COLUMNS.values()]
    return (
        row.work,
        f"{row.per_second():,.0f}",
        *("" if name is None else str(row.ratio(name)) for name in taken),
    )


def goal_rows(results: Results) -> list[tuple[str, ...]]:
    """Each goal, what was measured, and whether it is reached."""
    verdicts = (goal.verdict(results) for goal in GOALS)
    return [(verdict.work, verdict.wanted, verdict.measured, verdict.word) for verdict in verdicts]


def disk_of(results: Results) -> str:
    """What one write and sync takes on the run's disk, as a sentence: ratios in SYNC_FLUSH depend on it."""
    row = results.rows.get(SYNC_OF_ONE)
    if row is None or BARE_DISK not in row.us:
        return ""
    return f"On this disk one pwrite and fdatasync of 1 KiB takes {1e6 / row.per_second(BARE_DISK):,.0f} µs."


def rows_of_goals(results: Results) -> list[Row]:
    """The rows that a goal looks at, in the run's order."""
    titles = {goal.work for goal in GOALS}
    return [row for title, row in results.rows.items() if title in titles]


def without_empty_columns(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[list[str]]:
    """Headings and rows, but for the columns in which nothing stands."""
    filled = list(rows)
    kept = [at for at, heading in enumerate(headings) if not heading or any(row[at] for row in filled)]
    return [[line[at] for at in kept] for line in (headings, *filled)]


def markdown(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table as Markdown."""
    head, *body = without_empty_columns(headings, rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))


def replace_between(document: Path, name: str, text: str) -> None:
    """Put `text` between the two markers called `name`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = document.read_text("utf-8")
    head, found, rest = whole.partition(begin)
    _, closed, tail = rest.partition(end)
    assert found, f"{document.name} has no marker {begin}"
    assert closed, f"{document.name} has no marker {end}"
    document.write_text(f"{head}{begin}\n{text}\n{end}{tail}", "utf-8")


def write_documents(results: Results) -> None:
    """README.md and docs/benchmarks.md."""
    machine = (
        f"Times as fast as the rival: median (least-greatest) of neighbouring rounds. {results.machine}."
    )
    of_goals = markdown(HEADINGS, map(cells, rows_of_goals(results)))
    all_rows = markdown(HEADINGS, map(cells, results.rows.values()))
    goals = f"{markdown(GOAL_HEADINGS, goal_rows(results))}\n\n{disk_of(results)}"
    replace_between(ROOT / "README.md", "benchmark table", f"{of_goals}\n\n{machine}")
    page = ROOT / "docs" / "benchmarks.md"
    replace_between(page, "benchmark table", f"{all_rows}\n\n{machine}")
    replace_between(page, "goals", goals)


def show(title: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], caption: str = "") -> None:
    """A table on the terminal."""
    head, *body = without_empty_columns(headings, rows)
    table = Table(*head, title=title, caption=caption)
    for line in body:
        table.add_row(*line)
    Console(width=None if Console().is_terminal else 200).print(table)


@click.command(context_settings={"show_default": True})
@click.argument("results_path", type=click.Path(path_type=Path))
@click.option("--documents", is_flag=True)
@click.option("--chart", type=click.Path(path_type=Path))
def main(results_path: Path, documents: bool, chart: Path | None) -> None:
    """Print the tables."""
    results = load(results_path)
    show("times as fast as the rival", HEADINGS, map(cells, results.rows.values()), results.machine)
    show(
        "goals",
        GOAL_HEADINGS,
        (row for row in goal_rows(results) if documents or row[3] != "not measured"),
    )
    if documents:
        write_documents(results)
    if chart is not None:
        from chart import draw

        draw(results, rows_of_goals(results), chart)


if __name__ == "__main__":
    main()
