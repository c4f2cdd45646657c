"""Runs hostile cases in processes that are forked off a warm one, within limits, and judges them.

A case is a copy of a sound store (bases.py), changed (changes.py) by the chance of its seed
and number, and asked everything (calls.py). It fails if a call fails, and if its process

    dies by a signal            SIGSEGV, SIGBUS, an abort: with the call that it was in
    works too long              10 s of processor time for all calls together (RLIMIT_CPU), or 30 s by clock:
                                the second finds what waits, and leaves room for a machine that is busy
    takes too much memory       1 GiB more than before the first call: of its own (RLIMIT_DATA, at once) or
                                resident, mapped files included (the kernel's peak, afterwards)
    fills the disk              192 MiB of blocks in its folder, or one file beyond 16 GiB (RLIMIT_FSIZE): two
                                repairs may each fill in 1,000 missing segments of 68 KB

Eight cases share a process, which saves a third of the time. If anything is wrong with one of them, each is
run once more in a process of its own, and that run counts. What only fails behind the others fails too.

RLIMIT_DATA and not RLIMIT_AS, for LMDB and the log map files of any length, which cost nothing until touched.
With NUMBA_BOUNDSCHECK=1 the same cases run with every index and every raw copy checked (just_in_time.py).
"""

import faulthandler
import gc
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import msgspec

from support.fuzz.bases import BASES, make_bases
from support.fuzz.calls import Failures, run_calls
from support.fuzz.changes import make_hostile

__all__ = ["Campaign", "CaseResult", "run_cases", "run_group"]

_MEMORY_BYTES = 1 << 30
_PROCESSOR_SECONDS = 10
_WAITING_SECONDS = 30
_FILE_BYTES = 16 << 30
_DISK_BYTES = 192 << 20
_CASES_IN_A_PROCESS = 8
# What a case is at, then the bytes that it had resident at first.
_NOTE_LENGTH = 300


class CaseResult(msgspec.Struct):
    """What became of one case. failures: empty if all was in order."""

    number: int
    base: str
    changes: list[str]
    failures: list[str]
    calls: int = 0
    refusals: dict[str, int] = {}
    seconds: float = 0.0
    resident_bytes: int = 0

    def __str__(self) -> str:
        return "\n".join([f"case {self.number} ({self.base}): {'; '.join(self.changes)}", *self.failures])


class _Told(msgspec.Struct):
    """What a case leaves behind."""

    failures: list[str]
    calls: int
    refusals: dict[str, int]
    seconds: float


@dataclass
class Campaign:
    """Figures of many cases."""

    cases: int = 0
    calls: int = 0
    slowest_seconds: float = 0.0
    most_resident_bytes: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    failed: list[CaseResult] = field(default_factory=list)

    def add(self, result: CaseResult) -> None:
        """Count one case."""
        self.cases += 1
        self.calls += result.calls
        self.slowest_seconds = max(self.slowest_seconds, result.seconds)
        self.most_resident_bytes = max(self.most_resident_bytes, result.resident_bytes)
        self.refusals.update(result.refusals)
        self.changes.update(change.partition(":")[0] for change in result.changes)
        if result.failures:
            self.failed.append(result)


