"""The settings that a store directory was written with, as far as its files tell: for tools that look at it.

The lengths of the files of log, queues and index are read off them, damaged ones outvoted by the others; all
else is as given, or the default. Nothing is changed.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mqstore.index.consume_queue_format import ENTRY_BYTES
from mqstore.index.index_file_format import ENTRY_BYTES as INDEX_ENTRY_BYTES
from mqstore.index.index_file_format import HEADER_BYTES, SLOT_BYTES, file_size_bytes
from mqstore.index.index_file_size import find_slot_count
from mqstore.store.config import StoreConfig
from mqstore.store.file_system import FileEntry, FileSystem
from mqstore.store.record_format import BLANK_MIN_BYTES, MAX_RECORD_OVERHEAD_BYTES
from mqstore.store.segment_files import row_entries, row_file_bytes
from mqstore.store_layout import StoreLayout

__all__ = ["config_of_directory", "config_that_fits", "sizes_of_directory"]

# So many queue files are looked at; there may be thousands.
_SAMPLE = 1_000


def config_of_directory(
    file_system: FileSystem, root: Path, settings: Mapping[str, Any] | None = None
) -> StoreConfig:
    """`settings`: those that are known, which win. Raises ConfigIllegal."""
    known = sizes_of_directory(file_system, root)
    known |= _index_sizes(file_system, StoreLayout(root).index)
    return config_that_fits(known | dict(settings or {}))


def sizes_of_directory(file_system: FileSystem, root: Path) -> dict[str, Any]:
    """The settings that say how long the files of log and queues are; none where there are no files."""
    layout = StoreLayout(root)
    log_bytes = row_file_bytes(row_entries(file_system, layout.commit_log))
    queue_files = itertools.islice(_queue_files(file_system, layout.consume_queues), _SAMPLE)
    queue_bytes = row_file_bytes(list(queue_files))
    sizes = {}
    if log_bytes is not None:
        sizes["mapped_file_size_commit_log"] = log_bytes
    if queue_bytes is not None and queue_bytes % ENTRY_BYTES == 0:
        sizes["mapped_file_size_consume_queue"] = queue_bytes
    return sizes


def config_that_fits(settings: Mapping[str, Any]) -> StoreConfig:
    """`settings`, with a largest message that a segment of their size can hold. Raises ConfigIllegal."""
    known = dict(settings)
    segment_bytes = known.get("mapped_file_size_commit_log")
    if isinstance(segment_bytes, int) and "max_message_size" not in known:
        fitting = segment_bytes - MAX_RECORD_OVERHEAD_BYTES - BLANK_MIN_BYTES
        known["max_message_size"] = max(1, min(StoreConfig().max_message_size, fitting))
    return StoreConfig.from_mapping(known)


def _queue_files(file_system: FileSystem, directory: Path) -> Iterator[FileEntry]:
    for topic in file_system.list(directory):
        for queue in file_system.list(directory / topic.name) if topic.is_directory else ():
            if queue.is_directory:
                yield from row_entries(file_system, directory / topic.name / queue.name)


def _index_sizes(file_system: FileSystem, directory: Path) -> dict[str, int]:
    """Slots and entries of RocketMQ's index files: the default, as found in them, or 1 to 4 as most are."""
    entries = [entry for entry in file_system.list(directory) if len(entry.name) == 17 and entry.size_bytes]
    size_bytes = row_file_bytes(entries)
    if size_bytes is None or size_bytes == file_size_bytes():
        return {}
    newest = next(entry.name for entry in reversed(entries) if entry.size_bytes == size_bytes)
    slots = find_slot_count(file_system.map(directory / newest, size_bytes, writable=False).view)
    slots = slots or (size_bytes - HEADER_BYTES) // (SLOT_BYTES + 4 * INDEX_ENTRY_BYTES)
    entry_bytes = size_bytes - HEADER_BYTES - SLOT_BYTES * slots
    return {"max_hash_slot_num": slots, "max_index_num": entry_bytes // INDEX_ENTRY_BYTES}
