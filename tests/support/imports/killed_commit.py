"""Rows of a sink's write, and the process that commits them until it is killed.

usage: killed_commit.py STORE VERSION SEED [KILL_AT]

It stages the rows of that version, in parts by chance, says `staged`, and commits. With KILL_AT it kills
itself before the so many-th step that changes anything: a state file, a put, a flush, a deleted part. It says
`ended` when it was not killed.
"""

import os
import random
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.state.state_file import StateFile
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.sink.row_encoder import EncodingRules
from mqstore.tools.spark.sink.sink_commit import CommitReport, Write, commit
from mqstore.tools.spark.sink.staged_parts import Part, stage

__all__ = ["APP", "ROWS", "RULES", "bodies", "body", "stage_rows", "write"]

APP = "killed"
ROWS = 60
RULES = EncodingRules(
    config=StoreConfig(max_message_size=60_000),
    write_queue_nums={},
    new_topic_queue_nums=8,
    new_retry_queue_nums=1,
    never_retried=frozenset(),
)


def body(version: int, row: int) -> bytes:
    return b"%d %d " % (version, row) + b"x" * 900


def bodies(version: int) -> list[bytes]:
    """The bodies of all rows of a version."""
    return [body(version, row) for row in range(ROWS)]


def stage_rows(root: Path, wanted: Iterable[bytes], folder: str, parts: int = 1) -> list[Part]:
    """Stage messages to the topic `rows`, in several parts."""
    rows = list(wanted)
    size = -(-len(rows) // parts)
    staged = []
    for number in range(parts):
        piece = rows[number * size : (number + 1) * size]
        columns = {
            "topic": ["rows"] * len(piece),
            "body": pa.array(piece, pa.binary()),
            "queue_id": pa.array([at % 3 for at in range(len(piece))], pa.int32()),
        }
        path = StoreLayout(root).imports / folder / f"part-{number:05}-0.arrow"
        # A batch of Arrow for each few rows, so that there are several puts.
        table = pa.table(columns)
        found = stage(path, (table.slice(at, 10) for at in range(0, table.num_rows, 10)), RULES)
        if found is not None:
            staged.append(found)
    return staged


def write(root: Path, version: int, choice: random.Random) -> CommitReport:
    """Stage the rows in an order by chance, as tasks that run again would, and commit them."""
    rows = bodies(version)
    choice.shuffle(rows)
    parts = stage_rows(root, rows, f"{choice.getrandbits(64):016x}", choice.randint(1, 4))
    sys.stdout.write("staged\n")
    sys.stdout.flush()
    return commit(root, Write(app=APP, version=version), parts)


def _kill_before(kind: type, name: str, steps: list[int]) -> None:
    original: Callable[..., Any] = getattr(kind, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        steps[0] -= 1
        if steps[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(kind, name, counted)


if __name__ == "__main__":
    if len(sys.argv) > 4:
        steps = [int(sys.argv[4])]
        for kind, name in (
            (MessageStore, "put_block"),
            (MessageStore, "flush"),
            (StateFile, "save"),
            (OsFileSystem, "delete"),
        ):
            _kill_before(kind, name, steps)
    write(Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3]))
    sys.stdout.write("ended\n")
