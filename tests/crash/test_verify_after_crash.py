"""What a crash leaves is no damage: verify calls every such state sound, before anything has opened it.

Method: the workloads and states of the crash campaign, a slice of them; and real processes that get SIGKILL.
The other direction, that damage is found, is in tests/unit/mqstore/test_verify.py.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.directory_config import tool_config
from mqstore.store.os_file_system import OsFileSystem
from mqstore.verify import verify
from support.crash_explorer import recorded_states
from support.crash_workloads import WORKLOADS
from support.manual_clock import ManualClock
from support.simulated_disk import SimulatedDisk
from support.witness import ROOT, crash_config

STRIDE = 23

PUTTER = """
import sys
from mqstore import Message, MessageStore, StoreConfig
config = StoreConfig(
    mapped_file_size_commit_log=1_048_576, mapped_file_size_consume_queue=20_000, max_message_size=100_000,
    flush_disk_type=sys.argv[2],
)
with MessageStore.open(sys.argv[1], config) as store:
    print("open", flush=True)
    for number in range(1_000_000):
        message = Message(f"t{number % 3}", b"x" * (number % 700), keys=(f"k{number}",), queue_id=number % 4)
        store.put_message(message)
        if number % 50 == 0:
            store.consumer_offsets.commit("g", "t0", 0, number // 12)
"""


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_a_crash_may_leave_is_sound(name: str) -> None:
    """Killed, or the power cut, after any step of any workload."""
    checked = 0
    for state in recorded_states(name, stride=STRIDE, states_per_step=2):
        disk = SimulatedDisk(state.image, clock=ManualClock(state.promises.now_ms))
        if not disk.exists(ROOT / "commitlog"):
            continue
        report = verify(ROOT, crash_config(**WORKLOADS[name].settings), file_system=disk, workers=1)
        assert report.is_sound, (state.name, report.damages)
        checked += 1
    assert checked > 3


@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_killed_process_leaves_a_sound_store(tmp_path: Path, flush_disk_type: str) -> None:
    """Again and again, on the same directory, with LMDB and the threads of a real one."""
    records = 0
    for round_number in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", PUTTER, str(tmp_path), flush_disk_type], stdout=subprocess.PIPE
        ) as putter:
            assert putter.stdout is not None
            putter.stdout.readline()
            time.sleep(0.1 + 0.15 * round_number)
            putter.send_signal(signal.SIGKILL)
        report = verify(tmp_path, tool_config(OsFileSystem(), tmp_path).config)
        assert report.is_sound, report.damages
        assert report.records >= records
        records = report.records
    assert records > 0


@pytest.mark.parametrize("left", [b"", bytes(8192), b"\x01" * 512])
def test_a_key_index_that_a_power_cut_took_at_its_beginning_is_no_damage(tmp_path: Path, left: bytes) -> None:
    """LMDB syncs its first pages with its first commit; the opening builds the index again from the log."""
    store = MessageStore.open(tmp_path, crash_config(), start=False)
    put = store.put_message(Message("orders", b"first", keys=("k1",)))
    store._release()
    (tmp_path / "mqstore" / "keys" / "data.mdb").write_bytes(left)
    report = verify(tmp_path, crash_config())
    assert report.is_sound, report.damages
    assert "key-index" in {finding.kind for finding in report.findings}
    with MessageStore.open(tmp_path, crash_config(), start=False) as store:
        (found,) = store.query_message("orders", "k1")
        assert found.physical_offset == put.physical_offset
    (tmp_path / "mqstore" / "keys" / "data.mdb").write_bytes(left)
    assert not verify(tmp_path, crash_config()).is_sound
