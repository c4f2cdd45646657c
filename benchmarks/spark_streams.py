"""What a stream of Spark and the sink cost: catching up beside a batch read, a write beside one to Parquet.

usage: python benchmarks/spark_streams.py [--messages 848000] [--rounds 5] [--cores 2] [--only TEXT]
           [--directory DIR] [--json benchmarks/results/spark_streams.json] [--page docs/spark.md]

The messages are those of spark_scan.py, about 1 GiB in 4 segments of 256 MiB.

    catching up    a new query from the beginning, Trigger.AvailableNow, maxBytesPerTrigger of 256 MiB, all
                   columns, Spark's noop sink; from its start to its end, so with what a query costs once.
                   Beside it: the same store read at once, all columns, noop
    its triggers   of the same queries what Spark reports as triggerExecution: the speed of a query that is
                   under way. How much of the CPU is theirs is not known
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
from typing import Any

import click
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
    """One row of the table. ours, beside: what is timed. goal: least ratio of time.

    part_name: of a second row, for a part of ours, which returns the seconds of that.
    """

    name: str
    ours: Callable[[], float]
    beside_name: str
    beside: Callable[[], object]
    goal: float
    part_name: str | None = None


def _works(spark: SparkSession, data: Path, target: Path) -> list[Work]:
    store = str(data / "store")
    rows = spark.read.parquet(str(data / "parquet")).select(*_COLUMNS)

    def catch_up() -> float:
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
        return sum(each["durationMs"]["triggerExecution"] for each in query.recentProgress) / 1_000

    def read_at_once() -> None:
        spark.read.format("mqstore").load(store).write.format("noop").mode("overwrite").save()

    def into_store() -> float:
        named = rows.write.format("mqstore").mode("append").options(txnAppId="bench", txnVersion="1")
        named.save(str(target / "store"))
        return 0

    def into_parquet() -> None:
        rows.write.option("compression", "snappy").parquet(str(target / "parquet"))

    return [
        Work(f"catching up, {_TRIGGER} a trigger", catch_up, "batch read", read_at_once, 0.7, "its triggers"),
        Work("sink: rows into a store", into_store, "into Parquet", into_parquet, 0.5),
    ]


def _rows(work: Work, rounds: int, target: Path) -> list[dict[str, Any]]:
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    parts_s: list[float] = []
    for turn in range(rounds + 1):
        for run, found in ((work.beside, theirs), (lambda: parts_s.append(work.ours()), ours)):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            os.sync()
            taken = time_and_cpu(run)
            if turn:
                found.append(taken)
    row: dict[str, Any] = {"work": work.name, "beside": work.beside_name, "goal": work.goal}
    for index, name in enumerate(("time", "cpu")):
        row[name] = _ratios([each[index] for each in ours], [each[index] for each in theirs])
    if work.part_name is None:
        return [row]
    part = {"work": work.part_name, "time": _ratios(parts_s[1:], [each[0] for each in theirs]), "cpu": None}
    return [row, row | part]


def _ratios(ours_s: list[float], beside_s: list[float]) -> dict[str, float]:
    ratios = [other / max(our, 0.01) for other, our in zip(beside_s, ours_s, strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "greatest": max(ratios),
        "ours_s": statistics.median(ours_s),
        "beside_s": statistics.median(beside_s),
    }


def _table(results: dict[str, Any]) -> str:
    lines = [
        "| work | time, s | CPU, s | beside it | time, s | CPU, s | x in time | x in CPU | goal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        cells = [row["work"]]
        cells += [f"{of['ours_s']:.2f}" if of else "" for of in (row["time"], row["cpu"])]
        cells.append(row["beside"])
        cells += [f"{of['beside_s']:.2f}" if of else "" for of in (row["time"], row["cpu"])]
        cells += [
            f"{of['ratio']:.2f} ({of['least']:.2f}-{of['greatest']:.2f})" if of else ""
            for of in (row["time"], row["cpu"])
        ]
        lines.append(f"| {' | '.join([*cells, str(row['goal'])])} |")
    said = (
        f"`{results['command']}`: {results['messages']:,} messages, {results['rounds']} rounds",
        f"local[{results['cores']}], {machine_in_words(results)}",
    )
    return "\n".join([*lines, "", f"{', '.join(said)}."])


@click.command(context_settings={"show_default": True})
@click.option("--messages", type=int, default=848_000)
@click.option("--rounds", type=int, default=5)
@click.option("--cores", type=int, default=2)
@click.option("--only", default="", help="Rows whose name contains this.")
@click.option("--directory", type=click.Path(path_type=Path), help="Work here.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), default=_RESULTS)
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(
    messages: int,
    rounds: int,
    cores: int,
    only: str,
    directory: Path | None,
    json_path: Path,
    page: Path | None,
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
                results["rows"] += _rows(work, rounds, data / "target")
                print(results["rows"][-1], flush=True)
        results["load"] = (load, os.getloadavg()[0])
        spark.stop()
    table = _table(results)
    print(table)
    json_path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if page is not None:
        write_page(page, table, _BEGIN, _END)


if __name__ == "__main__":
    main()
