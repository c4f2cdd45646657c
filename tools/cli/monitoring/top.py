"""`mqstore top`: what a store is doing, second by second. Safe on a live store: it takes no lock.

    $ mqstore top data                      until Ctrl-C, which ends it with exit code 0
    $ mqstore top data --once               one look, with the rates of one interval
    $ mqstore top data --json               one object a tick, for scripts

Rates are the difference of two looks (store_look.py), so nothing is kept anywhere between two runs. On a
terminal each look replaces the one before; elsewhere they follow one another.
"""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from mqstore.tools.cli.command import Command
from mqstore.tools.cli.monitoring.store_look import StoreLook, puts_since, take_look
from mqstore.tools.cli.monitoring.top_row import TopRow, top_row
from mqstore.tools.cli.monitoring.top_screen import screen, write_plain
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option, store_argument
from mqstore.tools.cli.output import Output

__all__ = ["Ticks", "top"]

_LEAST_INTERVAL_S = 0.05
_MOST_INTERVAL_S = 86_400.0


class _Seconds(click.FloatRange):
    """A number within the range; NaN is in none, which Click does not know."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return seconds


@click.command(cls=Command)
@store_argument
@click.option(
    "--interval",
    type=_Seconds(min=_LEAST_INTERVAL_S, max=_MOST_INTERVAL_S),
    default=1.0,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="One tick, after one interval.")
@json_option
def top(store: Path, interval: float, once: bool, json: bool) -> None:
    """Show what is put to each topic, how far groups are behind, what waits, and the disk, until Ctrl-C.

    Example: mqstore top data --interval 5
    """
    output = Output(is_json=json)
    ticks = Ticks(store, interval)
    if once:
        ticks.next_row()
        _write(output, ticks.next_row())
        return
    with _until_interrupted():
        if not json and sys.stdout.isatty():
            _show(ticks)
        else:
            ticks.next_row()
            while True:
                _write(output, ticks.next_row())


def _show(ticks: "Ticks") -> None:
    """Without an end: each tick in place of the one before, the first at once and without rates."""
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(ticks.next_row(), console.size.height), refresh=True)


def _write(output: Output, row: TopRow) -> None:
    if output.is_json:
        output.facts(row)
    else:
        write_plain(output, row)
        sys.stdout.flush()


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C or SIGTERM ends the block, as it should end: the terminal is given back in both cases."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, before)


class Ticks:
    """Looks at a store again and again; knows the last look."""

    def __init__(
        self,
        path: Path,
        interval_s: float,
        *,
        now_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """interval_s: from the beginning of one look to that of the next. pause: waits so many seconds."""
        self._path = path
        self._interval_s = interval_s
        self._now_s = now_s
        self._pause = pause
        self._before: StoreLook | None = None

    def next_row(self) -> TopRow:
        """The next look, an interval after the last one; the first is at once, and has no rates."""
        before = self._before
        if before is not None:
            self._pause(max(0.0, before.at_s + self._interval_s - self._now_s()))
        with open_for_reading(self._path) as store:
            look = take_look(store, self._path, self._now_s())
            puts = {} if before is None else puts_since(store, before, look)
        self._before = look
        return top_row(before, look, puts)

    def __repr__(self) -> str:
        return f"Ticks({str(self._path)!r}, every {self._interval_s} s)"
