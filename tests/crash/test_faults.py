"""A fault at every call: the n-th operation on the disk fails, once or from then on.

Goal: no acknowledged message is lost, every error has its type, and the directory opens again. Method: a
small life of
a store (support/disks/fault_runs.py), here with every 13th operation failing; `make crash` takes every one.
"""

import pytest

from support.crash.campaign import sweep_faults
from support.disks.faults import FAULT_KINDS


@pytest.mark.slow
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("kind", range(len(FAULT_KINDS)), ids=[kind.name for kind in FAULT_KINDS])
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_fault_anywhere_loses_nothing(flush_disk_type: str, kind: int, for_good: bool) -> None:
    """Reopened after a kill and after power cuts, judged by the oracle."""
    first = 1 + 3 * kind + 5 * for_good
    assert sweep_faults(flush_disk_type, kind, for_good=for_good, first=first, stride=13) > 0
