"""A state file: one small file that is replaced as a whole, and the copy before it in `.bak`.

After a crash at any point, X.json or X.json.bak holds the last state that `save` returned for, or
the one that it was about to keep. A save makes these states one after the other:

    state        X.json      X.json.bak   X.json.tmp      what `load` takes
    1 before     old         older        -               X.json
    2 written    old         older        torn or new     X.json (a .tmp is never read)
    3 synced     old         older        new             X.json
    4 kept       -           old          new             X.json.bak
    5 renamed    new         old          -               X.json
    6 durable    as 5, once the directory is synced

The disk may remember the two renames (3 to 4, 4 to 5) in any combination until 6: with the second
alone it has X.json = new beside the older .bak. All of them leave a whole file, because what is
renamed to X.json was synced in 3, and what is renamed to .bak is the X.json of an earlier save.
An X.json that was found missing, empty or unreadable is *not* kept: then step 4 is left out, so that
the good .bak outlives it.

A reader takes X.json if it decodes, else .bak. If one of them exists and none decodes, that is an
error and never an empty start. Reading changes nothing on disk. Nothing is saved before a load has succeeded:
a state that was never read would be overwritten by an empty one (rocketmq issue 6881).

It does not know what the bytes mean (state_file_format.py), nor when to save (the file's owner).
Threads: any; one lock spans the snapshot and its save, so an older state never replaces a newer.
Durability: when `save` returns, its bytes survive a power cut.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mqstore.store.errors import StateFileCorrupt, StoreError
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.atomic_file import read_if_present, write_temporary
from mqstore.store.threads.lock import Lock

__all__ = ["StateFile"]

State = TypeVar("State")


class StateFile:
    """A file that is loaded once and then replaced as a whole, crash-safely."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")
        self._file_system = file_system
        self._lock = Lock()
        # Written under the lock. None: X.json is missing or not to be trusted, so it is not kept as .bak.
        self._current: bytes | None = None
        self._loaded = False
        self._refusal: Callable[[], StoreError] | None = None
        self.was_restored = False
        """Whether the last load had to take the state from `.bak`."""

    def __repr__(self) -> str:
        return f"<StateFile {str(self.path)!r} loaded={self._loaded} was_restored={self.was_restored}>"

    def load(self, decode: Callable[[bytes], State]) -> State | None:
        """The state of X.json, else of `.bak`, as `decode` understands it; None when neither exists.

        `decode` raises ValueError for bytes that are not a state. Raises StateFileCorrupt when a file
        exists but none can be understood.
        """
        with self._lock:
            text, state, reason = self._attempt(self.path, decode)
            self.was_restored = False
            if reason:
                _, state, backup_reason = self._attempt(self.backup_path, decode)
                self._refuse_if_lost(reason, backup_reason)
                self.was_restored = state is not None
            self._current = text
            self._loaded = True
            return state

    def save(self, text: bytes) -> bool:
        """Replace the state by `text`; durable on return. False when X.json holds just that already."""
        return self.save_snapshot(lambda: text)

    def save_snapshot(self, snapshot: Callable[[], bytes]) -> bool:
        """As `save`, with bytes that `snapshot` returns while no other save can run.

        Raises OSError or StoreFull; the state on disk is then the old one or the new one, whole. Raises
        the error of `refuse`.
        """
        with self._lock:
            self.check_open()
            if not self._loaded:
                raise AssertionError(f"{self.path} is saved before it was loaded: call load() first")
            text = snapshot()
            if text == self._current:
                return False
            self._replace(text)
            return True

    def delete(self) -> None:
        """Delete the file and its `.bak`, durably; it must be loaded again before a save."""
        with self._lock:
            self._loaded = False
            for path in (self.path, self.backup_path):
                self._file_system.delete(path)
            self._file_system.sync_directory(self.path.parent)

    def refuse(self, reason: Callable[[], StoreError]) -> None:
        """From now on refuse saves with the error that `reason` makes; waits for a save that is under way.

        For a store that releases its directory: afterwards the file may belong to another writer.
        """
        with self._lock:
            self._refusal = reason

    def check_open(self) -> None:
        """Raise the error of `refuse`, if that was called."""
        if self._refusal is not None:
            raise self._refusal()

    def _attempt(
        self, path: Path, decode: Callable[[bytes], State]
    ) -> tuple[bytes | None, State | None, str]:
        """(bytes, state, "") of a good file, else (None, None, why not)."""
        text = read_if_present(self._file_system, path)
        if text is None:
            return None, None, _MISSING
        if not text:
            return None, None, f"{path.name} is empty"
        try:
            return text, decode(text), ""
        except ValueError as error:
            return None, None, f"{path.name}: {error}"

    def _refuse_if_lost(self, reason: str, backup_reason: str) -> None:
        """Raise unless the backup was good, or there never was a state."""
        if not backup_reason or reason == backup_reason == _MISSING:
            return
        raise StateFileCorrupt(
            self.path,
            "; ".join(
                f"{path.name} is missing" if why == _MISSING else why
                for path, why in ((self.path, reason), (self.backup_path, backup_reason))
            ),
        )

    def _replace(self, text: bytes) -> None:
        """States 2 to 6 of the header."""
        file_system = self._file_system
        file_system.make_directories(self.path.parent)
        temporary = write_temporary(file_system, self.path, text)
        if self._current is not None:
            # Once it is renamed, X.json is gone, and must not be renamed again if a later step fails.
            self._current = None
            file_system.rename(self.path, self.backup_path)
        file_system.rename(temporary, self.path)
        file_system.sync_directory(self.path.parent)
        # Last: until its name is durable, a save of the same state must write it again.
        self._current = text


_MISSING = "missing"
