"""Checked bounds: with numba's switch, each compiled loop that is led outside of its arrays says so.

Method: one interpreter with NUMBA_BOUNDSCHECK=1 calls loops with positions that no caller gives. Each must
raise IndexError; without checks they would read or write somewhere else.
"""

import os
import subprocess
import sys
from pathlib import Path

CHECKED = """
import os
import numba
import numpy as np
from mqstore.store import byte_kernels, compiled
from mqstore.store.checksum import crc32_kernels
from mqstore.store.files.timed_sync import TimedSync
from mqstore.store.record import record_kernels

assert TimedSync().sync(os.open("file", os.O_RDWR | os.O_CREAT), 60)
copy_bytes = compiled.compiled(lambda *given: byte_kernels.copy_bytes(*given))
load_word = compiled.compiled(lambda *given: byte_kernels.load_word(*given))
data = np.zeros(100, np.uint8)
assert compiled.CHECKS_BOUNDS
assert byte_kernels.read_int(data, 96) == load_word(data, 92) == 0
copy_bytes(data, 90, data, 0, 10)
crc32_kernels.crc32(data, 0, 100)
for call in (
    lambda: byte_kernels.read_int(data, 97),
    lambda: load_word(data, 93),
    lambda: load_word(data, -1),
    lambda: load_word(data, 1 << 40),
    lambda: copy_bytes(data, 91, data, 0, 10),
    lambda: copy_bytes(data, 0, data, 91, 10),
    lambda: copy_bytes(data, 0, data, 20, -10),
    lambda: copy_bytes(data, 0, data, 20, 1 << 40),
    lambda: crc32_kernels.crc32(data, 0, 101),
    lambda: crc32_kernels.crc32(data, -1, 64),
):
    try:
        call()
    except IndexError:
        print("refused")
"""


def test_with_checked_bounds_nothing_outside_is_touched(tmp_path: Path) -> None:
    """An index, a word, a copy and a CRC that leave the array raise IndexError."""
    run = subprocess.run(
        [sys.executable, "-c", CHECKED],
        cwd=tmp_path,
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split() == ["refused"] * 10
