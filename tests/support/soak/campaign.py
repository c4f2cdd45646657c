"""The campaign: worker processes one after the other on one directory, killed or ended, then the judge.

Restless runs are killed with SIGKILL at some moment; steady ones end by themselves; the last one only
consumes. The seed decides which comes when, and what becomes of each message (fates.py); how threads take
turns it does not decide.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from mqstore import MessageStore
from support.soak import worker
from support.soak.fates import GROUPS, TOPIC
from support.soak.journal import read_journal
from support.soak.judge import Stored, judge

__all__ = ["SoakFigures", "run_soak"]

_PATIENCE_S = 300.0
# Two that are killed, one that is not.
_LEAST_RUNS = 3


class SoakFigures(NamedTuple):
    """Counts of one campaign. wrong: what went wrong, a line each."""

    runs: int
    kills: int
    acknowledged: int
    deliveries: int
    dead_letters: int
    seconds: float
    wrong: list[str]


def run_soak(directory: Path, seed: int, seconds: float) -> SoakFigures:
    """Soak for `seconds`, and then as long as it takes to consume the rest."""
    chance = random.Random(seed)
    store, journal = directory / "data", directory / "journal"
    begin_s = time.monotonic()
    wrong: list[str] = []
    run = kills = 0
    while not wrong and (run < _LEAST_RUNS or time.monotonic() - begin_s < seconds):
        run += 1
        if run % 3:
            _kill(store, journal, seed, run, chance.uniform(0, 4))
            kills += 1
        else:
            wrong += _end(store, journal, seed, run, "steady", chance.uniform(1, 4))
    if not wrong:
        run += 1
        wrong += _end(store, journal, seed, run, "rest", 0)
    if not wrong:
        wrong += judge(seed, read_journal(journal), _stored(store))
    counts = Counter(line.kind for line in read_journal(journal))
    dead = sum(map(len, _stored(store).dead.values()))
    return SoakFigures(run, kills, counts["sent"], counts["begin"], dead, time.monotonic() - begin_s, wrong)


def _start(
    store: Path, journal: Path, seed: int, run: int, kind: str, seconds: float
) -> subprocess.Popen[str]:
    arguments = [store, journal, seed, run, kind, seconds]
    return subprocess.Popen(
        [sys.executable, worker.__file__, *map(str, arguments)], stderr=subprocess.PIPE, text=True
    )


def _kill(store: Path, journal: Path, seed: int, run: int, seconds: float) -> None:
    """A restless run, killed so many seconds after it was ready."""
    process = _start(store, journal, seed, run, "restless", 3_600)
    end_s = time.monotonic() + _PATIENCE_S
    while not _is_ready(journal, run) and process.poll() is None and time.monotonic() < end_s:
        time.sleep(0.05)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    _, told = process.communicate()
    assert process.returncode == -signal.SIGKILL, told


def _is_ready(journal: Path, run: int) -> bool:
    return journal.exists() and f"ready {run} \n" in journal.read_text("utf-8")


def _end(store: Path, journal: Path, seed: int, run: int, kind: str, seconds: float) -> list[str]:
    """A run that ends by itself; what went wrong."""
    process = _start(store, journal, seed, run, kind, seconds)
    try:
        _, told = process.communicate(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, told = process.communicate()
        return [f"run {run} ({kind}) did not end: {told[-4_000:]}"]
    return [f"run {run} ({kind}) ended with {process.returncode}: {told[-4_000:]}"] * bool(process.returncode)


def _stored(path: Path) -> Stored:
    with MessageStore.open(path, worker.CONFIG, read_only=True) as store:
        queues = {queue_id: _keys(store, TOPIC, queue_id) for queue_id in range(worker.QUEUES)}
        return Stored(queues, {group: _keys(store, f"%DLQ%{group}", 0) for group in GROUPS})


def _keys(store: MessageStore, topic: str, queue_id: int) -> list[str]:
    keys: list[str] = []
    offset, end = 0, store.get_max_offset_in_queue(topic, queue_id)
    while offset < end:
        pulled = store.get_message("judge", topic, queue_id, offset, 1_000)
        keys += [message.keys[0] for message in pulled.messages]
        offset = pulled.next_begin_offset
    return keys
