"""The key index on disk: which messages have a key. LMDB, at `<root>/mqstore/keys/`; a broker ignores it.

Keys of new records gather in memory (key_buffer.py) and are stored as sorted runs (key_run.py), a run being
one LMDB value: the whole batch in one transaction together with how far the index reaches. (One LMDB pair
for each key was measured: inserting random hashes rewrites a page for nearly each of them, 18 times slower at
four million keys and falling, and the GIL changes hands at each.) Bytes: key_index_format.py.

Rebuilt from the commit log: delete the folder, and the next open begins at the first record. Entries carry no
checksum: every answer is compared with its record.

After a crash LMDB holds the last commit or the one before, whole, power cut included: it is opened with
its defaults, where a commit syncs its pages and then the page that refers to them. (`sync=False` would lose
that order, hence the file; `metasync=False` only the last commit, but at one commit in 65,536 keys or
a second there is nothing to gain.) So there is one rule: go on where the stored state ends. What the log
lost in the same crash is cut off at opening, and an index whose last record is not the log's is begun anew.

Not behind the FileSystem seam: LMDB maps and syncs its file itself. It writes with pwrite, not through the
map (`writemap=False`), and its lock file is written in full before it is mapped, so a full disk is
StoreFull and never a SIGBUS. Crash tests see this folder as it is; a store in memory has MemoryKeyIndex.

Readers of another process share LMDB's lock file, the one file that they write to, unless they may not; keys
that the writer has not stored yet they take from the log into memory. One process opens a folder once,
which LMDB demands, and shares it. A forked child cannot use what it inherits; if it opens the store for
reading, it takes all keys from the log.
Threads: `_lock` orders those who absorb, store, cut and settle; a query holds it only to take the runs.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt

from mqstore.index.key_buffer import KeyBuffer
from mqstore.index.key_index_format import (
    ENTRY_BYTES,
    STATE_KEY,
    KeyIndexState,
    decode_run_header,
    decode_state,
    encode_run_key,
    encode_state,
    is_run_key,
    run_key_offset,
)
from mqstore.index.key_lookup import END_OF_TIME_MS, key_hash, message_with_key
from mqstore.index.key_run import MAX_RUN_ENTRIES, KeyRun, merge_count
from mqstore.store.commit_log import CommitLog, LogChunk
from mqstore.store.errors import StoreClosed, StoreError, StoreFull, StoreLocked, StoreReadOnly
from mqstore.store.file_system import FileSystem
from mqstore.store.os_file_system import OsFileSystem
from mqstore.store.stored_message import StoredMessage

if TYPE_CHECKING:
    import lmdb

__all__ = ["LmdbKeyIndex"]

_T = TypeVar("_T")
_END_OF_LOG: Final = 2**63 - 1
# Entries that wait in memory before they are stored without being asked to.
_COMMIT_ENTRIES: Final = 1 << 16
_FIRST_MAP_BYTES: Final = 1 << 24
# What one commit writes at most, generously: a run of the greatest length, and LMDB's own pages.
_MAX_COMMIT_BYTES: Final = 2 * ENTRY_BYTES * MAX_RUN_ENTRIES
# LMDB's lock file with its default of 126 readers.
_LOCK_FILE_BYTES: Final = 8192


class LmdbKeyIndex:
    """The keys of one store, in LMDB; see key_lookup.py for what the methods promise."""

    def __init__(
        self,
        directory: Path,
        commit_log: CommitLog,
        *,
        read_only: bool = False,
        file_system: FileSystem | None = None,
    ) -> None:
        """Open or create the index of a log whose end is known (recovery is done).

        What is damaged or of another version is begun anew; a reader then, as where there is no index, takes
        all keys from the log into memory. `file_system` must be one of real files.
        Raises StoreFull, StoreLocked (a second writer in this process).
        """
        self._file_system = file_system or OsFileSystem()
        self._directory = directory
        self._commit_log = commit_log
        self._read_only = read_only
        self._lock = threading.Lock()
        # All of these under _lock. No environment: a reader that found none, or closed.
        acquire = _acquire_readable if read_only else _acquire_writable
        self._environment = acquire(self._file_system, directory)
        self._is_closed = False
        self._buffer = KeyBuffer()
        self._stored = (
            self._environment.read(_read_state) if self._environment is not None else KeyIndexState(0)
        )
        self._state = self._stored
        if not read_only:
            self._agree_with_log()

    def _agree_with_log(self) -> None:
        """Cut off what the log does not hold (any more); begin anew when it is another log."""
        log, state = self._commit_log, self._stored
        if log.min_offset <= state.anchor_offset < log.max_offset:
            message = log.look_message_by_offset(state.anchor_offset)
            if message is None or message.store_timestamp != state.anchor_store_timestamp:
                self.truncate(0)
        if self._state.dispatched_offset > log.max_offset:
            self.truncate(log.max_offset)

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which keys have been taken in."""
        return max(self._state.dispatched_offset, self._commit_log.min_offset)

    @property
    def stored_offset(self) -> int:
        """Physical offset up to which keys are durable."""
        return self._stored.dispatched_offset

    @property
    def entry_count(self) -> int:
        """Entries held, those of deleted records that still take room included."""
        stored = self._environment.read(_count_entries) if self._environment is not None else 0
        return stored + self._buffer.entry_count

    # -- taking in ------------------------------------------------------------------------------------

    def absorb(self, chunk: LogChunk) -> int:
        with self._lock:
            self._check_open()
            if self._read_only:
                self._follow_writer()
            elif self._buffer.entry_count >= _COMMIT_ENTRIES:
                self._commit()
            taken = self._buffer.take(chunk, self._state.dispatched_offset)
            reached = chunk.base_offset + taken.consumed_bytes
            if taken.consumed_bytes and reached > self._state.dispatched_offset:
                self._state = self._state.advanced(reached, taken.last_offset, taken.last_store_timestamp)
            return taken.consumed_bytes

    def _follow_writer(self) -> None:
        """Reading only: leave to the stored runs what the writer has stored by now."""
        if self._environment is None:
            return
        self._stored = self._environment.read(_read_state)
        self._buffer.keep_between(self._stored.dispatched_offset, _END_OF_LOG)
        self._state = max(self._state, self._stored)

    def flush(self) -> None:
        with self._lock:
            self._check_open()
            if not self._read_only:
                self._commit()

    def _commit(self) -> None:
        """Store what waits in memory, durably. Raises StoreFull; then everything is as before."""
        runs, state = self._buffer.runs(), self._state
        if state == self._stored:
            return
        if sum(map(len, runs)) <= MAX_RUN_ENTRIES:
            runs = (KeyRun.merged(runs),) if runs else ()

        def store(transaction: "lmdb.Transaction[memoryview]") -> None:
            for run in runs:
                _store_run(transaction, run)
            transaction.put(STATE_KEY, encode_state(state))

        self._writer.write(store)
        self._buffer.clear()
        self._stored = state

    # -- asking ---------------------------------------------------------------------------------------

    def query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS, max_num: int = 32
    ) -> list[StoredMessage]:
        code = key_hash(topic, key)
        found: list[StoredMessage] = []
        below_offset, limit = _END_OF_LOG, max_num
        is_more = max_num > 0
        while is_more:
            offsets = self._newest_offsets(code, begin_ms, end_ms, below_offset, limit)
            for offset in offsets:
                message = message_with_key(self._commit_log, offset, topic, key, begin_ms, end_ms)
                if message is not None:
                    found.append(message)
            # If another key has the same hash, another round: further back, in larger steps.
            is_more = len(found) < max_num and len(offsets) == limit
            if is_more:
                below_offset, limit = offsets[-1], 2 * limit
        return found[:max_num][::-1]

    def _newest_offsets(
        self, code: int, begin_ms: int, end_ms: int, below_offset: int, limit: int
    ) -> list[int]:
        """Up to `limit` offsets of records with this hash, the newest first."""
        # The memory first: what is stored in between is then seen twice, and not missed.
        with self._lock:
            self._check_open()
            runs = self._buffer.runs()
        wanted = (code, begin_ms, end_ms, self._commit_log.min_offset, below_offset)
        pieces = [run.offsets(*wanted) for run in runs]
        if self._environment is not None:
            pieces += self._environment.read(lambda transaction: _stored_offsets(transaction, *wanted, limit))
        if not pieces:
            return []
        offsets: list[int] = np.unique(np.concatenate(pieces))[-limit:].tolist()
        return offsets[::-1]

    # -- forgetting -----------------------------------------------------------------------------------

    def truncate(self, physical_offset: int) -> None:
        with self._lock:
            self._check_open()
            cut = KeyIndexState(physical_offset)
            if self._stored.dispatched_offset > physical_offset and not self._read_only:
                self._writer.write(lambda transaction: _cut(transaction, cut))
                self._stored = cut
            self._buffer.keep_between(0, physical_offset)
            if self._state.dispatched_offset > physical_offset:
                self._state = cut

    def delete_expired(self, min_physical_offset: int) -> None:
        with self._lock:
            self._check_open()
            if self._writer.read(lambda transaction: _oldest_run_ends(transaction) < min_physical_offset):
                self._writer.write(lambda transaction: _drop_runs(transaction, min_physical_offset))

    @property
    def _writer(self) -> "_Environment":
        """The environment, for writing. Raises StoreReadOnly."""
        if self._read_only:
            raise StoreReadOnly(self._directory)
        assert self._environment is not None
        return self._environment

    # -- closing --------------------------------------------------------------------------------------

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            try:
                if not self._read_only:
                    # On a full disk the index stays behind the log, and catches up after the next open.
                    with suppress(StoreFull):
                        self._commit()
            finally:
                self._let_go()

    def destroy(self) -> None:
        with self._lock:
            if self._read_only:
                raise StoreReadOnly(self._directory)
            if not self._is_closed:
                self._let_go()
            _delete_files(self._file_system, self._directory)
            self._file_system.delete_directory(self._directory)

    def _let_go(self) -> None:
        self._is_closed = True
        self._buffer.clear()
        if self._environment is not None:
            _release(self._environment, writable=not self._read_only)
            self._environment = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(self._directory)

    def __repr__(self) -> str:
        return f"LmdbKeyIndex({str(self._directory)!r}, dispatched_offset={self._state.dispatched_offset})"


