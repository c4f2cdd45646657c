"""`mqstore dump`: what is in one file of a store, straight from its bytes. Safe on a live store.

    $ mqstore dump data/commitlog/00000000000000000000 --count 1
    physical offset  kind  size  topic   queue  offset  stored at                tags ...
                  0  V1     153  orders      0       0  2026-07-18 12:30:00.123  created ...

For files of RocketMQ, too: index files, the timer log, checkpoint, config/*.json.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.maintenance.dump_rows import Dump, RecordRow, dump_of
from mqstore.tools.cli.options import json_option
from mqstore.tools.cli.output import Column, Output, Row, json_text
from mqstore.tools.cli.parameter_types import AMOUNT_OR_NONE, EXISTING_PATH
from mqstore.tools.cli.times import local_time

__all__ = ["dump"]

_RECORD_COLUMNS = (
    Column[RecordRow]("physical offset", lambda row: row.physical_offset, "right"),
    Column[RecordRow]("kind", lambda row: row.kind),
    Column[RecordRow]("size", lambda row: row.size, "right"),
    Column[RecordRow]("topic", lambda row: row.topic),
    Column[RecordRow]("queue", lambda row: row.queue_id, "right"),
    Column[RecordRow]("offset", lambda row: row.queue_offset, "right"),
    Column[RecordRow]("stored at", lambda row: local_time(row.store_timestamp or 0)),
    Column[RecordRow]("tags", lambda row: row.tags),
    Column[RecordRow]("keys", lambda row: " ".join(row.keys)),
    Column[RecordRow]("retries", lambda row: row.reconsume_times, "right"),
    Column[RecordRow]("body bytes", lambda row: row.body_length, "right"),
    Column[RecordRow]("compressed", lambda row: row.body_compression),
)


@click.command(cls=Command)
@click.argument("file", cls=Argument, type=EXISTING_PATH, help="A file inside a store.")
@click.option(
    "--from",
    "start",
    type=click.IntRange(min=0),
    default=0,
    help="Physical offset in a segment; number of the row elsewhere.",
)
@click.option("--count", type=AMOUNT_OR_NONE, default=100, help="At most so many rows; 0 for all.")
@json_option
def dump(file: Path, start: int, count: int, json: bool) -> None:
    """Show the records of a segment, the entries of a consume queue, or what else a file of a store holds.

    Exit code 4 where the bytes are damaged.

    Example: mqstore dump data/commitlog/00000000000000000000
    """
    found = None if file.is_dir() else dump_of(file.resolve())
    if found is None:
        raise ToolProblem(
            f"{file} is no file of a store: give a segment (commitlog/...), a consume queue file "
            "(consumequeue/TOPIC/QUEUE/...), an index or timer log file, checkpoint, or config/*.json",
            ExitCode.USAGE,
        )
    _show(Output(is_json=json), found, start, count or None)


def _show(output: Output, found: Dump, start: int, count: int | None) -> None:
    if found.rows is None:
        _show_document(output, found.document)
        return
    rows = found.rows(start)
    output.listing(*_with_columns(itertools.islice(rows, count)))
    if count is not None and next(rows, None) is not None and not output.is_json:
        output.note(f"there is more: --count 0 shows all, --from goes on in the {found.kind}")


def _with_columns(rows: Iterator[Any]) -> tuple[Iterator[Any], Sequence[Column[Any]]]:
    """The rows again, and columns for the kind of row that they are."""
    first = next(rows, None)
    if first is None:
        return iter(()), ()
    columns = _RECORD_COLUMNS if isinstance(first, RecordRow) else _columns_of(first)
    return itertools.chain((first,), rows), columns


def _columns_of(row: Row) -> list[Column[Any]]:
    return [_field_column(name) for name in row.__struct_fields__]


def _field_column(name: str) -> Column[Any]:
    """Times as local time, all else as it is."""
    if name.endswith("_timestamp"):
        return Column(name.replace("_", " "), lambda row: local_time(getattr(row, name)))
    return Column(name.replace("_", " "), lambda row: getattr(row, name), "right")


def _show_document(output: Output, document: dict[str, Any] | Row | None) -> None:
    if isinstance(document, Row):
        output.facts(document)
        return
    text = msgspec.json.encode(document)
    output.raw_line(json_text(text if output.is_json else msgspec.json.format(text, indent=2)))
