"""Memory that takes none until it is written, whatever was freed before."""

import os
from pathlib import Path

import numpy as np

from mqstore.store.untouched_memory import untouched_zeros

LENGTH = 4 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_zeros_take_no_memory_until_they_are_written() -> None:
    """Not even after as much was freed, of which malloc would use some again."""
    for _ in range(3):
        np.ones(LENGTH, np.int64)
    before = resident_bytes()
    tables = [untouched_zeros(LENGTH) for _ in range(8)]
    for table in tables:
        table[:: LENGTH // 4] = 1
    assert resident_bytes() - before < LENGTH
    assert sum(int(table.sum()) for table in tables) == 32


def test_a_forked_child_has_a_copy() -> None:
    """What it writes is its own."""
    table = untouched_zeros(1_024)
    if (child := os.fork()) == 0:
        table[5] = 7
        os._exit(0)
    os.waitpid(child, 0)
    assert table[5] == 0
