"""The power-cut campaign on real file systems: lives of a store are recorded, their block logs cut, and what
is left is judged.

    a run       a new file system on a recorded device; a worker works on a store there (worker.py); in one of
                three the disk is full at times
    a state     the first requests of its block log, with a seed's choice of what became of the pending ones,
                on a new image; mounted, so that the file system recovers; read; opened by a process of its
                own; read again; judged (judge.py)
    second      one state in four is recovered on a recorded device again, and cut in or behind that recovery
    hunts       the same with syncs that do nothing, or with a planted bug, which the judge must condemn

A state has a name, file system/seed/run/number, from which all that is random follows, except how the
threads of a worker interleaved: a run with a violation is kept with its block logs, and `replay` judges its
state again.
"""

import filecmp
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from support.powercut import reopener, worker
from support.powercut.block_log import BlockLog, BlockLogIllegal, Loss
from support.powercut.judge import (
    Promises,
    Violation,
    judge_as_left,
    judge_reopened,
    read_promises,
)
from support.powercut.plain_reader import PlainStore, read_store
from support.powercut.recorded_disk import (
    FILE_SYSTEMS,
    ImageMount,
    MountFailed,
    RecordedDisk,
    copy_image,
)

__all__ = ["HUNTED", "NO_SYNC", "Campaign", "Hunted", "Life", "judge_state", "record_life", "replay"]

TESTS = Path(__file__).resolve().parents[2]
STATES_PER_RUN = 5
_THREADS = (1, 4, 16, 16)
_ACKNOWLEDGEMENTS = {1: 120, 4: 400, 16: 900}
_PATIENCE_S = 150
_TRIES = 6
_ASKED_KEYS = 60
NO_SYNC = "libeatmydata.so"


class Hunted(NamedTuple):
    """A defect that the judge must condemn: a bug of planted_bugs.py in the worker or the reopener, or a
    library that makes all syncs do nothing. shows: the kinds of violation by which it must show.
    """

    name: str
    shows: tuple[str, ...] = ()
    in_worker: str = ""
    in_reopener: str = ""
    preload: str = ""


HUNTED = (
    Hunted("no-syncs", ("lost",), preload=NO_SYNC),
    Hunted("no-fdatasync", ("lost",), in_worker="no-fdatasync"),
    Hunted("acknowledge-before-sync", ("lost",), in_worker="acknowledge-before-sync"),
    Hunted("early-delivery", ("early",), in_worker="early-delivery"),
    Hunted("queue-offset-twice", ("reused", "opening"), in_reopener="queue-offset-twice"),
    Hunted("tail-not-zeroed", ("lost", "opening"), in_reopener="tail-not-zeroed"),
)
_SOUND = Hunted("")


class Life(NamedTuple):
    """A recorded life: its block log, its events, and the first request that the store could have caused."""

    block_log: Path
    events: Path
    first: int


class Judged(NamedTuple):
    """What came of one state.

    pending: requests that no FLUSH had covered when the power was cut. is_torn: the log ends in pieces.
    """

    violations: list[Violation]
    acknowledged: int
    pending: int
    is_torn: bool
    is_second: bool


# -- recording ----------------------------------------------------------------------------------------------


def record_life(
    directory: Path,
    file_system: str,
    name: str,
    *,
    threads: int,
    retains: bool,
    closes: bool,
    fills: bool = False,
    image: Path | None = None,
    hunted: Hunted = _SOUND,
    acknowledgements: int | None = None,
) -> Life:
    """Let a worker work on a recorded disk, a new one or that of `image`, until it is done."""
    events = directory / "events"
    before = directory / "before"
    directory.mkdir(parents=True)
    if image is not None:
        copy_image(image, before)
    with RecordedDisk(directory, FILE_SYSTEMS[file_system], image) as disk:
        # A store does not open while there is not one block left.
        (disk.path / worker.BALLAST).unlink(missing_ok=True)
        settings = worker.Settings(
            store=str(disk.path / "store"),
            events=str(events),
            block_log=str(disk.log_path),
            run=name.replace("/", "-"),
            threads=threads,
            acknowledgements=acknowledgements or _ACKNOWLEDGEMENTS[threads],
            retains=retains,
            closes=closes,
            fills=fills,
            plant=hunted.in_worker,
        )
        failure = _ask("worker", json.dumps(settings._asdict()), hunted.preload)[1]
        if failure:
            with events.open("a") as file:
                # Wrong wherever the power is cut.
                line = {"kind": "failed", "at": 0, "error": failure}
                file.write(json.dumps(line) + "\n")
    _trim(disk.log_path)
    if image is None:
        make_image(before, file_system)
    check_recording(disk.log_path, before, disk.image)
    return Life(disk.log_path, events, first_request(events))


