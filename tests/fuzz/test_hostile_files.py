"""Hostile stores: a slice of what `make fuzz` asks of 20,000, and the same with all bounds checked.

Method: support/fuzz/campaign.py, in processes with limits. A failure says its case; `make fuzz SEED=7
CASE=...` runs that again.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.fuzz.bases import make_bases
from support.fuzz.campaign import run_cases
from support.fuzz.changes import CHANGES, make_hostile
from support.fuzz.figures import fuzz_table

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURES = REPOSITORY / "docs" / "figures" / "fuzz.json"


# An index entry elsewhere, a file's name that is no UTF-8, a page of LMDB, an index file of 8 GiB, a recovery
# point in the middle of a record.
FAILED_ONCE = [(1, 1066), (1, 1144), (1, 1359), (1, 1407), (1, 3148)]


@pytest.mark.slow
def test_hostile_files_are_answered_or_refused() -> None:
    """300 stores: no signal, no hang, no error without a name, no record lost, all within bounds."""
    campaign = run_cases([*FAILED_ONCE, *((7, number) for number in range(300))])
    assert not campaign.failed, "\n\n".join(map(str, campaign.failed))
    assert campaign.cases == 305
    assert campaign.changes.keys() == CHANGES.keys()
    assert len(campaign.refusals) > 5


@pytest.mark.slow
def test_no_compiled_loop_leaves_its_arrays() -> None:
    """40 stores with each index and each raw copy checked: a loop that led outside would raise IndexError."""
    # Kept from run to run: to compile all loops with their checks takes half a minute.
    compiled = REPOSITORY / "build" / "checked-loops"
    run = subprocess.run(
        [
            sys.executable,
            REPOSITORY / "tests" / "fuzz" / "run.py",
            "--cases",
            "40",
            "--seed",
            "8",
            "--workers",
            "1",
        ],
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(compiled)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5_000:] + run.stderr[-2_000:]
    assert "all bounds checked" in run.stdout


@pytest.mark.slow
def test_a_case_is_the_same_each_time(tmp_path: Path) -> None:
    """By its seed and number: so that it can be replayed."""
    make_bases(tmp_path / "bases")
    pictures: list[list[list[str]]] = [[], []]
    for picture in pictures:
        for number in range(12):
            shutil.copytree(tmp_path / "bases" / "closed", tmp_path / "case")
            picture.append(make_hostile(tmp_path / "case", random.Random(f"3/{number}")))
            shutil.rmtree(tmp_path / "case")
    assert pictures[0] == pictures[1]


@pytest.mark.skipif(not FIGURES.exists(), reason="no run of full length has written its figures yet")
def test_the_page_shows_the_figures_of_the_last_run() -> None:
    """They are written by the command, not by hand, and that run found nothing wrong."""
    figures = json.loads(FIGURES.read_text())
    assert fuzz_table(figures) in (REPOSITORY / "docs" / "crash_safety.md").read_text()
    assert all(run["failed"] == 0 for run in figures.values())
