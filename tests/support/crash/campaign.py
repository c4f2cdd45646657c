"""The campaign behind `make crash`: all the crash tests at full length, on all cores, and what came of them.

    states      workloads of ever new runs are explored until so many states were opened (explorer.py)
    faults      every operation of a small life fails once, and from then on (fault_runs.py)
    planted     each planted bug is hunted until a state gives it away (planted_bugs.py)
    kills       two loops of fork and SIGKILL on real files (kill_loop.py)

Each piece of work is a function of plain arguments, so that any process can do it; what it returns are
counts and sentences. A sentence names the state that replays it.
"""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from support.crash.explorer import Figures, Violation, explore, open_on_reused_space
from support.crash.kill_loop import KillFigures, kill_again_and_again
from support.crash.planted_bugs import PLANTED_BUGS
from support.crash.workloads import WORKLOADS
from support.disks.fault_runs import run_with_fault
from support.disks.faults import FAULT_KINDS

__all__ = ["Campaign", "Outcome", "hunt", "sweep_faults"]

_STATES_PER_STEP = 6
_STRIDE = 4
_HUNTING_RUNS = 8
_TELL_EVERY_S = 10


class Outcome(NamedTuple):
    """What one piece of work found: counts by name, sentences, and for a hunt what gave the bug away."""

    counts: Counter[str]
    violations: list[str]
    caught: dict[str, str]


def search(workload: str, run_number: int) -> Outcome:
    """Explore one run of a workload."""
    try:
        figures = explore(workload, run_number, _STATES_PER_STEP, stride=_STRIDE)
    except Violation as violation:
        return Outcome(Counter(), [str(violation)], {})
    return Outcome(_counted(figures), [], {})


def _counted(figures: Figures) -> Counter[str]:
    return Counter(figures._asdict())


def hunt(name: str) -> str | None:
    """Plant a bug and look until it is caught: by which state, and how it showed. None when it is not."""
    bug = PLANTED_BUGS[name]
    with bug.plant():
        try:
            if bug.faults:
                kinds = [kind.name for kind in FAULT_KINDS]
                sweep_faults("SYNC_FLUSH", kinds.index(bug.fault), for_good=False)
            elif bug.reuse:
                open_on_reused_space()
            else:
                _explore_all(bug.where)
        except Violation as violation:
            # A defect that does not fit the store any more would be caught for that, and prove nothing.
            if isinstance(violation.__cause__, TypeError | AttributeError):
                raise
            return f"{violation.name}: {violation.wrong[0]}"
        except AssertionError as error:
            return str(error)
    return None


def _explore_all(workloads: tuple[str, ...]) -> None:
    for run_number in range(_HUNTING_RUNS):
        for workload in workloads:
            explore(workload, run_number, _STATES_PER_STEP, stride=1 if run_number == 0 else 3)


def _hunt(name: str) -> Outcome:
    logging.disable(logging.CRITICAL)
    caught = hunt(name)
    if caught is None:
        return Outcome(Counter(), [f"the planted bug {name} was not caught"], {})
    return Outcome(Counter(), [], {name: caught})


def sweep_faults(
    flush_disk_type: str, kind_index: int, *, for_good: bool, first: int = 1, stride: int = 1
) -> int:
    """Let operation `first`, and every `stride`-th behind it, fail; returns the count. Raises Violation."""
    logging.disable(logging.CRITICAL)
    nth, runs = first, 0
    kind = FAULT_KINDS[kind_index]
    try:
        while run_with_fault(kind, nth, for_good=for_good, flush_disk_type=flush_disk_type):
            nth, runs = nth + stride, runs + 1
    finally:
        logging.disable(logging.NOTSET)
    return runs


def _sweep(flush_disk_type: str, kind_index: int, for_good: bool) -> Outcome:
    try:
        return Outcome(Counter(faults=sweep_faults(flush_disk_type, kind_index, for_good=for_good)), [], {})
    except Violation as violation:
        return Outcome(Counter(), [str(violation)], {})


def _kill(kills: int, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="mqstore-kills-") as directory:
        try:
            figures = kill_again_and_again(Path(directory) / "store", kills, seed)
        except AssertionError as error:
            return Outcome(Counter(), [f"kill loop {seed}: {error}"], {})
    return Outcome(_kill_counts(figures), [], {})


def _kill_counts(figures: KillFigures) -> Counter[str]:
    return Counter(kills=figures.kills, acknowledged_before_kills=figures.acknowledged)


class Campaign:
    """All of it, on `workers` processes. `tell` is given a line now and then."""

    def __init__(self, states: int, kills: int, workers: int, tell: Callable[[str], None]) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.caught: dict[str, str] = {}
        self._states = states
        self._kills = kills
        self._workers = workers
        self._tell = tell
        self._told_s = time.monotonic()

    def run(self) -> None:
        """Do it; the results are in the attributes."""
        with ProcessPoolExecutor(self._workers) as pool:
            pending: set[Future[Outcome]] = {
                pool.submit(_kill, self._kills // 2 + self._kills % 2 * number, 1 + number)
                for number in range(2)
            }
            pending |= {pool.submit(_hunt, name) for name in PLANTED_BUGS}
            pending |= {
                pool.submit(_sweep, flush, kind, for_good)
                for flush in ("SYNC_FLUSH", "ASYNC_FLUSH")
                for kind in range(len(FAULT_KINDS))
                for for_good in (False, True)
            }
            searches = self._searches()
            while pending:
                done, pending = wait(pending, timeout=_TELL_EVERY_S, return_when=FIRST_COMPLETED)
                self._tell_how_far()
                for future in done:
                    self._take(future.result())
                if len(pending) < 2 * self._workers and self.counts["states"] < self._states:
                    pending |= {pool.submit(search, *next(searches)) for _ in range(self._workers)}

    @staticmethod
    def _searches() -> Iterator[tuple[str, int]]:
        run_number = 0
        while True:
            yield from ((workload, run_number) for workload in WORKLOADS)
            run_number += 1

    def _take(self, outcome: Outcome) -> None:
        self.counts += outcome.counts
        self.violations += outcome.violations
        self.caught |= outcome.caught
        for violation in outcome.violations:
            self._tell(f"VIOLATION {violation}")

    def _tell_how_far(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            counts = self.counts
            self._tell(
                f"{counts['states']:>10,} of {self._states:,} states, "
                f"{counts['kills']:,} of {self._kills:,} kills, {counts['faults']:,} faults, "
                f"{len(self.caught)} of {len(PLANTED_BUGS)} planted bugs"
            )

    def figures(self) -> dict[str, Any]:
        """The counts that are told, by name."""
        return {
            "states": self.counts["states"],
            "double_crashes": self.counts["double_crashes"],
            "acknowledged_in_workloads": self.counts["acknowledged"],
            "fault_runs": self.counts["faults"],
            "kills": self.counts["kills"],
            "acknowledged_before_kills": self.counts["acknowledged_before_kills"],
            "lost": sum("is lost" in violation for violation in self.violations),
            "reused_offsets": sum("queue offset" in violation for violation in self.violations),
            "early": sum("was delivered at" in violation for violation in self.violations),
            "violations": len(self.violations),
            "planted_bugs": len(PLANTED_BUGS),
            "planted_bugs_caught": len(self.caught),
        }
