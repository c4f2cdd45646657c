"""The session of this package: what its processes are started with."""

import subprocess
import sys

import pyspark
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ASKED = """\
from pathlib import Path
from tempfile import TemporaryDirectory
from mqstore.tools.spark.session import start_session

with TemporaryDirectory() as directory:
    settings = {"spark.driver.extraJavaOptions": "-Dgiven=1 -Dsecond=2"}
    spark = start_session("local[1]", settings, Path(directory))
    found = spark.sparkContext._jvm.System.getProperty
    print(found("given"), found("second"), Path(found("log4j2.configurationFile")).parent == Path(directory))
    spark.stop()
"""


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """They do not import Spark's zip file: it holds sources only, and each process would compile them."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert found == [pyspark.__file__]
    assert ".zip" not in pyspark.__file__


def test_options_of_java_that_are_given_are_added_to_those_of_the_session() -> None:
    """Else a user who gives one would get all that Spark logs."""
    answer = subprocess.run(
        [sys.executable, "-c", _ASKED], capture_output=True, text=True, check=True, timeout=120
    )
    assert answer.stdout.split() == ["1", "2", "True"]
