"""A contest in processor time: programs that live at the same time, each in a process, and take turns.

So what else the machine does hits all of them. A program waits for a line, works for a turn, and prints how
many nanoseconds of its thread one item took.
"""

import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Contestant", "quartiles_us", "shown", "take_turns", "version_of"]


class Contestant:
    """A process that works for a turn when it is told to. switch: of the environment, 0 where not direct."""

    def __init__(
        self,
        python: Path,
        program: str,
        directory: Path,
        *,
        switch: str,
        is_direct: bool,
    ) -> None:
        directory.mkdir()
        self.times_ns: list[float] = []
        self._process = subprocess.Popen(
            [str(python), "-P", "-c", program, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {switch: str(int(is_direct))},
        )

    def take_turn(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.times_ns.append(float(self._process.stdout.readline()))

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def take_turns(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of each turn of each contestant; all are stopped then."""
    try:
        for number in range(rounds):
            for contestant in list(contestants.values())[:: 1 if number % 2 else -1]:
                contestant.take_turn()
    finally:
        for contestant in contestants.values():
            contestant.stop()
    return {name: contestant.times_ns for name, contestant in contestants.items()}


def quartiles_us(times: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The three quartiles of each contestant's times, which are nanoseconds, in microseconds."""
    return {
        name: [round(quantile / 1000, 3) for quantile in statistics.quantiles(times_ns, n=4)]
        for name, times_ns in times.items()
    }


def shown(quartiles: Sequence[float]) -> str:
    """The median, and the middle half, as a cell of a table."""
    low, median, high = quartiles
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def version_of(python: Path) -> str:
    """Version of an interpreter."""
    told = subprocess.run([str(python), "--version"], capture_output=True, text=True, check=True)
    return told.stdout.split()[1]
