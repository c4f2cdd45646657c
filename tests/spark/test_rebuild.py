"""Goal: the rebuild by Spark as a whole: its shuffle, its target, its lock, and the command.

Method: one real session on this machine. Which bytes it makes of which log is tested in
tests/unit/tools/spark/rebuild/test_queue_rebuild.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqstore import MessageStore
from mqstore.store.errors import StoreLocked, StoreNotFound
from mqstore.tools.spark.jobs.job_errors import LogDamaged, TargetTaken
from mqstore.tools.spark.rebuild.queue_rebuild import rebuild_queues
from support.command_line import json_lines, run, store_orders
from support.stores.small_log import small_config

pytestmark = pytest.mark.spark

CLEAN = "rocketmq-5.3.3-clean"


def files_of(directory: Path) -> dict[str, bytes]:
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def times_in(store: Path) -> dict[Path, int]:
    """When each file was changed, but for the lock, which says who took it last."""
    return {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.name != "lock"}


def test_queues_of_a_broker(
    spark: SparkSession, golden_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    """Whole files are the broker's, byte for byte; nothing else is left, and the store is as it was."""
    store, target = golden_directory(CLEAN), tmp_path / "new"
    before = times_in(store)
    report = rebuild_queues(store, target, spark=spark, max_partition_bytes=100_000)
    assert files_of(target) == files_of(store / "consumequeue")
    assert list(tmp_path.iterdir()) == [target]
    assert times_in(store) == before
    assert report.entries == sum(queue.max_offset for queue in report.queues) == 1949
    with pytest.raises(TargetTaken, match="new exists: give a directory that does not exist"):
        rebuild_queues(store, target, spark=spark)


def test_a_store_that_is_open_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """And what is no store."""
    with (
        MessageStore.open(tmp_path / "store", small_config()),
        pytest.raises(StoreLocked),
    ):
        rebuild_queues(tmp_path / "store", tmp_path / "new", spark=spark)
    with pytest.raises(StoreNotFound):
        rebuild_queues(tmp_path / "missing", tmp_path / "new", spark=spark)
    assert not (tmp_path / "new").exists()


def test_damage_ends_it_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """The error is that of the task."""
    store_orders(tmp_path / "store", [b"x" * 60_000] * 5)
    path = min((tmp_path / "store" / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogDamaged, match=f"{path} is damaged at byte 0"):
        rebuild_queues(tmp_path / "store", tmp_path / "new", spark=spark)
    assert list(tmp_path.iterdir()) == [tmp_path / "store"]


def test_the_commands(spark: SparkSession, tmp_path: Path) -> None:
    """As from a shell, in the session that is there: text, JSON, exit codes."""
    store = tmp_path / "store"
    store_orders(store)
    assert run("spark", "verify", store).stdout.splitlines()[-1].startswith("sound: 6 records of ")
    (row,) = json_lines(run("spark", "rebuild-queues", store, "--out", tmp_path / "new", "--json"))
    assert (row["queues"], row["entries"]) == (2, 6)
    assert files_of(tmp_path / "new") == files_of(store / "consumequeue")
    out = str(tmp_path / "lake")
    assert json_lines(run("spark", "export", store, "--topic", "orders", "--out", out, "--json")) == [
        {"topic": "orders", "rows": 6}
    ]
    taken = run("spark", "export", store, "--out", out)
    assert (taken.exit_code, taken.stderr.count("\n")) == (2, 1)
    assert run("spark", "verify", store, "--conf", "nonsense").exit_code == 2
    path = min((store / "commitlog").iterdir())
    path.write_bytes(path.read_bytes()[:150] + b"\xff" + path.read_bytes()[151:])
    damaged = run("spark", "verify", store)
    assert damaged.exit_code == 4
    assert "DAMAGED in 1 places" in damaged.stdout
