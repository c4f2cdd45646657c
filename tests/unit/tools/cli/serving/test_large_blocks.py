"""What a process keeps of large blocks that it has freed, as the kernel counts it."""

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """\
import re, resource, sys
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

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

before = 0
for number in range(1_010):
    if number == 10:
        before = faults()
    blocks = [bytearray(300 << 10) for _ in range(2)]
    del blocks
print(faults() - before)
"""


def measured(way: str) -> tuple[int, int]:
    """MiB that the process keeps of large blocks, and the page faults of 2,000 of 300 KiB."""
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=True, timeout=60
    )
    kept_mib, faults = map(int, answer.stdout.split())
    return kept_mib, faults


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="only glibc keeps freed blocks"
)
def test_freed_blocks_go_back_to_the_system() -> None:
    """Without the call 20 MiB are kept. Blocks of usual requests cost no page faults, with it as without."""
    (kept_mib, _), (kept_after_mib, faults) = measured("as it is"), measured("give back")
    assert (kept_mib >= 19, kept_after_mib <= 1, faults < 2_000) == (True, True, True)
