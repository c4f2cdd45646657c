"""What is in one file of a store, row by row, straight from its bytes.

    commitlog/<20 digits>                    records; a BLANK; up to the first zero word
    consumequeue/<topic>/<queue>/<20 digits> entries, up to the first of size 0
    index/<17 digits>                        RocketMQ's key index: entries in the order of insertion
    timerlog/<20 digits>                     RocketMQ's timer log: units
    checkpoint, mqstore/recovery-point       their fields
    mqstore/settings                         how the directory was written
    config/*.json, *.json.bak                the document

Nothing is opened for writing, nothing is locked and no other file is read, so it also works on a directory
that cannot be opened. On a live store the newest rows may be missing.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mqstore.index.index_file import index_file_format
from mqstore.index.index_file.index_file_size import find_slot_count
from mqstore.index.queue import consume_queue_format
from mqstore.schedule.delay import timer_log_format
from mqstore.settings.directory_settings_format import decode_settings
from mqstore.store.errors import CorruptRecord, StateFileCorrupt
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.message.compressed_body import compression_of
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import (
    BLANK,
    BLANK_MAGIC_CODE,
    BLANK_MIN_BYTES,
    MESSAGE_MAGIC_CODE,
    RecordIllegal,
    check_record,
)
from mqstore.store.state import state_file_format
from mqstore.store.state.checkpoint_format import decode_checkpoint
from mqstore.store.state.recovery_point_format import RecoveryPoint, decode_recovery_point
from mqstore.tools.cli.output import Row

__all__ = ["Dump", "RecordRow", "dump_of"]


class RecordRow(Row):
    """A record of the commit log, or the BLANK that ends a segment."""

    physical_offset: int
    kind: str
    size: int
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    store_timestamp: int | None = None
    tags: str | None = None
    keys: tuple[str, ...] = ()
    reconsume_times: int | None = None
    sys_flag: int | None = None
    body_length: int | None = None
    body_crc: int | None = None
    body_compression: str | None = None


class EntryRow(Row):
    """An entry of a consume queue. In SCHEDULE_TOPIC_XXXX the tags code is the time it is due."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    is_blank: bool


class IndexEntryRow(Row):
    """An entry of RocketMQ's index file."""

    entry: int
    key_hash: int
    physical_offset: int
    store_timestamp: int
    previous_entry: int


class TimerUnitRow(Row):
    """A unit of RocketMQ's timer log."""

    position: int
    previous_position: int
    magic: int
    write_timestamp: int
    due_timestamp: int
    physical_offset: int
    record_size: int
    topic_hash: int


class CheckpointRow(Row):
    """RocketMQ's checkpoint."""

    physic_msg_timestamp: int
    logics_msg_timestamp: int
    index_msg_timestamp: int
    master_flushed_offset: int
    confirm_physical_offset: int
    logics_physical_offset: int


class RecoveryPointRow(Row):
    """mqstore's recovery point."""

    log_offset: int
    queues_offset: int


class Dump(NamedTuple):
    """The rows of a file from a number on; exactly one of `rows` and `document` is there.

    `rows(start)`: for a segment `start` is a physical offset, for all others the number of the row.
    """

    kind: str
    rows: Callable[[int], Iterator[Row]] | None = None
    document: dict[str, Any] | Row | None = None


def dump_of(path: Path) -> Dump | None:
    """How to read a store file; None for any other path. Raises StateFileCorrupt, CorruptRecord."""
    directory, grandparent = path.parent.name, path.parent.parent.parent.name
    if directory == "commitlog" and _is_number(path.name, 20):
        return Dump("segment", lambda start: _records(path, start))
    if grandparent == "consumequeue" and _is_number(path.name, 20):
        return Dump("consume queue", lambda start: _entries(path, start))
    if directory == "index" and _is_number(path.name, 17):
        return Dump("index file", lambda start: _index_entries(path, start))
    if directory == "timerlog" and _is_number(path.name, 20):
        return Dump("timer log", lambda start: _timer_units(path, start))
    if path.name == "checkpoint":
        return Dump("checkpoint", document=_checkpoint(path))
    if path.name in ("settings", "settings.bak"):
        return Dump("settings", document=_settings(path))
    if path.name == "recovery-point":
        return Dump("recovery point", document=_recovery_point(path))
    if path.name.endswith((".json", ".json.bak")):
        return Dump("state file", document=_state(path))
    return None


def _is_number(name: str, digits: int) -> bool:
    return len(name) == digits and name.isdigit()


def _view(path: Path) -> memoryview:
    """The whole file, mapped for reading."""
    size_bytes = path.stat().st_size
    return OsFileSystem().map(path, size_bytes, read_only=True).view if size_bytes else memoryview(b"")


def _records(path: Path, start_offset: int) -> Iterator[RecordRow]:
    """Records and BLANK from the first that begins at or after `start_offset`. Raises CorruptRecord."""
    view, segment_offset, position = _view(path), int(path.name), 0
    while position + BLANK_MIN_BYTES <= len(view):
        size, magic = BLANK.unpack_from(view, position)
        if size == 0 and magic == 0:
            return
        row = _blank(segment_offset + position, size) if magic == BLANK_MAGIC_CODE else None
        if row is None and (segment_offset + position >= start_offset or size <= 0):
            row = _record(path, view, position, segment_offset)
        if row is not None and row.physical_offset >= start_offset:
            yield row
        if magic == BLANK_MAGIC_CODE:
            return
        position += size


