"""The key index over the log that Apache RocketMQ 5.3.3 wrote.

Every key of every message in the manifest must be found, at exactly its offsets, and the index must hold
no other entries; both implementations must agree.
"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore.index.dispatcher import Dispatcher
from mqstore.index.keys.lmdb_key_index import LmdbKeyIndex
from mqstore.index.keys.memory_key_index import MemoryKeyIndex
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.config import StoreConfig
from mqstore.store.files.os_file_system import OsFileSystem
from support.golden.manifest import GOLDEN_NAMES, manifest_rows
from support.manual_clock import ManualClock

CONFIG = StoreConfig(mapped_file_size_commit_log=1_048_576, max_message_size=65_536)
BATCH_MESSAGES = 5


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_every_key_of_the_manifest_is_found(
    name: str, golden_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    """And only those: 2,897 entries in each directory."""
    rows = manifest_rows(name)
    directory = golden_directory(name) / "commitlog"
    log = CommitLog(OsFileSystem(), directory, CONFIG, ManualClock(), read_only=True)
    log.load()
    log.set_end(max(row["phy"] + row["size"] for row in rows), 0)
    expected: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    # A row of a batch stands for five messages and tells the keys of none.
    for row in rows:
        if row["kind"] != "batch" and row["sysflag"] & 0xC != 0xC:
            for key in filter(None, {*(row["keys"] or "").split(" "), row["uniq"]}):
                expected[row["topic"], key].add(row["phy"])
    index, plain = LmdbKeyIndex(tmp_path / "keys", log), MemoryKeyIndex(log)
    for each in (index, plain):
        Dispatcher(log, each, each.dispatched_offset, "keys").catch_up(log.max_offset)
    index.flush()
    for (topic, key), offsets in expected.items():
        found = [message.physical_offset for message in index.query(topic, key, max_num=10_000)]
        assert found == sorted(offsets)
        assert found == [message.physical_offset for message in plain.query(topic, key, max_num=10_000)]
    batches = sum(row["kind"] == "batch" for row in rows)
    singles = sum(map(len, expected.values()))
    # Each message of a batch has a key and a unique key.
    assert index.entry_count == plain.entry_count == singles + batches * BATCH_MESSAGES * 2
    index.close()
