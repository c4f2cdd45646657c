"""Opening a store for a command, with settings that fit the directory.

Settings come from -o, then from --config, then from the directory (mqstore/settings/directory_config.py), so
that users need not know its sizes, then from the defaults.

Commands that only read take no lock and work beside a live writer.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mqstore.message_store import MessageStore
from mqstore.settings.directory_config import check_sizes, config_that_fits, tool_config
from mqstore.store.config import StoreConfig, read_toml
from mqstore.store.errors import ConfigIllegal, StoreLocked, StoreNotFound
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.cli.output import Output
from mqstore.tools.cli.progress import Work, WorkBoard, progress

__all__ = ["open_for_reading", "open_for_writing", "read_settings", "settings_of", "way_out_of_lock"]

# Shorter recoveries end before a progress bar could be read.
_WORTH_SHOWING_BYTES = 64 << 20
_KEPT_FOR_EVER = {"file_reserved_time": 24 * 365 * 100, "clean_file_forcibly_enable": False}
_WAY_OUT = "stop that writer, or, if it is `mqstore serve`, ask it by a client or by RocketMQ's mqadmin"
_STEPS = {"recover": "checking the log, bytes", "dispatch": "filling the queues, bytes"}


def open_for_reading(path: Path, settings: Sequence[str] = ()) -> MessageStore:
    """Raises StoreNotFound, and what MessageStore.open raises for a directory it cannot read."""
    if not (path / "commitlog").is_dir():
        raise StoreNotFound(path, exists=path.exists())
    return MessageStore.open(path, config_that_fits(read_settings(None, settings)), read_only=True)


def open_for_writing(
    path: Path,
    config_file: Path | None = None,
    settings: Sequence[str] = (),
    *,
    output: Output | None = None,
    deletes_expired: bool = False,
) -> MessageStore:
    """Create or open. Raises ConfigIllegal, StoreLocked, and what else MessageStore.open raises.

    output: where a long recovery shows its progress. deletes_expired: segments expire, as in any store that
    is open; else only if the settings say how long they are kept, for the directory does not.
    """
    given = read_settings(config_file, settings)
    if not deletes_expired and "file_reserved_time" not in given:
        given = _KEPT_FOR_EVER | given
    config = _config(path, given)
    with way_out_of_lock():
        return _opened(path, config, output)


@contextmanager
def way_out_of_lock(way_out: str = _WAY_OUT) -> Iterator[None]:
    """Have a StoreLocked advise this. What it advises by itself, read_only=True, is for Python programs."""
    try:
        yield
    except StoreLocked as error:
        raise StoreLocked(error.path, error.holder_pid, is_own=error.is_own, way_out=way_out) from error


def _opened(path: Path, config: StoreConfig, output: Output | None) -> MessageStore:
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


def _config(path: Path, settings: dict[str, Any]) -> StoreConfig:
    """Settings as given. Raises ConfigIllegal, also for a size that the directory's files do not have."""
    config = config_that_fits(settings)
    check_sizes(OsFileSystem(), path, config)
    return config


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
    """`text` as the type of the setting; unchanged for an unknown one, which is refused later."""
    types = {field.name: field.type for field in dataclasses.fields(StoreConfig)}
    wanted = types.get(key)
    try:
        if wanted is bool:
            return {"true": True, "false": False}[text.lower()]
        if wanted == int | None and text.lower() == "none":
            return None
        return int(text.replace("_", "")) if wanted in (int, int | None) else text
    except (KeyError, ValueError):
        name = "true or false" if wanted is bool else "a whole number"
        raise ConfigIllegal(f"-o {key}={text}: give {name}", key=key, value=text) from None


def settings_of(store: Path, config_file: Path | None, settings: Sequence[str]) -> StoreConfig:
    """The given settings, and those of the directory. Raises ConfigIllegal."""
    given = config_that_fits(read_settings(config_file, settings))
    return tool_config(OsFileSystem(), store, given).config
