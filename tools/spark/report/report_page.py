"""The page of the report: one HTML file with its charts in it, which loads nothing from anywhere."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from string import Template
from typing import Any, Final

from mqstore.tools.spark.report.definitions import LIMITS, TABLES, TableDefinition
from mqstore.tools.spark.report.report_charts import draw_charts

__all__ = ["report_page"]

Rows = Sequence[Mapping[str, Any]]

_MOST_ROWS: Final = 200
_SECOND_MS: Final = 1_000

_PAGE: Final = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Retry report</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1a202c; max-width: 62rem; margin: 2rem auto }
body { padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.2rem; margin-top: 2.5rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: 13px; color: #4a5568 }
dt { font-weight: 600 } dd { margin: 0 }
p.meaning, .about { color: #4a5568 } svg { width: 100%; height: auto; font-family: system-ui, sans-serif }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; white-space: nowrap }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; border-bottom: 1px solid #e2e8f0 }
td { white-space: normal; overflow-wrap: anywhere; min-width: 3rem; max-width: 24rem }
th.number, td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
</style>
</head>
<body>
<h1>Retry report</h1>
<p class="about">$about</p>
$sections
<h2>What the log does not tell</h2>
<ul>
$limits
</ul>
</body>
</html>
""")

_SECTION: Final = Template("""\
<section id="$name">
<h2>$title</h2>
<p class="meaning">$meaning</p>
<dl>
$terms
</dl>
$chart
$table
</section>
""")


def report_page(tables: Mapping[str, Rows], stores: Sequence[str]) -> str:
    """The page. tables: the rows of each table, by the names of definitions.py. Needs matplotlib."""
    charts = draw_charts(tables)
    return _PAGE.substitute(
        about=escape(f"From the log of {', '.join(stores)}. Times are UTC."),
        sections="\n".join(
            _section(table, tables[table.name], charts.get(table.name, "")) for table in TABLES
        ),
        limits="\n".join(f"<li>{escape(limit)}</li>" for limit in LIMITS),
    )


def _section(definition: TableDefinition, rows: Rows, chart: str) -> str:
    return _SECTION.substitute(
        name=definition.name,
        title=escape(definition.title),
        meaning=escape(definition.meaning),
        terms="\n".join(
            f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in definition.terms
        ),
        chart=chart,
        table=_table(rows) if rows else "<p>The log has none.</p>",
    )


def _table(rows: Rows) -> str:
    names = list(rows[0])
    numbers = {name for name in names if any(isinstance(row[name], int) for row in rows)}
    kinds = {name: ' class="number"' if name in numbers else "" for name in names}
    head = "".join(f"<th{kinds[name]}>{escape(_header(name))}</th>" for name in names)
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{kinds[name]}>{escape(_cell(name, row[name]))}</td>" for name in names)
        + "</tr>"
        for row in rows[:_MOST_ROWS]
    )
    rest = f"<p>{len(rows) - _MOST_ROWS:,} more rows: see --json.</p>" if len(rows) > _MOST_ROWS else ""
    return f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>{rest}'


def _header(name: str) -> str:
    """A column's name in words: times are shown as such, durations in seconds."""
    if name in ("first_ms", "last_ms", "begin_ms"):
        return name.removesuffix("_ms")
    return (
        f"{name.removesuffix('_ms')} (s)".replace("_", " ")
        if name.endswith("_ms")
        else name.replace("_", " ")
    )


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in ("first_ms", "last_ms", "begin_ms"):
        return _time(value)
    if name.endswith("_ms"):
        return f"{value / _SECOND_MS:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _time(time_ms: int) -> str:
    """The time; a number where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(time_ms // _SECOND_MS, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
