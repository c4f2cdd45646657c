"""The directory of a demo: a store, and a note in it that marks it and says how far the demo came.

The note, mqstore/demo.json in the store's directory, marks a directory as a demo's: no other is ever
written to or deleted. It is replaced atomically (store/state/state_file.py).

    running       a run is under way, or was killed
    interrupted   a run ended cleanly before the work was done
    consumed      every flight arrived or is a dead letter, and the checks held; no report yet
    finished      the report was made, too
"""

import shutil
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.state.state_file import StateFile

__all__ = ["CHART_NAME", "DemoDirectory", "DemoNote", "DemoState", "NoDemoDirectory"]

CHART_NAME: Final = "flights.png"

# What a demo leaves in its directory; `delete` touches nothing else.
_DIRECTORIES: Final = ("commitlog", "consumequeue", "config", "index", "mqstore")
_FILES: Final = ("checkpoint", "abort", "abort.bak", CHART_NAME, "lock")


class DemoState(Enum):
    """How far the demo came."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    CONSUMED = "consumed"
    FINISHED = "finished"


class DemoNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered. `limit`: how many flights were asked for, None for all."""

    state: DemoState = DemoState.RUNNING
    limit: int | None = None
    killed_runs: int = 0


class NoDemoDirectory(Exception):
    """The directory holds something else than a demo."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not empty and not the directory of a demo: give another --path")


class DemoDirectory:
    """One directory, which may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.chart_path = path / CHART_NAME
        self._file = self._note_file()
        self.note = self._file.load(_decode)
        """The note of the last run; None if there was none."""

    def _note_file(self) -> StateFile:
        return StateFile(OsFileSystem(), self.path / "mqstore" / "demo.json")

    def check(self) -> None:
        """Raise NoDemoDirectory if the directory holds something else."""
        if self.note is None and self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise NoDemoDirectory(self.path)

    def write(self, note: DemoNote) -> None:
        """Replace the note, durably."""
        self._file.save(msgspec.json.encode(note))
        self.note = note

    def delete(self) -> None:
        """Delete a demo and nothing else. Raises NoDemoDirectory; StoreLocked while a run is under way."""
        self.check()
        if self.note is None:
            return
        lock = OsFileSystem().lock(self.path / "lock")
        try:
            for name in _DIRECTORIES:
                shutil.rmtree(self.path / name, ignore_errors=True)
            for name in _FILES:
                (self.path / name).unlink(missing_ok=True)
        finally:
            lock.release()
        self._file = self._note_file()
        self.note = self._file.load(_decode)


def _decode(text: bytes) -> DemoNote:
    return msgspec.json.decode(text, type=DemoNote)
