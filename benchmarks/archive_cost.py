"""What archiving costs beside a plain copy to the same place, and how much a read of a time range fetches.

usage: python benchmarks/archive_cost.py [--mib 512] [--mib-s3 64 256] [--rounds 7] [--directory DIR]
           [--json benchmarks/results/archive.json] [--page docs/archive.md]

The store: messages as in spark_scan.py (bodies of 1 KiB, 20 topics), in four segments. A row is one place:
a directory of the same disk, and a server of S3's protocol on the loopback (moto, a process of its own),
which shares the processors with us, as no real one does. That gets small segments and larger ones, because
some requests are as many whatever a segment's size. A copy is what a program would do that knows nothing of
messages: a directory's by sendfile and fdatasync; S3's by pyarrow's output stream, which sends parts of an
object in the background, 8 MiB at a time. The archiver checks each record, sends, reads back, and writes the
manifest. In each round both have their turn, to a new place; a ratio is the copy's time over ours in the same
round (more than 1: we are faster), the median of the rounds with the least and the greatest.

The time range is a tenth of the store times; it is read with all columns through a proxy, which counts
the bytes that come from the server: objects, manifest and HTTP's own.

What would make the numbers dishonest: segments that are not in the page cache, loops that are not compiled
yet (the first round, which is not counted, sees to both); a copy that is not durable; a machine that is at
work for others.
"""

import json
import os
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from machine import machine, machine_in_words
from spark_scan import fill, write_page

from mqstore import MessageStore
from mqstore.tools.archive import archive, read_manifest
from mqstore.tools.archive.archive_place import LOCAL_PIECE_BYTES, ArchivePlace
from mqstore.tools.spark.options import ReadOptions
from mqstore.tools.spark.read.batch_reader import MqstoreReader
from mqstore.tools.spark.schema import SCHEMA
from support.archives.s3_server import S3Server, s3_server

_MIB = 1 << 20
_MESSAGES_A_MIB = 840
_MESSAGES_A_TIME = 1_000
_SEGMENTS = 4
_GOAL_RATIO = 0.8
_GOAL_SHARE = 0.15
_BEGIN = "<!-- figures: written by benchmarks/archive_cost.py -->"
_END = "<!-- end of figures -->"
_RESULTS = Path(__file__).with_name("results") / "archive.json"


# -- places -----------------------------------------------------------------------------------------------


