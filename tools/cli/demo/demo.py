"""`mqstore demo`: 336,776 real flights through the store, its retries and its dead letters, then Spark.

    $ mqstore demo
    $ mqstore demo --limit 5000 --no-spark --path /tmp/flights

tools/demo/flights_run.py does the work; tools/demo/flights_audit.py and, with Spark,
tools/spark/jobs/flights_report.py count the results; this module starts, shows and explains them. Ctrl-C ends
it cleanly with exit code 130, and the same command continues from there, also after a kill.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mqstore.message_store import MessageStore
from mqstore.store.clock import SystemClock
from mqstore.store.config import StoreConfig
from mqstore.tools.cli.command import Command
from mqstore.tools.cli.demo import demo_tables
from mqstore.tools.cli.exit_codes import ExitCode, ToolProblem
from mqstore.tools.cli.interruption import Interruption, interruptible
from mqstore.tools.cli.open_store import open_for_reading
from mqstore.tools.cli.options import json_option
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.parameter_types import SHELL_PATH
from mqstore.tools.cli.progress import progress
from mqstore.tools.demo.demo_directory import DemoDirectory, DemoNote, DemoState, NoDemoDirectory
from mqstore.tools.demo.flights import FLIGHT_COUNT
from mqstore.tools.demo.flights_audit import Audit, audit
from mqstore.tools.demo.flights_run import DEMO_CONFIG, Arrivals, ConsumeProgress, DeliveryStuck, publish
from mqstore.tools.spark.jobs.flights_csv import count_flights, flights_csv_path
from mqstore.tools.spark.jobs.flights_report import FlightsReport, run_report
from mqstore.tools.spark.session import JavaNotFound, SparkNotInstalled

__all__ = ["Demo", "demo"]


@click.command(cls=Command)
@click.option(
    "--path",
    type=SHELL_PATH,
    default="mqstore-demo",
    metavar="DIR",
    help="Directory of the store that it leaves.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only so many flights instead of 336,776.")
@click.option("--no-spark", is_flag=True, help="Leave the Spark report out.")
@click.option("--fresh", is_flag=True, help="Delete an earlier demo there first.")
@json_option
def demo(path: Path, limit: int | None, no_spark: bool, fresh: bool, json: bool) -> None:
    """Send 336,776 real flights through the store: publish, consume, retry, dead letters, Spark report.

    Exit code 1 if anything was lost or doubled.

    Example: mqstore demo --limit 20000 --no-spark
    """
    output = Output(is_json=json)
    run = Demo(output, path, flights_csv_path(), None if limit and limit >= FLIGHT_COUNT else limit)
    try:
        run.prepare(fresh=fresh)
        run.run(with_report=not no_spark)
    except NoDemoDirectory as error:
        raise ToolProblem(str(error), ExitCode.USAGE) from error
    except DeliveryStuck as error:
        raise ToolProblem(str(error)) from error


class Demo:
    """One run of the demo, which continues the last one."""

    def __init__(
        self,
        output: Output,
        path: Path,
        flights_file: Path,
        limit: int | None = None,
        *,
        config: StoreConfig = DEMO_CONFIG,
        interruption: Interruption | None = None,
    ) -> None:
        """`config`, `interruption`: for tests, which shorten the delays and simulate Ctrl-C."""
        self._output = output
        self._directory = DemoDirectory(path)
        self._flights_file = flights_file
        self._limit = limit
        self._config = config
        self._interruption = interruption
        self._clock = SystemClock()

    def prepare(self, *, fresh: bool) -> None:
        """Check the directory. Raises NoDemoDirectory, StoreLocked, ToolProblem."""
        if fresh:
            self._directory.delete()
        self._directory.check()
        note = self._directory.note
        if note is not None and note.limit != self._limit:
            before = f"--limit {note.limit}" if note.limit is not None else "all flights"
            raise ToolProblem(
                f"{self._directory.path} holds a demo of {before}: go on with the same, or add --fresh",
                ExitCode.USAGE,
            )

    def run(self, *, with_report: bool) -> Audit | None:
        """Do the remaining steps. Raises Click's Exit for an interruption and for a check that failed."""
        state = self._directory.note.state if self._directory.note else None
        if state is DemoState.FINISHED or (state is DemoState.CONSUMED and not with_report):
            self._say_finished()
            return None
        start_ms = self._clock.now_ms()
        if state is DemoState.CONSUMED:
            with open_for_reading(self._directory.path) as store:
                found = self._audit(store)
        else:
            found = self._publish_and_consume()
        demo_tables.show_audit(self._output, found)
        report = self._report() if with_report and found.passed else None
        problems = demo_tables.report_problems(report, found) if report is not None else []
        seconds = (self._clock.now_ms() - start_ms) / 1000
        demo_tables.show_end(self._output, self._directory, found, report, problems, seconds)
        if not found.passed or problems:
            raise click.exceptions.Exit(ExitCode.PROBLEM)
        return found

    def _say_finished(self) -> None:
        path = self._directory.path
        self._output.note(f"the demo in {path} is finished; to run it again, add --fresh")
        demo_tables.show_commands(self._output, path)

    # -- the store's part -------------------------------------------------------------------------

    def _publish_and_consume(self) -> Audit:
        before = self._directory.note
        if before is None:
            # First, so that the directory is known as a demo's from the beginning.
            self._directory.write(DemoNote(limit=self._limit))
        with MessageStore.open(self._directory.path, self._config) as store:
            note = self._begin(before)
            with interruptible(self._interruption) as interruption:
                self._work(store, interruption)
            found = None if interruption.is_asked() else self._audit(store)
        is_done = found is not None and found.passed
        self._directory.write(_with_state(note, DemoState.CONSUMED if is_done else DemoState.INTERRUPTED))
        if found is None:
            self._output.note(
                "interrupted: everything acknowledged is kept, and the same command goes on from here"
            )
            raise click.exceptions.Exit(ExitCode.INTERRUPTED)
        return found

    def _begin(self, before: DemoNote | None) -> DemoNote:
        """Note the run, now that the store is locked."""
        if before is None:
            return self._directory.note or DemoNote(limit=self._limit)
        was_killed = before.state is DemoState.RUNNING
        self._output.note("going on where the last run " + ("was killed" if was_killed else "ended"))
        note = DemoNote(limit=self._limit, killed_runs=before.killed_runs + was_killed)
        self._directory.write(note)
        return note

    def _work(self, store: MessageStore, interruption: Interruption) -> None:
        in_file = count_flights(self._flights_file, self._limit)
        missing = len(in_file.missing_rows)
        with progress(self._output) as board:
            published = board.begin("publish flights", in_file.rows)
            publish(
                store,
                self._flights_file,
                self._limit,
                on_progress=published.done,
                is_stopping=interruption.is_asked,
            )
            consumed = board.begin("first attempts", in_file.rows)
            retried = board.begin("retries", 3 * missing)
            dead = board.begin("dead letters", missing)

            def show(now: ConsumeProgress) -> None:
                consumed.done(now.first_attempts)
                retried.done(now.retries)
                dead.done(now.dead_letters)

            Arrivals(store).run(on_progress=show, is_stopping=interruption.is_asked)

    def _audit(self, store: MessageStore) -> Audit:
        self._output.note("counting every flight at every hop")
        note = self._directory.note
        was_killed = note is not None and note.killed_runs > 0
        return audit(store, self._flights_file, self._limit, was_killed=was_killed)

    # -- Spark's part -----------------------------------------------------------------------------

    def _report(self) -> FlightsReport | None:
        """Spark's report; None, with a note why, where Spark or Java is missing. Exits on Ctrl-C."""
        try:
            with interruptible(self._interruption) as interruption, _without_py4js_tracebacks():
                report = run_report(
                    self._directory.path,
                    self._flights_file,
                    self._directory.chart_path,
                    lambda step: self._say_step(step, interruption),
                    limit=self._limit,
                )
        except (JavaNotFound, SparkNotInstalled, ModuleNotFoundError) as error:
            self._output.note(f"The Spark report is left out: {error}")
            if isinstance(error, ModuleNotFoundError):
                self._output.note("Install what it needs: pip install 'mqstore[demo]'")
            self._output.note("Then run the same command again: it makes the report only.")
            return None
        except KeyboardInterrupt:
            self._output.note("interrupted: the same command makes the report that is missing")
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        note = self._directory.note
        if note is not None:
            self._directory.write(_with_state(note, DemoState.FINISHED))
        return report

    def _say_step(self, step: str, interruption: Interruption) -> None:
        """Show the step, or end before it if asked to. Not while Spark starts: its JVM would keep running."""
        if interruption.is_asked():
            raise KeyboardInterrupt
        self._output.note(f"report: {step}")


@contextmanager
def _without_py4js_tracebacks() -> Iterator[None]:
    """Py4J logs every KeyboardInterrupt to the root logger, with two useless tracebacks."""
    root = logging.getLogger()
    root.addFilter(_has_no_traceback)
    try:
        yield
    finally:
        root.removeFilter(_has_no_traceback)


def _has_no_traceback(record: logging.LogRecord) -> bool:
    return not record.exc_info


def _with_state(note: DemoNote, state: DemoState) -> DemoNote:
    return DemoNote(state=state, limit=note.limit, killed_runs=note.killed_runs)
