"""A short soak: two processes are killed at work, one ends by itself; `make soak` is longer."""

from pathlib import Path

import pytest

from support.soak.campaign import run_soak

SEED = 20_261


@pytest.mark.slow
def test_a_short_soak_loses_nothing(tmp_path: Path) -> None:
    """Each group consumes every message; dead letters are those that always fail; queues keep their order."""
    figures = run_soak(tmp_path, SEED, seconds=1)
    assert figures.wrong == [], SEED
    assert figures.kills == 2
    assert figures.acknowledged > 100
    assert figures.deliveries > 3 * figures.acknowledged
    assert figures.dead_letters > 0