def _blank(physical_offset: int, size: int) -> RecordRow:
    return RecordRow(physical_offset=physical_offset, kind="BLANK", size=size)


def _record(path: Path, view: memoryview, position: int, segment_offset: int) -> RecordRow:
    try:
        header = check_record(view[position:], segment_offset + position)
    except RecordIllegal as error:
        raise CorruptRecord(path, position, error.expected, error.found) from error
    message = StoredMessage.of(view[position : position + header.total_size])
    return RecordRow(
        physical_offset=header.physical_offset,
        kind="V1" if header.magic == MESSAGE_MAGIC_CODE else "V2",
        size=header.total_size,
        topic=message.topic,
        queue_id=header.queue_id,
        queue_offset=header.queue_offset,
        store_timestamp=header.store_timestamp,
        tags=message.tags,
        keys=message.keys,
        reconsume_times=header.reconsume_times,
        sys_flag=header.sys_flag,
        body_length=header.body_length,
        body_crc=header.body_crc,
        body_compression=compression_of(header.sys_flag),
    )


def _entries(path: Path, start: int) -> Iterator[EntryRow]:
    view, width = _view(path), consume_queue_format.ENTRY_BYTES
    first = int(path.name) // width
    for number in range(max(0, start - first), len(view) // width):
        physical_offset, size, tags_code = consume_queue_format.ENTRY.unpack_from(view, number * width)
        if size <= 0:
            return
        yield EntryRow(
            queue_offset=first + number,
            physical_offset=physical_offset,
            size=size,
            tags_code=tags_code,
            is_blank=size == consume_queue_format.BLANK_SIZE,
        )


def _index_entries(path: Path, start: int) -> Iterator[IndexEntryRow]:
    view = _view(path)
    if len(view) < index_file_format.HEADER_BYTES:
        raise CorruptRecord(path, 0, f"a header of {index_file_format.HEADER_BYTES} bytes", f"{len(view)}")
    header = index_file_format.decode_header(view)
    slot_count = _slot_count(view)
    room = (len(view) - index_file_format.entry_position(0, slot_count)) // index_file_format.ENTRY_BYTES
    if header.index_count > room:
        raise CorruptRecord(path, 36, f"an index count up to {room}", f"{header.index_count}")
    for number in range(max(1, start), header.index_count):
        entry = index_file_format.decode_entry(view, index_file_format.entry_position(number, slot_count))
        yield IndexEntryRow(
            entry=number,
            key_hash=entry.key_hash,
            physical_offset=entry.physical_offset,
            store_timestamp=header.begin_timestamp_ms + entry.time_difference_s * 1000,
            previous_entry=entry.previous_entry,
        )


def _slot_count(view: memoryview) -> int:
    """RocketMQ's default; or derived from the contents; or assuming four entries a slot."""
    if len(view) == index_file_format.file_size_bytes():
        return index_file_format.DEFAULT_SLOT_COUNT
    found = find_slot_count(view)
    if found is not None:
        return found
    unit = index_file_format.SLOT_BYTES + 4 * index_file_format.ENTRY_BYTES
    return (len(view) - index_file_format.HEADER_BYTES) // unit


def _timer_units(path: Path, start: int) -> Iterator[TimerUnitRow]:
    for number, (position, unit) in enumerate(timer_log_format.units(_view(path))):
        if number >= start:
            yield TimerUnitRow(
                position=int(path.name) + position,
                previous_position=unit.previous_position,
                magic=unit.magic,
                write_timestamp=unit.write_time_ms,
                due_timestamp=unit.slot_time_ms,
                physical_offset=unit.physical_offset,
                record_size=unit.record_size_bytes,
                topic_hash=unit.topic_hash,
            )


def _checkpoint(path: Path) -> CheckpointRow:
    checkpoint = decode_checkpoint(OsFileSystem().read(path))
    return CheckpointRow(**checkpoint._asdict())


def _recovery_point(path: Path) -> RecoveryPointRow:
    point = decode_recovery_point(OsFileSystem().read(path))
    if not isinstance(point, RecoveryPoint):
        reason = "checksum or magic differs" if point is None else f"version {point} is not known"
        raise StateFileCorrupt(path, reason)
    return RecoveryPointRow(**point._asdict())


def _settings(path: Path) -> dict[str, Any]:
    settings = OsFileSystem().read(path)
    try:
        decoded = decode_settings(settings)
    except ValueError as error:
        raise StateFileCorrupt(path, str(error)) from error
    if isinstance(decoded, int):
        raise StateFileCorrupt(path, f"version {decoded} is not known")
    fields: dict[str, Any] = msgspec.to_builtins(decoded)
    return fields


def _state(path: Path) -> dict[str, Any]:
    try:
        return state_file_format.decode(OsFileSystem().read(path))
    except ValueError as error:
        raise StateFileCorrupt(path, str(error)) from error