def run_cases(
    cases: Sequence[tuple[int, int]],
    *,
    workers: int = 1,
    on_result: Callable[[CaseResult], None] | None = None,
) -> Campaign:
    """Run these cases: (seed, number)."""
    campaign = Campaign()
    with _workplace() as directory:
        make_bases(directory / "bases")
        step = max(1, min(3 * _CASES_IN_A_PROCESS, len(cases) // workers))
        parts = [cases[first : first + step] for first in range(0, len(cases), step)]
        # Fresh interpreters: no thread of this one is there when they fork.
        with ProcessPoolExecutor(
            workers, get_context("spawn"), _warm_up, (directory, list(sys.path))
        ) as pool:
            for results in pool.map(_run_part, [directory] * len(parts), parts):
                for result in results:
                    campaign.add(result)
                    if on_result is not None:
                        on_result(result)
    return campaign


@contextmanager
def _workplace() -> Iterator[Path]:
    """A folder in memory, where there is one: nothing here is about syncing."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="mqstore-fuzz-", dir=memory if memory.is_dir() else None
    ) as directory:
        yield Path(directory)


def _warm_up(directory: Path, paths: list[str]) -> None:
    """Load and compile all that a case may need: a sound store is asked everything."""
    sys.path[:] = paths
    # What the store logs of damage is not to be read thousands of times.
    logging.disable()
    case = directory / f"warm-{os.getpid()}"
    for base in BASES:
        shutil.copytree(directory / "bases" / base, case / "store")
        failures = Failures(lambda name: None)
        for turn in range(8 if base == "closed" else 1):
            run_calls(case, failures, turn)
            for copy in case.iterdir():
                if copy.name != "store":
                    shutil.rmtree(copy)
        shutil.rmtree(case)
        assert not failures.found, "\n".join(failures.found)
    # What is here already need not be looked at, nor copied, when garbage is collected in a case.
    gc.collect()
    gc.freeze()


def _run_part(directory: Path, cases: Sequence[tuple[int, int]]) -> list[CaseResult]:
    groups = [
        cases[first : first + _CASES_IN_A_PROCESS] for first in range(0, len(cases), _CASES_IN_A_PROCESS)
    ]
    return [result for group in groups for result in run_group(directory, group)]


def run_group(directory: Path, cases: Sequence[tuple[int, int]]) -> list[CaseResult]:
    """All cases in one process; each in its own, if anything is wrong."""
    together = _run_process(directory, cases)
    found = [failure for result in together for failure in result.failures]
    if not found or len(cases) == 1:
        return together
    alone = [_run_process(directory, [case])[0] for case in cases]
    if not any(result.failures for result in alone):
        others = ", ".join(f"{seed}/{number}" for seed, number in cases[:-1])
        alone[-1].failures += [f"not alone, only behind cases {others}:", *found]
    return alone


def _run_process(directory: Path, cases: Sequence[tuple[int, int]]) -> list[CaseResult]:
    """These cases, in one process."""
    places = [directory / f"case-{os.getpid()}-{at}" for at in range(len(cases))]
    try:
        results = [_prepare(directory, *case, place) for case, place in zip(cases, places, strict=True)]
        _judge(results, places, directory)
        return results
    finally:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)


def _prepare(directory: Path, seed: int, number: int, place: Path) -> CaseResult:
    """Make the hostile store of a case."""
    chance = random.Random(f"{seed}/{number}")
    base = chance.choice(BASES)
    shutil.copytree(directory / "bases" / base, place / "store")
    return CaseResult(number, base, make_hostile(place / "store", chance), [])


def _judge(results: list[CaseResult], places: list[Path], directory: Path) -> None:
    told_path, trace_path, notes = (
        directory / f"{name}-{os.getpid()}" for name in ("told", "trace", "notes")
    )
    for path in (told_path, trace_path, notes):
        path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_cases(places, results, told_path, trace_path, notes)
    status, usage = _await(child, _WAITING_SECONDS * len(places))
    # A fork has not all pages of its parent, so it has said itself with how many it began.
    before_bytes = int(notes.read_text()[_NOTE_LENGTH:])
    resident_bytes = max(0, usage.ru_maxrss * 1024 - before_bytes)
    told = msgspec.json.decode(told_path.read_bytes(), type=list[_Told]) if told_path.exists() else []
    for result, case_told in zip(results, told, strict=False):
        result.calls, result.refusals, result.seconds = case_told.calls, case_told.refusals, case_told.seconds
        result.failures += case_told.failures
    # That of all cases of the process.
    results[-1].resident_bytes = resident_bytes
    if os.WIFSIGNALED(status):
        where = notes.read_text()[:_NOTE_LENGTH].strip()
        trace = (
            trace_path.read_text().partition("Extension modules")[0][-2_500:] if trace_path.exists() else ""
        )
        results[-1].failures.append(f"{where}: ended by {signal.Signals(os.WTERMSIG(status)).name}\n{trace}")
    if resident_bytes > _MEMORY_BYTES:
        results[-1].failures.append(f"{resident_bytes >> 20} MiB more resident than before")
    for result, place in zip(results, places, strict=True):
        used = sum(
            os.lstat(f"{folder}/{name}").st_blocks for folder, _, names in os.walk(place) for name in names
        )
        if used * 512 > _DISK_BYTES:
            result.failures.append(f"{used * 512 >> 20} MiB of disk taken")


def _await(child: int, waiting_seconds: int) -> tuple[int, resource.struct_rusage]:
    """The end of a process, which comes in time, or by our hand."""
    descriptor = os.pidfd_open(child)
    try:
        import select

        if not select.select([descriptor], [], [], waiting_seconds)[0]:
            os.kill(child, signal.SIGABRT)
        _, status, usage = os.wait4(child, 0)
        return status, usage
    finally:
        os.close(descriptor)


def _be_cases(
    places: list[Path], results: list[CaseResult], told_path: Path, trace_path: Path, notes: Path
) -> None:
    """The process of some cases; it does not return."""
    code = 1
    told: list[_Told] = []
    try:
        trace = trace_path.open("w")
        faulthandler.enable(trace)
        # If its own trace does not end the process, the signal does.
        faulthandler.register(signal.SIGXCPU, trace, all_threads=True, chain=True)
        note = os.open(notes, os.O_WRONLY | os.O_CREAT)

        def tell(name: str) -> None:
            text = "".join(character if character.isascii() else "?" for character in name[:_NOTE_LENGTH])
            os.pwrite(note, text.ljust(_NOTE_LENGTH).encode(), 0)

        tell("before the first call")
        os.pwrite(note, b"%d" % _resident_bytes(), _NOTE_LENGTH)
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + _MEMORY_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for result, place in zip(results, places, strict=True):
            begin = time.monotonic()
            used = resource.getrusage(resource.RUSAGE_SELF)
            soft = int(used.ru_utime + used.ru_stime) + _PROCESSOR_SECONDS + 1
            resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
            failures = Failures(tell)
            run_calls(place, failures, result.number)
            told.append(
                _Told(failures.found, failures.calls, failures.refusals, round(time.monotonic() - begin, 3))
            )
        code = 0
    except BaseException as error:  # noqa: BLE001 - it has to be told
        import traceback

        told.append(_Told([f"outside of any call: {''.join(traceback.format_exception(error))}"], 0, {}, 0.0))
    finally:
        told_path.write_bytes(msgspec.json.encode(told))
        os._exit(code)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _data_bytes() -> int:
    """What RLIMIT_DATA counts by now."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
