"""The delays of waiting messages: a table of delay levels derived from the queues of a directory.

The entry of a delayed message holds the time at which it is due, and its record the time at which it was
stored: the difference is its level's delay, by the table of its writer. Needed for a directory that
remembers none (directory_settings_file.py). The newest entries of each level are read, and the most frequent
delay counts, so damaged ones do not matter. Nothing is changed.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mqstore.index.queue.consume_queue_format import ENTRY
from mqstore.index.queue.raw_queue import QueueEntries
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.schedule.delay.delayed_message import level_of_queue
from mqstore.store.files.file_names import place_in_row
from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import raise_foreign
from mqstore.store.message.topic_names import SCHEDULE_TOPIC
from mqstore.store.record.record_format import HEADER_BYTES, RecordIllegal, decode_header
from mqstore.store_layout import StoreLayout

__all__ = ["levels_of_waiting"]

# Entries read at the end of each level's queue, and levels read at most.
_SAMPLE = 16
_MAX_LEVEL = 1_000
_SECOND_MS = 1_000
_MAX_DELAY_MS = 2**50


def levels_of_waiting(
    file_system: FileSystem, layout: StoreLayout, segment_bytes: int, queue_bytes: int, others: DelayLevels
) -> DelayLevels:
    """The table of the newest delayed messages; levels without any are as in `others`."""
    found: dict[int, int] = {}
    directory = layout.consume_queues / SCHEDULE_TOPIC
    for entry in file_system.list(directory):
        if entry.is_directory and entry.name.isascii() and entry.name.isdigit():
            level = level_of_queue(int(entry.name))
            entries = QueueEntries(file_system, directory / entry.name, queue_bytes)
            delays = Counter(_delays_ms(file_system, layout.commit_log, segment_bytes, entries))
            if delays and 0 < level <= _MAX_LEVEL:
                found[level] = max(delays, key=lambda delay: (delays[delay], delay))
    if all(level <= len(others) and others.delay_ms(level) == delay for level, delay in found.items()):
        return others
    items = others.text.split(" ")
    items += items[-1:] * (max(found) - len(items))
    for level, delay_ms in found.items():
        if level > len(others) or others.delay_ms(level) != delay_ms:
            items[level - 1] = f"{delay_ms // _SECOND_MS}s"
    return DelayLevels.parse(" ".join(items))


def _delays_ms(
    file_system: FileSystem, commit_log: Path, segment_bytes: int, entries: QueueEntries
) -> Iterator[int]:
    """The delay of each of the newest entries that can be compared with its record."""
    end_offset = entries.end_offset(entries.min_offset)
    first = max(entries.min_offset, end_offset - _SAMPLE)
    for row in entries.read(first, end_offset - first):
        physical_offset, _, due_ms = ENTRY.unpack(row.tobytes())
        path, position = place_in_row(commit_log, max(0, physical_offset), segment_bytes)
        try:
            header = decode_header(file_system.read_at(path, position, HEADER_BYTES + 24))
        except (RecordIllegal, OSError) as error:
            raise_foreign(error)
            continue
        delay_ms = due_ms - header.store_timestamp
        is_delay = 0 <= delay_ms <= _MAX_DELAY_MS and delay_ms % _SECOND_MS == 0
        if header.physical_offset == physical_offset and is_delay:
            yield delay_ms
