"""The file `mqstore/settings`: how the directory was written, so that no caller has to name it again.

A writer saves it when it opens the store, before the first byte that depends on it; readers and tools read it
and never change it. It cannot be derived from the log: it is replaced as the state files are, with a `.bak`,
and a file that cannot be read is an error (store/state/state_file.py). It is missing in the directory of a
broker, or of an older mqstore.
Durability: when `save` returns. Threads: the one that opens the store.
"""

from pathlib import Path

from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.settings.directory_settings_format import (
    VERSION,
    DirectorySettings,
    decode_settings,
    encode_settings,
)
from mqstore.store.config import REMEMBERED_SETTINGS, StoreConfig
from mqstore.store.errors import UnknownVersion
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.state_file import StateFile

__all__ = ["DirectorySettingsFile"]


class DirectorySettingsFile:
    """`<root>/mqstore/settings`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self.file = StateFile(file_system, path)
        self.settings: DirectorySettings | None = None

    def load(self) -> DirectorySettings | None:
        """What is remembered; None where there is no file. Raises StateFileCorrupt, UnknownVersion."""
        self.settings = self.file.load(self.decode)
        return self.settings

    def save(self, settings: DirectorySettings) -> None:
        """Remember `settings`; nothing is written when nothing changed. Raises StoreFull, OSError."""
        self.file.save(encode_settings(settings))
        self.settings = settings

    def forget(self) -> None:
        """Delete a file that cannot be read, and its .bak, durably; `load` then finds none."""
        self.file.delete()
        self.load()

    def decode(self, data: bytes) -> DirectorySettings:
        """Raises ValueError for bytes that are no settings or illegal ones, and UnknownVersion."""
        settings = decode_settings(data)
        if isinstance(settings, int):
            raise UnknownVersion(self.file.path, VERSION, settings)
        for _, table in settings.message_delay_level:
            DelayLevels.parse(table)
        others = (key for key in REMEMBERED_SETTINGS if key != "message_delay_level")
        StoreConfig(**{key: getattr(settings, key) for key in others})
        return settings

    def __repr__(self) -> str:
        return f"DirectorySettingsFile({str(self.file.path)!r})"
