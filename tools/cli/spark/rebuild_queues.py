"""`mqstore spark rebuild-queues`: all consume queues of a store into a new directory, in parallel.

    $ mqstore spark rebuild-queues data --out data/consumequeue.new
    rebuilt: 1,949 entries in 12 queues

Refused while a writer has the store open; nothing of the store is changed. How: tools/spark/rebuild/.
"""

from pathlib import Path

import click

from mqstore.tools.cli.command import Command
from mqstore.tools.cli.open_store import way_out_of_lock
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.spark.job_options import conf_option, master_option, partition_bytes_option
from mqstore.tools.spark.jobs.job_session import parse_settings
from mqstore.tools.spark.rebuild.queue_rebuild import rebuild_queues as rebuild_queues_of

__all__ = ["rebuild_queues"]


class RebuiltRow(Row):
    """What was written."""

    out: str
    queues: int
    entries: int
    files: int
    end_offset: int


@click.command(cls=Command)
@store_argument
@click.option(
    "--out",
    "-o",
    type=SHELL_PATH,
    required=True,
    metavar="DIR",
    help="A new directory, to be moved in by you.",
)
@master_option
@conf_option
@partition_bytes_option
@json_option
def rebuild_queues(
    store: Path,
    out: Path,
    master: str,
    conf: tuple[str, ...],
    max_partition_bytes: int | None,
    json: bool,
) -> None:
    """Build all consume queues of a store from its log, byte for byte as they were, into a new directory.

    Exit codes: 2 the directory exists, 3 somebody writes, 4 the log is damaged (repair first).

    Example: mqstore spark rebuild-queues data --out data/consumequeue.new
    """
    with way_out_of_lock():
        report = rebuild_queues_of(
            store, out, master=master, settings=parse_settings(conf), max_partition_bytes=max_partition_bytes
        )
    row = RebuiltRow(
        out=str(report.target),
        queues=len(report.queues),
        entries=report.entries,
        files=sum(queue.files for queue in report.queues),
        end_offset=report.end_offset,
    )
    output = Output(is_json=json)
    if json:
        output.facts(row)
        return
    output.text(f"rebuilt: {row.entries:,} entries in {row.queues:,} queues")
    output.note(
        f"to use them: move {store}/consumequeue away, and {out} there, while nobody has the store open"
    )