# -- what is done inside a transaction ------------------------------------------------------------------


def _read_state(transaction: "lmdb.Transaction[memoryview]") -> KeyIndexState:
    value = transaction.get(STATE_KEY)
    return (decode_state(value) if value is not None else None) or KeyIndexState(0)


def _newest_runs(transaction: "lmdb.Transaction[memoryview]") -> Iterator[tuple[memoryview, memoryview]]:
    """Key and value of each run, the newest first; lent until the transaction ends or writes."""
    cursor = transaction.cursor()
    if cursor.last():
        for key, value in cursor.iterprev():
            if not is_run_key(key):
                return
            yield key, value


def _count_entries(transaction: "lmdb.Transaction[memoryview]") -> int:
    return sum(len(KeyRun.decode(value)) for _, value in _newest_runs(transaction))


def _stored_offsets(
    transaction: "lmdb.Transaction[memoryview]",
    code: int,
    begin_ms: int,
    end_ms: int,
    least_offset: int,
    below_offset: int,
    limit: int,
) -> list[npt.NDArray[np.int64]]:
    """Offsets from the stored runs, at least the newest `limit`."""
    pieces, count = [], 0
    for key, value in _newest_runs(transaction):
        header = decode_run_header(value)
        if header.newest_offset < least_offset or count >= limit:
            break
        if (
            run_key_offset(key) < below_offset
            and header.least_store_timestamp <= end_ms
            and header.greatest_store_timestamp >= begin_ms
        ):
            offsets = KeyRun.decode(value).offsets(code, begin_ms, end_ms, least_offset, below_offset)
            pieces.append(offsets)
            count += len(offsets)
    return pieces


