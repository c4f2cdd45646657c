"""What is said of the machine with each run, and that RocketMQ takes no part where it does not."""

import os
import subprocess
import tempfile
from typing import Any

import pytest
from rivals.rocketmq import ROCKETMQ

LOAD_AT_START = round(os.getloadavg()[0], 2)


def pytest_report_header() -> str:
    """One visible line."""
    if ROCKETMQ.is_there:
        return f"beside Apache RocketMQ {ROCKETMQ.version}; load {LOAD_AT_START}"
    return "WITHOUT APACHE ROCKETMQ: benchmarks/rocketmq/prepare says what is missing"


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """The machine beside the figures; not its name."""
    machine_info.pop("node", None)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    where = ["df", "--output=fstype", tempfile.gettempdir()]
    kind = subprocess.run(where, capture_output=True, text=True, check=True).stdout.split()[-1]
    machine_info.update(
        load_at_start=LOAD_AT_START,
        memory_gib=round(memory_bytes / 2**30),
        file_system=kind,
        rocketmq=ROCKETMQ.version,
    )


@pytest.fixture(autouse=True)
def quiet_disk() -> None:
    """What earlier rounds left for the disk is written before the next row begins."""
    os.sync()
