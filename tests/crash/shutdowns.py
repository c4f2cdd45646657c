"""`make shutdowns`: ext4 is shut down amid synced writes of stores and of bare files; promises are checked.

usage: shutdowns.py INSTALLED_PYTHON [--repeats 200] [--seed 1] [--only NAME ...]

A store whose puts are compiled, one whose puts are interpreted, and bare writers take turns
(support/shutdowns/). A random moment after each began, its file system is shut down by the ioctl of
xfstests, without writing its journal out, mounted again, and read. A write is promised when fdatasync has
returned without an error, or a put with PUT_OK. ext4 lets an fdatasync succeed that the shutdown overtakes,
so what was promised before the shutdown began counts apart from what was promised meanwhile. The bare writers
show what the file system itself loses then: no program can keep that.

Figures of 200 repeats and more go to docs/figures/shutdowns.json and into docs/crash_safety.md. Exit code 1
if a store lost what it had promised before.
"""

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from support.disks.loop_disk import why_not
from support.page_part import write_part
from support.shutdowns.one_shutdown import WRITERS, shut_down

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURES = REPOSITORY / "docs" / "figures" / "shutdowns.json"
PAGE = REPOSITORY / "docs" / "crash_safety.md"
BEGIN, END = "<!-- shutdowns: written by `make shutdowns` -->", "<!-- end of shutdowns -->"
FULL_REPEATS = 200
LONGEST_DELAY_S = 0.3
STORES = [name for name, kind in WRITERS.items() if kind == "store"]


def run(arguments: argparse.Namespace) -> dict[str, object]:
    """All repeats, in turn; the figures."""
    begin, choice = time.monotonic(), random.Random(arguments.seed)
    counts: dict[str, Counter[str]] = {name: Counter() for name in arguments.only or WRITERS}
    lost: list[str] = []
    for number in range(arguments.repeats):
        for name in choice.sample(list(counts), len(counts)):
            delay_s = choice.uniform(0, LONGEST_DELAY_S)
            with tempfile.TemporaryDirectory(prefix="mqstore-shutdown-") as directory:
                found, words = shut_down(name, arguments.python, Path(directory), delay_s)
            counts[name].update(found)
            for each in words:
                lost.append(f"{name}, repeat {number}: {each}")
                sys.stderr.write(lost[-1] + "\n")
    return {
        "writers": {name: dict(each) for name, each in counts.items()},
        "lost": lost,
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - begin),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "command": f"make shutdowns REPEATS={arguments.repeats} SEED={arguments.seed}",
    }


def table(figures: dict[str, object]) -> str:
    """The part of the page."""
    writers = figures["writers"]
    assert isinstance(writers, dict)
    columns = {
        "shutdowns": "shutdowns",
        "promised_before": "promised before it began",
        "lost_before": "lost of these",
        "promised_meanwhile": "promised while it was under way",
        "lost_meanwhile": "lost of these",
        "other_statuses": "not promised (another status)",
    }
    rows = [f"| writer, 3 threads | {' | '.join(columns.values())} |", "| --- |" + " ---: |" * len(columns)]
    rows += [
        f"| {name} | {' | '.join(f'{found[column]:,}' for column in columns)} |"
        for name, found in writers.items()
    ]
    where = f"{figures['machine']}, Python {figures['python']}"
    return "\n".join([*rows, "", f"{figures['seconds']} s on {where}: `{figures['command']}`."])


def write(figures: dict[str, object]) -> None:
    """Into the file and the page."""
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    write_part(PAGE, BEGIN, END, table(figures))


def main() -> int:
    parser = argparse.ArgumentParser(description="Shutdowns of ext4 amid synced writes.")
    parser.add_argument("python", type=Path, help="of an environment with the wheel")
    parser.add_argument("--repeats", type=int, default=FULL_REPEATS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=WRITERS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as probed:
        missing = why_not(Path(probed))
    if missing is not None:
        sys.exit(f"shutdowns: {missing}")
    figures = run(arguments)
    sys.stdout.write(table(figures) + "\n")
    if arguments.repeats >= FULL_REPEATS and arguments.only is None:
        write(figures)
    return int(any(figures["writers"][name]["lost_before"] for name in STORES if name in figures["writers"]))


if __name__ == "__main__":
    sys.exit(main())