def _store_run(transaction: "lmdb.Transaction[memoryview]", run: KeyRun) -> None:
    """Add the newest run, merged with older ones by the rule of `merge_count`."""
    stored = [(bytes(key), KeyRun.decode(value)) for key, value in _newest_runs(transaction)]
    joining = stored[: merge_count((len(older) for _, older in stored), len(run))]
    merged = KeyRun.merged([*(older for _, older in reversed(joining)), run])
    for key, _ in joining:
        transaction.delete(key)
    transaction.put(encode_run_key(merged.oldest_offset), merged.encode())


def _cut(transaction: "lmdb.Transaction[memoryview]", state: KeyIndexState) -> None:
    """Forget all records at or above the offset of `state`."""
    end_offset = state.dispatched_offset
    kept: KeyRun | None = None
    doomed: list[bytes] = []
    for run_key, value in _newest_runs(transaction):
        if decode_run_header(value).newest_offset < end_offset:
            break
        doomed.append(bytes(run_key))
        # Of the runs that reach beyond, the oldest alone can have entries below.
        kept = KeyRun.decode(value).between(0, end_offset)
    for doomed_key in doomed:
        transaction.delete(doomed_key)
    if kept is not None and len(kept):
        transaction.put(encode_run_key(kept.oldest_offset), kept.encode())
    transaction.put(STATE_KEY, encode_state(state))


