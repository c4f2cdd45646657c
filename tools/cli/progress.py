"""Progress of long work: a bar on a terminal, a plain line at intervals elsewhere, nothing with --json.

    publish  ━━━━━━━━━━━━━━━━━━━━  120,000/336,776  0:00:02
    publish: 120,000 of 336,776

Always on standard error, so that data can be piped away.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mqstore.store.progress import Progress as OpeningProgress
from mqstore.tools.cli.output import Output

if TYPE_CHECKING:
    from rich.progress import Progress

    from mqstore.verify.inspection import ScanProgress

__all__ = ["Work", "WorkBoard", "opening_progress", "progress", "scan_progress"]

_LINES_OF_ONE_WORK = 5
_ROWS_A_LINE_OF_UNKNOWN_TOTAL = 100_000


class Work:
    """One task; call `done` with how far it is."""

    def __init__(self, output: Output, name: str, total: int | None, bars: "Progress | None") -> None:
        self._output = output
        self._name = name
        self._total = total
        self._bars = bars
        self._task = bars.add_task(name, total=total) if bars is not None else None
        self._line_at = self._step()

    def _step(self) -> int:
        if self._total is None:
            return _ROWS_A_LINE_OF_UNKNOWN_TOTAL
        return max(1, -(-self._total // _LINES_OF_ONE_WORK))

    def done(self, count: int) -> None:
        """`count` of the total are done."""
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=count)
        elif not self._output.is_json and count >= self._line_at:
            self._output.note(f"{self._name}: {count:,}" + (f" of {self._total:,}" if self._total else ""))
            self._line_at = (count // self._step() + 1) * self._step()


class WorkBoard:
    """Creates the tasks of one command."""

    def __init__(self, output: Output, bars: "Progress | None") -> None:
        self._output = output
        self._bars = bars

    def begin(self, name: str, total: int | None = None) -> Work:
        """A new bar, or a new series of lines."""
        return Work(self._output, name, total, self._bars)


@contextmanager
def progress(output: Output) -> Iterator[WorkBoard]:
    """Show progress until the block ends."""
    if not output.is_terminal:
        yield WorkBoard(output, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield WorkBoard(output, bars)


def scan_progress(board: WorkBoard, name: str) -> "ScanProgress":
    """Progress in MiB of a pass over the log."""
    works: list[Work] = []

    def show(done_bytes: int, total_bytes: int) -> None:
        if not works:
            works.append(board.begin(f"{name} MiB", total_bytes >> 20))
        works[0].done(done_bytes >> 20)

    return show


def opening_progress(board: WorkBoard) -> OpeningProgress:
    """Progress in MiB of an opening."""
    works: dict[str, Work] = {}

    def show(what: str, done_bytes: int, total_bytes: int) -> None:
        if what not in works:
            works[what] = board.begin(f"{what} MiB", total_bytes >> 20)
        works[what].done(done_bytes >> 20)

    return show
