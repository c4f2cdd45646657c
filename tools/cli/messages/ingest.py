"""`mqstore ingest`: store every row of a file as a message.

    $ mqstore ingest data orders.jsonl --topic orders --key-field id --tag-field state
    20,000 rows of orders.jsonl stored in data

Rows are put in batches of 1,000, each as a whole. A row that cannot be stored ends the work after all rows
before it were stored, and the error says how to continue; so does Ctrl-C, after the current batch.
Opens the store for writing.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import click

from mqstore.message_store import MessageStore
from mqstore.store.errors import MessageIllegal, StoreError
from mqstore.store.message.message import Message
from mqstore.tools.cli.command import Argument, Command
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem, exit_code_of
from mqstore.tools.cli.interruption import interruptible
from mqstore.tools.cli.open_store import open_for_writing
from mqstore.tools.cli.options import config_option, json_option, setting_option, store_argument
from mqstore.tools.cli.output import Output, Row
from mqstore.tools.cli.parameter_types import AMOUNT_OR_NONE, SHELL_PATH, MemberOf
from mqstore.tools.cli.progress import progress
from mqstore.tools.ingest.row_files import ReaderMissing, RowFormat, RowIllegal, format_of, read_rows
from mqstore.tools.ingest.row_mapping import RowMapping

__all__ = ["ingest"]

_BATCH_ROWS = 1_000


class IngestRow(Row):
    """What was stored."""

    file: str
    rows: int


@click.command(cls=Command)
@store_argument
@click.argument("file", cls=Argument, type=SHELL_PATH, help="JSON lines, CSV, Parquet; - for standard input.")
@click.option("--topic", help="The topic of all rows.")
@click.option("--topic-field", help="The field with it.")
@click.option("--key-field", multiple=True, help="A field with a key for `query`. Repeatable.")
@click.option("--tag-field", help="The field with the tag.")
@click.option("--queue-field", help="The field with the queue; else queues take turns.")
@click.option("--body-field", help="The field with the body; otherwise the row as JSON.")
@click.option(
    "--format", "row_format", type=MemberOf(RowFormat), help="Where the file's name does not say it."
)
@click.option("--skip", type=AMOUNT_OR_NONE, default=0, help="Pass over so many rows first.")
@config_option
@setting_option
@json_option
def ingest(
    store: Path,
    file: Path,
    topic: str | None,
    topic_field: str | None,
    key_field: tuple[str, ...],
    tag_field: str | None,
    queue_field: str | None,
    body_field: str | None,
    row_format: RowFormat | None,
    skip: int,
    config: Path | None,
    setting: tuple[str, ...],
    json: bool,
) -> None:
    """Store every row of a file as a message; the store and the topics are created if need be.

    Example: mqstore ingest data orders.jsonl --topic orders --key-field id --tag-field state
    """
    if (topic is None) == (topic_field is None):
        raise click.BadParameter("give one of --topic and --topic-field")
    mapping = RowMapping(
        topic=topic,
        topic_field=topic_field,
        key_fields=key_field,
        tag_field=tag_field,
        queue_field=queue_field,
        body_field=body_field,
    )
    output = Output(is_json=json)
    known_format = row_format or _known_format(file)
    with _opened(file) as source, open_for_writing(store, config, setting, output=output) as opened:
        work = Ingestion(opened, mapping, skip)
        with progress(output) as board:
            _run(work, read_rows(source, known_format), board.begin("ingest").done)
    if output.is_json:
        output.facts(IngestRow(file=str(file), rows=work.stored))
    else:
        output.text(f"{work.stored:,} rows of {file} stored in {store}")


def _known_format(file: Path) -> RowFormat:
    found = RowFormat.JSONL if str(file) == "-" else format_of(file)
    if found is None:
        raise click.BadParameter(f"what is in {file}? Give --format jsonl, csv or parquet")
    return found


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return file.open("rb")
    except OSError as error:
        raise ToolProblem(f"cannot read {file}: {error.strerror}", ExitCode.USAGE) from error


def _run(work: "Ingestion", rows: Iterator[dict[str, Any]], on_progress: Callable[[int], None]) -> None:
    try:
        with interruptible() as interruption:
            for stored in work.store_rows(rows):
                on_progress(stored)
                if interruption.is_asked():
                    raise ToolProblem(
                        f"interrupted: {stored:,} rows were stored; go on with --skip {work.skip + stored}",
                        ExitCode.INTERRUPTED,
                    )
    except ReaderMissing as error:
        raise ToolProblem(str(error)) from error
    except (RowIllegal, StoreError) as error:
        reason = str(error).rstrip(".")
        # A wrong row is a problem of the data, not of the command line.
        code = exit_code_of(error) if not isinstance(error, MessageIllegal) else ExitCode.PROBLEM
        done = work.skip + work.stored
        raise ToolProblem(
            f"{reason}. {work.stored:,} rows were stored; to go on once it is corrected, add --skip {done}",
            code,
        ) from error


class Ingestion:
    """Puts rows batch by batch; `stored` counts what is in the log."""

    def __init__(self, store: MessageStore, mapping: RowMapping, skip: int = 0) -> None:
        self._store = store
        self._mapping = mapping
        self.skip = skip
        self.stored = 0

    def store_rows(self, rows: Iterator[dict[str, Any]]) -> Iterator[int]:
        """Store all rows; yields the count after each batch. Raises RowIllegal, StoreError."""
        numbered = enumerate(rows, 1)
        for _ in itertools.islice(numbered, self.skip):
            pass
        batch: list[tuple[int, Message]] = []
        try:
            for number, row in numbered:
                batch.append((number, self._message(number, row)))
                if len(batch) == _BATCH_ROWS:
                    self._put(batch)
                    yield self.stored
        except RowIllegal:
            self._put(batch)
            raise
        self._put(batch)
        self._store.flush()
        yield self.stored

    def _message(self, number: int, row: dict[str, Any]) -> Message:
        try:
            queue_count = self._store.topics.find(self._mapping.topic_of(row)).write_queue_nums
            return self._mapping.message(row, (number - 1) % max(1, queue_count))
        except (ValueError, TypeError) as error:
            raise RowIllegal(number, str(error)) from error

    def _put(self, batch: list[tuple[int, Message]]) -> None:
        """Store the batch and empty it. A message that is refused stores those before it only."""
        try:
            self._put_all([message for _, message in batch])
        except MessageIllegal:
            for number, message in batch:
                try:
                    self._put_all([message])
                except MessageIllegal as error:
                    raise RowIllegal(number, str(error)) from error
        finally:
            batch.clear()

    def _put_all(self, messages: Sequence[Message]) -> None:
        if messages:
            self.stored += len(self._store.put_messages(messages))
