"""The Spark session of each module of tests, and the golden directory that most of them read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqstore.tools.spark.session import local_session

CLEAN = "rocketmq-5.3.3-clean"
# A session of the tests ends soon: until then the second compiler of Java takes more time than it gives.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A real session on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", QUICK_START)
        session = local_session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def golden(golden_directory: Callable[[str], Path]) -> Path:
    """A store that RocketMQ wrote and closed."""
    return golden_directory(CLEAN)
