"""A driver that writes version after version into a store that another driver writes into as well.

usage: racing_commits.py STORE APP LAST SEED

It says `ready` and waits for a line. For each version it stages the rows in an order by chance and commits
them, as Spark would: where the lock is taken, what was staged is discarded and the version is written again.
At the end it says how often it found the lock taken.
"""

import random
import sys
from pathlib import Path

from mqstore.store.errors import StoreLocked
from mqstore.tools.spark.sink.sink_commit import Write, commit, discard
from support.imports.killed_commit import ROWS, stage_rows

__all__ = ["body", "run"]


def body(app: str, version: int, row: int) -> bytes:
    return f"{app} {version} {row} ".encode() + b"x" * 400


def run(root: Path, app: str, last: int, choice: random.Random) -> int:
    """Write all versions up to `last`; returns how often the lock was taken."""
    refused = 0
    for version in range(last + 1):
        is_written = False
        while not is_written:
            rows = [body(app, version, row) for row in range(ROWS)]
            choice.shuffle(rows)
            folder = f"{choice.getrandbits(64):016x}"
            parts = stage_rows(root, rows, folder, choice.randint(1, 3))
            try:
                commit(root, Write(app=app, version=version), parts)
                is_written = True
            except StoreLocked:
                discard(root, parts, folder)
                refused += 1
    return refused


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    path, app, last, seed = sys.argv[1:]
    sys.stdout.write(f"{run(Path(path), app, int(last), random.Random(seed))}\n")
