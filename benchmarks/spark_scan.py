"""What reading a store with Spark costs, beside Spark's own reading of the same rows from Parquet (snappy).

usage: python benchmarks/spark_scan.py [--messages 848000] [--rounds 7] [--cores 2] [--only TEXT]
           [--directory DIR] [--json benchmarks/results/spark_scan.json] [--page docs/spark.md]

The messages: bodies of 1 KiB, half of it compressible, properties as RocketMQ's clients and brokers set them,
20 topics of 4 queues, each with 5 % of the messages; about 1 GiB. They are stored three times, in one segment
of 1 GiB, in 4 of 256 MiB and in 64 of 16 MiB, and once as Parquet in 4 files.

A row is one query on one store. `time` is from the call until the answer; `CPU` is that of the JVM and of
all Python workers. In each round all sources have their turn; a ratio is Parquet's cost over ours in the same
round (more than 1: we are cheaper), the median of the rounds with the least and the greatest.

What would make the numbers dishonest: files that are not in the page cache, loops that are not compiled yet,
workers that are not started (the first round, which is not counted, sees to all three); a machine that is at
work for others.
"""

import dataclasses
import json
import os
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from machine import machine, machine_in_words
from pyspark.sql import DataFrame, SparkSession

from mqstore import MessageStore, StoreConfig
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.schema import SCHEMA
from mqstore.tools.spark.session import local_session

_MIB = 1 << 20
_TOPICS, _QUEUES = 20, 4
_SMALL_TOPIC, _QUARTER_TOPICS = "topic-0", ",".join(f"topic-{n}" for n in range(5))
_CHUNK = 16_000
_CHUNK_MS = 60_000
_BEGIN_MS = 1_700_000_000_000
_WARM_UP_ROUNDS = 5
_SESSIONS = 3
_DECODING_TURNS = 5
_STORES = {"1 x 1 GiB": 1024, "4 x 256 MiB": 256, "64 x 16 MiB": 16}
_BEGIN = "<!-- figures: written by benchmarks/spark_scan.py -->"
_END = "<!-- end of figures -->"
_RESULTS = Path(__file__).with_name("results") / "spark_scan.json"


class _SteppedClock:
    """A clock that the filling moves."""

    def __init__(self) -> None:
        self.time_ms = _BEGIN_MS

    def now_ms(self) -> int:
        """Epoch ms."""
        return self.time_ms


# -- the data ---------------------------------------------------------------------------------------------


