"""The planted bugs: each defect must be given away by some state, or the crash tests prove nothing.

Method: one decision of the store is changed for the time of a test (support/crash/planted_bugs.py), and the
same explorer and oracle as everywhere else are let loose on it. Here those that show within moments;
`make crash` hunts all.
"""

import pytest

from support.crash.campaign import hunt
from support.crash.planted_bugs import PLANTED_BUGS

QUICK = (
    "no-fdatasync",
    "last-segment-only",
    "failed-sync-repeated",
    "failed-sync-swallowed",
    "limit-poisons",
    "full-write-counts",
    "place-ignored",
    "acknowledge-before-sync",
    "own-puts-do-not-wait",
    "rename-before-sync",
    "no-directory-sync",
    "segment-name-not-synced",
    "prepared-name-not-synced",
    "one-empty-segment",
    "point-ahead-of-queues",
    "point-ahead-of-log",
    "delay-offset-ahead",
    "consumer-offset-ahead",
    "tail-not-zeroed",
    "durable-blank-forgotten",
    "torn-blank-believed",
    "kept-tail-not-synced",
    "queue-offset-twice",
    "lost-lock-unnoticed",
    "child-closes-store",
    "write-before-reserve",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_caught(name: str) -> None:
    """By name, so that none can be left out unnoticed."""
    assert hunt(name) is not None, PLANTED_BUGS[name].claim


def test_the_list_is_long_enough() -> None:
    """A dozen at least, and all of the quick ones are known."""
    assert len(PLANTED_BUGS) >= 12
    assert set(QUICK) <= set(PLANTED_BUGS)
