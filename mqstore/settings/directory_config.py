"""The settings of a store directory: those that are named, then those remembered, then those its files show.

    setting                     not named                                named otherwise than it was
    lengths of log and queues   as remembered, else as most files are    refused where files are mapped
    slots, entries of index/    as remembered, else as found in them     the files' own stay in force
    max_message_size            as remembered                            holds; the largest is remembered
    key_index                   as remembered                            a writer changes; a reader is refused
    message_delay_level         as remembered, else as waiting           a writer changes, from the log's end
                                messages show                            on; a reader warns; a tool is refused

and RocketMQ's default where none of these gives a value. Files win over what is remembered: a length that no
file has is refused, so no file of that length is added. The most frequent length counts, so a few damaged
files do not matter. Nothing is changed here (opening.py saves the settings).
"""

import dataclasses
import itertools
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mqstore.index.index_file.index_file_format import ENTRY_BYTES as INDEX_ENTRY_BYTES
from mqstore.index.index_file.index_file_format import (
    HEADER_BYTES,
    LONGEST_FILE_BYTES,
    SLOT_BYTES,
    file_size_bytes,
)
from mqstore.index.index_file.index_file_size import find_slot_count
from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.index.queue.deleted_topics import DeletedTopics
from mqstore.schedule.delay.delay_history import DelayHistory, DelayTable
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.settings.directory_settings_file import DirectorySettingsFile
from mqstore.settings.directory_settings_format import DirectorySettings
from mqstore.settings.waiting_delays import levels_of_waiting
from mqstore.store.config import StoreConfig
from mqstore.store.errors import SegmentSizeMismatch, SettingContradicted, StateFileCorrupt
from mqstore.store.files.file_names import row_entries, row_file_bytes
from mqstore.store.files.file_system import FileEntry, FileSystem
from mqstore.store.record.record_format import BLANK_MIN_BYTES, MAX_RECORD_OVERHEAD_BYTES
from mqstore.store_layout import StoreLayout

__all__ = [
    "DirectoryConfig",
    "Role",
    "check_sizes",
    "config_in_force",
    "config_that_fits",
    "remember",
    "tool_config",
]

_logger = logging.getLogger(__name__)

Role = Literal["writer", "reader", "tool"]
"""The caller: MessageStore for writing, for reading only, or verify, repair and rebuild."""

_LOG_SIZE, _QUEUE_SIZE = "mapped_file_size_commit_log", "mapped_file_size_consume_queue"

# Queue files examined; there may be thousands. Fewer suffice where only one has to be as remembered.
_SAMPLE = 1_000
_SMALL_SAMPLE = 32


class DirectoryConfig(NamedTuple):
    """config: the settings in force, all of them named.

    delays: the tables of delays by which the existing entries were made. max_message_size: the largest limit
    that applied when any of them was put. deleted: the topics whose records have no entries any more.
    """

    config: StoreConfig
    delays: DelayHistory
    max_message_size: int
    deleted: DeletedTopics

    def to_remember(self) -> DirectorySettings:
        """The part that `mqstore/settings` saves."""
        config = self.config
        return DirectorySettings(
            mapped_file_size_commit_log=config.mapped_file_size_commit_log,
            mapped_file_size_consume_queue=config.mapped_file_size_consume_queue,
            max_hash_slot_num=config.max_hash_slot_num,
            max_index_num=config.max_index_num,
            max_message_size=self.max_message_size,
            key_index=config.key_index,
            message_delay_level=tuple((offset, levels.text) for offset, levels in self.delays.tables),
            deleted_topics=dict(sorted(self.deleted.offsets.items())),
        )


def config_in_force(
    file_system: FileSystem,
    layout: StoreLayout,
    config: StoreConfig,
    remembered: DirectorySettings | None,
    role: Role,
) -> DirectoryConfig:
    """The settings in force in this directory when `config` is named. Raises ConfigIllegal and its leaves."""
    return _Answers(file_system, layout, config, remembered, role).give()


def tool_config(file_system: FileSystem, root: Path, config: StoreConfig | None = None) -> DirectoryConfig:
    """For a tool that inspects a directory; settings that cannot be read count as not remembered.

    Raises SettingContradicted, UnknownVersion.
    """
    layout = StoreLayout(root)
    try:
        remembered = DirectorySettingsFile(file_system, layout.settings).load()
    except StateFileCorrupt:
        remembered = None
    return config_in_force(file_system, layout, config or StoreConfig(), remembered, "tool")


def remember(file_system: FileSystem, layout: StoreLayout, directory: DirectoryConfig) -> None:
    """Save the settings before a repair or rebuild deletes the files that show them. Raises StoreFull."""
    file = DirectorySettingsFile(file_system, layout.settings)
    try:
        file.load()
    except StateFileCorrupt:
        file.forget()
    file.save(directory.to_remember())


