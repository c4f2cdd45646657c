"""What a process keeps of large blocks that it has freed, as the kernel counts it."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """\
import re, sys
from pathlib import Path
from mqstore.tools.cli.serving.large_blocks import give_back_large_blocks

def own_mib():
    return int(re.search(r"RssAnon:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024

if sys.argv[1] == "give back":
    give_back_large_blocks()
before = own_mib()
for size in (24, 20):  # the first teaches the C library what is usual
    block = bytearray(b"x") * (size << 20)
    del block
print(own_mib() - before)
"""


def kept_mib(way: str) -> int:
    """MiB that the process has more of its own after its large blocks were freed."""
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True, timeout=60
    )
    return int(answer.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="glibc keeps blocks")
def test_freed_blocks_go_back_to_the_system() -> None:
    """Without the call 20 MiB are kept."""
    assert (kept_mib("as it is") >= 19, kept_mib("give back") <= 1) == (True, True)
