"""`make powercut`: cuts the power of real file systems, whose devices log every write, and judges what is
left.

usage: powercut.py [--states 50] [--seed 1] [--fs ext4 xfs btrfs] [--workers 3] [--replay NAME]

It needs root, QEMU's storage daemon, the mkfs of each file system and libeatmydata, and says what is
missing. All images lie in memory (/dev/shm) where there is room. The figures go to
build/powercut_figures.json, and those of a run of full length (50 states of each of the three) to
docs/figures/powercut.json and into docs/crash_safety.md too. Exit code 1 for any violation, and for a
planted defect that is not condemned; 2 where something is missing. A violation names its state, whose block
logs are kept in build/powercut/: powercut.py --replay NAME judges it again.
"""

import argparse
import contextlib
import ctypes
import json
import multiprocessing
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from support.powercut.campaign import HUNTED, NO_SYNC, Campaign, replay  # noqa: E402
from support.powercut.figures import power_cut_table, with_power_cuts  # noqa: E402
from support.powercut.recorded_disk import FILE_SYSTEMS, sweep, why_not  # noqa: E402

FULL_STATES = 50
FULL_FILE_SYSTEMS = ["ext4", "xfs", "btrfs"]
KEPT = REPOSITORY / "build" / "powercut"
_PREFIX = "mqstore-powercut-"
_ROOM_BYTES = 4 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description="Power cuts of real file systems.")
    parser.add_argument("--states", type=int, default=FULL_STATES, help="of each file system")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fs", nargs="+", default=FULL_FILE_SYSTEMS, choices=list(FILE_SYSTEMS))
    parser.add_argument("--workers", type=int, default=3, help="file systems at a time")
    parser.add_argument("--replay", metavar="NAME", help="judge the kept state of that name once more")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with work_directory() as directory:
        missing = what_is_missing(arguments.fs, directory)
        if missing:
            print("\n".join(missing))
            return 2
        if arguments.replay:
            return replay_state(arguments.replay, directory)
        try:
            return run(arguments, directory)
        except KeyboardInterrupt:
            print("stopped; nothing is left mounted")
            return 130


def stop(*_: object) -> None:
    """Ctrl-C once: what was mounted is unmounted first, and a second one must not come between."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextlib.contextmanager
def work_directory() -> Iterator[Path]:
    """A directory for images and logs; in memory, where there is room. Nothing mounted there outlives it."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > _ROOM_BYTES
    base = memory if roomy else Path(tempfile.gettempdir())
    for left in base.glob(f"{_PREFIX}*"):
        # Of a campaign that was killed.
        if not Path(f"/proc/{left.name.removeprefix(_PREFIX).partition('-')[0]}").exists():
            clean_up(left)
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
    try:
        yield directory
    finally:
        clean_up(directory)


def clean_up(directory: Path) -> None:
    if os.geteuid() == 0 and shutil.which("losetup"):
        sweep(directory)
    shutil.rmtree(directory, ignore_errors=True)


def what_is_missing(file_systems: list[str], directory: Path) -> list[str]:
    """What this machine lacks, as sentences."""
    missing = []
    for name in file_systems:
        reason = why_not(FILE_SYSTEMS[name], directory / f"probe-{name}")
        if reason:
            missing.append(f"make powercut, {name}: {reason}")
    try:
        ctypes.CDLL(NO_SYNC)
    except OSError:
        missing.append(f"make powercut: lacks {NO_SYNC}, to test the judge: apt-get install libeatmydata1")
    return list(dict.fromkeys(missing))


def replay_state(name: str, directory: Path) -> int:
    kept = KEPT / name.replace("/", "-")
    if not kept.exists():
        print(f"{kept} is not there: only states with a violation are kept")
        return 2
    violations = replay(kept, directory, name)
    print("\n".join(map(str, violations)) or f"state {name}: nothing is wrong")
    return 1 if violations else 0


