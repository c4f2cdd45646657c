r"""Output: data on standard output, everything else on standard error.

    for people    Rich tables; long bodies shortened
    --json        one JSON object a line, whole; an error is an object on standard error

JSON keys are RocketMQ's names, the same as the columns of the Spark source: queueId, physicalOffset, ...
Bytes of a store never reach a terminal as a control sequence: characters that are not printable (controls,
changes of direction, odd separators) are dots for people and \u escapes in JSON.
Rich is imported for the first table: a process that prints none, as a server, does not wait for it.
Tables are as wide as their content, on a terminal too: nothing is cut to 80 columns, so copied text is
whole.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec

from mqstore.tools.cli.times import local_time

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Column", "Output", "Row", "json_text", "printable", "table_of"]

_ROWS_OF_ONE_TABLE = 500
_UNLIMITED_WIDTH = 10_000


class Row(msgspec.Struct, rename="camel", kw_only=True):
    """One line of JSON output; field names become camelCase."""


class ErrorRow(Row):
    """Why a command ended."""

    error: str
    message: str
    exit_code: int


RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """One column of a table for people."""

    header: str
    text: Callable[[RowT], object]
    justify: Literal["left", "right"] = "left"


class Output:
    """Where a command writes."""

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches standard error, where progress is shown."""
        return sys.stderr.isatty() and not self.is_json

    def listing(self, rows: Iterable[RowT], columns: Sequence[Column[RowT]], *, title: str = "") -> int:
        """Write rows as they come; returns how many."""
        if self.is_json:
            return self._json_lines(rows)
        count = 0
        iterator = iter(rows)
        while part := list(itertools.islice(iterator, _ROWS_OF_ONE_TABLE)):
            self._table(part, columns, title)
            count += len(part)
        return count

    def facts(self, row: Row) -> None:
        """Write one row as name and value, line by line."""
        if self.is_json:
            self._json_lines([row])
            return
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, show_header=False, pad_edge=False)
        for name in row.__struct_fields__:
            value = getattr(row, name)
            if name.endswith("_timestamp") and value:
                value = f"{value}  ({local_time(value)})"
            if value is not None:
                table.add_row(escape(name.replace("_", " ")), escape(printable(str(value), kept="")))
        self._print(table)

    def text(self, line: str = "") -> None:
        """A line of data for people; left out of JSON."""
        if not self.is_json:
            self.raw_line(line)

    def raw_line(self, text: str) -> None:
        """A piece of data that is text already."""
        sys.stdout.write(printable(text) + "\n")

    def note(self, line: str) -> None:
        """A line about the work, on standard error."""
        sys.stdout.flush()
        # Nobody could be told that nothing can be told; the exit code says how the work ended.
        with suppress(OSError):
            sys.stderr.write(f"{printable(line)}\n")
            sys.stderr.flush()

    def error(self, error: Exception, exit_code: int) -> None:
        """Write why the command ends, in one line on standard error."""
        if not self.is_json:
            self.note(f"mqstore: {' '.join(str(error).split())}")
            return
        row = ErrorRow(error=type(error).__name__, message=str(error), exit_code=int(exit_code))
        self.note(_json_line(row))

    def _json_lines(self, rows: Iterable[Row]) -> int:
        count = 0
        for row in rows:
            sys.stdout.write(_json_line(row) + "\n")
            count += 1
        sys.stdout.flush()
        return count

    def _table(self, rows: Sequence[RowT], columns: Sequence[Column[RowT]], title: str) -> None:
        table = table_of(rows, columns, title)
        if title:
            self.raw_line("")
        self._print(table)

    def _print(self, table: "Table") -> None:
        """Print the table without the blanks that pad the last column."""
        from rich.console import Console

        console = Console(file=sys.stdout, width=_UNLIMITED_WIDTH)
        with console.capture() as captured:
            console.print(table)
        for line in captured.get().splitlines():
            self.raw_line(line.rstrip())
        sys.stdout.flush()


def table_of(rows: Sequence[RowT], columns: Sequence[Column[RowT]], title: str = "") -> "Table":
    """The rows as Rich's table; cells that do not fit are cut."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=escape(_cell(title)) or None,
    )
    table.title_justify = "left"
    for column in columns:
        table.add_column(
            column.header,
            justify=column.justify,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*[escape(_cell(column.text(row))) for column in columns])
    return table


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return printable(str(value), kept="")


def printable(text: str, kept: str = "\n") -> str:
    """The text, with dots for what is not printable and not `kept`."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in kept else "·" for character in text)


def _json_line(row: Row) -> str:
    try:
        return json_text(msgspec.json.encode(row))
    except UnicodeEncodeError:
        # A file name that is not UTF-8: msgspec refuses its bytes, and JSON has escapes for them.
        return json.dumps(msgspec.to_builtins(row), separators=(",", ":"))


def json_text(encoded: bytes) -> str:
    """JSON with escapes for what is not printable: the same JSON. Between tokens only line ends are kept."""
    text = encoded.decode()
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1]
        for character in text
    )
