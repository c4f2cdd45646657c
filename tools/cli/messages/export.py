"""`mqstore export`: messages as rows of Parquet, JSON lines or CSV. Safe on a live store.

    $ mqstore export data --topic orders --out orders.parquet
    exported 20,000 rows of 1 topic to orders.parquet: 1 file, 402,113 bytes

Ctrl-C ends it after the current batch, and nothing of it is left. What it does with a store is in
tools/export/store_export.py; how it looks on a terminal is here.
"""

import codecs
import io
import sys
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click
import msgspec

from mqstore.store.clock import END_OF_TIME_MS
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.interruption import interruptible
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import begin_option, end_option, json_option, raw_option, store_argument
from mqstore.tools.cli.output import Output, Row, json_text
from mqstore.tools.cli.parameter_types import MemberOf
from mqstore.tools.cli.progress import Work, WorkBoard, progress
from mqstore.tools.cli.times import parse_time_ms
from mqstore.tools.export import ExportReport
from mqstore.tools.export import export as export_store
from mqstore.tools.ingest.row_files import RowFormat

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["export"]


class Compression(StrEnum):
    """Of all formats; each has some of them."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    NONE = "none"


class ExportRow(Row):
    """What was exported; `topics` has the rows of each topic."""

    out: str
    format: str
    rows: int
    topics: dict[str, int]
    files: int
    bytes: int
    left_out: tuple[str, ...]


@click.command(cls=Command)
@store_argument
@click.option(
    "--out",
    "-o",
    required=True,
    metavar="FILE|DIR",
    help="A file (orders.parquet), a directory by topic and date (lake/), - for standard output.",
)
@click.option("--topic", multiple=True, help="A topic. Repeatable; otherwise all but the broker's own.")
@click.option("--all", "all_topics", is_flag=True, help="The broker's own topics, too.")
@click.option(
    "--format",
    "row_format",
    type=MemberOf(RowFormat),
    help="Where the name does not say it: parquet for a directory, jsonl for -.",
)
@begin_option
@end_option
@click.option("--columns", metavar="NAME,...", help="Only these columns, in this order.")
@click.option(
    "--compression",
    type=MemberOf(Compression),
    help="Parquet: zstd if not given. JSON lines, CSV: none or gzip.",
)
@raw_option
@click.option("--base64", is_flag=True, help="JSON lines, CSV: all bodies in body_base64, texts too.")
@click.option("--force", is_flag=True, help="Replace a file or an export that is there.")
@json_option
def export(
    store: Path,
    out: str,
    topic: tuple[str, ...],
    all_topics: bool,
    row_format: RowFormat | None,
    begin: str | None,
    end: str | None,
    columns: str | None,
    compression: Compression | None,
    raw: bool,
    base64: bool,
    force: bool,
    json: bool,
) -> None:
    """Write messages as rows of Parquet, JSON lines or CSV: topic by topic, queue by queue, by offset.

    A killed export leaves no file of the final name. Exit code 2: the target is there already.

    Example: mqstore export data --topic orders --out orders.parquet
    """
    if all_topics and topic:
        raise click.BadParameter("give --topic or --all, not both")
    output = Output(is_json=json)
    is_stream = out == "-"
    row_format = row_format or (RowFormat.JSONL if is_stream else None)
    begin_ms, end_ms = _time_ms("--begin", begin, 0), _time_ms("--end", end, END_OF_TIME_MS)
    with (
        open_for_reading(store) as opened,
        _progress(output, is_stream=is_stream) as board,
        interruptible() as interruption,
    ):
        works: list[Work] = []

        def on_progress(done: int, total: int) -> None:
            if interruption.is_asked():
                left = f"{done:,} of {total:,} messages were written" if is_stream else "nothing was exported"
                raise ToolProblem(f"interrupted: {left}", ExitCode.INTERRUPTED)
            if board is not None and not works:
                works.append(board.begin("export", total))
            for work in works:
                work.done(done)

        report = export_store(
            opened,
            _standard_output(row_format, compression) if is_stream else out,
            file_format=row_format,
            topics=topic or None,
            all_topics=all_topics,
            begin_ms=begin_ms,
            end_ms=end_ms,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            compression=compression,
            decompress=not raw,
            base64=base64,
            overwrite=force,
            on_progress=on_progress,
        )
    sys.stdout.flush()
    _tell(output, report, is_stream=is_stream)


def _progress(output: Output, *, is_stream: bool) -> AbstractContextManager[WorkBoard | None]:
    """None where the rows themselves go to the terminal."""
    return nullcontext() if is_stream and _is_terminal() else progress(output)


def _time_ms(option: str, text: str | None, absent: int) -> int:
    try:
        return absent if text is None else parse_time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"{option} {text}: {error}") from error


def _tell(output: Output, report: ExportReport, *, is_stream: bool) -> None:
    """Say what was exported: on standard error if the rows went to standard output."""
    if report.left_out:
        output.note(f"left out, for only a RocketMQ broker reads their queues: {', '.join(report.left_out)}")
    row = ExportRow(
        out=report.destination,
        format=report.file_format,
        rows=report.rows,
        topics=report.topic_rows,
        files=report.files,
        bytes=report.size_bytes,
        left_out=report.left_out,
    )
    if is_stream:
        output.note(json_text(msgspec.json.encode(row)) if output.is_json else _sentence(report))
    elif output.is_json:
        output.facts(row)
    else:
        output.text(
            f"{_sentence(report)} to {report.destination}: {_counted(report.files, 'file')},"
            f" {report.size_bytes:,} bytes"
        )


def _sentence(report: ExportReport) -> str:
    return f"exported {_counted(report.rows, 'row')} of {_counted(len(report.topic_rows), 'topic')}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _standard_output(row_format: RowFormat | None, compression: Compression | None) -> BinaryIO:
    if not _is_terminal():
        return sys.stdout.buffer
    if row_format is RowFormat.PARQUET or compression is Compression.GZIP:
        raise click.BadParameter("Parquet and gzip are nothing for a terminal: redirect standard output")
    return cast(BinaryIO, _Terminal())


class _Terminal(io.RawIOBase):
    """Where no byte of a store may act as a control sequence: what is not printable is escaped."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        text = self._decoder.decode(bytes(data))
        sys.stdout.write(json_text(text.encode()))
        return memoryview(data).nbytes
