"""Goal: two drivers that write into one store at once put each row once, also if one of them is killed.

Method: two processes stage and commit version after version, of two applications or of the same one, which a
driver does that was started again while the old one still runs. One is killed at a moment by chance, and
started again from its first version.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mqstore import MessageStore
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.sink.import_journal import ImportJournal
from mqstore.verify import verify
from support.imports import racing_commits
from support.imports.killed_commit import ROWS
from support.stores.small_log import small_config
from support.stores.small_store import messages_of

TESTS = Path(racing_commits.__file__).parents[2]
LAST = 2
LONGEST_LIFE_S = 0.5


def _started(root: Path, app: str, seed: int) -> "subprocess.Popen[str]":
    """Ready to write."""
    process = subprocess.Popen(
        [sys.executable, racing_commits.__file__, str(root), app, str(LAST), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize(("apps", "kills"), [(("one", "other"), 0), (("same", "same"), 1)])
def test_each_row_is_there_once(tmp_path: Path, apps: tuple[str, str], kills: int) -> None:
    """Whoever finds the lock taken discards what it has staged; nothing of that is put."""
    root = tmp_path / "store"
    with MessageStore.open(root, small_config(), start=False):
        pass
    choice = random.Random(f"{apps} {kills}")
    steady = _started(root, apps[0], 1)
    struck = _started(root, apps[1], 2)
    assert steady.stdin is not None
    steady.stdin.write("go\n")
    steady.stdin.flush()
    for number in range(kills):
        assert struck.stdin is not None
        struck.stdin.write("go\n")
        struck.stdin.flush()
        time.sleep(choice.uniform(0, LONGEST_LIFE_S))
        struck.kill()
        struck.communicate()
        struck = _started(root, apps[1], 3 + number)
    struck.communicate("go\n")
    steady.communicate()
    assert (steady.returncode, struck.returncode) == (0, 0)
    with MessageStore.open(root, read_only=True) as store:
        found = Counter(
            bytes(message.body) for queue_id in range(8) for message in messages_of(store, "rows", queue_id)
        )
    wanted = {
        racing_commits.body(app, version, row)
        for app in apps
        for version in range(LAST + 1)
        for row in range(ROWS)
    }
    assert found == Counter(wanted)
    assert not ImportJournal(root).unfinished()
    if not kills:
        assert not list(StoreLayout(root).imports.glob("*/*"))
    assert verify(root).is_sound
