"""The key index on disk: which messages have a key. LMDB, at `<root>/mqstore/keys/`; a broker ignores it.

Keys of new records gather in memory (key_buffer.py) and are stored as sorted runs (sorted_run.py), each one
LMDB value: a whole batch in one transaction, together with how far the index reaches. (With one LMDB pair for
each key, each random hash rewrites nearly a whole page and releases the GIL once: measured 18 times slower at
four million keys, and slower still with more.) Bytes: key_index_format.py.

Rebuilt from the commit log: delete the folder, and the next open begins at the first record. Entries carry no
checksum: every answer is compared with its record.

States that a crash, a power cut included, can leave: LMDB holds the last commit or the one before, whole,
for it is opened with its defaults, where a commit syncs its pages and then the page that refers to them.
(`sync=False` would give up that order, and with it the file. `metasync=False` would give up the last commit;
at one commit in 65,536 keys or in a second there is nothing to gain.) The rule: go on where the stored
state ends. What the log lost in the same crash is cut off at opening. An index whose last record is not the
log's (another program truncated the log and appended) is rebuilt from empty, as is a damaged one.

A reader in another process takes keys that the writer has not stored yet from the log into its memory.
It does not walk the log (dispatcher.py), open files (lmdb_registry.py) or look into LMDB (lmdb_runs.py).
Crash tests see its folder as it is; a store in memory has MemoryKeyIndex (memory_key_index.py).
Threads: `_lock` orders those who absorb, store and cut; a query holds it only to take the runs in memory.
Durability: what was absorbed before `flush` or `close` returned.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import numpy as np

from mqstore.index.keys import lmdb_runs
from mqstore.index.keys.key_buffer import KeyBuffer
from mqstore.index.keys.key_index_format import KeyIndexState
from mqstore.index.keys.run_table import DIRECT_SEARCH, RunTable
from mqstore.index.keys.sorted_run import SortedRun
from mqstore.index.lmdb_files.lmdb_environment import LmdbEnvironment
from mqstore.index.lmdb_files.lmdb_registry import (
    acquire_readable,
    acquire_writable,
    delete_files,
    release,
    release_if_held,
)
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.errors import StoreClosed, StoreFull, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store.log.commit_log import CommitLog
from mqstore.store.log.log_offsets import END_OF_LOG
from mqstore.store.log.log_reader import LogChunk
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.threads.lock import Lock

__all__ = ["LmdbKeyIndex"]

# Entries in memory at which `absorb` stores them.
_COMMIT_ENTRIES: Final = 1 << 16


class LmdbKeyIndex:
    """The keys of one store, in LMDB; see key_index.py for what the methods promise."""

    def __init__(
        self,
        directory: Path,
        commit_log: CommitLog,
        *,
        read_only: bool = False,
        file_system: FileSystem | None = None,
    ) -> None:
        """Open or create the index of a log whose end is known (recovery is done).

        A damaged index, or one of another version, is replaced by an empty one. A reader then takes all keys
        from the log into memory, as it does where there is no index. `file_system` must be one of real files.
        Raises StoreFull, StoreLocked (a second writer in this process).
        """
        self._file_system = file_system or OsFileSystem()
        self._directory = directory
        self._commit_log = commit_log
        self._files = commit_log.files
        self._read_only = read_only
        self._lock = Lock()
        # All of these under _lock. No environment: a reader that found none, or closed.
        self._environment: LmdbEnvironment | None = None
        self._is_closed = False
        # The runs that were in memory at the last query, and their table.
        self._table_of: tuple[SortedRun, ...] = ()
        self._table: RunTable | None = None
        # Bound once: an import statement takes as long as a search.
        self._has_key: Callable[..., bool] | None = None
        self._direct = commit_log.direct_reader
        self._query_directly: Callable[..., list[StoredMessage] | None] | None = (
            DIRECT_SEARCH.query if DIRECT_SEARCH is not None and self._direct is not None else None
        )
        try:
            acquire = acquire_readable if read_only else acquire_writable
            self._environment = acquire(self._file_system, directory, self, lmdb_runs.CONTENTS)
            self._stored = (
                self._environment.read(lmdb_runs.read_state)
                if self._environment is not None
                else KeyIndexState(0)
            )
            self._buffer = KeyBuffer(self._stored)
            if not read_only:
                self._agree_with_log()
        except BaseException:
            release_if_held(self, read_only=read_only)
            raise

    def _agree_with_log(self) -> None:
        """Drops entries beyond the end of the log; starts from empty if the log is a different one."""
        log, state = self._commit_log, self._stored
        if log.min_offset <= state.anchor_offset < log.max_offset:
            message = log.look_message_by_offset(state.anchor_offset)
            if message is None or message.store_timestamp != state.anchor_store_timestamp:
                self.truncate(0)
        if self._buffer.state.dispatched_offset > log.max_offset:
            self.truncate(log.max_offset)

    @property
    def dispatched_offset(self) -> int:
        """Physical offset up to which keys have been taken in."""
        return max(self._buffer.state.dispatched_offset, self._commit_log.min_offset)

    @property
    def stored_offset(self) -> int:
        """Physical offset up to which keys are durable."""
        return self._stored.dispatched_offset

    @property
    def entry_count(self) -> int:
        """Entries held, those of deleted records that still take room included."""
        with self._lock:
            stored = (
                self._environment.read_pairs(lmdb_runs.count_entries) if self._environment is not None else 0
            )
            return stored + self._buffer.entry_count

    # -- taking in ------------------------------------------------------------------------------------

    def absorb(self, chunk: LogChunk) -> int:
        with self._lock:
            self._check_open()
            if self._read_only:
                self._follow_writer()
            elif self._buffer.entry_count >= _COMMIT_ENTRIES:
                self._commit()
            return self._buffer.take(chunk)

    def _follow_writer(self) -> None:
        """Reading only: drop from memory what the writer has stored by now."""
        if self._environment is None:
            return
        self._stored = stored = self._environment.read(lmdb_runs.read_state)
        self._buffer.keep_between(stored.dispatched_offset, END_OF_LOG, max(self._buffer.state, stored))

    def flush(self) -> None:
        with self._lock:
            self._check_open()
            if not self._read_only:
                self._commit()

    def _commit(self) -> None:
        """Store what waits in memory, durably. Raises StoreFull; then everything is as before."""
        runs, state = self._buffer.runs(), self._buffer.state
        if state == self._stored:
            return
        # After an interrupt (Ctrl-C) behind this, all of it is stored once more, which changes nothing.
        self._writer.write(lambda transaction: lmdb_runs.store(transaction, runs, state))
        self._buffer.clear()
        self._stored = state

    # -- asking ---------------------------------------------------------------------------------------

    def query(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = END_OF_TIME_MS, max_num: int = 32
    ) -> list[StoredMessage]:
        if self._query_directly is not None:
            answer = self._query_directly(self, topic, key, begin_ms, end_ms, max_num)
            if answer is not None:
                return answer
        try:
            topic_bytes, key_bytes = topic.encode(), key.encode()
        except (UnicodeEncodeError, AttributeError):
            # A lone surrogate, or no text at all: nothing that is stored has it.
            return []
        text, topic_length = b"%b#%b" % (topic_bytes, key_bytes), len(topic_bytes)
        if not -END_OF_TIME_MS <= begin_ms <= end_ms <= END_OF_TIME_MS or max_num > END_OF_LOG:
            # A caller may name times that no record can have.
            begin_ms = min(max(begin_ms, -END_OF_TIME_MS), END_OF_TIME_MS)
            end_ms = min(max(end_ms, -END_OF_TIME_MS), END_OF_TIME_MS)
            max_num = min(max_num, END_OF_LOG)
        found: list[StoredMessage] = []
        below_offset, limit = END_OF_LOG, max_num
        is_more = max_num > 0
        while is_more:
            offsets = self._newest_offsets(text, begin_ms, end_ms, below_offset, limit)
            for offset in offsets:
                message = self._message_with_key(offset, text, topic_length, begin_ms, end_ms)
                if message is not None:
                    found.append(message)
            # If another key has the same hash, search again: further back, in larger steps.
            is_more = len(found) < max_num and len(offsets) == limit
            if is_more:
                below_offset, limit = offsets[-1], 2 * limit
        return found[:max_num][::-1]

    def _message_with_key(
        self, physical_offset: int, text: bytes, topic_length: int, begin_ms: int, end_ms: int
    ) -> StoredMessage | None:
        """The message at an offset, if it has this topic, key and time; text: `topic#key`."""
        if self._direct is not None:
            message = self._direct.message_with_key(physical_offset, text, topic_length, begin_ms, end_ms)
            if message is not False:
                return cast("StoredMessage | None", message)
        has_key = self._has_key or self._load_kernel()
        message = self._commit_log.look_message_by_offset(physical_offset)
        if message is None or not has_key(
            np.frombuffer(message.data, np.uint8),
            message.start,
            message.stop,
            np.frombuffer(text, np.uint8),
            topic_length,
            begin_ms,
            end_ms,
        ):
            return None
        return message

    def _newest_offsets(
        self, text: bytes, begin_ms: int, end_ms: int, below_offset: int, limit: int
    ) -> list[int]:
        """Up to `limit` offsets of records with the hash of `text`, the newest first."""
        # Memory first: entries that are stored meanwhile are then seen twice instead of missed.
        with self._lock:
            self._check_open()
            waiting, environment = self._waiting(), self._environment
        wanted = (text, begin_ms, end_ms, self._files.min_offset, below_offset, limit)
        offsets = waiting.newest_offsets(*wanted) if waiting is not None else []
        if environment is not None:
            offsets += environment.read_kept(lmdb_runs.lend_runs, RunTable.newest_offsets, *wanted)
        if len(offsets) > 1:
            offsets = sorted(set(offsets), reverse=True)[:limit]
        return offsets

    def _waiting(self) -> RunTable | None:
        """The runs in memory, if there are any. Under _lock."""
        runs = self._buffer.runs()
        if self._table_of is not runs:
            self._table = RunTable.of(reversed(runs)) if runs else None
            self._table_of = runs
        return self._table

    def _load_kernel(self) -> Callable[..., bool]:
        from mqstore.index.keys.key_kernels import has_key

        loop: Callable[..., bool] = has_key
        self._has_key = loop
        return loop

    # -- forgetting -----------------------------------------------------------------------------------

    def truncate(self, physical_offset: int) -> None:
        with self._lock:
            self._check_open()
            cut = KeyIndexState(physical_offset)
            if self._stored.dispatched_offset > physical_offset and not self._read_only:
                self._writer.write(lambda transaction: lmdb_runs.cut(transaction, cut))
                self._stored = cut
            state = self._buffer.state
            if state.dispatched_offset > physical_offset:
                state = cut
            self._buffer.keep_between(0, physical_offset, state)

    def delete_expired(self, min_physical_offset: int) -> None:
        with self._lock:
            self._check_open()
            if self._writer.read(
                lambda transaction: lmdb_runs.oldest_run_ends(transaction) < min_physical_offset
            ):
                self._writer.write(lambda transaction: lmdb_runs.drop_runs(transaction, min_physical_offset))

    @property
    def _writer(self) -> LmdbEnvironment:
        """The environment, for writing. Raises StoreReadOnly."""
        if self._read_only:
            raise StoreReadOnly(self._directory)
        assert self._environment is not None
        return self._environment

    # -- closing --------------------------------------------------------------------------------------

    def copy_to(self, directory: Path) -> None:
        environment = self._environment
        if environment is not None:
            environment.copy_to(directory)

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                # An interrupt may have come before all was released.
                self._release()
                return
            try:
                if not self._read_only:
                    # On a full disk the index stays behind the log, and catches up after the next open.
                    with suppress(StoreFull):
                        self._commit()
            finally:
                self._release()

    def drop(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._release()

    def destroy(self) -> None:
        with self._lock:
            if self._read_only:
                raise StoreReadOnly(self._directory)
            if not self._is_closed:
                self._release()
            delete_files(self._file_system, self._directory)
            self._file_system.delete_directory(self._directory)

    def _release(self) -> None:
        self._is_closed = True
        self._buffer.clear()
        if self._environment is not None:
            release(self._environment, self, read_only=self._read_only)
            self._environment = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed(self._directory)

    def __repr__(self) -> str:
        reached = self._buffer.state.dispatched_offset
        return f"LmdbKeyIndex({str(self._directory)!r}, dispatched_offset={reached})"
