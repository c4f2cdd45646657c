"""A file system that notes every step that changes the disk, and lets a test step in before each.

It wraps another one. `steps` is the list of what was done, as ("sync", path); `before` is called with the
same pair before each step, and may raise, wait or count. Disk usage and ages of files can be set.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from mqstore.store.files.file_system import (
    BytesLike,
    DiskUsage,
    FileEntry,
    FileLock,
    FileSystem,
    MappedRegion,
)

__all__ = ["WatchedFileSystem", "WatchedRegion"]

Step = tuple[str, Path]


class WatchedRegion:
    """A region of a watched file."""

    def __init__(self, region: MappedRegion, path: Path, note: Callable[[str, Path], None]) -> None:
        self._region = region
        self._path = path
        self._note = note
        self.size_bytes = region.size_bytes
        self.view = region.view
        # Each write is to be seen.
        self.address = 0

    def write(self, position: int, data: BytesLike) -> None:
        self._note("write", self._path)
        self._region.write(position, data)

    def publish(self, position: int, record: BytesLike) -> None:
        self._note("publish", self._path)
        self._region.publish(position, record)
        self._note("published", self._path)

    def reserve(self, position: int, length_bytes: int) -> None:
        self._note("reserve", self._path)
        self._region.reserve(position, length_bytes)

    def populate(self, position: int, length_bytes: int, *, writable: bool = True) -> None:
        self._region.populate(position, length_bytes, writable=writable)

    def read_ahead(self, position: int, *, is_wanted: bool) -> None:
        self._region.read_ahead(position, is_wanted=is_wanted)

    def next_data(self, position: int) -> int:
        return self._region.next_data(position)

    def sync_within(self, timeout_s: float) -> bool:
        self.sync()
        return True

    def sync(self) -> None:
        self._note("sync", self._path)
        self._region.sync()

    def release_descriptor(self) -> None:
        self._region.release_descriptor()


class WatchedFileSystem:
    """`inner`, watched."""

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self.steps: list[Step] = []
        self.before: Callable[[str, Path], None] = lambda step, path: None
        self.used_percent: int | None = None
        self.ages: dict[Path, int] = {}

    def _note(self, step: str, path: Path) -> None:
        self.before(step, path)
        self.steps.append((step, path))

    def count(self, step: str, path: Path | None = None) -> int:
        """How often a step was done (to one file)."""
        return sum(done == step and path in (None, at) for done, at in self.steps)

    def keeps_reserved_room(self, path: Path) -> bool:
        return self.inner.keeps_reserved_room(path)

    def map(
        self, path: Path, size_bytes: int, *, create: bool = False, read_only: bool = False
    ) -> WatchedRegion:
        self._note("map", path)
        region = self.inner.map(path, size_bytes, create=create, read_only=read_only)
        return WatchedRegion(region, path, self._note)

    def read(self, path: Path) -> bytes:
        return self.inner.read(path)

    def read_at(self, path: Path, position: int, length_bytes: int) -> bytes:
        return self.inner.read_at(path, position, length_bytes)

    def write(self, path: Path, data: bytes) -> None:
        self._note("write", path)
        self.inner.write(path, data)

    def sync(self, path: Path) -> None:
        self._note("sync", path)
        self.inner.sync(path)

    def sync_all(self, regions: Sequence[MappedRegion]) -> None:
        for region in regions:
            region.sync()
            region.release_descriptor()

    def rename(self, source: Path, target: Path) -> None:
        self._note("rename", target)
        self.inner.rename(source, target)

    def delete(self, path: Path) -> None:
        self._note("delete", path)
        self.inner.delete(path)

    def make_directories(self, path: Path, *, durable: bool = True) -> None:
        self.inner.make_directories(path, durable=durable)

    def delete_directory(self, path: Path) -> None:
        self._note("delete_directory", path)
        self.inner.delete_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._note("sync_directory", path)
        self.inner.sync_directory(path)

    def list(self, path: Path) -> list[FileEntry]:
        return self.inner.list(path)

    def exists(self, path: Path) -> bool:
        return self.inner.exists(path)

    def modified_ms(self, path: Path) -> int:
        return self.ages.get(path, self.inner.modified_ms(path))

    def lock(self, path: Path) -> FileLock:
        return self.inner.lock(path)

    def disk_usage(self, path: Path) -> DiskUsage:
        if self.used_percent is None:
            return self.inner.disk_usage(path)
        return DiskUsage(100, 100 - self.used_percent)
