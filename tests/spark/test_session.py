"""The session of this package: what its Python processes are made of."""

import pyspark
from pyspark.sql import SparkSession


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """Not the sources in Spark's zip file, which every process would compile anew."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: pyspark.__file__).collect()
    assert found == [pyspark.__file__]
    assert ".zip" not in pyspark.__file__
