"""The identity of the store that a checkpoint belongs to: so that no query goes on in another directory.

    32 hexadecimal digits        drawn by mqstore's writer: mqstore/settings/store_identity_file.py
    log-<start>-<CRC-32C>        where only RocketMQ has written: the first record of the segment, beginning
    at
                                 <start>, in which what was read so far ends
    log-empty                    there was no record yet

A reader changes nothing in a store, so it gives no identity to a directory that has none. The first record of
a segment holds its store time, its host, and mostly a unique key: another log has another one. When retention
has deleted that segment, nothing can be compared, and the checkpoint is taken at its word. What it does not
see: a copy that went on by itself, for a backup is the same store.
"""

import re
from pathlib import Path

from mqstore.settings.store_identity_file import StoreIdentityFile
from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.errors import StateFileCorrupt, StoreError
from mqstore.store.files.file_kind import open_regular
from mqstore.store.files.file_names import file_name, is_file_name
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.record.record_format import RecordIllegal, decode_header
from mqstore.store_layout import StoreLayout
from mqstore.tools.spark.segments.segment_files import LARGEST_RECORD_BYTES, LONGEST_HEADER_BYTES
from mqstore.tools.spark.stream.stream_offset import StreamOffset, StreamOffsetIllegal

__all__ = ["OtherStore", "check_store", "identity_at"]

_DRAWN = re.compile("[0-9a-f]{32}")
_OF_LOG = re.compile("log-([0-9]{1,20})-([0-9a-f]{8})")
_EMPTY = "log-empty"


class OtherStore(StoreError):
    """The checkpoint of a query was made on another store than the one in this directory."""

    def __init__(self, path: Path, expected: str, found: str) -> None:
        super().__init__(
            f"the checkpoint was made on the store {expected}, and {path} is {found}: it is another "
            "directory, or was made anew. Give the path of that store, or a new checkpoint to read this "
            "one from startingOffsets on"
        )
        self.path, self.expected, self.found = path, expected, found


def identity_at(store: Path, phy: int) -> str:
    """The identity of the store, to be kept with an offset up to which its log was read."""
    drawn = _drawn(store)
    if drawn is not None:
        return drawn
    starts = _segment_starts(store)
    before = [start for start in starts if start < phy] or starts[:1]
    found = _first_record(store, before[-1]) if before else None
    return _EMPTY if found is None else f"log-{before[-1]}-{found}"


def check_store(store: Path, offset: StreamOffset) -> None:
    """Raises OtherStore if the offset is of another store, as far as can be seen; StreamOffsetIllegal."""
    if _DRAWN.fullmatch(offset.store):
        drawn = _drawn(store)
        if drawn != offset.store:
            raise OtherStore(store, offset.store, drawn or f"without {StoreLayout(store).identity}")
        return
    if offset.store == _EMPTY:
        return
    of_log = _OF_LOG.fullmatch(offset.store)
    if of_log is None:
        raise StreamOffsetIllegal(offset.as_json())
    start, starts = int(of_log[1]), _segment_starts(store)
    if start in starts:
        found = _first_record(store, start)
        if found != of_log[2]:
            raise OtherStore(store, offset.store, _EMPTY if found is None else f"log-{start}-{found}")
    elif not starts or start > starts[0]:
        # Retention deletes from the beginning; this log ends before, or has no segment there.
        raise OtherStore(store, offset.store, f"a log without a segment at {start}")


def _drawn(store: Path) -> str | None:
    try:
        return StoreIdentityFile(OsFileSystem(), StoreLayout(store).identity).load()
    except StateFileCorrupt as error:
        error.add_note("The next writer of the store makes a new one; streams then need a new checkpoint.")
        raise


def _segment_starts(store: Path) -> list[int]:
    directory = StoreLayout(store).commit_log
    return sorted(int(path.name) for path in directory.iterdir() if is_file_name(path.name))


def _first_record(store: Path, start: int) -> str | None:
    """The CRC of the first record of a segment; None: there is no whole header."""
    try:
        with open(  # noqa: PTH123 - a descriptor
            open_regular(StoreLayout(store).commit_log / file_name(start)), "rb", buffering=0
        ) as file:
            size = decode_header(file.read(LONGEST_HEADER_BYTES)).total_size
            file.seek(0)
            return f"{crc32c(file.read(min(max(size, 0), LARGEST_RECORD_BYTES))):08x}"
    except (RecordIllegal, FileNotFoundError) as error:
        raise_foreign(error)
        return None
