"""What a user runs on a cluster: read, write, stream and check a store. `test_cluster.py` runs it.

usage: cluster_program.py DIRECTORY

Spark finds the format by itself, as it does where the wheel is installed.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import mqstore
from mqstore.tools.spark import check_segments
from mqstore.tools.spark.session import start_session


def main(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as own:
        settings = {
            "spark.driver.memory": "1g",
            "spark.executor.memory": "1g",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }
        spark = start_session("local-cluster[2,1,1024]", settings, Path(own))
        rows = spark.range(0, 1000, 1, 4).selectExpr("'orders' AS topic", "cast(id AS string) AS body")
        rows.write.format("mqstore").mode("append").save(str(directory / "one"))
        stream = spark.readStream.format("mqstore").options(
            startingOffsets="earliest", maxBytesPerTrigger="64k"
        )
        query = (
            stream.load(str(directory / "one"))
            .writeStream.format("mqstore")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(directory / "two"))
        )
        query.awaitTermination()
        bodies = spark.read.format("mqstore").option("columns", "body").load(str(directory / "two")).collect()
        # Where the tasks ran: not in the processes of the driver.
        parents = spark.sparkContext.parallelize(range(8), 8).map(lambda _: os.getppid()).distinct().count()
        report = check_segments([str(directory / "two")], spark=spark)
        answer = {
            "package": str(Path(mqstore.__file__).parent),
            "bodies": sorted(int(row.body) for row in bodies),
            "daemons": parents,
            "records": report.records,
            "is_sound": report.is_sound,
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
