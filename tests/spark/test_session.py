"""The session of this package: what its Python processes are made of."""

import pyspark
from pyspark.sql import SparkSession


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """They do not import Spark's zip file: it holds sources only, and each process would compile them."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert found == [pyspark.__file__]
    assert ".zip" not in pyspark.__file__
