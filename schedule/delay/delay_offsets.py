"""The delay offsets: the next queue entry to deliver, for each delay level.

Kept in config/delayOffset.json, level -> entry number (store/state/state_file_format.py, page
docs/format/delay_offset.md). It does not deliver (delivery_service.py) and does not look at queues.

Two values per level: the one in memory moves with the delivery; the one on disk must never pass a
message whose delivered copy a power cut could still take away. Only the delivery knows which copies
are flushed, so `persist` gets the bounds and writes the lower of both. What a power cut costs is
progress, never a message: those entries are delivered again.

Threads: any; one lock guards the table, and `persist` writes outside of it.
Durability: what `persist` wrote survives a power cut.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from mqstore.store.clock import Clock
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state import state_file_format
from mqstore.store.state.data_version import DataVersion
from mqstore.store.state.state_file import StateFile
from mqstore.store.threads.lock import Lock

__all__ = ["DELAY_OFFSET_FILE_NAME", "DelayOffsets"]

DELAY_OFFSET_FILE_NAME = "delayOffset.json"


class DelayOffsets:
    """Delivery progress by level, in memory and on disk."""

    def __init__(
        self,
        file_system: FileSystem,
        config_directory: Path,
        clock: Clock,
        *,
        update_version_step: int = 200,
    ) -> None:
        """`update_version_step`: number of updates between two changes of the data version."""
        self._file = StateFile(file_system, config_directory / DELAY_OFFSET_FILE_NAME)
        self._clock = clock
        self._update_version_step = update_version_step
        self._lock = Lock()
        # All under the lock.
        self._offsets: dict[int, int] = {}
        self._persisted: dict[int, int] = {}
        self._updates = 0
        self._data_version = DataVersion(timestamp_ms=clock.now_ms())

    def load(self, clamp: Callable[[int, int], int] = lambda level, offset: offset) -> dict[int, int]:
        """Read the file; call it once, before anything else. Returns the offsets now in memory.

        `clamp(level, offset)` returns the entry to start from, given the file's: queues may have lost
        entries at either end. Raises StateFileCorrupt.
        """
        state = self._file.load(_decode)
        if state is not None:
            offsets, version = state
            with self._lock:
                self._persisted = offsets
                self._offsets = {level: clamp(level, offset) for level, offset in offsets.items()}
                self._data_version = version
        return self.snapshot()

    @property
    def data_version(self) -> DataVersion:
        """The stamp that the next save carries."""
        return self._data_version

    def offset(self, level: int) -> int:
        """The next entry to deliver of `level`; 0 for a level never delivered."""
        return self._offsets.get(level, 0)

    @property
    def have_moved(self) -> bool:
        """Whether a level's offset is another one than on disk."""
        with self._lock:
            return self._offsets != self._persisted

    def snapshot(self) -> dict[int, int]:
        """A copy of the table in memory."""
        with self._lock:
            return dict(self._offsets)

    def update(self, level: int, next_offset: int) -> None:
        """Record the delivery's progress in memory; `persist` makes it durable."""
        with self._lock:
            self._offsets[level] = next_offset
            self._updates += 1
            if self._updates % self._update_version_step == 0:
                self._data_version = self._data_version.next(self._clock.now_ms())

    def persist(self, durable: Mapping[int, int]) -> bool:
        """Write the offsets that a power cut cannot make wrong; False when nothing changed.

        `durable`: level -> the entry up to which every delivered copy is flushed. The value on disk of a
        level that is not in it stays as it is. Raises OSError or StoreFull; the old state is then intact.
        """
        written: dict[int, int] = {}

        def snapshot() -> bytes:
            with self._lock:
                written.update(self._bounded(durable))
                return _encode(written, self._data_version)

        saved = self._file.save_snapshot(snapshot)
        with self._lock:
            self._persisted = written
        return saved

    def _bounded(self, durable: Mapping[int, int]) -> dict[int, int]:
        """What may go to disk: memory's offset or the bound, whichever is lower."""
        bounded = {
            level: min(offset, durable[level]) if level in durable else self._persisted.get(level)
            for level, offset in sorted(self._offsets.items())
        }
        return {level: offset for level, offset in bounded.items() if offset is not None}

    def __repr__(self) -> str:
        return f"<DelayOffsets {self.snapshot()} in {str(self._file.path)!r}>"


def _encode(offsets: Mapping[int, int], version: DataVersion) -> bytes:
    return state_file_format.encode({"dataVersion": version.encode(), "offsetTable": offsets})


def _decode(text: bytes) -> tuple[dict[int, int], DataVersion]:
    state = state_file_format.decode(text)
    table = state.get("offsetTable") or {}
    if not isinstance(table, dict):
        raise ValueError(f"offsetTable is {table!r}, not an object")
    offsets = {int(level): state_file_format.whole_number(offset) for level, offset in table.items()}
    return offsets, DataVersion.decode(state.get("dataVersion"))
