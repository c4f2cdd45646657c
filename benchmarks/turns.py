"""Rounds in turn: each contestant does one round, then each the next, so that a slow minute hits them all.

Our own rounds are pytest-benchmark's; the rivals' are taken in its setup, right before each of ours. All
figures go into the benchmark's extra_info, where report.py finds them:

    work          the row's title, and what its benchmarks are named by
    us            name of the contestant -> microseconds a message, one for each round
    messages      name of the contestant -> messages a round (a slow one does a part)
    figures       other numbers, by name (lateness, sizes)

The first of the rounds is not counted: it warms caches and the JIT. ROUNDS in the environment changes how
many count.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture
from rivals import Contestant, Work, contestants_for
from rivals.contestant import Round, Timed

__all__ = ["ROUNDS", "Turn", "at_once", "in_turn", "put_in_turn"]

ROUNDS = int(os.environ.get("ROUNDS", "5"))

Turn = Callable[[], AbstractContextManager[Timed]]
"""One round of one contestant: set up, what is timed, cleared away."""


def put_in_turn(benchmark: BenchmarkFixture, title: str, work: Work, directory: Path) -> None:
    """The rounds of a kind of put, by all that can do it."""

    def turn_of(contestant: Contestant) -> Turn:
        return lambda: contestant.ready(work, directory / "round")

    in_turn(benchmark, title, {contestant.name: turn_of(contestant) for contestant in contestants_for(work)})


def at_once(timed: Timed) -> Turn:
    """A turn that needs no setting up."""

    @contextmanager
    def turn() -> Iterator[Timed]:
        yield timed

    return turn


def in_turn(benchmark: BenchmarkFixture, title: str, turns: dict[str, Turn], *, rounds: int = ROUNDS) -> None:
    """`rounds` rounds of each in turn, and one before that is not counted. The first of `turns` is ours."""
    ours, *rivals = turns
    taken: dict[str, list[Round]] = {name: [] for name in turns}
    cleared_away = ExitStack()

    def rivals_then_ready() -> tuple[tuple[Timed], dict[str, object]]:
        # Another order each time: none always follows the same neighbour.
        begin = len(taken[ours]) % len(rivals) if rivals else 0
        for name in (*rivals[begin:], *rivals[:begin]):
            with turns[name]() as timed:
                taken[name].append(timed())
        return (cleared_away.enter_context(turns[ours]()),), {}

    def our_turn(timed: Timed) -> None:
        taken[ours].append(timed())

    def clear_away(timed: Timed) -> None:
        cleared_away.close()

    benchmark.group = title
    with cleared_away:
        benchmark.pedantic(
            our_turn, setup=rivals_then_ready, teardown=clear_away, rounds=rounds, warmup_rounds=1
        )
    counted = {name: all_rounds[-rounds:] for name, all_rounds in taken.items()}
    benchmark.extra_info.update(
        work=title,
        us={name: [done.us for done in done_rounds] for name, done_rounds in counted.items()},
        messages={name: done_rounds[0].messages for name, done_rounds in counted.items()},
    )
