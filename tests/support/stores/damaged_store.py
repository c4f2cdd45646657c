"""A store of several segments and kinds of messages, closed, and ways to damage it.

`intact()` is made once; each test changes a copy of its files. What must survive a damage is told by
log_walk.py, which shares no code with what is tested: the records whose bytes are still there.
"""

import errno
import functools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mqstore import Message, MessageStore
from support.crash.witness import ROOT, Witness, crash_config
from support.disks.simulated_disk import Image, SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import messages_of
from support.twins.log_walk import LogRecord, walk_log

__all__ = [
    "CONFIG",
    "SEGMENT_BYTES",
    "Intact",
    "disk_of",
    "intact",
    "random_damage",
    "refuse_to_read",
    "segment_path",
    "survivors",
    "with_bytes",
    "wrong_in",
]

CONFIG = crash_config()
SEGMENT_BYTES = CONFIG.mapped_file_size_commit_log


class Intact(NamedTuple):
    """The store before any damage."""

    image: Image
    records: tuple[LogRecord, ...]
    end_offset: int
    now_ms: int


def segment_path(number: int) -> Path:
    """Segment 0, 1, ..."""
    return ROOT / "commitlog" / f"{number * SEGMENT_BYTES:020d}"


@functools.cache
def intact(*, closed: bool = True) -> Intact:
    """Four segments: two topics of two queues, delays delivered and waiting, retries, offsets of a group."""
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    witness = Witness(disk, clock, CONFIG)
    store = witness.open()
    chance = random.Random(1)
    for number in range(220):
        fields = {"queue_id": chance.randrange(2), "tags": f"t{number % 3}"}
        if number % 11 == 0:
            fields["delay_level"] = 2
        witness.put(chance.choice("ab"), chance.randrange(10, 2_000), **fields)
        if number % 50 == 0:
            witness.pass_time(6_000)
            witness.deliver()
    for message in witness.pull("group", "a")[:3]:
        witness.send_back("group", message)
    witness.flush()
    if closed:
        witness.close()
    assert len(store.commit_log.files.files) >= 4
    records, end = walk_log(disk, ROOT / "commitlog")
    return Intact(disk.image(), tuple(records), end.offset, clock.now_ms())


def with_bytes(image: Image, path: Path, change: Callable[[bytearray], None]) -> Image:
    """`image` with what `change` makes of one file."""
    data = bytearray(image.files[path])
    change(data)
    return Image({**image.files, path: bytes(data)}, set(image.directories))


def disk_of(image: Image) -> SimulatedDisk:
    """A fresh disk that holds `image`."""
    return SimulatedDisk(Image(dict(image.files), set(image.directories)), clock=ManualClock(intact().now_ms))


def refuse_to_read(disk: SimulatedDisk, path: Path, position: int) -> None:
    """Let every later read fail that takes this byte of a file."""
    read_at = disk.read_at

    def failing(asked: Path, start: int, length: int) -> bytes:
        if asked == path and start <= position < start + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read_at(asked, start, length)

    disk.read_at = failing  # type: ignore[method-assign]


def random_damage(chance: random.Random, image: Image) -> Image:
    """Hurt the log in one to four places: bits, zeros, junk, pages, a segment that is gone."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        paths = sorted(path for path in image.files if path.parent.name == "commitlog")
        path, kind = chance.choice(paths), chance.randrange(9)
        if kind == 0 and len(paths) > 2 and path not in (paths[0], paths[-1]):
            image = Image(
                {each: image.files[each] for each in image.files if each != path}, image.directories
            )
            continue
        position, length = chance.randrange(SEGMENT_BYTES), chance.randrange(1, 6_000)

        def change(data: bytearray, kind: int = kind, position: int = position, length: int = length) -> None:
            if kind <= 3:
                data[position] ^= 1 << chance.randrange(8)
            elif kind <= 5:
                data[position : position + length] = bytes(len(data[position : position + length]))
            elif kind <= 7:
                data[position : position + length] = chance.randbytes(len(data[position : position + length]))
            else:
                page = position - position % 4_096
                data[page : page + 4_096] = bytes(len(data[page : page + 4_096]))

        image = with_bytes(image, path, change)
    return image


def survivors(image: Image) -> list[LogRecord]:
    """The records of the intact store whose bytes are all there still."""
    before = intact()
    kept = []
    for record in before.records:
        number, position = divmod(record.physical_offset, SEGMENT_BYTES)
        path, stop = segment_path(number), position + record.size
        data = image.files.get(path, b"")
        if data[position:stop] == before.image.files[path][position:stop]:
            kept.append(record)
    return kept


def wrong_in(disk: SimulatedDisk, root: Path, image: Image) -> list[str]:
    """What is wrong with a repaired store: each survivor must be where it was, for consumers too."""
    store = MessageStore.open(root, CONFIG, clock=ManualClock(intact().now_ms), file_system=disk, start=False)
    wrong = []
    with store:
        delivered = {
            (message.topic, message.queue_id, message.queue_offset): (message.physical_offset, message.body)
            for queue in store.consume_queues.queues()
            for message in messages_of(store, *queue)
        }
        for record in survivors(image):
            queue = (record.topic, record.queue_id, record.queue_offset)
            if delivered.get(queue) != (record.physical_offset, record.body):
                wrong.append(f"{queue} at {record.physical_offset} is {delivered.get(queue)}")
        put = store.put_message(Message("a", b"and on it goes", queue_id=0))
        if store.look_message_by_offset(put.physical_offset) is None:
            wrong.append("the store does not go on")
    return wrong
