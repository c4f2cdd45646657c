"""How many processors this process may use: those it may run on, within the limit of its control group.

To look for something without sleeping pays only while another thread can run beside it.
"""

import math
import os
from pathlib import Path

from mqstore.store.foreign_error import raise_foreign

__all__ = ["usable_processors"]

_GROUP = Path("/sys/fs/cgroup")
# The time that a group may use of each period, and the period: in one file, or in two of the older version.
_LIMITS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def usable_processors(group: Path = _GROUP) -> float:
    """Their number, which may be a fraction. group: where the system shows the control group's limits."""
    return min([len(os.sched_getaffinity(0)), *(_limit(group, names) for names in _LIMITS)])


def _limit(group: Path, names: tuple[str, ...]) -> float:
    """The limit in these files; infinite if there is none."""
    try:
        time_us, period_us = " ".join((group / name).read_text() for name in names).split()
        return math.inf if time_us in {"max", "-1"} else int(time_us) / int(period_us)
    except (OSError, ValueError, ZeroDivisionError) as error:
        raise_foreign(error)
        return math.inf
