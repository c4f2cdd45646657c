"""The registry of LMDB environments: each folder is opened once in a process, and shared.

LMDB demands that a process open a folder once. A writer and any number of readers acquire the environment of
a folder and release it; the last one closes it. Damaged files, or those of another version, are replaced by
empty ones for a writer; a reader gets None. A forked child inherits no environment, and opens its own.
If the files of an open environment were deleted or replaced, its holders go on with the old ones, and the
next that acquires the folder gets another environment.

It does not read or write (lmdb_environment.py). Threads: any; one guard around opening and closing.
"""

import os
from pathlib import Path
from typing import ClassVar

from mqstore.index.lmdb_files.lmdb_environment import (
    FORK_WAIT_S,
    Contents,
    KeyIndexDamaged,
    LmdbEnvironment,
)
from mqstore.store.errors import StoreError, StoreLocked
from mqstore.store.files.file_system import FileSystem
from mqstore.store.forked_child import leave_to_parent
from mqstore.store.threads.lock import Lock

__all__ = ["acquire_readable", "acquire_writable", "delete_files", "release", "release_if_held"]


class _Registry:
    """The environments that are open, and what a fork does with them.

    No transaction is under way while a process forks. A child that closes an environment clears the reader
    slots of inherited snapshots, which are the parent's, and waits forever for a transaction of a thread that
    it does not have. It can close a paused environment, and then open the files for itself.
    """

    # Guarded by `guard`. Of one folder at most one whose files are still there.
    opened: ClassVar[set[LmdbEnvironment]] = set()
    guard: ClassVar[Lock] = Lock()
    # Paused for the time of the fork, under `guard`.
    _paused: ClassVar[list[LmdbEnvironment]] = []
    _is_guarded = False

    @classmethod
    def before_fork(cls) -> None:
        """Wait for threads that read, write, open or close; some seconds at most."""
        cls._is_guarded = cls.guard.acquire(timeout=FORK_WAIT_S)
        if cls._is_guarded:
            cls._paused = [each for each in cls.opened if each.pause()]

    @classmethod
    def after_in_parent(cls) -> None:
        """Let transactions begin again."""
        for environment in cls._paused:
            environment.resume()
        cls._paused = []
        if cls._is_guarded:
            cls.guard.release()

    @classmethod
    def after_in_child(cls) -> None:
        """Close what was paused, never touch the others, and start without any."""
        leave_to_parent(cls.opened)
        for environment in cls.opened:
            environment.is_of_parent = True
        for environment in cls._paused:
            environment.close_in_child()
        cls._paused = []
        cls.opened = set()
        cls.guard = Lock()


os.register_at_fork(
    before=_Registry.before_fork,
    after_in_parent=_Registry.after_in_parent,
    after_in_child=_Registry.after_in_child,
)


def acquire_writable(
    file_system: FileSystem, directory: Path, holder: object, contents: Contents
) -> LmdbEnvironment:
    """The environment for the one writer; creates the files if necessary. Raises StoreLocked, StoreFull.

    holder: who releases it with `release`, or with `release_if_held` if this raised (an interrupt included).
    """
    with _Registry.guard:
        known = _find_opened(directory)
        if known is not None:
            if known.has_writer:
                raise StoreLocked(directory, known.process_id, is_own=True)
            known.holders.add(holder)
            known.become_writable()
            return known
        file_system.make_directories(directory)
        environment = _open_usable(file_system, directory, holder, contents, read_only=False)
        if environment is None:
            # Nothing is lost: all of it is derived from the log.
            delete_files(file_system, directory)
            environment = _open(file_system, directory, holder, contents, read_only=False)
        file_system.sync_directory(directory)
        return environment


def _open(
    file_system: FileSystem, directory: Path, holder: object, contents: Contents, *, read_only: bool
) -> LmdbEnvironment:
    """Open the files. From then on `holder` has them, also if an interrupt comes before this returns."""

    def register(environment: LmdbEnvironment) -> None:
        environment.holders.add(holder)
        _Registry.opened.add(environment)

    return LmdbEnvironment(file_system, directory, contents, read_only=read_only, on_opened=register)


def _open_usable(
    file_system: FileSystem, directory: Path, holder: object, contents: Contents, *, read_only: bool
) -> LmdbEnvironment | None:
    """The environment in a folder; None when it is damaged or of another version, or cannot be read."""
    environment = None
    try:
        environment = _open(file_system, directory, holder, contents, read_only=read_only)
        if environment.read_pairs(contents.is_usable):
            return environment
    except KeyIndexDamaged:
        pass
    except StoreError:
        # A reader has the log to fall back on.
        if not read_only:
            raise
    if environment is not None:
        environment.close()
        _Registry.opened.discard(environment)
    return None


def acquire_readable(
    file_system: FileSystem, directory: Path, holder: object, contents: Contents
) -> LmdbEnvironment | None:
    """The environment for a reader; None when there is none that it can use. holder: as above."""
    with _Registry.guard:
        known = _find_opened(directory)
        if known is not None:
            known.holders.add(holder)
            return known
        if not file_system.exists(directory / "data.mdb"):
            return None
        return _open_usable(file_system, directory, holder, contents, read_only=True)


def _find_opened(directory: Path) -> LmdbEnvironment | None:
    """The open environment of the files that the folder has now. Under the guard."""
    path = directory.resolve()
    return next((each for each in _Registry.opened if each.path == path and each.has_its_files()), None)


def release(environment: LmdbEnvironment, holder: object, *, read_only: bool) -> None:
    """Release what `acquire_writable` or `acquire_readable` returned; the last holder closes it.

    May be called again after an interrupt: the holder is removed last.
    """
    with _Registry.guard:
        if holder not in environment.holders:
            return
        if not read_only:
            environment.end_writing()
        if len(environment.holders) == 1:
            environment.close()
            _Registry.opened.discard(environment)
        environment.holders.discard(holder)


def release_if_held(holder: object, *, read_only: bool) -> None:
    """As `release`, for a holder that may have acquired nothing."""
    with _Registry.guard:
        held = _held_by(holder)
    for environment in held:
        release(environment, holder, read_only=read_only)


def _held_by(holder: object) -> list[LmdbEnvironment]:
    return [each for each in _Registry.opened if holder in each.holders]


def delete_files(file_system: FileSystem, directory: Path) -> None:
    """Delete LMDB's files in a folder that is not open."""
    for name in ("data.mdb", "lock.mdb"):
        file_system.delete(directory / name)
