"""Goal: Spark's collection of garbage after a task has little to look through; user programs are left alone.

Method: a Python that takes itself for a worker of Spark reads a store, and counts what is not frozen.
"""

import subprocess
import sys
from pathlib import Path

from mqstore import Message, MessageStore

# Modules have thousands of objects each, pandas 30,000.
_MOST_OBJECTS = 3_000
_TASK = """
import gc, importlib.machinery, sys
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec("pyspark.daemon", None)
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.schema import SCHEMA
reader = MqstoreReader(SCHEMA, ReadOptions.parse({"path": sys.argv[1]}))
rows = sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))
left = len(gc.get_objects())
assert "pandas" not in sys.modules
import pandas
more = len(gc.get_objects())
rows += sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))
print(rows, left, more, len(gc.get_objects()))
"""


def test_what_a_task_has_imported_is_not_looked_through(tmp_path: Path) -> None:
    """Nor what a later task imports. The first imports no pandas, which takes a quarter of a second."""
    with MessageStore.open(tmp_path / "store") as store:
        store.topics.create("orders", 1)
        store.put_message(Message("orders", b"one"))
    command = [sys.executable, "-c", _TASK, str(tmp_path / "store")]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rows, left, more, left_at_last = map(int, answer.stdout.split())
    assert rows == 2
    assert left < _MOST_OBJECTS
    assert more > left + 10_000
    assert left_at_last < _MOST_OBJECTS


def test_objects_of_a_user_program_are_not_frozen(tmp_path: Path) -> None:
    """They live and die as it wants."""
    program = "import gc; from mqstore.tools.spark.worker_heap import freeze_imports; freeze_imports()"
    command = [sys.executable, "-c", f"{program}; print(gc.get_freeze_count())"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert int(answer.stdout) == 0
