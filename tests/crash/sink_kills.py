"""`make sink-kills`: commits of the Spark sink are killed at random moments; no row may be lost or doubled.

usage: sink_kills.py [--kills 50] [--seed 1]

A process stages the rows of a version and commits them, without Spark, which only calls this; it is killed a
random time after it has staged. Sometimes another program puts a message then. The next process writes the
same version, its rows in another order, and so on until it is done; then the next version. At the end each
row must be in the store once. Figures of 50 kills and more go to docs/figures/sink_kills.json and into
docs/spark.md. Exit code 1 for a row that is lost or doubled.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from mqstore import Message, MessageStore
from support.imports import killed_commit
from support.imports.killed_commit import ROWS, bodies
from support.page_part import write_part
from support.stores.small_log import small_config
from support.stores.small_store import messages_of

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURES = REPOSITORY / "docs" / "figures" / "sink_kills.json"
PAGE = REPOSITORY / "docs" / "spark.md"
BEGIN, END = "<!-- sink kills: written by tests/crash/sink_kills.py -->", "<!-- end of sink kills -->"
FULL_KILLS = 50
LONGEST_DELAY_S = 0.15
QUEUES = 8


def run(root: Path, kills: int, choice: random.Random) -> dict[str, int]:
    """All kills; counts."""
    with MessageStore.open(root, small_config(), start=False):
        pass
    killed = version = others = 0
    while killed < kills:
        is_killed = attempt(root, version, choice)
        killed += is_killed
        if choice.random() < 0.3:
            with MessageStore.open(root, start=False) as store:
                store.put_message(Message("rows", b"another %d" % others, queue_id=0))
                others += 1
        version += not is_killed
    while attempt(root, version, choice, is_spared=True):
        pass
    with MessageStore.open(root, read_only=True) as store:
        found = Counter(
            bytes(message.body)
            for queue_id in range(QUEUES)
            for message in messages_of(store, "rows", queue_id)
        )
    wanted = Counter([row for number in range(version + 1) for row in bodies(number)])
    wanted.update(b"another %d" % number for number in range(others))
    return {
        "kills": killed,
        "writes": version + 1,
        "rows": (version + 1) * ROWS,
        "messages_of_others": others,
        "lost": sum((wanted - found).values()),
        "doubled": sum((found - wanted).values()),
    }


def attempt(root: Path, version: int, choice: random.Random, *, is_spared: bool = False) -> bool:
    """One process; whether it was killed before it had ended."""
    arguments = [str(root), str(version), str(choice.getrandbits(32))]
    with subprocess.Popen(
        [sys.executable, killed_commit.__file__, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "staged\n", "the child could not stage"
        if not is_spared:
            time.sleep(choice.uniform(0, LONGEST_DELAY_S))
            process.kill()
        return "ended" not in process.stdout.read()


def write(figures: dict[str, object]) -> None:
    """Into the file and the page."""
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    line = (
        f"{figures['kills']} kills in {figures['writes']} writes of {ROWS} rows, with "
        f"{figures['messages_of_others']} messages of another program in between: {figures['lost']} rows "
        f"lost, {figures['doubled']} doubled (`{figures['command']}`, {figures['machine']})."
    )
    write_part(PAGE, BEGIN, END, line)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills of a commit of the Spark sink.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mqstore-sink-") as directory:
        counts = run(Path(directory) / "store", arguments.kills, random.Random(arguments.seed))
    figures: dict[str, object] = {
        **counts,
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - begin),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "command": f"make sink-kills KILLS={arguments.kills} SEED={arguments.seed}",
    }
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    if counts["lost"] or counts["doubled"]:
        return 1
    if arguments.kills >= FULL_KILLS:
        write(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
