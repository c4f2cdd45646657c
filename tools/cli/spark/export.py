"""`mqstore spark export`: messages as Parquet by topic and date, written by all tasks. Safe on a live store.

    $ mqstore spark export data --topic orders --out lake/orders
    topic     rows
    orders  20,000

What is written: tools/spark/jobs/parquet_export.py. `mqstore export` does the same without Spark.
"""

from pathlib import Path

import click

from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.options import begin_option, end_option, json_option, raw_option
from mqstore.tools.cli.output import Column, Output, Row
from mqstore.tools.cli.spark.job_options import conf_option, master_option, stores_argument
from mqstore.tools.cli.times import parse_time_ms
from mqstore.tools.spark.jobs.job_session import parse_settings
from mqstore.tools.spark.jobs.parquet_export import COMPRESSIONS, export_parquet

__all__ = ["export"]


class TopicRow(Row):
    """Rows written of one topic."""

    topic: str
    rows: int


_COLUMNS = (
    Column[TopicRow]("topic", lambda row: row.topic),
    Column[TopicRow]("rows", lambda row: f"{row.rows:,}", "right"),
)


@click.command(cls=Command)
@stores_argument
@click.option(
    "--out", "-o", required=True, metavar="PATH", help="Any directory that Spark can write: lake/, s3a://..."
)
@click.option("--topic", multiple=True, help="A topic. Repeatable; otherwise every record of the log.")
@begin_option
@end_option
@click.option("--compression", default=COMPRESSIONS[0], help=f"One of {', '.join(COMPRESSIONS)}.")
@raw_option
@click.option("--force", is_flag=True, help="Replace an export that is there.")
@master_option
@conf_option
@json_option
def export(
    stores: tuple[Path, ...],
    out: str,
    topic: tuple[str, ...],
    begin: str | None,
    end: str | None,
    compression: str,
    raw: bool,
    force: bool,
    master: str,
    conf: tuple[str, ...],
    json: bool,
) -> None:
    """Write messages as Parquet files by topic and date (UTC, of the store time), in parallel.

    Exit code 2: the target is there already.

    Example: mqstore spark export data --topic orders --out lake/orders --master 'local[4]'
    """
    counts = export_parquet(
        stores,
        out,
        topics=topic,
        begin_ms=_time_ms("--begin", begin),
        end_ms=_time_ms("--end", end),
        overwrite=force,
        compression=compression,
        options={"decompress": "false"} if raw else None,
        master=master,
        settings=parse_settings(conf),
    )
    output = Output(is_json=json)
    if not output.listing([TopicRow(topic=one.topic, rows=one.rows) for one in counts], _COLUMNS):
        output.note("there are no such messages")


def _time_ms(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_time_ms(text)
    except ValueError:
        raise ToolProblem(
            f"{option} {text!r} is no time: give epoch ms or 2026-07-18T12:30", ExitCode.USAGE
        ) from None
