"""A table of settings by name, kept whole in one state file: what topics and consumer groups share.

It does not know what the settings mean or which names are legal (topics.py, subscription_groups.py).

Threads: any. Changes take one lock; lookups take none, for a record is immutable and the table is a dict
whose values are replaced one at a time.
Durability: `replace` and `remove` are durable on return, `add` after the next `persist`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from mqstore.metadata.state_record import StateRecord
from mqstore.store.clock import Clock
from mqstore.store.errors import StoreError, StoreReadOnly
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state import state_file_format
from mqstore.store.state.data_version import DataVersion
from mqstore.store.state.state_file import StateFile
from mqstore.store.threads.lock import Lock

__all__ = ["StateTable"]

RecordT = TypeVar("RecordT", bound=StateRecord)


class StateTable(Generic[RecordT]):
    """Records by name, in memory and in a state file."""

    def __init__(
        self,
        file_system: FileSystem,
        path: Path,
        clock: Clock,
        record: type[RecordT],
        *,
        field: str,
        read_only: bool,
    ) -> None:
        """`field` is the table's name in the file. With `read_only` the file is never written."""
        self._file = StateFile(file_system, path)
        self._clock = clock
        self._record_type = record
        self._field = field
        self._read_only = read_only
        self._lock = Lock()
        # Written under the lock. The dict itself is never replaced, so that `lookup` stays bound to it.
        self._table: dict[str, RecordT] = {}
        self._other_fields: dict[str, Any] = {}
        self._data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.lookup: Callable[[str], RecordT | None] = self._table.get
        """`get` as the table's own dict.get, one call less: for hot paths."""

    def load(self) -> None:
        """Read the file, once, before anything else. Raises StateFileCorrupt; then nothing has changed."""
        state = self._file.load(self._decode)
        if state is not None:
            with self._lock:
                table, self._data_version, other_fields = state
                for name, record in table.items():
                    self._set(name, record)
                self._other_fields.update(other_fields)

    def get(self, name: str) -> RecordT | None:
        """The settings under `name`; None when there are none."""
        return self._table.get(name)

    def add(self, name: str, record: RecordT) -> RecordT:
        """Put `record` under `name` unless one is there; returns the one that is there now."""
        with self._lock:
            return self._table.get(name) or self._put(name, record)

    def replace(self, name: str, record: RecordT) -> RecordT:
        """Put `record` under `name`, durably.

        Raises StoreReadOnly, StoreClosed, StoreFull, OSError: nothing changed.
        """
        if self._read_only:
            raise StoreReadOnly(self._file.path)
        with self._lock:
            before = self._table.get(name)
            if before != record:
                self._put(name, record)
        try:
            self.persist()
        except BaseException:
            self._undo_replace(name, record, before)
            raise
        return record

    def remove(self, name: str) -> RecordT | None:
        """Delete the record under `name`, durably; returns it, or None when there was none.

        Raises as `replace`; nothing changed then.
        """
        if self._read_only:
            raise StoreReadOnly(self._file.path)
        with self._lock:
            before = self._table.get(name)
            if before is not None:
                self._set(name, None)
                self._data_version = self._data_version.next(self._clock.now_ms())
        try:
            self.persist()
        except BaseException:
            if before is not None:
                self.add(name, before)
            raise
        return before

    def persist(self) -> bool:
        """Write the file if something changed; durable on return. Raises OSError or StoreFull."""
        return not self._read_only and self._file.save_snapshot(self._encode)

    def refuse(self, reason: Callable[[], StoreError]) -> None:
        """Write nothing more: `replace` and `persist` raise the error that `reason` makes."""
        self._file.refuse(reason)

    def _set(self, name: str, record: RecordT | None) -> None:
        """Change the table, under the lock. A subclass that keeps data derived from it overrides this."""
        if record is None:
            del self._table[name]
        else:
            self._table[name] = record

    def _put(self, name: str, record: RecordT) -> RecordT:
        self._set(name, record)
        self._data_version = self._data_version.next(self._clock.now_ms())
        return record

    def _undo_replace(self, name: str, record: RecordT, before: RecordT | None) -> None:
        with self._lock:
            if self._table.get(name) is record:
                self._set(name, before)

    def _encode(self) -> bytes:
        with self._lock:
            table = sorted(self._table.items())
            state = self._other_fields | {"dataVersion": self._data_version.encode()}
        state[self._field] = {name: record.encode() for name, record in table}
        return state_file_format.encode(dict(sorted(state.items())))

    def _decode(self, text: bytes) -> tuple[dict[str, RecordT], DataVersion, dict[str, Any]]:
        state = state_file_format.decode(text)
        table = state.pop(self._field, None) or {}
        version = DataVersion.decode(state.pop("dataVersion", None))
        if not isinstance(table, dict):
            raise ValueError(f"{self._field} is {table!r}, not an object")
        return {name: self._decode_record(name, record) for name, record in table.items()}, version, state

    def _decode_record(self, name: str, state: object) -> RecordT:
        try:
            return self._record_type.decode(state)
        except msgspec.ValidationError as error:
            raise ValueError(f"{self._field}.{name}: {error}") from error

    @property
    def data_version(self) -> DataVersion:
        """The stamp that the next save carries."""
        return self._data_version

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[RecordT]:
        """Records in the order of their names, as they are now."""
        with self._lock:
            records = sorted(self._table.items())
        return iter([record for _, record in records])

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} in {str(self._file.path)!r}>"
