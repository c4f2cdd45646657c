"""Goal: tasks that fail, die, or run twice leave each row in the store once, and nothing staged.

Method: one real session in which a task may fail twice and slow ones are run a second time. What fails once
leaves a file, by which the next attempt knows.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.session import start_session

pytestmark = pytest.mark.spark

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that repeats tasks."""
    settings = {"spark.driver.memory": "1g", **SPECULATION}
    session = start_session("local[2,3]", settings, tmp_path_factory.mktemp("session"))
    yield session
    session.stop()


@pytest.mark.parametrize("action", ["fails", "dies", "is slow"])
def test_a_task_that_is_repeated(spark: SparkSession, tmp_path: Path, action: str) -> None:
    """It strikes in the middle of a task, behind rows that were staged or not: the rows are there once."""
    mark = tmp_path / "struck"

    def body(number):  # type: ignore[no-untyped-def]  # Spark reads hints of types
        if number == 17:
            try:
                mark.touch(exist_ok=False)
            except FileExistsError:
                return str(number)
            if action == "fails":
                raise ValueError("this attempt fails")
            if action == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(5)
        return str(number)

    frame = spark.range(0, 40, 1, 8).select(udf(body, "string", useArrow=False)("id").alias("body"))
    frame.write.format("mqstore").mode("append").option("topic", "rows").save(str(tmp_path / "store"))
    assert mark.exists()
    rows = spark.read.format("mqstore").option("columns", "body").load(str(tmp_path / "store")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(40))
    assert not list(StoreLayout(tmp_path / "store").imports.glob("*/*"))