class _Answers:
    """The answers for one directory, setting by setting."""

    def __init__(
        self,
        file_system: FileSystem,
        layout: StoreLayout,
        config: StoreConfig,
        remembered: DirectorySettings | None,
        role: Role,
    ) -> None:
        self._file_system = file_system
        self._layout = layout
        self._config = config
        self._remembered = remembered
        self._role = role

    def give(self) -> DirectoryConfig:
        """All the settings."""
        is_remembered = self._remembered is not None and self._role != "tool"
        files = _row_files(self._file_system, self._layout, _SMALL_SAMPLE if is_remembered else _SAMPLE)
        known: dict[str, Any] = {
            **{key: self._size(key, row) for key, row in files.items()},
            "key_index": self._key_index(),
            **self._index_sizes(),
        }
        known["max_message_size"] = self._max_message_size(known[_LOG_SIZE])
        delays = self._delays(known[_LOG_SIZE], known[_QUEUE_SIZE])
        known["message_delay_level"] = self._delay_levels(delays)
        config = dataclasses.replace(self._config, **known)
        max_message_size = config.max_message_size
        if self._remembered is not None:
            max_message_size = max(max_message_size, self._remembered.max_message_size)
            max_message_size = min(max_message_size, _largest_body(config.mapped_file_size_commit_log))
        deleted = DeletedTopics(self._remembered.deleted_topics if self._remembered is not None else {})
        return DirectoryConfig(config, delays, max_message_size, deleted)

    def _otherwise(self, key: str) -> Any:
        """What is remembered, else the default, as a plain value."""
        default = getattr(self._config, key)
        plain = str(default) if isinstance(default, str) else int(default)
        return plain if self._remembered is None else getattr(self._remembered, key)

    def _size(self, key: str, files: dict[Path, FileEntry]) -> int:
        is_named = self._config.names(key)
        size_bytes = int(getattr(self._config, key)) if is_named else int(self._otherwise(key))
        found_bytes = row_file_bytes(list(files.values()))
        is_known = is_named or self._remembered is not None
        if found_bytes is None or (is_known and size_bytes in [entry.size_bytes for entry in files.values()]):
            return size_bytes
        if is_named and self._role == "tool":
            return size_bytes
        if is_named:
            path = next(path for path, entry in files.items() if entry.size_bytes == found_bytes)
            raise SegmentSizeMismatch(path, size_bytes, found_bytes, key)
        if self._remembered is not None:
            raise self._contradicted(key, size_bytes, found_bytes)
        fits = found_bytes % ENTRY_BYTES == 0 or key == _LOG_SIZE
        return found_bytes if fits else size_bytes

    def _contradicted(self, key: str, remembered: int, found: int) -> SettingContradicted:
        path = self._layout.settings
        return SettingContradicted(
            f"{path} remembers {key} = {remembered}, but the files are {found} bytes long. Nothing was "
            f"changed. Restore {path.name}, or delete it and its .bak to use the files' lengths; if the "
            f"files were cut short, give {key} = {remembered}",
            path=path,
            key=key,
            value=remembered,
            found=found,
        )

    def _index_sizes(self) -> dict[str, int]:
        """Slots and entries of a file in index/; an opening finds those of existing files itself."""
        keys = ("max_hash_slot_num", "max_index_num")
        sizes = {
            key: int(getattr(self._config, key)) if self._config.names(key) else int(self._otherwise(key))
            for key in keys
        }
        if self._role == "tool" and not any(map(self._config.names, keys)):
            sizes |= _found_index_sizes(self._file_system, self._layout.index, sizes)
        return sizes

    def _max_message_size(self, segment_bytes: int) -> int:
        if self._config.names("max_message_size"):
            return self._config.max_message_size
        return max(1, min(int(self._otherwise("max_message_size")), _largest_body(segment_bytes)))

    def _key_index(self) -> str:
        """A reader must name an index that is kept."""
        named, kept = self._config.key_index, self._otherwise("key_index")
        if not self._config.names("key_index"):
            return str(kept)
        if self._role == "reader" and self._remembered is not None and kept not in (named, "both"):
            raise SettingContradicted(
                f"key_index is {named!r}, but {self._layout.root} keeps {kept!r} only: leave it out",
                path=self._layout.settings,
                key="key_index",
                value=named,
                found=kept,
            )
        return named

    def _delays(self, segment_bytes: int, queue_bytes: int) -> DelayHistory:
        if self._remembered is not None:
            tables = self._remembered.message_delay_level
            return DelayHistory(tuple(DelayTable(at, DelayLevels.parse(text)) for at, text in tables))
        levels = DelayLevels.parse(str(self._config.message_delay_level))
        if self._role != "tool" or not self._config.names("message_delay_level"):
            levels = levels_of_waiting(self._file_system, self._layout, segment_bytes, queue_bytes, levels)
        return DelayHistory.of(levels)

    def _delay_levels(self, delays: DelayHistory) -> str:
        """The table for messages put from now on."""
        named = DelayLevels.parse(str(self._config.message_delay_level))
        if not self._config.names("message_delay_level") or named == delays.newest:
            return delays.newest.text
        if self._role == "tool":
            raise SettingContradicted(
                f"message_delay_level is {named.text!r}, but {self._layout.root} was written with "
                f"{delays.newest.text!r}: leave it out",
                path=self._layout.settings,
                key="message_delay_level",
                value=named.text,
                found=delays.newest.text,
            )
        if self._role == "reader":
            _logger.warning(
                "%s is written with message_delay_level %r; this reader named %r",
                self._layout.root,
                delays.newest.text,
                named.text,
            )
            return delays.newest.text
        return named.text

    def __repr__(self) -> str:
        return f"<_Answers of {str(self._layout.root)!r}>"