def make_image(path: Path, file_system: str) -> None:
    """A new device of this file system's size, without a byte on it."""
    with path.open("wb") as file:
        file.truncate(FILE_SYSTEMS[file_system].size_mib << 20)


def check_recording(block_log: Path, before: Path, image: Path) -> None:
    """What the device held `before` and all requests must give what it holds now; else the log is wrong."""
    with BlockLog(block_log) as log:
        log.replay(before, len(log.entries))
    if not filecmp.cmp(before, image, shallow=False):
        raise BlockLogIllegal(f"{block_log} does not give {image}")
    before.unlink()


def _trim(block_log: Path) -> None:
    """Take away the room that the log was given and did not need."""
    with BlockLog(block_log) as log:
        last = log.entries[-1]
        end = last.position + (0 if last.is_discard else last.sectors * 512)
    os.truncate(block_log, end)


def _ask(module: str, settings: str, preload: str = "") -> tuple[str, str]:
    """Run a process of ours; returns what it said, and how it failed or ""."""
    environment = os.environ | {"PYTHONPATH": str(TESTS)} | ({"LD_PRELOAD": preload} if preload else {})
    argument = [settings] if module == "worker" else []
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", f"support.powercut.{module}", *argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        said, complaint = process.communicate(None if argument else settings, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return "", f"the {module} did not end within {_PATIENCE_S} s"
    finally:
        # Before the medium is taken away from under it.
        process.kill()
        process.wait()
    if process.returncode < 0:
        return said, f"the {module} died of signal {-process.returncode}: {complaint[-2000:]}"
    if process.returncode:
        return said, f"{complaint.strip().splitlines()[-1] if complaint.strip() else process.returncode}"
    return said, ""


# -- judging ------------------------------------------------------------------------------------------------


def cut_of(log: BlockLog, life: Life, choice: random.Random) -> int:
    """After how many requests the power is cut: anywhere, soon after a promise, or right before a FLUSH.

    Rather before one that many requests wait for than before another.
    """
    first, end = life.first, len(log.entries)
    kind = choice.random()
    if kind < 0.3:
        flushes = [number for number in range(first, end) if log.entries[number].is_flush]
        waiting = [number - before for before, number in itertools.pairwise(flushes)]
        if waiting:
            return choice.choices(flushes[1:], [count**2 for count in waiting])[0]
    elif kind < 0.6 and life.events.exists():
        lines = [json.loads(line) for line in life.events.read_text().splitlines()]
        promised = [line["at"] for line in lines if line["kind"] == "put" and line["at"] < end]
        if promised:
            return min(end, choice.choice(promised) + choice.randrange(6))
    return choice.randrange(first, end + 1)


def replay_cut(life: Life, file_system: str, name: str, image: Path) -> tuple[int, int]:
    """Do on `image` what the block log of a life says, up to the cut that the name of the state chooses.

    Returns that cut, and how many requests were pending then.
    """
    choice = random.Random(f"cut {name}")
    with BlockLog(life.block_log) as log:
        cut = cut_of(log, life, choice)
        return cut, log.replay(image, cut, Loss(name, whole=FILE_SYSTEMS[file_system].super_blocks))