def run(arguments: argparse.Namespace, directory: Path) -> int:
    started = time.monotonic()
    parts = in_processes(arguments, directory)
    figures = figures_of(parts, arguments, round(time.monotonic() - started))
    print(power_cut_table(figures))
    for violation in figures["violations"]:
        print(violation)
    is_full = arguments.states >= FULL_STATES and set(arguments.fs) >= set(FULL_FILE_SYSTEMS)
    write(figures, is_full=is_full)
    return 1 if figures["violations"] else 0


def in_processes(arguments: argparse.Namespace, directory: Path) -> dict[str, dict[str, Any]]:
    """What came of each file system; each has a process of its own."""
    forking = multiprocessing.get_context("fork")
    turns = forking.Semaphore(arguments.workers)
    running = []
    try:
        for name in arguments.fs:
            ours, theirs = forking.Pipe(duplex=False)
            work = (name, arguments, directory / name, turns, theirs)
            process = forking.Process(target=run_campaign, args=work)
            process.start()
            theirs.close()
            running.append((name, process, ours))
        return {name: outcome_of(name, ours) for name, _, ours in running}
    finally:
        # Stopped before their end, they clean up first.
        for _, process, _ in running:
            if process.is_alive():
                process.terminate()
        for _, process, _ in running:
            process.join()


def outcome_of(name: str, outcome: Connection) -> dict[str, Any]:
    try:
        return dict(outcome.recv())
    except EOFError:
        return {"counts": {}, "violations": [f"{name}: the campaign itself ended early"], "caught": {}}


def run_campaign(
    name: str, arguments: argparse.Namespace, directory: Path, turns: Semaphore, outcome: Connection
) -> None:
    campaign = Campaign(
        name, arguments.states, arguments.seed, directory, KEPT, lambda line: print(line, flush=True)
    )
    # No syncs, on each; the planted bugs on one, and where the run is long enough to be written down.
    all_of_them = name == FULL_FILE_SYSTEMS[0] and arguments.states >= FULL_STATES
    with contextlib.suppress(KeyboardInterrupt), turns:
        for hunted in HUNTED if all_of_them else HUNTED[:1]:
            campaign.hunt(hunted)
        campaign.run()
        outcome.send(
            {"counts": dict(campaign.counts), "violations": campaign.violations, "caught": campaign.caught}
        )


def figures_of(
    parts: dict[str, dict[str, Any]], arguments: argparse.Namespace, seconds: int
) -> dict[str, Any]:
    names = (
        "states",
        "second_cuts",
        "pending",
        "torn",
        "acknowledged",
        "lost",
        "reused",
        "early",
        "not_mounted",
    )
    others = ("ahead", "derived", "opening")
    file_systems = " ".join(arguments.fs)
    which = "" if arguments.fs == FULL_FILE_SYSTEMS else f' FS="{file_systems}"'
    qemu = subprocess.run(["qemu-storage-daemon", "--version"], capture_output=True, text=True, check=True)
    return {
        "file_systems": {
            name: {key: part["counts"].get(key, 0) for key in names}
            | {"other": sum(part["counts"].get(key, 0) for key in others)}
            for name, part in parts.items()
        },
        "violations": [violation for part in parts.values() for violation in part["violations"]],
        "condemned": {
            # Where the image was mounted is of no interest.
            f"{hunted}, {name}": re.sub(r"\S*/mount/(?=store)", "", text)
            for name, part in parts.items()
            for hunted, text in part["caught"].items()
        },
        "seconds": seconds,
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "tools": f"QEMU {qemu.stdout.split()[2]}",
        "command": f"make powercut STATES={arguments.states} SEED={arguments.seed}{which}",
    }


def write(figures: dict[str, Any], *, is_full: bool) -> None:
    text = json.dumps(figures, indent=1) + "\n"
    (REPOSITORY / "build").mkdir(exist_ok=True)
    (REPOSITORY / "build" / "powercut_figures.json").write_text(text)
    if is_full and not figures["violations"]:
        page = REPOSITORY / "docs" / "crash_safety.md"
        (REPOSITORY / "docs" / "figures" / "powercut.json").write_text(text)
        page.write_text(with_power_cuts(page.read_text(), figures))


if __name__ == "__main__":
    sys.exit(main())