def check_sizes(file_system: FileSystem, root: Path, config: StoreConfig) -> None:
    """Refuse a named length of log or queue files that the directory's files do not have.

    A store that opens refuses it as well, by the first such file. Raises SettingContradicted.
    """
    for key, files in _row_files(file_system, StoreLayout(root)).items():
        found, given = row_file_bytes(list(files.values())), getattr(config, key)
        if config.names(key) and found not in (None, given):
            raise SettingContradicted(
                f"{key} is given as {given}, but {root} was written with {found}: leave it out",
                path=root,
                key=key,
                value=given,
                found=found,
            )


def config_that_fits(settings: Mapping[str, Any]) -> StoreConfig:
    """`settings`, with a largest message that a segment of their size can hold. Raises ConfigIllegal."""
    known = dict(settings)
    segment_bytes = known.get(_LOG_SIZE)
    if isinstance(segment_bytes, int) and "max_message_size" not in known:
        known["max_message_size"] = max(1, min(StoreConfig().max_message_size, _largest_body(segment_bytes)))
    return StoreConfig.from_mapping(known)


def _largest_body(segment_bytes: int) -> int:
    return segment_bytes - MAX_RECORD_OVERHEAD_BYTES - BLANK_MIN_BYTES


def _row_files(
    file_system: FileSystem, layout: StoreLayout, sample: int = _SAMPLE
) -> dict[str, dict[Path, FileEntry]]:
    """The files of the log and some of those of the queues, by the setting that says how long they are."""
    queue_files = itertools.islice(_queue_files(file_system, layout.consume_queues), sample)
    return {
        _LOG_SIZE: dict(_files_of(file_system, layout.commit_log)),
        _QUEUE_SIZE: dict(queue_files),
    }


def _queue_files(file_system: FileSystem, directory: Path) -> Iterator[tuple[Path, FileEntry]]:
    for topic in file_system.list(directory):
        for queue in file_system.list(directory / topic.name) if topic.is_directory else ():
            if queue.is_directory:
                yield from _files_of(file_system, directory / topic.name / queue.name)


def _files_of(file_system: FileSystem, directory: Path) -> Iterator[tuple[Path, FileEntry]]:
    return ((directory / entry.name, entry) for entry in row_entries(file_system, directory))


def _found_index_sizes(
    file_system: FileSystem, directory: Path, expected: Mapping[str, int]
) -> dict[str, int]:
    """Slots and entries of RocketMQ's index files: as expected, as found in them, or 1 to 4 as most are."""
    entries = [
        entry
        for entry in file_system.list(directory)
        if len(entry.name) == 17 and 0 < entry.size_bytes <= LONGEST_FILE_BYTES
    ]
    size_bytes = row_file_bytes(entries)
    expected_bytes = file_size_bytes(expected["max_hash_slot_num"], expected["max_index_num"])
    if size_bytes is None or size_bytes == expected_bytes:
        return {}
    newest = next(entry.name for entry in reversed(entries) if entry.size_bytes == size_bytes)
    slots = find_slot_count(file_system.map(directory / newest, size_bytes, read_only=True).view)
    slots = slots or (size_bytes - HEADER_BYTES) // (SLOT_BYTES + 4 * INDEX_ENTRY_BYTES)
    entry_bytes = size_bytes - HEADER_BYTES - SLOT_BYTES * slots
    return {"max_hash_slot_num": slots, "max_index_num": entry_bytes // INDEX_ENTRY_BYTES}
