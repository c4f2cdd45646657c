"""Opening a store of 1 GiB after an unclean stop.

One row: the time of a message of 1 KiB in the log, so that the ratio is that of the whole opening;
`seconds` in the JSON are those of the opening. Ours is MessageStore.open in a fresh process each time, its
imports and the loading of compiled code counted from the call on. RocketMQ's is DefaultMessageStore.load:
in a fresh JVM, as a broker that starts again does it (the JVM's own start not counted, as Python's is
not), and in one that has done it before, with all of it compiled, which no broker ever has. They open the
same directory in turn, all pages in memory, with all other files put back before.

all checked: without our recovery point, so that we look at every record as RocketMQ does. queues rebuilt:
the consume queues are deleted as well. as left behind: what a killed process left, our recovery point
included; this is what our users see, and RocketMQ's time is that of `all checked`, for it keeps no such
point. Dishonest would be: to compare our recovery point with RocketMQ's scan without saying so, or to
count a log that was flushed and checked before.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from rivals.contestant import Round
from rivals.rocketmq import ROCKETMQ, RocketMq
from turns import ROUNDS, at_once, in_turn

BODY_BYTES = 1_024
LOG_BYTES = int(os.environ.get("RECOVERY_BYTES", str((1 << 30) - (8 << 20))))

WRITE = """
import os, sys
from filled_stores import fill
from mqstore import MessageStore
directory, log_bytes, body_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = fill(directory, 1_000, body_bytes)
messages = log_bytes // (store.max_offset // 1_000) // 1_000 * 1_000
store.close()
store = fill(directory, messages - 1_000, body_bytes)
print(messages, flush=True)
os._exit(0)
"""

OPEN = """
import os, sys, time
from mqstore import MessageStore
begun = time.perf_counter()
store = MessageStore.open(sys.argv[1], start=False)
seconds = time.perf_counter() - begun
assert store.get_max_offset_in_queue("orders", 0) == int(sys.argv[2])
print(seconds, flush=True)
os._exit(0)
"""


class UncleanStore:
    """A directory whose writer ended without closing it, and the small files as that writer left them."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "store"
        self._left_behind = directory / "left_behind"
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
        said = run(WRITE, self.path, LOG_BYTES, BODY_BYTES, environment=environment)
        self.messages = int(said)
        shutil.copytree(self.path, self._left_behind, ignore=shutil.ignore_patterns("commitlog"))

    def put_back(self, *, without: tuple[str, ...]) -> None:
        """All but the log as it was, without some of it."""
        for path in self.path.iterdir():
            if path.name != "commitlog":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(
            self._left_behind, self.path, ignore=shutil.ignore_patterns(*without), dirs_exist_ok=True
        )
        assert (self.path / "abort").exists()


def run(program: str, *arguments: object, environment: dict[str, str] | None = None) -> str:
    """What a fresh Python process says."""
    # -P: not the folder mqstore/ of a checkout in which this is started, but what is installed.
    command = [sys.executable, "-P", "-c", program, *map(str, arguments)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> UncleanStore:
    """1 GiB, written by a process that did not close it."""
    return UncleanStore(tmp_path_factory.mktemp("unclean"))


KINDS = {
    "as left behind": ((), ("mqstore",)),
    "all checked": (("mqstore",), ("mqstore",)),
    "queues rebuilt": (("mqstore", "consumequeue"), ("mqstore", "consumequeue", "index")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_recovery(benchmark: BenchmarkFixture, unclean: UncleanStore, kind: str) -> None:
    our_lack, their_lack = KINDS[kind]

    def ours() -> Round:
        unclean.put_back(without=our_lack)
        return Round(unclean.messages, float(run(OPEN, unclean.path, unclean.messages)))

    def theirs() -> Round:
        unclean.put_back(without=their_lack)
        seconds = ROCKETMQ.ask("recover", path=str(unclean.path), messages=unclean.messages)
        return Round(unclean.messages, seconds)

    def theirs_afresh() -> Round:
        unclean.put_back(without=their_lack)
        fresh = RocketMq()
        seconds = fresh.ask("recover", path=str(unclean.path), messages=unclean.messages)
        fresh.end()
        return Round(unclean.messages, seconds)

    turns = {"mqstore": at_once(ours)}
    if ROCKETMQ.is_there:
        turns |= {"RocketMQ": at_once(theirs), "RocketMQ, fresh JVM": at_once(theirs_afresh)}
    in_turn(benchmark, f"recovery of 1 GiB, {kind}", turns, rounds=min(3, ROUNDS))
    us = benchmark.extra_info["us"]
    benchmark.extra_info["figures"] = {
        f"{name}, seconds": [each * unclean.messages / 1e6 for each in of_rounds]
        for name, of_rounds in us.items()
    }
