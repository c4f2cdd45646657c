"""Three threads write to a disk until it fails, and say what was acknowledged: a store, or bare files.

usage: python putter.py KIND DIRECTORY

The kind `store` puts into a store in SYNC_FLUSH. The others write one file of slots and call fdatasync after
each slot, which is what a store asks of the file system, and nothing else. `reserved` writes into room that
posix_fallocate has reserved, `written` into room that was written and synced before; both by pwrite, or, as
`reserved-mapped` and `written-mapped`, through a mapping, as a store does.

Standard output, which is outside of the disk, says `ready`, and then what was promised, a line each: the
status, when it was known (CLOCK_MONOTONIC, ns), the position, and the text that must be there.
"""

import itertools
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREADS = 3
SLOT_BYTES = 600
FILE_BYTES = 16 << 20
FILE = "slots"
STORE = "store"
MIB = 1 << 20


def text_of(thread: int, number: int) -> bytes:
    """What is written; repeated, it fills a slot."""
    return b"%d-%d." % (thread, number)


def filled(text: bytes) -> bytes:
    """The bytes of a slot, and the body of a message."""
    return (text * (SLOT_BYTES // len(text) + 1))[:SLOT_BYTES]


def store_settings() -> dict[str, Any]:
    """Of a store on a loop disk: small segments, so that rolls happen as well."""
    return {
        "flush_disk_type": "SYNC_FLUSH",
        "mapped_file_size_commit_log": 4 * MIB,
        "max_message_size": 60_000,
        "mapped_file_size_consume_queue": 20_000,
        "reserve_window_commit_log": 65_536,
        "reserve_window_consume_queue": 4_096,
        "flush_interval_consume_queue": 20,
        "clean_resource_interval": 3_600_000,
    }


def store_writer(directory: Path) -> Callable[[int, int], tuple[str, int]]:
    """Puts; imported here, so that a bare writer needs no mqstore."""
    from mqstore import Message, MessageStore, StoreConfig

    store = MessageStore.open(directory / STORE, StoreConfig(**store_settings()))

    def write(thread: int, number: int) -> tuple[str, int]:
        body = filled(text_of(thread, number))
        put = store.put_message(Message("orders", body, queue_id=thread, keys=("k",)))
        return put.status.name, put.physical_offset

    return write


def bare_writer(kind: str, directory: Path) -> Callable[[int, int], tuple[str, int]]:
    """One slot after the other, each synced."""
    descriptor = os.open(directory / FILE, os.O_RDWR | os.O_CREAT)
    if kind.startswith("written"):
        os.write(descriptor, b"\xff" * FILE_BYTES)
    else:
        os.posix_fallocate(descriptor, 0, FILE_BYTES)
    os.fsync(descriptor)
    mapping = mmap.mmap(descriptor, FILE_BYTES) if kind.endswith("mapped") else None
    slots = itertools.count()

    def write(thread: int, number: int) -> tuple[str, int]:
        position = next(slots) * SLOT_BYTES
        data = filled(text_of(thread, number))
        if mapping is not None:
            mapping[position : position + SLOT_BYTES] = data
        else:
            os.pwrite(descriptor, data, position)
        os.fdatasync(descriptor)
        return "PUT_OK", position

    return write


def main(kind: str, directory: Path) -> None:
    write = store_writer(directory) if kind == "store" else bare_writer(kind, directory)

    def write_for_ever(thread: int) -> None:
        for number in itertools.count():
            try:
                status, position = write(thread, number)
            except Exception:  # noqa: BLE001 - the disk is gone, in whatever words
                return
            known_ns = time.monotonic_ns()
            os.write(1, b"%s %d %d %s\n" % (status.encode(), known_ns, position, text_of(thread, number)))

    threads = [threading.Thread(target=write_for_ever, args=(thread,)) for thread in range(THREADS)]
    os.write(1, b"ready\n")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Nothing is closed: a power cut closes nothing.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
