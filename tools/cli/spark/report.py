"""`mqstore spark report`: failures, retries, dead letters, delays and growth of some logs.

    $ mqstore spark report data --out report.html
    Failures per message
    group    failures  messages  no_later_failure  waiting  dead
    billing         3       120               118        2     0

With --out also as one HTML page with charts, which loads nothing from anywhere. Safe on a live store.
What each number means: tools/spark/report/definitions.py, and the page itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mqstore.tools.cli.command import Command
from mqstore.tools.cli.options import json_option
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.spark.job_options import conf_option, master_option, stores_argument
from mqstore.tools.spark.jobs.job_errors import TargetTaken
from mqstore.tools.spark.jobs.job_session import parse_settings
from mqstore.tools.spark.report.definitions import TABLES
from mqstore.tools.spark.report.report_charts import require_charts
from mqstore.tools.spark.report.retry_report import make_report

__all__ = ["report"]


class TableRow(Row):
    """One row of one table."""

    table: str
    row: dict[str, Any]


@click.command(cls=Command)
@stores_argument
@click.option("--out", "-o", type=SHELL_PATH, metavar="FILE", help="A page with charts: report.html.")
@click.option("--force", is_flag=True, help="Replace a page that is there.")
@master_option
@conf_option
@json_option
def report(
    stores: tuple[Path, ...],
    out: Path | None,
    force: bool,
    master: str,
    conf: tuple[str, ...],
    json: bool,
) -> None:
    """Count failures per message, dead letters, lateness of delays and growth, from the logs of some stores.

    Times end in _ms: epoch ms and durations.

    Example: mqstore spark report data --out report.html
    """
    if out is not None:
        require_charts()
        if out.exists() and not force:
            raise TargetTaken(str(out), "give another name, or --force to replace it")
    made = make_report(stores, master=master, settings=parse_settings(conf))
    output = Output(is_json=json)
    for table in TABLES:
        _show(output, table.name, table.title, made.tables[table.name])
    if out is not None:
        out.write_text(made.page(), encoding="utf-8")
        output.note(f"the page: {out}")


def _show(output: Output, name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = [_column(key, rows) for key in rows[0]] if rows else []
    shown = [TableRow(table=name, row=dict(row)) for row in rows]
    if not output.listing(shown, columns, title=title):
        output.text(f"\n{title}: none")


def _column(key: str, rows: Sequence[Mapping[str, Any]]) -> Column[TableRow]:
    is_number = any(isinstance(row[key], int) for row in rows)
    return Column[TableRow](key, lambda shown: shown.row[key], "right" if is_number else "left")