def _oldest_run_ends(transaction: "lmdb.Transaction[memoryview]") -> int:
    """Physical offset of the newest record in the oldest run."""
    cursor = transaction.cursor()
    if not cursor.set_range(encode_run_key(0)):
        return _END_OF_LOG
    return decode_run_header(cursor.value()).newest_offset


def _drop_runs(transaction: "lmdb.Transaction[memoryview]", min_physical_offset: int) -> None:
    """Remove the runs all of whose records lie below `min_physical_offset`."""
    cursor = transaction.cursor()
    while (
        cursor.set_range(encode_run_key(0))
        and decode_run_header(cursor.value()).newest_offset < min_physical_offset
    ):
        cursor.delete()


# -- the environment ------------------------------------------------------------------------------------


class _KeyIndexDamaged(StoreError):
    """The files are not what LMDB wrote. Opening for writing begins them anew."""


class _Environment:
    """One LMDB environment of this process, shared by all who have its folder open.

    LMDB may change the size of its map only while no transaction of the process is open, so reads go one
    at a time, under `_gate`; they are short. Writers exclude each other above.
    """

    # The environments of this process, by resolved path. Guarded by _open_guard.
    _opened: ClassVar[dict[Path, "_Environment"]] = {}
    _open_guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, file_system: FileSystem, directory: Path, *, writable: bool) -> None:
        self.path = directory.resolve()
        # Under _open_guard.
        self.has_writer = writable
        self.holder_count = 1
        self._file_system = file_system
        self.process_id = os.getpid()
        self._gate = threading.Lock()
        self._environment = self._open(writable=writable)

    def _open(self, *, writable: bool) -> "lmdb.Environment":
        import lmdb

        if writable and not self._file_system.exists(self.path / "lock.mdb"):
            self._file_system.write(self.path / "lock.mdb", bytes(_LOCK_FILE_BYTES))
        open_here = partial(
            lmdb.open,
            str(self.path),
            map_size=_FIRST_MAP_BYTES,
            readonly=not writable,
            mode=0o644,
            readahead=False,
        )
        with self._translated():
            try:
                environment = open_here()
            except (lmdb.ReadonlyError, PermissionError):
                if writable:
                    raise
                # Nobody who may not write here can tell the writer what it reads. On a medium that is
                # read-only there is no writer; elsewhere a torn read costs hits, and never adds one.
                environment = open_here(lock=False)
            if writable:
                # Slots of readers that were killed would keep old pages from being used again.
                environment.reader_check()
        return environment

    def become_writable(self) -> None:
        """Open anew for writing. Those who read go on with the new one."""
        with self._gate:
            self._environment.close()
            self._environment = self._open(writable=True)
        self.has_writer = True

    def read(self, work: "Callable[[lmdb.Transaction[memoryview]], _T]") -> _T:
        """What `work` makes of a snapshot. It must copy what it keeps."""
        import lmdb

        self._refuse_child()
        with self._gate, self._translated():
            while True:
                try:
                    with self._environment.begin(buffers=True) as transaction:
                        return work(transaction)
                except lmdb.MapResizedError:
                    # A writer of another process has doubled its map: take over the size.
                    self._environment.set_mapsize(0)

    def write(self, work: "Callable[[lmdb.Transaction[memoryview]], _T]") -> _T:
        """Do `work` in a transaction, as often as it takes until it fits the map. Raises StoreFull."""
        import lmdb

        self._refuse_child()
        with self._translated():
            while True:
                try:
                    with self._environment.begin(write=True, buffers=True) as transaction:
                        return work(transaction)
                except lmdb.MapFullError:
                    with self._gate:
                        self._environment.set_mapsize(2 * self._environment.info()["map_size"])

    def is_whole(self) -> bool:
        """Whether the file is as long as it says. To touch a page that is not there would be a SIGBUS."""
        with self._gate:
            wanted_bytes = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        sizes = {entry.name: entry.size_bytes for entry in self._file_system.list(self.path)}
        return sizes["data.mdb"] >= wanted_bytes

    def close(self) -> None:
        with self._gate:
            self._environment.close()

    def _refuse_child(self) -> None:
        if os.getpid() != self.process_id:
            raise StoreError(
                f"the key index {self.path} was opened by process {self.process_id}: "
                f"its forked child {os.getpid()} must open the store itself, read-only"
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """LMDB's errors as ours."""
        import lmdb

        try:
            yield
        except lmdb.Error as error:
            if self._is_full(error):
                raise StoreFull(self.path, _MAX_COMMIT_BYTES, str(error)) from error
            damages = (
                lmdb.CorruptedError,
                lmdb.InvalidError,
                lmdb.PageNotFoundError,
                lmdb.PanicError,
                lmdb.VersionMismatchError,
            )
            kind = _KeyIndexDamaged if isinstance(error, damages) else StoreError
            raise kind(
                f"the key index {self.path} cannot be used: {error}. If that stays so, close the store and delete "
                "this folder: the next open builds it anew from the commit log"
            ) from error

    def _is_full(self, error: "lmdb.Error") -> bool:
        code = getattr(error, "code", 0)
        if code == errno.EIO:
            # What LMDB makes of a write that ended early, as the last one before a full disk does.
            return self._file_system.disk_usage(self.path).free_bytes < _MAX_COMMIT_BYTES
        return code in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def _acquire_writable(file_system: FileSystem, directory: Path) -> _Environment:
    """The environment for the one writer, made if need be. Raises StoreLocked, StoreFull."""
    with _Environment._open_guard:
        known = _Environment._opened.get(directory.resolve())
        if known is not None:
            if known.has_writer or known.process_id != os.getpid():
                raise StoreLocked(directory, known.process_id)
            known.become_writable()
            known.holder_count += 1
            return known
        file_system.make_directories(directory)
        return _register(_open_or_begin_anew(file_system, directory))


def _open_or_begin_anew(file_system: FileSystem, directory: Path) -> _Environment:
    environment = _open_usable(file_system, directory, writable=True)
    if environment is None:
        # Nothing is lost with it: all of it comes from the log.
        _delete_files(file_system, directory)
        environment = _Environment(file_system, directory, writable=True)
    file_system.sync_directory(directory)
    return environment


def _open_usable(file_system: FileSystem, directory: Path, *, writable: bool) -> _Environment | None:
    """The environment in a folder; None when it is damaged or of another version."""
    environment = None
    try:
        environment = _Environment(file_system, directory, writable=writable)
        if environment.is_whole() and environment.read(_is_usable):
            return environment
    except _KeyIndexDamaged:
        pass
    if environment is not None:
        environment.close()
    return None


def _acquire_readable(file_system: FileSystem, directory: Path) -> _Environment | None:
    """The environment for a reader; None where there is none that it can use."""
    with _Environment._open_guard:
        known = _Environment._opened.get(directory.resolve())
        if known is not None and known.process_id != os.getpid():
            return None
        if known is not None:
            known.holder_count += 1
            return known
        if not file_system.exists(directory / "data.mdb"):
            return None
        environment = _open_usable(file_system, directory, writable=False)
        return _register(environment) if environment is not None else None


def _is_usable(transaction: "lmdb.Transaction[memoryview]") -> bool:
    """Whether the state is of this version, or nothing has been stored at all."""
    value = transaction.get(STATE_KEY)
    if value is None:
        return transaction.stat()["entries"] == 0
    return decode_state(value) is not None


def _register(environment: _Environment) -> _Environment:
    _Environment._opened[environment.path] = environment
    return environment


def _release(environment: _Environment, *, writable: bool) -> None:
    with _Environment._open_guard:
        environment.holder_count -= 1
        if writable:
            environment.has_writer = False
        if environment.holder_count == 0:
            del _Environment._opened[environment.path]
            environment.close()


def _delete_files(file_system: FileSystem, directory: Path) -> None:
    for name in ("data.mdb", "lock.mdb"):
        file_system.delete(directory / name)
