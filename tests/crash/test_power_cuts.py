"""Power cuts and kills, simulated: a slice of what `make crash` does at full length.

Method: each workload is run once with every step of the disk recorded; at some of the steps the store is
opened on a few of the states that a crash could leave, and the oracle, which sits outside the store,
judges it. A failure names the state; `python tests/crash/run.py --replay NAME` opens it again.
"""

import json
from pathlib import Path

import pytest

from support.crash.explorer import Figures, explore, workload_steps
from support.crash.figures import figures_table
from support.crash.workloads import WORKLOADS

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS)
def test_nothing_that_was_promised_is_lost(workload: str) -> None:
    """After a crash at every 23rd step, in its worst states and some at random, and after a second crash."""
    figures = explore(workload, 0, states_per_step=4, stride=23)
    assert figures.states > 15
    assert figures.double_crashes > 0


def test_a_run_can_be_replayed() -> None:
    """Group commit from several threads included: the same seed does the same steps."""
    for workload in ("group-commit", "ladder"):
        assert workload_steps(workload, 3) == workload_steps(workload, 3)
    assert explore("group-commit", 1, 2, stride=40) == explore("group-commit", 1, 2, stride=40) != Figures()


def test_the_page_shows_the_figures_of_the_last_run() -> None:
    """They are written by the command, not by hand, and that run found nothing wrong."""
    figures = json.loads((DOCS / "figures" / "crash.json").read_text())
    assert figures_table(figures) in (DOCS / "crash_safety.md").read_text()
    assert figures["states"] >= 20_000
    assert figures["kills"] >= 1_000
    assert figures["lost"] == figures["reused_offsets"] == figures["early"] == figures["violations"] == 0
    assert figures["planted_bugs_caught"] == figures["planted_bugs"] >= 12
