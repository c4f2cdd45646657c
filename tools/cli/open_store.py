"""Opening a store for a command, with settings that fit the directory.

The segment sizes of a directory that exists are read off its files, so that nobody has to know them; all
other settings are the defaults, then those of --config, then those of -o.

Commands that only read take no lock and work beside a live writer.
"""

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mqstore.message_store import MessageStore
from mqstore.store.config import StoreConfig, read_toml
from mqstore.store.errors import ConfigIllegal, StoreNotFound
from mqstore.store.file_system import FileEntry
from mqstore.store.os_file_system import OsFileSystem
from mqstore.store.record_format import BLANK_MIN_BYTES, MAX_RECORD_OVERHEAD_BYTES
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.progress import Work, WorkBoard, progress

__all__ = ["detect_sizes", "open_for_reading", "open_for_writing", "read_settings"]

_LOG_SIZE = "mapped_file_size_commit_log"
_QUEUE_SIZE = "mapped_file_size_consume_queue"
# What is less is over before it could be read.
_WORTH_SHOWING_BYTES = 64 << 20
_STEPS = {"recover": "checking the log, bytes", "dispatch": "filling the queues, bytes"}


def open_for_reading(path: Path) -> MessageStore:
    """Raises StoreNotFound, and what MessageStore.open raises for a directory it cannot read."""
    if not (path / "commitlog").is_dir():
        raise StoreNotFound(path)
    return MessageStore.open(path, _config(path, {}), read_only=True)


def open_for_writing(
    path: Path,
    config_file: Path | None = None,
    settings: Sequence[str] = (),
    *,
    output: Output | None = None,
) -> MessageStore:
    """Create or open. Raises ConfigIllegal, StoreLocked, and what else MessageStore.open raises.

    output: where a recovery that takes its time shows how far it is.
    """
    config = _config(path, read_settings(config_file, settings))
    if output is None:
        return MessageStore.open(path, config)
    with ExitStack() as shown:
        board: WorkBoard | None = None
        works: dict[str, Work] = {}

        def show(what: str, done_bytes: int, total_bytes: int) -> None:
            nonlocal board
            if done_bytes >= _WORTH_SHOWING_BYTES:
                board = board or shown.enter_context(progress(output))
                if what not in works:
                    works[what] = board.begin(_STEPS.get(what, what), total_bytes)
                works[what].done(done_bytes)

        return MessageStore.open(path, config, on_progress=show)


def detect_sizes(path: Path) -> dict[str, int]:
    """The segment sizes that the files of a directory have; empty for a directory without files."""
    file_system = OsFileSystem()
    log_files = _numbered_files(file_system.list(path / "commitlog"))
    queue_files = (
        entry
        for topic in file_system.list(path / "consumequeue")
        for queue in file_system.list(path / "consumequeue" / topic.name)
        for entry in _numbered_files(file_system.list(path / "consumequeue" / topic.name / queue.name))
    )
    sizes = {_LOG_SIZE: next(iter(log_files), None), _QUEUE_SIZE: next(queue_files, None)}
    return {key: entry.size_bytes for key, entry in sizes.items() if entry is not None}


def _numbered_files(entries: list[FileEntry]) -> list[FileEntry]:
    """The files of a row; an empty one is left by a crash and says nothing."""
    return [entry for entry in entries if len(entry.name) == 20 and entry.name.isdigit() and entry.size_bytes]


def _config(path: Path, settings: dict[str, Any]) -> StoreConfig:
    """Settings as given, the directory's sizes where none are given."""
    for key, size_bytes in detect_sizes(path).items():
        given = settings.setdefault(key, size_bytes)
        if given != size_bytes:
            raise ConfigIllegal(
                f"{key} is given as {given}, but {path} was written with {size_bytes}: leave it out",
                key=key,
                value=given,
            )
    if _LOG_SIZE in settings:
        fitting = settings[_LOG_SIZE] - MAX_RECORD_OVERHEAD_BYTES - BLANK_MIN_BYTES
        settings.setdefault("max_message_size", min(StoreConfig().max_message_size, fitting))
    return StoreConfig.from_mapping(settings)


def read_settings(config_file: Path | None, settings: Sequence[str]) -> dict[str, Any]:
    """The settings of the file, then those of `-o KEY=VALUE`. Raises ConfigIllegal."""
    values: dict[str, Any] = {}
    if config_file is not None:
        values |= read_toml(config_file)
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator:
            raise ConfigIllegal(f"-o {setting}: give KEY=VALUE", key=key)
        values[key.strip()] = _setting_value(key.strip(), text.strip())
    return values


def _setting_value(key: str, text: str) -> object:
    """`text` as the type of the setting; of an unknown one as it is, which is refused later."""
    types = {field.name: field.type for field in dataclasses.fields(StoreConfig)}
    wanted = types.get(key)
    try:
        if wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        return int(text.replace("_", "")) if wanted is int else text
    except (KeyError, ValueError):
        name = "true or false" if wanted is bool else "a whole number"
        raise ConfigIllegal(f"-o {key}={text}: give {name}", key=key, value=text) from None