def judge_state(
    lives: list[Life],
    directory: Path,
    file_system: str,
    name: str,
    *,
    hunted: Hunted = _SOUND,
    record_second: bool = False,
) -> Judged:
    """Cut the last of `lives` as `name` says and judge what is left.

    The lives before it were cut as their states' names say. record_second: record a second life on what the
    first left, in `directory`/second, and cut that. Raises MountFailed.
    """
    image = directory / "state"
    make_image(image, file_system)
    cuts, pending = [], 0
    for number, life in enumerate(lives):
        cut, pending = replay_cut(life, file_system, _name_of_cut(name, number), image)
        cuts.append((life.events, cut))
    if record_second:
        second = record_second_life(directory / "second", image, file_system, name, hunted)
        # Its recording has gone on on that image: it is made once more.
        return judge_state([*lives, second], directory, file_system, name, hunted=hunted)
    promises = read_promises(cuts)
    with ImageMount(directory, FILE_SYSTEMS[file_system], image) as disk:
        # A store does not open while there is not one block left.
        (disk.path / worker.BALLAST).unlink(missing_ok=True)
        left = read_store(disk.path / "store")
        violations = judge_mounted(disk.path / "store", left, promises, name, hunted)
    is_torn = left.end.bytes_behind > 0
    return Judged(violations, len(promises.acknowledged), pending, is_torn, is_second=len(lives) > 1)


def _name_of_cut(name: str, number: int) -> str:
    return f"{name}/second" if number else name


def record_second_life(directory: Path, image: Path, file_system: str, name: str, hunted: Hunted) -> Life:
    """A short life on a cut image: recovery of file system and store, and a little work."""
    copy = image.with_name("recorded")
    copy_image(image, copy)
    try:
        return record_life(
            directory,
            file_system,
            f"{name}-again",
            threads=4,
            retains=False,
            closes=False,
            image=copy,
            hunted=hunted,
            acknowledgements=40,
        )
    finally:
        copy.unlink()


def judge_mounted(
    store: Path, left: PlainStore, promises: Promises, name: str, hunted: Hunted = _SOUND
) -> list[Violation]:
    """Judge a directory that a cut has left, by opening it in a process of its own."""
    violations = judge_as_left(left, promises)
    choice = random.Random(f"keys {name}")
    there = [each for each in promises.acknowledged if each.physical_offset >= left.min_offset]
    asked = choice.sample(there, min(len(there), _ASKED_KEYS))
    settings = reopener.Settings(
        store=str(store),
        run=f"{name.replace('/', '-')}-after",
        keys=[[message.topic, message.key] for message in asked],
        looks_first=bool(hunted.in_reopener) or choice.random() < 0.5,
        plant=hunted.in_reopener,
    )
    said, failure = _ask("reopener", json.dumps(settings._asdict()))
    if failure:
        return [*violations, Violation("opening", failure)]
    seen: dict[str, Any] = json.loads(said.splitlines()[-1])
    return [*violations, *judge_reopened(left, read_store(store), seen, promises, asked)]


# -- the campaign -------------------------------------------------------------------------------------------


