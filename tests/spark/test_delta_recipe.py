"""Goal: the recipe of docs/spark.md for a stream into a Delta table has each message once in the table.

Method: the code is the page's own. The note of Spark that its last batch was committed is deleted, as if the
driver had been killed before writing it; the table is read by delta-rs, which is another engine than Spark.
"""

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from mqstore import Message, MessageStore

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def _recipe() -> str:
    (code,) = (block for block in PAGE.read_text("utf-8").split("```python\n") if "deltalake" in block[:60])
    code = code.partition("```")[0]
    assert '"64m"' in code
    return code.replace('"64m"', '"10k"')


def _run(spark: SparkSession, directory: Path) -> None:
    code = _recipe().replace('"data"', repr(str(directory / "data"))).replace('"lake/', f'"{directory}/lake/')
    names = {"spark": spark}
    exec(code, names)
    assert names["query"].awaitTermination(120)  # type: ignore[attr-defined]


def _put(directory: Path, first: int, count: int) -> None:
    with MessageStore.open(directory / "data") as store:
        for number in range(first, first + count):
            store.put_message(Message("orders", b"%d" % number, queue_id=0))


def test_a_batch_that_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """It is in the table already, and is not appended again; what comes later is."""
    _put(tmp_path, 0, 300)
    _run(spark, tmp_path)
    commits = tmp_path / "lake" / "orders.delta.checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert last > 1
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    _run(spark, tmp_path)
    _put(tmp_path, 300, 50)
    _run(spark, tmp_path)
    bodies = DeltaTable(str(tmp_path / "lake" / "orders.delta")).to_pyarrow_table().column("body").to_pylist()
    assert Counter(bodies) == Counter(b"%d" % number for number in range(350))
