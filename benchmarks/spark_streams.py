"""What a stream of Spark and the sink cost: catching up beside a batch read, a write beside one to Parquet.

usage: python benchmarks/spark_streams.py [--messages 848000] [--rounds 5] [--cores 2] [--only TEXT]
           [--directory DIR] [--json benchmarks/results/spark_streams.json] [--page docs/spark.md]

The messages are those of spark_scan.py, about 1 GiB in 4 segments of 256 MiB.

    catching up    a new query from the beginning, Trigger.AvailableNow, maxBytesPerTrigger of 256 MiB, all
                   columns, Spark's noop sink; from its start to its end, so with what a query costs once.
                   Beside it: the same store read at once, all columns, noop
    sink           the rows (topic, queueId, tags, keys, properties, body) of Parquet files into a new store,
                   all durable at the end. Beside it: the same rows into new Parquet files (snappy), which
                   Spark does not sync

In each round both have their turn; a ratio is the other's time over ours in the same round (more than 1: we
are faster), the median of the rounds with the least and the greatest. CPU is that of the JVM and of all
Python workers.

What would make the numbers dishonest: as in spark_scan.py; the first round is not counted.
"""

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from machine import machine, machine_in_words
from pyspark.sql import SparkSession
from spark_scan import fill, time_and_cpu, write_page, write_parquet

from mqstore.tools.spark.session import local_session

_STORE_MIB = 256
_TRIGGER = "256m"
_COLUMNS = ("topic", "queueId", "tags", "keys", "properties", "body")
_BEGIN = "<!-- figures: written by benchmarks/spark_streams.py -->"
_END = "<!-- end of figures of streams -->"
_RESULTS = Path(__file__).with_name("results") / "spark_streams.json"


@dataclass(frozen=True)
class Work:
    """One row of the table. ours, beside: what is timed. goal: least ratio of time."""

    name: str
    ours: Callable[[], object]
    beside_name: str
    beside: Callable[[], object]
    goal: float


def _works(spark: SparkSession, data: Path, target: Path) -> list[Work]:
    store = str(data / "store")
    rows = spark.read.parquet(str(data / "parquet")).select(*_COLUMNS)

    def catch_up() -> None:
        stream = spark.readStream.format("mqstore").options(
            startingOffsets="earliest", maxBytesPerTrigger=_TRIGGER
        )
        query = (
            stream.load(store)
            .writeStream.format("noop")
            .option("checkpointLocation", str(target / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def read_at_once() -> None:
        spark.read.format("mqstore").load(store).write.format("noop").mode("overwrite").save()

    def into_store() -> None:
        named = rows.write.format("mqstore").mode("append").options(txnAppId="bench", txnVersion="1")
        named.save(str(target / "store"))

    def into_parquet() -> None:
        rows.write.option("compression", "snappy").parquet(str(target / "parquet"))

    return [
        Work(f"catching up, {_TRIGGER} a trigger", catch_up, "batch read", read_at_once, 0.7),
        Work("sink: rows into a store", into_store, "into Parquet", into_parquet, 0.5),
    ]


def _row(work: Work, rounds: int, target: Path) -> dict[str, Any]:
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for turn in range(rounds + 1):
        for run, found in ((work.beside, theirs), (work.ours, ours)):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            os.sync()
            taken = time_and_cpu(run)
            if turn:
                found.append(taken)
    row: dict[str, Any] = {"work": work.name, "beside": work.beside_name, "goal": work.goal}
    for index, name in enumerate(("time", "cpu")):
        ratios = [other[index] / max(our[index], 0.01) for other, our in zip(theirs, ours, strict=True)]
        row[name] = {
            "ratio": statistics.median(ratios),
            "least": min(ratios),
            "greatest": max(ratios),
            "ours_s": statistics.median(our[index] for our in ours),
            "beside_s": statistics.median(other[index] for other in theirs),
        }
    return row


def _table(results: dict[str, Any]) -> str:
    lines = [
        "| work | time, s | CPU, s | beside it | time, s | CPU, s | x in time | x in CPU | goal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        of_time, of_cpu = row["time"], row["cpu"]
        cells = [
            row["work"],
            f"{of_time['ours_s']:.2f}",
            f"{of_cpu['ours_s']:.2f}",
            row["beside"],
            f"{of_time['beside_s']:.2f}",
            f"{of_cpu['beside_s']:.2f}",
            *(f"{of['ratio']:.2f} ({of['least']:.2f}-{of['greatest']:.2f})" for of in (of_time, of_cpu)),
            str(row["goal"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    said = (
        f"`{results['command']}`: {results['messages']:,} messages, {results['rounds']} rounds",
        f"local[{results['cores']}], {machine_in_words(results)}",
    )
    return "\n".join([*lines, "", f"{', '.join(said)}."])


def main(
    *,
    messages: Annotated[int, typer.Option()] = 848_000,
    rounds: Annotated[int, typer.Option()] = 5,
    cores: Annotated[int, typer.Option()] = 2,
    only: Annotated[str, typer.Option(help="Rows whose name contains this.")] = "",
    directory: Annotated[Path | None, typer.Option(help="Work here.")] = None,
    json_path: Annotated[Path, typer.Option("--json")] = _RESULTS,
    page: Annotated[Path | None, typer.Option(help="Write the table into this page.")] = None,
) -> None:
    """Measure, print, and write the results."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="mqstore-bench-", dir=directory) as temporary:
        data = Path(temporary)
        fill(data / "store", _STORE_MIB, messages)
        spark = local_session(cores=cores)
        write_parquet(spark, data / "store", data / "parquet")
        results: dict[str, Any] = {
            "command": "make bench-streams",
            "messages": messages,
            "rounds": rounds,
            "cores": cores,
            "machine": machine(),
            "rows": [],
        }
        for work in _works(spark, data, data / "target"):
            if only in work.name:
                results["rows"].append(_row(work, rounds, data / "target"))
                print(results["rows"][-1], flush=True)
        results["load"] = (load, os.getloadavg()[0])
        spark.stop()
    table = _table(results)
    print(table)
    json_path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if page is not None:
        write_page(page, table, _BEGIN, _END)


if __name__ == "__main__":
    typer.run(main)