class Campaign:
    """`states` states of one file system.

    directory: for images and logs. kept: for those of states with a violation.
    """

    def __init__(
        self,
        file_system: str,
        states: int,
        seed: int,
        directory: Path,
        kept: Path,
        tell: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.caught: dict[str, str] = {}
        self._file_system = file_system
        self._states = states
        self._seed = seed
        self._directory = directory
        self._kept = kept
        self._tell = tell

    def run(self) -> None:
        """Record and judge until there are enough states."""
        run = 0
        while self.counts["states"] < self._states:
            wanted = min(STATES_PER_RUN, self._states - self.counts["states"])
            self._run(run, wanted)
            run += 1
            self._tell(
                f"{self._file_system}: {self.counts['states']} of {self._states} states, "
                f"{self.counts['acknowledged']:,} acknowledged, {len(self.violations)} violations"
            )

    def _run(self, run: int, states: int) -> None:
        directory = self._directory / f"run-{run}"
        life = self._record(directory / "first", f"{self._file_system}/{self._seed}/{run}", run)
        self.counts["runs"] += 1
        for number in range(states):
            name, judged = self._judge(life, directory, f"{self._file_system}/{self._seed}/{run}/{number}")
            self.counts["states"] += 1
            self.counts["second_cuts"] += judged.is_second
            self.counts["acknowledged"] += judged.acknowledged
            self.counts["pending"] += judged.pending
            self.counts["torn"] += judged.is_torn
            self.counts.update(dict.fromkeys({violation.kind for violation in judged.violations}, 1))
            if judged.violations:
                self.violations.append(f"{name}: {judged.violations[0]} ({len(judged.violations)} in all)")
                self._tell(self.violations[-1])
                self._keep(directory, name, judged.violations)
        shutil.rmtree(directory)

    def _record(self, directory: Path, name: str, run: int, hunted: Hunted = _SOUND) -> Life:
        return record_life(
            directory,
            self._file_system,
            name,
            threads=_THREADS[run % len(_THREADS)],
            retains=run % 2 == 1,
            closes=run % 5 == 4,
            fills=not hunted.name and run % 3 == 2,
            hunted=hunted,
        )

    def _judge(self, life: Life, directory: Path, name: str, hunted: Hunted = _SOUND) -> tuple[str, Judged]:
        """A cut from which the file system does not come back says nothing about the store: take another."""
        for attempt in range(_TRIES):
            tried = f"{name}-{attempt}" if attempt else name
            shutil.rmtree(directory / "second", ignore_errors=True)
            is_second = not hunted.name and random.Random(f"second {tried}").random() < 0.25
            try:
                return tried, judge_state(
                    [life], directory, self._file_system, tried, hunted=hunted, record_second=is_second
                )
            except MountFailed as error:
                self.counts["not_mounted"] += 1
                self._tell(f"{tried}: {self._file_system} itself does not come back: {error}")
        raise MountFailed(f"{name}: no state of {_TRIES} mounts")

    def _keep(self, directory: Path, name: str, violations: list[Violation]) -> None:
        kept = self._kept / name.replace("/", "-")
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for part in ("first", "second"):
            for file in ("block-log", "events"):
                if (directory / part / file).exists():
                    (kept / part).mkdir(exist_ok=True)
                    copy_image(directory / part / file, kept / part / file)
        (kept / "violations").write_text("".join(f"{violation}\n" for violation in violations))

    # -- what it must condemn -----------------------------------------------------------------------------

    def hunt(self, hunted: Hunted, runs: int = 8) -> None:
        """Record lives with a defect until the judge condemns a state."""
        for run in range(runs):
            directory = self._directory / "hunt"
            name = f"{self._file_system}/{self._seed}/{hunted.name}/{run}"
            life = self._record(directory / "first", name, run + 1, hunted)
            try:
                for condemned in self._condemned(life, directory, name, hunted):
                    self.caught[hunted.name] = condemned
                    self._tell(f"{self._file_system}, {hunted.name}: condemned, {condemned}")
                    return
            finally:
                shutil.rmtree(directory)
        self.violations.append(f"{self._file_system}: {hunted.name} was not condemned in {runs} runs")
        self._tell(self.violations[-1])

    def _condemned(self, life: Life, directory: Path, name: str, hunted: Hunted) -> Iterator[str]:
        for number in range(STATES_PER_RUN):
            _, judged = self._judge(life, directory, f"{name}/{number}", hunted)
            yield from (str(wrong) for wrong in judged.violations if wrong.kind in hunted.shows)


def replay(kept: Path, directory: Path, name: str) -> list[Violation]:
    """Judge a kept state once more."""
    file_system = name.partition("/")[0]
    lives = []
    for part in ("first", "second"):
        events = kept / part / "events"
        if (kept / part / "block-log").exists():
            lives.append(Life(kept / part / "block-log", events, first_request(events)))
    return judge_state(lives, directory, file_system, name).violations


def first_request(events: Path) -> int:
    """How many requests there were when the worker began to open the store."""
    return int(json.loads(events.read_text().partition("\n")[0])["at"])
