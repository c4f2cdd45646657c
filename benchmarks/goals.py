"""What the figures must reach, and whether they do: each goal is read off a run's JSON.

A goal is met by the median of the ratios. Growth and memory come from scale.py's JSON. What was not
measured in a run (narrowed by ARGS, or without RocketMQ) is told as not measured, never as met.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from results_file import Ratio, Results, short

__all__ = ["GOALS", "SCALE", "Goal", "Verdict"]

SCALE = Path(__file__).with_name("results") / "scale.json"

Measured = Callable[[Results], "tuple[float, str] | None"]
"""The number to compare, and how it is shown; None when it was not measured."""


@dataclass(frozen=True)
class Verdict:
    """How a run stands to a goal."""

    work: str
    wanted: str
    measured: str
    met: bool | None

    @property
    def word(self) -> str:
        """Met or not, in words."""
        return {True: "reached", False: "NOT REACHED", None: "not measured"}[self.met]


@dataclass(frozen=True)
class Goal:
    """work: what is done. wanted: in words. measured: off the run. meets: whether a number is good enough."""

    work: str
    wanted: str
    measured: Measured
    meets: Callable[[float], bool]

    def verdict(self, results: Results) -> Verdict:
        """Of one run."""
        found = self.measured(results)
        if found is None:
            return Verdict(self.work, self.wanted, "", None)
        number, shown = found
        return Verdict(self.work, self.wanted, shown, self.meets(number))


def ratio_goal(work: str, rival: str, least: float) -> Goal:
    """`least` times as fast as `rival` in the row `work`."""

    def measured(results: Results) -> tuple[float, str] | None:
        row = results.rows.get(work)
        ratio: Ratio | None = row.ratio(rival) if row is not None else None
        return None if ratio is None else (ratio.median, str(ratio))

    return Goal(work, f"{least:.2g} x {rival}", measured, lambda ratio: ratio >= least)


def cost_goal(work: str, plain: str, most: float) -> Goal:
    """At most `most` times as dear as our own row `plain`, by the medians of the run."""

    def measured(results: Results) -> tuple[float, str] | None:
        if work not in results.rows or plain not in results.rows:
            return None
        times = results.rows[plain].per_second() / results.rows[work].per_second()
        return times, f"{times:.2f} times"

    return Goal(work, f"within {most:g} times the plain put", measured, lambda times: times <= most)


def figure_goal(work: str, wanted: str, figure: str, meets: Callable[[float], bool]) -> Goal:
    """A figure of the row: the worst of its rounds counts."""

    def measured(results: Results) -> tuple[float, str] | None:
        row = results.rows.get(work)
        if row is None:
            return None
        worst = max(row.figures[figure])
        return worst, short(worst)

    return Goal(work, wanted, measured, meets)


def rate_goal(work: str, least: float) -> Goal:
    """So many messages a second."""

    def measured(results: Results) -> tuple[float, str] | None:
        row = results.rows.get(work)
        return None if row is None else (row.per_second(), f"{row.per_second():,.0f}/s")

    return Goal(work, f"{least:,.0f}/s", measured, lambda rate: rate >= least)


def scale_goal(work: str, wanted: str, name: str, unit: str, meets: Callable[[float], bool]) -> Goal:
    """A number of scale.py."""

    def measured(_: Results) -> tuple[float, str] | None:
        if not SCALE.exists():
            return None
        number = json.loads(SCALE.read_text("utf-8"))["summary"].get(name)
        return (
            None
            if number is None
            else (number, f"{number:+.1f}{unit}" if unit == " %" else f"{number:.0f}{unit}")
        )

    return Goal(work, wanted, measured, meets)


def flat(work: str, name: str) -> Goal:
    """A cost that grows by less than 15 %."""
    return scale_goal(work, "within 15 %", name, " %", lambda percent: percent < 15)


ATTRIBUTES = "with a key, a tag, two properties"
PUT_COLUMNS = "put_columns of 10,000, ASYNC, 128 B"
DELIVERY_MANY = "delivery, 100,000 due together, 128 B"
SEND_TO_LISTENER = "from send to listener, one message every 5 ms, 128 B"
IDLE = "a consumer of 1,000 idle queues"
DELIVERY_FEW = "delivery, 5,000 due together, 128 B"

PUTS_BY_SIZE = tuple(
    goal
    for size in ("128 B", "1 KiB")
    for goal in (
        ratio_goal(f"put_message, 1 thread, ASYNC, {size}", "RocketMQ", 1.2),
        ratio_goal(f"put_message, 1 thread, ASYNC, {size}", "rocksdict", 1.2),
        ratio_goal(f"put_message, 1 thread, ASYNC, {size}, {ATTRIBUTES}", "RocketMQ", 1.0),
        cost_goal(
            f"put_message, 1 thread, ASYNC, {size}, {ATTRIBUTES}",
            f"put_message, 1 thread, ASYNC, {size}",
            2,
        ),
        ratio_goal(f"put_message, 8 threads, ASYNC, {size}", "rocksdict", 1.0),
        ratio_goal(f"put_message, 8 threads, ASYNC, {size}", "RocketMQ", 0.8),
        ratio_goal(f"put_message, 64 threads, ASYNC, {size}", "rocksdict", 1.0),
        ratio_goal(f"put_message, 64 threads, ASYNC, {size}", "RocketMQ", 0.8),
        ratio_goal(f"put_messages of 100, ASYNC, {size}", "RocketMQ", 0.8),
        ratio_goal(f"put_messages of 100, ASYNC, {size}", "rocksdict", 0.8),
        ratio_goal(f"get_message, 32 a call, bodies copied, {size}", "SQLite WAL NORMAL", 1.2),
        ratio_goal(f"get_message, 32 a call, bodies copied, {size}", "RocketMQ", 0.9),
    )
)

GOALS: tuple[Goal, ...] = (
    *PUTS_BY_SIZE,
    ratio_goal("put_message, 1 thread, ASYNC, 1 KiB", "SQLite WAL NORMAL", 4),
    ratio_goal("query_message by key, at random, 1 KiB", "RocketMQ", 0.5),
    ratio_goal("query_message by key, at random, 1 KiB", "SQLite WAL NORMAL", 1.0),
    ratio_goal("get_offset_in_queue_by_time, at random", "SQLite WAL NORMAL", 1.0),
    ratio_goal("get_offset_in_queue_by_time, at random", "RocketMQ", 0.9),
    ratio_goal("put_messages of 1,000, ASYNC, 1 KiB", "RocketMQ", 1.0),
    ratio_goal("put_messages of 1,000, ASYNC, 1 KiB", "rocksdict", 2),
    ratio_goal("put_messages of 1,000, ASYNC, 1 KiB", "SQLite WAL NORMAL", 4),
    ratio_goal(PUT_COLUMNS, "RocketMQ", 2.5),
    ratio_goal(PUT_COLUMNS, "rocksdict", 5),
    ratio_goal(PUT_COLUMNS, "CRC + memcpy", 1 / 3),
    ratio_goal("put_message, 64 threads, SYNC, 1 KiB", "RocketMQ", 1.0),
    ratio_goal("put_message, 64 threads, SYNC, 1 KiB", "raw pwrite+fdatasync", 5),
    ratio_goal("put_message_async, 1,000 in flight, SYNC, 1 KiB", "RocketMQ", 1.0),
    ratio_goal("put_message_async, 1,000 in flight, SYNC, 1 KiB", "raw pwrite+fdatasync", 15),
    ratio_goal("get_message, 32 a call, bodies touched, 1 KiB", "RocketMQ", 0.4),
    ratio_goal("get_message, 32 a call, bodies touched, 1 KiB", "SQLite WAL NORMAL", 2),
    ratio_goal("to_arrow of a queue range, all columns, 1 KiB", "RocketMQ", 3),
    ratio_goal("look_message_by_offset, at random, 1 KiB", "RocketMQ", 0.3),
    ratio_goal("recovery of 1 GiB, all checked", "RocketMQ, fresh JVM", 1.5),
    ratio_goal("recovery of 1 GiB, all checked", "RocketMQ", 1.5),
    ratio_goal("recovery of 1 GiB, queues rebuilt", "RocketMQ, fresh JVM", 2),
    ratio_goal("recovery of 1 GiB, queues rebuilt", "RocketMQ", 2),
    rate_goal(DELIVERY_MANY, 50_000),
    figure_goal(DELIVERY_FEW, "p99 under 200 ms late", "p99 lateness, ms", lambda ms: ms < 200),
    figure_goal(DELIVERY_FEW, "none early", "early", lambda count: count == 0),
    figure_goal(DELIVERY_MANY, "none early", "early", lambda count: count == 0),
    ratio_goal("scan and CRC of a segment, 1 KiB", "zlib.crc32", 0.5),
    ratio_goal("scan and CRC of a segment, 128 B", "zlib.crc32", 0.5),
    ratio_goal("push consumer, empty listener, 32 a call, 128 B", "get_message loop", 0.5),
    ratio_goal("Producer.send, 1 thread, ASYNC, 128 B", "put_message", 1 / 1.3),
    figure_goal(SEND_TO_LISTENER, "p99 within 5 ms", "p99, ms", lambda ms: ms <= 5),
    figure_goal(IDLE, "under 2 % of a core", "percent of a core", lambda percent: percent < 2),
    flat("put, from 1 to 100 segments", "put, segments, percent"),
    flat("get, from 1 to 100 segments", "get, segments, percent"),
    flat("put, from 1 to 10,000 queues", "put, queues, percent"),
    flat("get, from 1 to 10,000 queues", "get, queues, percent"),
    scale_goal(
        "memory besides mapped pages, 10,000 queues",
        "under 200 MB",
        "anonymous memory, MB",
        " MB",
        lambda mb: mb < 200,
    ),
)
