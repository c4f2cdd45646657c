"""Usable processors: those that the process may run on, or fewer where its control group has a limit."""

import os
from pathlib import Path

import pytest

from mqstore.store.threads.processors import usable_processors


def test_without_a_limit_it_is_those_that_the_process_may_run_on(tmp_path: Path) -> None:
    """And a process that is bound to one has one."""
    allowed = os.sched_getaffinity(0)
    assert usable_processors(tmp_path) == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_processors(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert 0 < usable_processors() <= len(allowed)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "99900000 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "25000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.25),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "25000\n"}, None),
        ({"cpu.max": "something else\n"}, None),
    ],
)
def test_a_limit_of_the_control_group_counts(
    files: dict[str, str], expected: float | None, tmp_path: Path
) -> None:
    """In both versions of control groups; what cannot be understood is no limit."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_processors(tmp_path) == (expected or len(os.sched_getaffinity(0)))
