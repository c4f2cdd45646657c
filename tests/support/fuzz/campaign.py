"""Runs hostile cases, each in a process of its own: forked off one that is warm, within limits, and judged.

A case is a copy of a sound store (bases.py), changed (changes.py) by the chance of its seed
and number, and asked everything (calls.py). It fails if a call fails, and if its process

    dies by a signal            SIGSEGV, SIGBUS, an abort: with the call that it was in
    works too long              10 s of processor time for all calls together (RLIMIT_CPU), or 30 s by clock:
                                the second finds what waits, and leaves room for a machine that is busy
    takes too much memory       1 GiB more than before the first call: of its own (RLIMIT_DATA, at once) or
                                resident, mapped files included (the kernel's peak, afterwards)
    fills the disk              64 MiB of blocks in its folder, or one file beyond 16 GiB (RLIMIT_FSIZE)

RLIMIT_DATA and not RLIMIT_AS, for LMDB and the log map files of any length, which cost nothing until touched.
With NUMBA_BOUNDSCHECK=1 the same cases run with every index and every raw copy checked (store/compiled.py).
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
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import msgspec

from support.fuzz.bases import BASES, make_bases
from support.fuzz.calls import Failures, run_calls
from support.fuzz.changes import make_hostile

__all__ = ["Campaign", "CaseResult", "run_cases"]

_MEMORY_BYTES = 1 << 30
_PROCESSOR_SECONDS = 10
_WAITING_SECONDS = 30
_FILE_BYTES = 16 << 30
_DISK_BYTES = 64 << 20
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
    """What the process of a case leaves behind."""

    failures: list[str]
    calls: int
    refusals: dict[str, int]


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
    seed: int, numbers: range, *, workers: int = 1, on_result: Callable[[CaseResult], None] | None = None
) -> Campaign:
    """Run these cases of a seed."""
    campaign = Campaign()
    with _workplace() as directory:
        make_bases(directory / "bases")
        step = max(1, min(25, len(numbers) // workers))
        parts = [numbers[first : first + step] for first in range(0, len(numbers), step)]
        # Fresh interpreters: no thread of this one is there when they fork.
        with ProcessPoolExecutor(
            workers, get_context("spawn"), _warm_up, (directory, list(sys.path))
        ) as pool:
            for results in pool.map(_run_part, [directory] * len(parts), [seed] * len(parts), parts):
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


def _run_part(directory: Path, seed: int, numbers: range) -> list[CaseResult]:
    return [_run_case(directory, seed, number) for number in numbers]


def _run_case(directory: Path, seed: int, number: int) -> CaseResult:
    chance = random.Random(f"{seed}/{number}")
    base = chance.choice(BASES)
    case = directory / f"case-{os.getpid()}"
    shutil.copytree(directory / "bases" / base, case / "store")
    try:
        changes = make_hostile(case / "store", chance)
        result = CaseResult(number, base, changes, [])
        _judge(result, case, directory)
        return result
    finally:
        shutil.rmtree(case, ignore_errors=True)


def _judge(result: CaseResult, case: Path, directory: Path) -> None:
    told_path, trace_path, notes = (
        directory / f"{name}-{os.getpid()}" for name in ("told", "trace", "notes")
    )
    for path in (told_path, trace_path, notes):
        path.unlink(missing_ok=True)
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_case(case, result.number, told_path, trace_path, notes)
    status, usage = _await(child)
    result.seconds = round(time.monotonic() - begin, 3)
    # A fork has not all pages of its parent, so it has said itself with how many it began.
    before_bytes = int(notes.read_text()[_NOTE_LENGTH:])
    result.resident_bytes = max(0, usage.ru_maxrss * 1024 - before_bytes)
    told = _Told([], 0, {})
    if os.WIFSIGNALED(status):
        where = notes.read_text()[:_NOTE_LENGTH].strip()
        trace = (
            trace_path.read_text().partition("Extension modules")[0][-2_500:] if trace_path.exists() else ""
        )
        result.failures.append(f"{where}: ended by {signal.Signals(os.WTERMSIG(status)).name}\n{trace}")
    else:
        told = msgspec.json.decode(told_path.read_bytes(), type=_Told)
    result.failures += told.failures
    result.calls, result.refusals = told.calls, told.refusals
    if result.resident_bytes > _MEMORY_BYTES:
        result.failures.append(f"{result.resident_bytes >> 20} MiB more resident than before")
    used = sum(os.lstat(f"{folder}/{name}").st_blocks for folder, _, names in os.walk(case) for name in names)
    if used * 512 > _DISK_BYTES:
        result.failures.append(f"{used * 512 >> 20} MiB of disk taken")


def _await(child: int) -> tuple[int, resource.struct_rusage]:
    """The end of a process, which comes in time, or by our hand."""
    descriptor = os.pidfd_open(child)
    try:
        import select

        if not select.select([descriptor], [], [], _WAITING_SECONDS)[0]:
            os.kill(child, signal.SIGABRT)
        _, status, usage = os.wait4(child, 0)
        return status, usage
    finally:
        os.close(descriptor)


def _be_case(case: Path, turn: int, told_path: Path, trace_path: Path, notes: Path) -> None:
    """The process of one case; it does not return."""
    code = 1
    try:
        trace = trace_path.open("w")
        faulthandler.enable(trace)
        # The hard limit ends it, if its own trace does not.
        faulthandler.register(signal.SIGXCPU, trace, all_threads=True, chain=True)
        note = os.open(notes, os.O_WRONLY | os.O_CREAT)

        def tell(name: str) -> None:
            text = "".join(character if character.isascii() else "?" for character in name[:_NOTE_LENGTH])
            os.pwrite(note, text.ljust(_NOTE_LENGTH).encode(), 0)

        tell("before the first call")
        os.pwrite(note, b"%d" % _resident_bytes(), _NOTE_LENGTH)

        used = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(used.ru_utime + used.ru_stime) + _PROCESSOR_SECONDS + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + _MEMORY_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        failures = Failures(tell)
        run_calls(case, failures, turn)
        told_path.write_bytes(msgspec.json.encode(_Told(failures.found, failures.calls, failures.refusals)))
        code = 0
    except BaseException as error:  # noqa: BLE001 - it has to be told
        import traceback

        told = _Told([f"outside of any call: {''.join(traceback.format_exception(error))}"], 0, {})
        told_path.write_bytes(msgspec.json.encode(told))
    finally:
        os._exit(code)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _data_bytes() -> int:
    """What RLIMIT_DATA counts by now."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