def _copy_to_directory(segments: list[Path], target: Path) -> None:
    """Durable, as what an archiver writes is."""
    target.mkdir()
    for segment in segments:
        copy = target / segment.name
        shutil.copyfile(segment, copy)
        descriptor = os.open(copy, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.close(descriptor)
    descriptor = os.open(target, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _copy_to_s3(segments: list[Path], url: str) -> None:
    place = ArchivePlace(url)
    for segment in segments:
        place.write(segment.name, _pieces(segment))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(LOCAL_PIECE_BYTES):
            yield piece


def _archive(store: Path, url: str) -> int:
    """The bytes of the segments that were sent."""
    with MessageStore.open(store, read_only=True) as reader:
        return archive(reader, url).archived_bytes


# -- rates ------------------------------------------------------------------------------------------------


def _sealed(store: Path) -> list[Path]:
    """The segments that an archiver sends."""
    return sorted((store / "commitlog").iterdir())[:_SEGMENTS]


def _timed(run: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    run()
    return time.perf_counter() - begin_s


def _row(name: str, size_bytes: int, copies_s: list[float], ours_s: list[float]) -> dict[str, Any]:
    ratios = [theirs / ours for theirs, ours in zip(copies_s, ours_s, strict=True)]
    return {
        "place": name,
        "mib": size_bytes / _MIB,
        "copy_mib_s": size_bytes / _MIB / statistics.median(copies_s),
        "archive_mib_s": size_bytes / _MIB / statistics.median(ours_s),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "greatest": max(ratios),
        "goal": _GOAL_RATIO,
    }


def _in_turn(copy: Callable[[], float], ours: Callable[[], float], rounds: int) -> list[list[float]]:
    """Seconds of both, round by round; the first round is not counted. Who begins changes."""
    taken: list[list[float]] = [[], []]
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            seconds = (copy, ours)[which]()
            if turn:
                taken[which].append(seconds)
    return taken


def _directory_row(store: Path, rounds: int, work: Path) -> dict[str, Any]:
    segments = _sealed(store)
    size_bytes = sum(each.stat().st_size for each in segments)
    target = work / "target"

    def to_new_directory(run: Callable[[], object]) -> float:
        seconds = _timed(run)
        # Each finds the disk idle, and the memory that the one before has given back.
        shutil.rmtree(target)
        os.sync()
        return seconds

    taken = _in_turn(
        lambda: to_new_directory(lambda: _copy_to_directory(segments, target)),
        lambda: to_new_directory(lambda: _check_all(_archive(store, str(target)), size_bytes)),
        rounds,
    )
    return _row("directory", size_bytes, *taken)


def _s3_row(store: Path, rounds: int) -> dict[str, Any]:
    segments = _sealed(store)
    size_bytes = sum(each.stat().st_size for each in segments)

    def to_new_server(run: Callable[[str], object]) -> float:
        with s3_server() as server:
            url = server.url()
            return _timed(lambda: run(url))

    taken = _in_turn(
        lambda: to_new_server(lambda url: _copy_to_s3(segments, url)),
        lambda: to_new_server(lambda url: _check_all(_archive(store, url), size_bytes)),
        rounds,
    )
    return _row("S3's protocol on the loopback", size_bytes, *taken)


def _check_all(sent_bytes: int, expected_bytes: int) -> None:
    assert sent_bytes == expected_bytes


# -- what a range fetches ---------------------------------------------------------------------------------


class _CountingProxy:
    """Passes connections on to a port of this machine. received_bytes: that came back from there."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.received_bytes = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            for source, target, counts in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=(source, target, counts), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 18):
                if counts:
                    with self._lock:
                        self.received_bytes += len(data)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()


@contextmanager
def _counted(server: S3Server) -> Iterator[tuple[S3Server, _CountingProxy]]:
    proxy = _CountingProxy(server.port)
    try:
        yield S3Server(proxy.port), proxy
    finally:
        proxy.close()


def _time_range(store: Path) -> dict[str, Any]:
    """A tenth of the store times of what is archived, from three fifths on."""
    with s3_server() as server, _counted(server) as (counted, proxy):
        url = counted.url()
        archived_bytes = _archive(store, url)
        segments = read_manifest(url).segments
        first_ms, last_ms = segments[0].min_store_timestamp, segments[-1].max_store_timestamp
        begin_ms = first_ms + (last_ms - first_ms) * 6 // 10
        end_ms = begin_ms + (last_ms - first_ms) // 10
        wanted = {"startingTimestamp": str(begin_ms), "endingTimestamp": str(end_ms)}
        before = proxy.received_bytes
        reader = MqstoreReader(SCHEMA, ReadOptions.parse({"path": url} | wanted))
        planned = reader.partitions()
        rows = sum(batch.num_rows for one in planned for batch in reader.read(one))
        received = proxy.received_bytes - before
    in_archive = sum(each.records for each in segments)
    return {
        "rows": rows,
        "rows_share": rows / in_archive,
        "received_bytes": received,
        "archived_bytes": archived_bytes,
        "share": received / archived_bytes,
        "goal": _GOAL_SHARE,
    }


# -- the report -------------------------------------------------------------------------------------------


def _table(results: dict[str, Any]) -> str:
    lines = [
        "| place | plain copy, MiB/s | archive, MiB/s | x plain copy | goal |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in results["rows"]:
        ratio = f"{row['ratio']:.2f} ({row['least']:.2f}-{row['greatest']:.2f})"
        size = f"{_SEGMENTS} segments of {row['mib'] / _SEGMENTS:.0f} MiB"
        lines.append(
            f"| {row['place']}, {size} | {row['copy_mib_s']:.0f} | {row['archive_mib_s']:.0f} "
            f"| {ratio} | {row['goal']} |"
        )
    of = results["time_range"]
    said = (
        f"`{results['command']}`: {results['rounds']} rounds",
        machine_in_words(results),
    )
    share = (
        f"A range of times with {100 * of['rows_share']:.1f} % of the messages, read with all columns by the "
        f"source of Spark, fetched {100 * of['share']:.1f} % of the archive's bytes, manifest and HTTP's own "
        f"included (goal: at most {100 * of['goal']:.0f} % for a range of 10 %)."
    )
    return "\n".join([*lines, "", f"{share} {', '.join(said)}."])


@click.command(context_settings={"show_default": True})
@click.option("--mib", type=int, default=512, help="MiB of the store that goes to a directory.")
@click.option("--mib-s3", nargs=2, type=int, default=(64, 256), help="MiB of those that go to a server.")
@click.option("--rounds", type=int, default=7)
@click.option("--directory", type=click.Path(path_type=Path), help="Work here, on the disk that is measured.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), default=_RESULTS)
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(
    mib: int,
    mib_s3: tuple[int, int],
    rounds: int,
    directory: Path | None,
    json_path: Path,
    page: Path | None,
) -> None:
    """Measure, print, and write the results."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="mqstore-bench-", dir=directory) as temporary:
        work = Path(temporary)
        stores = {}
        for size_mib in {mib, *mib_s3}:
            stores[size_mib] = work / f"store-{size_mib}"
            fill(stores[size_mib], size_mib // _SEGMENTS, size_mib * _MESSAGES_A_MIB, _MESSAGES_A_TIME)
        os.sync()
        results: dict[str, Any] = {
            "command": "make bench-archive",
            "rounds": rounds,
            "machine": machine(),
            "rows": [],
        }
        for row in (
            lambda: _directory_row(stores[mib], rounds, work),
            *(partial(_s3_row, stores[size_mib], rounds) for size_mib in mib_s3),
        ):
            results["rows"].append(row())
            print(results["rows"][-1], flush=True)
        results["time_range"] = _time_range(stores[mib_s3[0]])
        results["load"] = (load, os.getloadavg()[0])
    table = _table(results)
    print(table)
    json_path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    if page is not None:
        write_page(page, table, _BEGIN, _END)


if __name__ == "__main__":
    main()
