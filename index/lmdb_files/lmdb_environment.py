"""The LMDB environment: the files of one folder, opened in this process: reads, writes, and a map that grows.

LMDB keeps its own files, so these are not behind the FileSystem seam: it reads through a map of its own and
syncs at each commit. It writes with pwrite and not through the map (`writemap=False`), and its lock file
is written in full before it is mapped, so a full disk is StoreFull and never a SIGBUS. Where the file system
keeps no reserved room, that is not enough, and LMDB runs without its lock file. Then `_gate` keeps the
readers of this process away during a commit. LMDB cannot see a reader in another process: it may read a torn
page if there are two commits during its read. Then it may miss hits, but it never returns a wrong one.

LMDB changes the size of its map only while no transaction is open, so reads go one at a time; they are short.
The map grows by itself: a write that does not fit is aborted, the map doubled, and the write repeated.
A reader in another process shares the lock file, the one file that it writes to, unless it may not.

A process opens a folder once: lmdb_registry.py makes, shares and closes environments, and handles forks.
What the pairs mean: index/keys/lmdb_runs.py, which passes in `Contents`. The only module that imports lmdb.
Threads: any thread reads; there is one writer at a time, which the owner ensures.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, TypeVarTuple, cast

from mqstore.index.lmdb_files.lmdb_pages import find_damage
from mqstore.index.lmdb_files.lmdb_values import LmdbValues, Pairs
from mqstore.store.errors import StoreClosed, StoreError, StoreFull
from mqstore.store.files.file_system import FileSystem
from mqstore.store.foreign_error import raise_foreign, suppress_system_error
from mqstore.store.threads.lock import Lock

if TYPE_CHECKING:
    import lmdb

    Transaction: TypeAlias = lmdb.Transaction[memoryview]

__all__ = ["FORK_WAIT_S", "Contents", "KeyIndexDamaged", "KeyIndexUnusable", "LmdbEnvironment"]

_T = TypeVar("_T")
_K = TypeVar("_K")
_Wanted = TypeVarTuple("_Wanted")
_FIRST_MAP_BYTES: Final = 1 << 24
# How long a fork waits for a transaction, and for the registry.
FORK_WAIT_S: Final = 2.0
# LMDB's lock file with its default of 126 readers.
_LOCK_FILE_BYTES: Final = 8192


class KeyIndexDamaged(StoreError):
    """The files are not what LMDB wrote. Opening for writing replaces them with empty ones."""


class KeyIndexUnusable(StoreError):
    """LMDB cannot use the files now, for a reason that is not in them."""


class Contents(NamedTuple):
    """What an environment holds. is_usable: whether this version can continue with the stored pairs.

    max_commit_bytes: what one commit writes at most, LMDB's own pages included.
    """

    is_usable: Callable[[Pairs], bool]
    max_commit_bytes: int


class LmdbEnvironment:
    """One LMDB environment of this process; all that have its folder open share it."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: Path,
        contents: Contents,
        *,
        read_only: bool,
        on_opened: "Callable[[LmdbEnvironment], None]",
    ) -> None:
        """on_opened: called with this as soon as the files are open. If it raises, they are closed."""
        self.path = directory.resolve()
        self._max_commit_bytes = contents.max_commit_bytes
        # Under the guard of the registry.
        self.has_writer = not read_only
        self.holders: set[object] = set()
        self._file_system = file_system
        self.process_id = os.getpid()
        # Set in a forked child. (To ask for the process's number takes a part of a search.)
        self.is_of_parent = False
        # Held while a read is under way, or the map changes its size, or the files are closed.
        self._gate = Lock()
        # Held while a write is under way; taken before `_gate`.
        self._writing = Lock()
        self._is_closed = False
        # A snapshot and what was made of it (`read_kept`). Under _gate.
        self._kept: tuple[Transaction, object] | None = None
        self._environment = self._open(read_only=read_only)
        # Under _gate.
        self._values = LmdbValues(file_system, self.path / "data.mdb")
        try:
            self._data_file = self._identify_data_file()
            on_opened(self)
        except BaseException:
            # An interrupt, too: LMDB would not open the folder a second time.
            self._environment.close()
            raise

    def _open(self, *, read_only: bool) -> "lmdb.Environment":
        import lmdb

        # Bound here: an import statement takes a part of a search.
        self._error_of_lmdb = lmdb.Error
        for name in ("data.mdb", "lock.mdb"):
            # LMDB would block on a FIFO, until its other end is opened.
            with suppress_system_error(FileNotFoundError):
                self._file_system.read_at(self.path / name, 0, 0)
        self._refuse_damaged()
        self._has_lock_file = self._file_system.keeps_reserved_room(self.path)
        if not read_only and self._has_lock_file and not self._file_system.exists(self.path / "lock.mdb"):
            self._file_system.write(self.path / "lock.mdb", bytes(_LOCK_FILE_BYTES))
        open_here = partial(
            lmdb.open,
            # py-lmdb takes a name that is not UTF-8 as bytes only.
            os.fsencode(self.path),
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
                # A reader that may not write here cannot register itself with the writer. On a read-only
                # medium there is no writer; elsewhere a torn read may miss hits, but adds none.
                environment = open_here(lock=False)
            try:
                if not read_only:
                    # Slots of readers that were killed would keep old pages from being used again.
                    environment.reader_check()
            except BaseException:
                environment.close()
                raise
        return environment

    def _refuse_damaged(self) -> None:
        """Raise if LMDB would follow a wrong page number out of the file: a SIGBUS."""
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

    def has_its_files(self) -> bool:
        """Whether the folder still has the files that were opened, and no others in their place."""
        return self._data_file is not None and self._identify_data_file() == self._data_file

    def _identify_data_file(self) -> tuple[int, int] | None:
        """Device and inode of data.mdb; None when there is no such file."""
        with suppress_system_error(FileNotFoundError, NotADirectoryError):
            status = (self.path / "data.mdb").stat()
            return status.st_dev, status.st_ino
        return None

    def become_writable(self) -> None:
        """Open the files again, for writing. Readers go on with them."""
        self._open_again()
        self.has_writer = True

    def _open_again(self) -> None:
        if not self.has_its_files():
            raise KeyIndexUnusable(
                f"the files of the key index {self.path} were deleted or replaced while they were open. "
                "Close the store and open it again"
            )
        with self._gate:
            self._forget_kept()
            self._environment.close()
            self._environment = self._open(read_only=False)

    def end_writing(self) -> None:
        """The writer is done: from now on another process may write."""
        self.has_writer = False
        with self._gate:
            self._forget_kept()

    def read(self, work: "Callable[[Transaction], _T]") -> _T:
        """Run `work` on a snapshot and return its result. It must copy what it keeps."""
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

    def read_pairs(self, work: Callable[[Pairs], _T]) -> _T:
        """Run `work` on all pairs of a snapshot and return its result. It must copy what it keeps."""
        return self.read(lambda transaction: work(self._pairs(transaction)))

    def _pairs(self, transaction: "Transaction") -> Pairs:
        """All pairs, valid as long as the transaction. No value is read, but if the file is in doubt."""
        pairs = self._values.pairs(transaction.id()) if self.has_its_files() else None
        return pairs if pairs is not None else list(transaction.cursor())

    def read_kept(
        self,
        take_views: Callable[[Pairs], _K],
        work: "Callable[[_K, *_Wanted], _T]",
        *wanted: *_Wanted,
    ) -> _T:
        """Run `work` on what `take_views` makes of the pairs of a snapshot, and on what else it wants.

        It must copy what it keeps.

        The writer's process keeps both until it writes; `take_views` is therefore always the same function.
        """
        if not self.has_writer:
            return self.read_pairs(lambda pairs: work(take_views(pairs), *wanted))
        if self.is_of_parent:
            self._refuse_child()
        # Not by `_translated`, whose generator takes longer than the search itself.
        try:
            with self._gate:
                if self._is_closed:
                    raise StoreClosed(self.path)
                if self._kept is None:
                    transaction = self._environment.begin(buffers=True)
                    self._kept = (transaction, take_views(self._pairs(transaction)))
                try:
                    return work(cast("_K", self._kept[1]), *wanted)
                finally:
                    # The writer may have ended since the check above; nothing else would end the snapshot.
                    if not self.has_writer:
                        self._forget_kept()
        except self._error_of_lmdb as error:
            raise self._translation_of(error) from error

    def _forget_kept(self) -> None:
        """End the kept snapshot, so that its pages can be reused. Under _gate."""
        if self._kept is not None:
            transaction, self._kept = self._kept[0], None
            transaction.abort()

    def write(self, work: "Callable[[Transaction], _T]") -> _T:
        """Run `work` in a transaction, again with a larger map until it fits. Raises StoreFull."""
        import lmdb

        self._refuse_child()
        with self._translated():
            while True:
                with self._gate:
                    self._forget_kept()
                try:
                    with self._writing:
                        if self._has_lock_file:
                            return self._write_once(work)
                        # Without that file LMDB does not see readers: they are kept out.
                        with self._gate:
                            self._forget_kept()
                            return self._write_once(work)
                except lmdb.MapFullError:
                    with self._gate:
                        self._forget_kept()
                        self._environment.set_mapsize(2 * self._environment.info()["map_size"])
                except lmdb.Error as error:
                    # If the disk was full when LMDB wrote its first page, this environment is unusable.
                    if self._is_full(error):
                        self._open_again()
                    raise
                finally:
                    # Later reads see what was written.
                    with self._gate:
                        self._forget_kept()

    def _write_once(self, work: "Callable[[Transaction], _T]") -> "_T":
        with self._environment.begin(write=True, buffers=True) as transaction:
            return work(transaction)

    def copy_to(self, directory: Path) -> None:
        """Write a snapshot into a new directory; queries wait meanwhile. Raises StoreFull."""
        self._refuse_child()
        self._file_system.make_directories(directory)
        with self._gate, self._translated():
            if self._is_closed:
                raise StoreClosed(self.path)
            # It takes bytes; the stub does not say so.
            self._environment.copy(os.fsencode(directory))  # type: ignore[arg-type]
        self._file_system.sync(directory / "data.mdb")
        self._file_system.sync_directory(directory)

    def pause(self) -> bool:
        """Before a fork: wait until no transaction is open, and let none begin; False after some seconds."""
        if not self._writing.acquire(timeout=FORK_WAIT_S):
            return False
        if not self._gate.acquire(timeout=FORK_WAIT_S):
            self._writing.release()
            return False
        self._forget_kept()
        return True

    def resume(self) -> None:
        """After the fork, in the parent: let transactions begin again."""
        self._gate.release()
        self._writing.release()

    def close_in_child(self) -> None:
        """In a child, if `pause` returned True before the fork: close the files. The parent's stay open."""
        self._is_closed = True
        self._environment.close()

    def close(self) -> None:
        """Close the files. For the registry's `release`."""
        with self._gate:
            self._is_closed = True
            self._forget_kept()
            self._environment.close()

    def _refuse_child(self) -> None:
        if self.is_of_parent:
            raise StoreError(
                f"the key index {self.path} was opened by process {self.process_id}: "
                f"its forked child {os.getpid()} must open the store itself"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise LMDB's errors as errors of the store."""
        import lmdb

        try:
            yield
        except lmdb.Error as error:
            raise self._translation_of(error) from error

    def _translation_of(self, error: "lmdb.Error") -> StoreError:
        import lmdb

        if self._is_full(error):
            return StoreFull(self.path, self._max_commit_bytes, str(error))
        damages = (
            lmdb.CorruptedError,
            lmdb.InvalidError,
            lmdb.PageNotFoundError,
            lmdb.PanicError,
            lmdb.VersionMismatchError,
        )
        kind = KeyIndexDamaged if isinstance(error, damages) else KeyIndexUnusable
        return kind(
            f"the key index {self.path} cannot be used: {error}. If that stays so, close the store and "
            "delete this folder: the next open rebuilds it from the commit log"
        )

    def _is_full(self, error: "lmdb.Error") -> bool:
        code = getattr(error, "code", 0)
        if code == errno.EIO:
            # LMDB's code for a short write, such as the last one before the disk is full.
            return self._file_system.disk_usage(self.path).free_bytes < self._max_commit_bytes
        return code in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
