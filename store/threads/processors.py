"""How many processors this process may use: those it may run on, and no more than its control group has time on.

To look for something without sleeping pays only while another thread can run beside it.
"""

import os
from pathlib import Path

__all__ = ["usable_processors"]

_QUOTAS = Path("/sys/fs/cgroup")


def usable_processors(quotas: Path = _QUOTAS) -> float:
    """As a number, which may be a fraction. quotas: where the system shows the limits of this control group."""
    return min(float(len(os.sched_getaffinity(0))), _quota(quotas))


def _quota(quotas: Path) -> float:
    """The processors' time that the group has of each period; infinite without a limit."""
    try:
        limit, period = (quotas / "cpu.max").read_text().split()
        return float("inf") if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int((quotas / "cpu" / "cpu.cfs_quota_us").read_text())
        return limit_us / int((quotas / "cpu" / "cpu.cfs_period_us").read_text()) if limit_us > 0 else float("inf")
    except (OSError, ValueError):
        return float("inf")
