"""The key environment: the LMDB files of a key index, opened once in a process and shared.

LMDB keeps its own files, so these are not behind the FileSystem seam: it reads through a map of its own and
syncs at each commit. It writes with pwrite and not through the map (`writemap=False`), and its lock file
is written in full before it is mapped, so a full disk is StoreFull and never a SIGBUS. Where the file system
keeps no reserved room even that is not enough, and LMDB goes without its lock file: then `_gate` keeps the
readers of this process away while a commit is under way, and one in another process, as LMDB does not know of
it, may see a torn page if it reads while two commits pass; that costs hits, and never adds one.

LMDB demands that a process open a folder once: a registry shares it. It changes the size of its map only
while no transaction is open, so reads go one at a time; they are short. The map grows by itself: what does
not fit is aborted, the map doubled, and the work done again. A reader in another process shares the lock
file, the one file that it writes to, unless it may not.

What the pairs mean: lmdb_runs.py, which hands in `Contents`. The only module that imports lmdb.
Threads: any read; writers exclude each other above. A forked child forgets them, and opens its own.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, cast

from mqstore.index.lmdb_files.lmdb_pages import find_damage
from mqstore.store.errors import StoreClosed, StoreError, StoreFull, StoreLocked
from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import raise_foreign, suppress_system_error
from mqstore.store.inherited import leave_to_parent

if TYPE_CHECKING:
    import lmdb

    Transaction: TypeAlias = lmdb.Transaction[memoryview]

__all__ = [
    "Contents",
    "KeyIndexDamaged",
    "KeyIndexUnusable",
    "LmdbEnvironment",
    "acquire_readable",
    "acquire_writable",
    "delete_files",
    "release",
    "release_if_held",
]

_T = TypeVar("_T")
_K = TypeVar("_K")
_FIRST_MAP_BYTES: Final = 1 << 24
# How long a fork waits for a transaction.
_FORK_WAIT_S: Final = 2.0
# LMDB's lock file with its default of 126 readers.
_LOCK_FILE_BYTES: Final = 8192


class KeyIndexDamaged(StoreError):
    """The files are not what LMDB wrote. Opening for writing begins them anew."""


class KeyIndexUnusable(StoreError):
    """LMDB cannot use the files now, for a reason that is not in them."""


class Contents(NamedTuple):
    """What is kept in an environment. is_usable: whether this version can go on with what is there.

    max_commit_bytes: what one commit writes at most, LMDB's own pages included.
    """

    is_usable: "Callable[[Transaction], bool]"
    max_commit_bytes: int


class LmdbEnvironment:
    """One LMDB environment of this process, shared by all who have its folder open."""

    # The environments of this process, by resolved path. Guarded by _open_guard.
    _opened: ClassVar[dict[Path, "LmdbEnvironment"]] = {}
    _open_guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, file_system: FileSystem, directory: Path, contents: Contents, *, read_only: bool
    ) -> None:
        self.path = directory.resolve()
        self._max_commit_bytes = contents.max_commit_bytes
        # Under _open_guard.
        self.has_writer = not read_only
        self.holders: set[object] = set()
        self._file_system = file_system
        self.process_id = os.getpid()
        # Held while a read is under way, or the map changes its size, or the files are closed.
        self._gate = threading.Lock()
        # Held while a write is under way; taken before `_gate`.
        self._writing = threading.Lock()
        self._is_closed = False
        # A snapshot and what was made of it (`read_kept`). Under _gate.
        self._kept: tuple[Transaction, object] | None = None
        self._environment = self._open(read_only=read_only)

    def _open(self, *, read_only: bool) -> "lmdb.Environment":
        import lmdb

        for name in ("data.mdb", "lock.mdb"):
            # LMDB would wait for the other end of a FIFO.
            with suppress_system_error(FileNotFoundError):
                self._file_system.read_at(self.path / name, 0, 0)
        self._refuse_damaged()
        self._has_lock_file = self._file_system.keeps_reserved_room(self.path)
        if not read_only and self._has_lock_file and not self._file_system.exists(self.path / "lock.mdb"):
            self._file_system.write(self.path / "lock.mdb", bytes(_LOCK_FILE_BYTES))
        open_here = partial(
            lmdb.open,
            str(self.path),
            map_size=_FIRST_MAP_BYTES,
            readonly=read_only,
            mode=0o666,
            readahead=False,
        )
        with self._translated():
            try:
                environment = open_here(lock=self._has_lock_file)
            except (lmdb.ReadonlyError, PermissionError):
                if not read_only:
                    raise
                # Nobody who may not write here can tell the writer what it reads. On a medium that is
                # read-only there is no writer; elsewhere a torn read costs hits, and never adds one.
                environment = open_here(lock=False)
            if not read_only:
                # Slots of readers that were killed would keep old pages from being used again.
                environment.reader_check()
        return environment

    def _refuse_damaged(self) -> None:
        """LMDB follows a wrong page number out of the file, which would be a SIGBUS."""
        try:
            damage = find_damage(self._file_system, self.path / "data.mdb")
        except OSError as error:
            raise_foreign(error)
            raise KeyIndexUnusable(f"the key index {self.path} cannot be read: {error}") from error
        if damage is not None:
            raise KeyIndexDamaged(
                f"the key index {self.path} is damaged: {damage} of data.mdb. The next open for writing "
                "begins it again from the commit log"
            )

    def become_writable(self) -> None:
        """Open anew for writing. Those who read go on with the new one."""
        self._open_again()
        self.has_writer = True

    def _open_again(self) -> None:
        with self._gate:
            self._forget_kept()
            self._environment.close()
            self._environment = self._open(read_only=False)

    def end_writing(self) -> None:
        """There is no writer in this process any more: from now on another may write."""
        self.has_writer = False
        with self._gate:
            self._forget_kept()

    def read(self, work: "Callable[[Transaction], _T]") -> _T:
        """What `work` makes of a snapshot. It must copy what it keeps."""
        import lmdb

        self._refuse_child()
        with self._gate, self._translated():
            if self._is_closed:
                raise StoreClosed(self.path)
            while True:
                try:
                    with self._environment.begin(buffers=True) as transaction:
                        return work(transaction)
                except lmdb.MapResizedError:
                    # A writer of another process has doubled its map: take over the size.
                    self._environment.set_mapsize(0)

    def read_kept(self, lend: "Callable[[Transaction], _K]", work: Callable[[_K], _T]) -> _T:
        """What `work` makes of what `lend` lends from a snapshot. It must copy what it keeps.

        The writer's process keeps what was lent until it writes: py-lmdb reads through each value that it
        hands out, which is much for a long run. `lend` is therefore always the same function.
        """
        if not self.has_writer:
            return self.read(lambda transaction: work(lend(transaction)))
        self._refuse_child()
        with self._gate, self._translated():
            if self._is_closed:
                raise StoreClosed(self.path)
            if self._kept is None:
                transaction = self._environment.begin(buffers=True)
                self._kept = (transaction, lend(transaction))
            try:
                return work(cast("_K", self._kept[1]))
            finally:
                # The writer may have gone since it was asked for: nobody would forget it.
                if not self.has_writer:
                    self._forget_kept()

    def _forget_kept(self) -> None:
        """End the snapshot that is kept, so that its pages can be used again. Under _gate."""
        if self._kept is not None:
            transaction, self._kept = self._kept[0], None
            transaction.abort()

    def write(self, work: "Callable[[Transaction], _T]") -> _T:
        """Do `work` in a transaction, as often as it takes until it fits the map. Raises StoreFull."""
        import lmdb

        self._refuse_child()
        with self._translated():
            while True:
                with self._gate:
                    self._forget_kept()
                try:
                    with (
                        self._writing,
                        self._readers_kept_away(),
                        self._environment.begin(write=True, buffers=True) as transaction,
                    ):
                        return work(transaction)
                except lmdb.MapFullError:
                    with self._gate:
                        self._forget_kept()
                        self._environment.set_mapsize(2 * self._environment.info()["map_size"])
                except lmdb.Error as error:
                    # A full disk may strike at LMDB's first page, and then it does nothing more.
                    if self._is_full(error):
                        self._open_again()
                    raise
                finally:
                    # Whoever asks from now on sees what was written.
                    with self._gate:
                        self._forget_kept()

    @contextmanager
    def _readers_kept_away(self) -> Iterator[None]:
        """Without a lock file LMDB does not know who reads."""
        if self._has_lock_file:
            yield
        else:
            with self._gate:
                self._forget_kept()
                yield

    def copy_to(self, directory: Path) -> None:
        """Write a snapshot into a new directory; queries wait meanwhile. Raises StoreFull."""
        self._refuse_child()
        self._file_system.make_directories(directory)
        with self._gate, self._translated():
            if self._is_closed:
                raise StoreClosed(self.path)
            self._environment.copy(str(directory))
        self._file_system.sync(directory / "data.mdb")
        self._file_system.sync_directory(directory)

    def pause(self) -> bool:
        """Wait until no transaction is open and let none begin, before a fork; False when that takes long."""
        if not self._writing.acquire(timeout=_FORK_WAIT_S):
            return False
        if not self._gate.acquire(timeout=_FORK_WAIT_S):
            self._writing.release()
            return False
        self._forget_kept()
        return True

    def resume(self) -> None:
        """The fork is over."""
        self._gate.release()
        self._writing.release()

    def close_in_child(self) -> None:
        """In a child of a process that was still: close the files, which leaves the parent's as they are."""
        self._is_closed = True
        self._environment.close()

    def close(self) -> None:
        """Close the files. Use `release`."""
        with self._gate:
            self._is_closed = True
            self._forget_kept()
            self._environment.close()

    def _refuse_child(self) -> None:
        if os.getpid() != self.process_id:
            raise StoreError(
                f"the key index {self.path} was opened by process {self.process_id}: "
                f"its forked child {os.getpid()} must open the store itself"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """LMDB's errors as ours."""
        import lmdb

        try:
            yield
        except lmdb.Error as error:
            if self._is_full(error):
                raise StoreFull(self.path, self._max_commit_bytes, str(error)) from error
            damages = (
                lmdb.CorruptedError,
                lmdb.InvalidError,
                lmdb.PageNotFoundError,
                lmdb.PanicError,
                lmdb.VersionMismatchError,
            )
            kind = KeyIndexDamaged if isinstance(error, damages) else KeyIndexUnusable
            raise kind(
                f"the key index {self.path} cannot be used: {error}. If that stays so, close the store and "
                "delete this folder: the next open builds it anew from the commit log"
            ) from error

    def _is_full(self, error: "lmdb.Error") -> bool:
        code = getattr(error, "code", 0)
        if code == errno.EIO:
            # What LMDB makes of a write that ended early, as the last one before a full disk does.
            return self._file_system.disk_usage(self.path).free_bytes < self._max_commit_bytes
        return code in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _Fork:
    """What a fork does with the environments that are open: no transaction is under way while it happens.

    A child that closes an environment clears the reader slots of snapshots it has inherited, which are the
    parent's, and waits without end for a transaction of a thread it does not have. One that is still it can
    close, so that it may open the files for itself.
    """

    # Held for the time of the fork, under `_open_guard`.
    _paused: ClassVar[list[LmdbEnvironment]] = []
    _is_guarded = False

    @classmethod
    def before(cls) -> None:
        """Wait for those who read, write, open or close; some seconds at most."""
        cls._is_guarded = LmdbEnvironment._open_guard.acquire(timeout=_FORK_WAIT_S)
        if cls._is_guarded:
            cls._paused = [each for each in LmdbEnvironment._opened.values() if each.pause()]

    @classmethod
    def after_in_parent(cls) -> None:
        """Go on."""
        for environment in cls._paused:
            environment.resume()
        cls._paused = []
        if cls._is_guarded:
            LmdbEnvironment._open_guard.release()

    @classmethod
    def after_in_child(cls) -> None:
        """Close what is still, leave the others alone for good, and begin without any."""
        leave_to_parent(LmdbEnvironment._opened)
        for environment in cls._paused:
            environment.close_in_child()
        cls._paused = []
        LmdbEnvironment._opened = {}
        LmdbEnvironment._open_guard = threading.Lock()


os.register_at_fork(
    before=_Fork.before, after_in_parent=_Fork.after_in_parent, after_in_child=_Fork.after_in_child
)


def acquire_writable(
    file_system: FileSystem, directory: Path, holder: object, contents: Contents
) -> LmdbEnvironment:
    """The environment for the one writer, made if need be. Raises StoreLocked, StoreFull.

    holder: who releases it with `release`, or with `release_if_held` if this raised (an interrupt included).
    """
    with LmdbEnvironment._open_guard:
        known = LmdbEnvironment._opened.get(directory.resolve())
        if known is not None:
            if known.has_writer:
                raise StoreLocked(directory, known.process_id)
            known.holders.add(holder)
            known.become_writable()
            return known
        file_system.make_directories(directory)
        return _register(_open_or_recreate(file_system, directory, contents), holder)


def _open_or_recreate(file_system: FileSystem, directory: Path, contents: Contents) -> LmdbEnvironment:
    environment = _open_usable(file_system, directory, contents, read_only=False)
    if environment is None:
        # Nothing is lost with it: all of it comes from the log.
        delete_files(file_system, directory)
        environment = LmdbEnvironment(file_system, directory, contents, read_only=False)
    file_system.sync_directory(directory)
    return environment


def _open_usable(
    file_system: FileSystem, directory: Path, contents: Contents, *, read_only: bool
) -> LmdbEnvironment | None:
    """The environment in a folder; None when it is damaged or of another version, or cannot be read."""
    environment = None
    try:
        environment = LmdbEnvironment(file_system, directory, contents, read_only=read_only)
        if environment.read(contents.is_usable):
            return environment
    except KeyIndexDamaged:
        pass
    except StoreError:
        # A reader has the log to fall back on.
        if not read_only:
            raise
    except BaseException:
        # An interrupt (Ctrl-C): LMDB opens a folder once.
        if environment is not None:
            environment.close()
        raise
    if environment is not None:
        environment.close()
    return None


def acquire_readable(
    file_system: FileSystem, directory: Path, holder: object, contents: Contents
) -> LmdbEnvironment | None:
    """The environment for a reader; None where there is none that it can use. holder: see above."""
    with LmdbEnvironment._open_guard:
        known = LmdbEnvironment._opened.get(directory.resolve())
        if known is not None:
            known.holders.add(holder)
            return known
        if not file_system.exists(directory / "data.mdb"):
            return None
        environment = _open_usable(file_system, directory, contents, read_only=True)
        return _register(environment, holder) if environment is not None else None


def _register(environment: LmdbEnvironment, holder: object) -> LmdbEnvironment:
    environment.holders.add(holder)
    LmdbEnvironment._opened[environment.path] = environment
    return environment


def release(environment: LmdbEnvironment, holder: object, *, read_only: bool) -> None:
    """Give back what `acquire_writable` or `acquire_readable` gave; the last one closes it.

    May be done again where an interrupt came in between: the holder is forgotten last.
    """
    with LmdbEnvironment._open_guard:
        if holder not in environment.holders:
            return
        if not read_only:
            environment.end_writing()
        if len(environment.holders) == 1:
            environment.close()
            LmdbEnvironment._opened.pop(environment.path, None)
        environment.holders.discard(holder)


def release_if_held(directory: Path, holder: object, *, read_only: bool) -> None:
    """As `release`, for one who may not have been given anything."""
    environment = LmdbEnvironment._opened.get(directory.resolve())
    if environment is not None:
        release(environment, holder, read_only=read_only)


def delete_files(file_system: FileSystem, directory: Path) -> None:
    """Remove what LMDB keeps in a folder that nobody has open."""
    for name in ("data.mdb", "lock.mdb"):
        file_system.delete(directory / name)
