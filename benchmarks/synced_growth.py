"""`make bench-synced`: what a put in SYNC_FLUSH costs in a new log, and what after some tens of MiB.

usage: python benchmarks/synced_growth.py [--mib 64] [--json FILE] [--page FILE]

Beside the store are two bare mappings, to which a record of the same size is copied and synced: one that the
system reads ahead, as it does by itself, and one that it does not. Reading ahead brings ever larger pieces of
the file into memory, and a sync writes a piece of which a byte has changed as a whole. Each has a file of its
own on one disk, one after the other. Of each the first and the last 8 MiB are shown: time of a put, and what
the disk was given to write for it (of all that ran on the machine meanwhile).
"""

import json
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
from machine import machine, machine_in_words
from report import markdown, replace_between

from mqstore import Message, MessageStore, StoreConfig

MIB = 1 << 20
_SHOWN_MIB = 8
_BODY = bytes(1024)
_FILE_BYTES = 1 << 30
_SECTOR_BYTES = 512
_HEADINGS = (
    "synced puts of 1 KiB",
    "us a put, at first",
    "us a put, after",
    "KiB written, at first",
    "KiB written, after",
)


class Measured(NamedTuple):
    """Of the puts of some MiB: how long one takes, and what the disk was given for it."""

    us: float
    kib: float


@contextmanager
def our_store(directory: Path) -> Iterator[Callable[[], int]]:
    """Puts a message; where the log ends then."""
    with MessageStore.open(directory / "store", StoreConfig(flush_disk_type="SYNC_FLUSH")) as store:
        message = Message("orders", _BODY, queue_id=0)
        yield lambda: store.put_message(message).end_offset


@contextmanager
def bare_mapping(directory: Path, record_bytes: int, advice: int) -> Iterator[Callable[[], int]]:
    """Copies a record behind the one before, and syncs; where it ends."""
    descriptor = os.open(directory / "bare", os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(descriptor, 0, _FILE_BYTES)
        with mmap.mmap(descriptor, _FILE_BYTES) as mapping:
            mapping.madvise(advice)
            record, end = b"x" * record_bytes, 0

            def put() -> int:
                nonlocal end
                mapping[end : end + record_bytes] = record
                os.fdatasync(descriptor)
                end += record_bytes
                return end

            yield put
    finally:
        os.close(descriptor)


def written_bytes(directory: Path) -> int:
    """What the disk of a directory was given to write so far; 0 where that is not known."""
    device = directory.stat().st_dev
    path = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(path.read_text().split()[6]) * _SECTOR_BYTES if path.exists() else 0


def grown(put: Callable[[], int], directory: Path, mib: int) -> tuple[Measured, Measured]:
    """The first and the last puts until the log has so many MiB."""
    first = _until(put, directory, _SHOWN_MIB * MIB)
    while put() < (mib - _SHOWN_MIB) * MIB:
        pass
    return first, _until(put, directory, mib * MIB)


def _until(put: Callable[[], int], directory: Path, end: int) -> Measured:
    puts, before, began_s = 1, written_bytes(directory), time.perf_counter()
    while put() < end:
        puts += 1
    taken_s, written = time.perf_counter() - began_s, written_bytes(directory) - before
    return Measured(round(1e6 * taken_s / puts, 1), round(written / puts / 1024, 1))


@click.command(context_settings={"show_default": True})
@click.option("--mib", type=click.IntRange(min=2 * _SHOWN_MIB), default=64, help="How far each log grows.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the figures here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
def main(mib: int, json_path: Path | None, page: Path | None) -> None:
    """Measure, print, and write the figures."""
    load = [os.getloadavg()[0]]
    rows: dict[str, tuple[Measured, Measured]] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with our_store(directory) as put:
            record_bytes = put()
            rows["mqstore"] = grown(put, directory, mib)
        for title, advice in (
            ("a bare mapping, not read ahead", mmap.MADV_RANDOM),
            ("a bare mapping, read ahead by the system", mmap.MADV_NORMAL),
        ):
            with bare_mapping(directory, record_bytes, advice) as put:
                rows[title] = grown(put, directory, mib)
            (directory / "bare").unlink()
    load.append(os.getloadavg()[0])
    figures = {"command": "make bench-synced", "machine": machine(), "load": load, "mib": mib, "rows": rows}
    lines = [
        (title, f"{first.us:,.0f}", f"{last.us:,.0f}", f"{first.kib:,.1f}", f"{last.kib:,.1f}")
        for title, (first, last) in rows.items()
    ]
    table = (
        f"{markdown(_HEADINGS, lines)}\n\n`make bench-synced`: the first 8 MiB of a log and the last "
        f"8 of {mib}, one thread, {machine_in_words(figures)}."
    )
    click.echo(table)
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "synced growth", table)


if __name__ == "__main__":
    main()
