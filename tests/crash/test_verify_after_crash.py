"""What a crash leaves is no damage: verify calls every such state sound, before anything has opened it.

Method: the workloads and states of the crash campaign, a slice of them; and real processes that get SIGKILL.
The other direction, that damage is found, is in tests/unit/mqstore/verify/test_verification.py.
"""

import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqstore import Message, MessageStore
from mqstore.settings.directory_config import tool_config
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.verify.verification import verify
from support.crash.explorer import recorded_states
from support.crash.witness import ROOT, crash_config
from support.crash.workloads import WORKLOADS
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock

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


@pytest.mark.slow
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


@pytest.mark.slow
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
    store._closing.release()
    (tmp_path / "mqstore" / "keys" / "data.mdb").write_bytes(left)
    report = verify(tmp_path, crash_config())
    assert report.is_sound, report.damages
    assert "key-index" in {finding.kind for finding in report.findings}
    with MessageStore.open(tmp_path, crash_config(), start=False) as store:
        (found,) = store.query_message("orders", "k1")
        assert found.physical_offset == put.physical_offset
    (tmp_path / "mqstore" / "keys" / "data.mdb").write_bytes(left)
    assert not verify(tmp_path, crash_config()).is_sound


@pytest.mark.slow
def test_files_that_have_not_come_to_be_are_no_damage(tmp_path: Path) -> None:
    """At the end of the log, of a queue, of the index; of a queue a later one may have come to be."""
    config = crash_config()
    left = tmp_path / "left"
    store = MessageStore.open(tmp_path / "store", config, start=False)
    store.put_message(Message("orders", b"x", keys=("k",)))
    store.flush()
    shutil.copytree(tmp_path / "store", left)
    store.close()
    for row, step in (("commitlog", 68_096), ("consumequeue/orders/0", 2_080)):
        for number in (1, 2):
            (left / row / f"{number * step:020}").touch()
    (left / "consumequeue" / "orders" / "0" / f"{3 * 2_080:020}").write_bytes(bytes(2_080))
    for number in (1, 2):
        (left / "index" / f"2999010100000000{number}").touch()
    report = verify(left, config)
    assert report.is_sound, report.damages
    with MessageStore.open(left, config, start=False) as store:
        assert store.get_max_offset_in_queue("orders", 0) == 1
    (left / "consumequeue" / "orders" / "0" / f"{3 * 2_080:020}").write_bytes(bytes(2_080))
    assert not verify(left, config).is_sound


def test_entries_behind_the_index_point_may_be_anything_after_a_power_cut(tmp_path: Path) -> None:
    """A header of an index file may reach the disk without the entries, and so may a later file."""
    config = crash_config(max_hash_slot_num=20, max_index_num=100)
    left = tmp_path / "left"
    store = MessageStore.open(tmp_path / "store", config, start=False)
    store.put_messages([Message("orders", b"x", keys=(f"k{number}",)) for number in range(40)])
    store.flush()
    store.put_messages([Message("orders", b"x", keys=(f"k{number}",)) for number in range(20)])
    store._services.dispatch()
    shutil.copytree(tmp_path / "store", left)
    store.close()
    (path,) = (left / "index").iterdir()
    entries_at, durable = 40 + 4 * 20, 40
    image = bytearray(path.read_bytes())
    image[36:40] = struct.pack(">i", durable + 15)
    image[entries_at + 20 * (durable + 1) :] = bytes(len(image) - entries_at - 20 * (durable + 1))
    path.write_bytes(image)
    later = path.with_name(str(int(path.name) + 1))
    later.write_bytes(image[:40].ljust(len(image), b"\0"))
    report = verify(left, config)
    assert report.is_sound, report.damages
    image[entries_at + 20 * durable + 2] ^= 1
    path.write_bytes(image)
    assert {damage.kind for damage in verify(left, config).damages} == {
        "index-entry",
        "index-entry-missing",
    }
    image[entries_at + 20 * durable + 2] ^= 1
    path.write_bytes(image)
    with MessageStore.open(left, config) as store:
        assert len(store.query_message("orders", "k3")) == 2
    assert verify(left, config).is_sound