def _chunk(first: int, count: int) -> dict[str, Any]:
    """Messages `first` and following, as columns for `put_columns`."""
    numbers = np.arange(first, first + count)
    rng = np.random.default_rng(first)
    bodies = np.full((count, 1024), ord("x"), np.uint8)
    bodies[:, :512] = rng.integers(0, 256, (count, 512), np.uint8)
    properties = [
        f"UNIQ_KEY\x017F00000100002A139A55{n:016X}\x02WAIT\x01true\x02"
        + ("CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02MSG_REGION\x01eu\x02" if n % 2 else "")
        for n in numbers.tolist()
    ]
    return {
        "topic": pa.array([f"topic-{n}" for n in (numbers % _TOPICS).tolist()]).dictionary_encode(),
        "queue_id": (numbers // _TOPICS % _QUEUES).astype(np.int32),
        "body": (bodies.reshape(-1), np.arange(0, 1024 * count + 1, 1024)),
        "tags": pa.array([f"tag-{n}" for n in (numbers % 7).tolist()]),
        "keys": pa.array([f"order-{n} customer-{n % 1000}" for n in numbers.tolist()]),
        "properties": pa.array(properties),
    }


def fill(path: Path, segment_mib: int, messages: int, chunk: int = _CHUNK) -> None:
    """A store of these messages, closed; each `chunk` of them has a store time."""
    clock = _SteppedClock()
    config = StoreConfig(
        mapped_file_size_commit_log=segment_mib * _MIB,
        max_message_size=min(4 * _MIB, segment_mib * _MIB - 65_544),
        key_index="lmdb",
    )
    with MessageStore.open(path, config, clock=clock, start=False) as store:
        for topic in range(_TOPICS):
            store.topics.create(f"topic-{topic}", _QUEUES)
        for first in range(0, messages, chunk):
            store.put_columns(_chunk(first, min(chunk, messages - first)))
            clock.time_ms += _CHUNK_MS
            store.flush()


def write_parquet(spark: SparkSession, store: Path, target: Path) -> None:
    """The same rows with the same columns, in four files, as Spark writes them if nothing is said."""
    options = {"maxPartitionBytes": f"{256 * _MIB}"}
    frame = spark.read.format("mqstore").options(**options).load(str(store))
    frame.write.option("compression", "snappy").parquet(str(target))


# -- the queries ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Query:
    """One kind of work. run: on a frame. columns, options: for our source; where: for Parquet, which prunes.

    goal: least ratio of time to Parquet's, per store.
    """

    name: str
    run: Callable[[DataFrame], object]
    goal: float
    columns: str | None = None
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    where: str | None = None
    stores: tuple[str, ...] = tuple(_STORES)


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _export(frame: DataFrame) -> None:
    with tempfile.TemporaryDirectory() as target:
        frame.write.mode("overwrite").parquet(target)


def _queries(messages: int) -> list[Query]:
    chunks = -(-messages // _CHUNK)
    begin = _BEGIN_MS + chunks * 6 // 10 * _CHUNK_MS
    end = begin + max(chunks // 10, 1) * _CHUNK_MS
    within = f"storeTimestamp >= timestamp_millis({begin}) AND storeTimestamp < timestamp_millis({end})"
    times = {"startingTimestamp": str(begin), "endingTimestamp": str(end)}
    several = ("4 x 256 MiB", "64 x 16 MiB")
    quarter = " OR ".join(f"topic = '{topic}'" for topic in _QUARTER_TOPICS.split(","))
    return [
        Query("all columns, noop sink", _noop, 0.9),
        Query("sum(length(body))", lambda f: f.selectExpr("sum(length(body))").collect(), 0.8, "body"),
        Query("sum(bodySize)", lambda f: f.selectExpr("sum(bodySize)").collect(), 1.0, "bodySize"),
        Query("count", lambda f: f.count(), 0.5, "queueId"),
        Query("group by topic", lambda f: f.groupBy("topic").count().collect(), 0.5, "topic"),
        Query("topic of 5 %", _noop, 3.0, None, {"topic": _SMALL_TOPIC}, f"topic = '{_SMALL_TOPIC}'"),
        Query("topics of 25 %", _noop, 1.2, None, {"topic": _QUARTER_TOPICS}, quarter),
        Query("time range of 10 %", _noop, 3.0, None, times, within, stores=several),
        Query("export to Parquet", _export, 1.0),
    ]


def _ours(spark: SparkSession, path: Path, query: Query) -> DataFrame:
    options = dict(query.options)
    if query.columns is not None:
        options["columns"] = query.columns
    return spark.read.format("mqstore").options(**options).load(str(path))


def _run_ours(spark: SparkSession, path: Path, query: Query) -> object:
    return query.run(_ours(spark, path, query))


def _parquet(spark: SparkSession, path: Path, query: Query) -> DataFrame:
    frame = spark.read.parquet(str(path))
    if query.columns == "bodySize":
        frame = frame.selectExpr("length(body) AS bodySize")
    return frame.where(query.where) if query.where else frame


# -- the measurement --------------------------------------------------------------------------------------


def _descendants() -> Iterator[int]:
    """Children of this process, and theirs: the JVM, the daemons and the workers."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = list(parents.get(os.getpid(), []))
    while waiting:
        process = waiting.pop()
        yield process
        waiting += parents.get(process, [])


def _cpu_s() -> float:
    """CPU seconds of all of them, those that have ended included."""
    ticks = 0
    for process in _descendants():
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _workers_mib() -> float:
    """The greatest proportional set size of a Python worker."""
    most = 0
    for process in _descendants():
        try:
            is_worker = b"pyspark" in Path(f"/proc/{process}/cmdline").read_bytes()
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        if is_worker and b"java" not in Path(f"/proc/{process}/exe").readlink().name.encode():
            most = max(most, int(rollup.partition("Pss:")[2].split()[0]))
    return most / 1024


def time_and_cpu(run: Callable[[], object]) -> tuple[float, float]:
    """(seconds, CPU seconds of all children)."""
    cpu_s, begin_s = _cpu_s(), time.perf_counter()
    run()
    return time.perf_counter() - begin_s, _cpu_s() - cpu_s


def _turns(
    spark: SparkSession, directory: Path, query: Query, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """(seconds, CPU seconds) of each source, round by round; the first round is not counted."""
    sources: dict[str, Callable[[], object]] = {
        "Parquet": lambda: query.run(_parquet(spark, directory / "parquet", query))
    }
    for store in query.stores:
        sources[store] = partial(_run_ours, spark, directory / store, query)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
    for turn in range(rounds + 1):
        for name, run in sources.items():
            measured = time_and_cpu(run)
            if turn:
                found[name].append(measured)
    return found


def _row(query: Query, store: str, turns: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    pairs = list(zip(turns["Parquet"], turns[store], strict=True))
    row: dict[str, Any] = {"query": query.name, "store": store, "goal": query.goal}
    for index, name in enumerate(("time", "cpu")):
        ratios = [theirs[index] / max(ours[index], 0.01) for theirs, ours in pairs]
        row[name] = {
            "ratio": statistics.median(ratios),
            "least": min(ratios),
            "greatest": max(ratios),
            "ours_s": statistics.median(ours[index] for _, ours in pairs),
            "parquet_s": statistics.median(theirs[index] for theirs, _ in pairs),
        }
    return row


# -- single figures ---------------------------------------------------------------------------------------


def _first_queries(data: Path, cores: int) -> dict[str, tuple[float, ...]]:
    """Seconds of the first query of a session, and of the second, of each source; medians of the rounds.

    Each session has a JVM of its own: it loads and compiles most of what a query needs in the first one.
    """
    sources = {"mqstore": data / "4 x 256 MiB", "parquet": data / "parquet"}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sources}
    for _ in range(_SESSIONS):
        for name, path in sources.items():
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                found[name].append(process.submit(_first_and_second_s, name, path, cores).result())
    return {name: tuple(map(statistics.median, zip(*pairs, strict=True))) for name, pairs in found.items()}


def _first_and_second_s(source: str, path: Path, cores: int) -> tuple[float, float]:
    """Seconds of the first two queries of a new session."""
    spark = local_session(cores=cores)
    first_s, second_s = (
        time_and_cpu(lambda: _noop(spark.read.format(source).load(str(path))))[0] for _ in range(2)
    )
    spark.stop()
    return first_s, second_s


def _task_cpu_ms(spark: SparkSession, path: Path, rounds: int) -> float:
    """CPU that a task more costs: 64 tasks of a segment each, against packed ones; median of the rounds.

    The first rounds are not counted: Java compiles what schedules a task only after some hundreds of them.
    """

    def cost(**options: str) -> float:
        frame = spark.read.format("mqstore").options(columns="queueId", **options).load(str(path))
        return time_and_cpu(frame.count)[1]

    few = len(_reader(path).partitions())
    differences = [cost(maxPartitionBytes=str(16 * _MIB)) - cost() for _ in range(rounds + _WARM_UP_ROUNDS)][
        _WARM_UP_ROUNDS:
    ]
    return 1000 * statistics.median(differences) / (len(list((path / "commitlog").iterdir())) - few)


def _reader(path: Path, **options: str) -> MqstoreReader:
    return MqstoreReader(SCHEMA, ReadOptions.parse({"path": str(path)} | options))


def _planning_s() -> float:
    """Seconds to plan 1,024 segments of 1 GiB, all sparse but for their first records."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "commitlog")
        log.mkdir()
        for number in range(1024):
            start = number << 30
            path = log / f"{start:020d}"
            path.write_bytes(_bare_record(start))
            os.truncate(path, 1 << 30)
        seconds = [time_and_cpu(_reader(Path(directory)).partitions)[0] for _ in range(3)]
    return min(seconds)


def _bare_record(physical_offset: int) -> bytes:
    """A record without body, tags and keys, of topic `t`."""
    rest = struct.pack(">Iiiqqi", 0, 0, 0, 0, physical_offset, 0) + bytes(16) + bytes(16)
    rest += bytes(12) + struct.pack(">i", 0) + b"\x01t" + bytes(2)
    return struct.pack(">II", len(rest) + 8, 0xDAA320A7) + rest


def _decoding(path: Path, rounds: int) -> dict[str, float]:
    """All columns of a store in one process, by CPU seconds: x a loop of struct.unpack, and what CRCs cost.

    Ratios of the same round; of a round, the medians of some turns without and with CRCs. The first round is
    not counted.
    """

    def ours(check_crc: str) -> None:
        reader = _reader(path, checkCRC=check_crc)
        for part in reader.partitions():
            for _ in reader.read(part):
                pass

    def cpu_s(run: Callable[[], object]) -> float:
        begin_s = time.process_time()
        run()
        return time.process_time() - begin_s

    struct_ratios, crc_ratios = [], []
    for _ in range(rounds + 1):
        turns = [(cpu_s(lambda: ours("false")), cpu_s(lambda: ours("true"))) for _ in range(_DECODING_TURNS)]
        unchecked_s, checked_s = map(statistics.median, zip(*turns, strict=True))
        struct_ratios.append(cpu_s(lambda: _loop(path)) / checked_s)
        crc_ratios.append(checked_s / unchecked_s)
    return {
        "x_struct": statistics.median(struct_ratios[1:]),
        "x_unchecked": statistics.median(crc_ratios[1:]),
    }


_HEAD = struct.Struct(">iiIiiqqiq8sq8siqi")


def _loop(path: Path) -> None:
    """What a program without this library would write: one record after the other, all fields as objects."""
    for segment in sorted((path / "commitlog").iterdir()):
        data, at, rows = segment.read_bytes(), 0, []
        while at + _HEAD.size < len(data) and data[at + 4 : at + 8] == b"\xda\xa3\x20\xa7":
            head = _HEAD.unpack_from(data, at)
            body_at = at + _HEAD.size
            topic_at = body_at + head[-1] + 1
            properties_at = topic_at + data[topic_at - 1] + 2
            stored = data[properties_at : at + head[0]].decode()
            properties = dict(pair.split("\x01", 1) for pair in stored.split("\x02") if pair)
            rows.append(
                (head, data[body_at : topic_at - 1], data[topic_at : properties_at - 2].decode(), properties)
            )
            at += head[0]


# -- the report -------------------------------------------------------------------------------------------


def _table(results: dict[str, Any]) -> str:
    lines = [
        "| query | store | time, s | x Parquet | CPU, s | x Parquet | goal |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        cells = [row["query"], row["store"]]
        for name in ("time", "cpu"):
            of = row[name]
            cells += [f"{of['ours_s']:.2f}", f"{of['ratio']:.2f} ({of['least']:.2f}-{of['greatest']:.2f})"]
        lines.append(f"| {' | '.join(cells)} | {row['goal']} |")
    said = (
        f"`{results['command']}`: {results['messages']:,} messages, {results['rounds']} rounds",
        f"local[{results['cores']}], {machine_in_words(results)}",
    )
    worker = f"A Python worker took {results['worker_mib']:.0f} MiB (PSS) at most."
    lines += ["", f"{', '.join(said)}. {worker}", ""]
    lines += ["| figure | measured | goal |", "| --- | --- | --- |"]
    lines += [
        f"| {name} | {measured} | {goal} |" for name, measured, goal in _figure_rows(results["figures"])
    ]
    return "\n".join(lines)


def _figure_rows(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    decode, firsts = figures["decoding"], figures["first_queries"]
    return [
        (
            "all columns in one process, CRCs checked, x a loop of struct.unpack",
            f"{decode['x_struct']:.1f}",
            "10",
        ),
        ("CRCs checked, x without", f"{decode['x_unchecked']:.2f}", "at most 1.3"),
        ("one task more", f"{figures['task_cpu_ms']:.0f} ms of CPU", "at most 30"),
        ("planning 1,024 segments of 1 GiB", f"{figures['planning_s']:.2f} s", "at most 1"),
        (
            "first query of a session, and the second",
            "{:.1f} s, {:.1f} s".format(*firsts["mqstore"]),
            "at most twice the second and 1 s",
        ),
        ("the same of Parquet", "{:.1f} s, {:.1f} s".format(*firsts["parquet"]), ""),
    ]


def write_page(page: Path, table: str, begin: str = _BEGIN, end: str = _END) -> None:
    """Put a table between two lines of a page."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", "utf-8")


@click.command(context_settings={"show_default": True})
@click.option("--messages", type=int, default=848_000)
@click.option("--rounds", type=int, default=7)
@click.option("--cores", type=int, default=2)
@click.option("--only", default="", help="Queries whose name contains this.")
@click.option(
    "--directory", type=click.Path(path_type=Path), help="Keep the data here, or use what is there."
)
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
    with tempfile.TemporaryDirectory(prefix="mqstore-bench-") as temporary:
        data = directory or Path(temporary)
        for name, segment_mib in _STORES.items():
            if not (data / name).exists():
                fill(data / name, segment_mib, messages)
        load = os.getloadavg()[0]
        spark = local_session(cores=cores)
        if not (data / "parquet").exists():
            write_parquet(spark, data / "4 x 256 MiB", data / "parquet")
        results: dict[str, Any] = {
            "command": "make bench-spark",
            "messages": messages,
            "rounds": rounds,
            "cores": cores,
            "machine": machine(),
            "rows": [],
        }
        results["figures"] = {
            "first_queries": _first_queries(data, cores),
            "task_cpu_ms": _task_cpu_ms(spark, data / "64 x 16 MiB", rounds),
            "decoding": _decoding(data / "4 x 256 MiB", rounds),
            "planning_s": _planning_s(),
        }
        print(results["figures"], flush=True)
        for query in _queries(messages):
            if only in query.name:
                turns = _turns(spark, data, query, rounds)
                for store in query.stores:
                    results["rows"].append(_row(query, store, turns))
                    print(results["rows"][-1]["query"], store, results["rows"][-1]["time"], flush=True)
        results["worker_mib"] = _workers_mib()
        results["load"] = (load, os.getloadavg()[0])
        spark.stop()
    table = _table(results)
    print(table)
    if not only:
        json_path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        if page is not None:
            write_page(page, table)


if __name__ == "__main__":
    main()
