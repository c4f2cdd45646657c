"""A directory as a file system of pyarrow that counts the bytes that are read, and may fail to give them."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.archives.odd_place import OddPlace

__all__ = ["CountedPlace"]


class CountedPlace(OddPlace):
    """reads: (name, position, bytes) of each read. failures: so many reads to come fail."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, lambda name, data: data)
        self.reads: list[tuple[str, int, int]] = []
        self.failures = 0
        self.lock = threading.Lock()

    def read_bytes(self, folder: str) -> int:
        """Bytes of the objects of a folder that were read so far."""
        return sum(length for name, _, length in self.reads if name.startswith(folder))

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(_Counting(super().open_input_file(path), path.lstrip("/"), self), mode="r")


class _Counting:
    def __init__(self, file: Any, name: str, place: CountedPlace) -> None:
        self._file, self._name, self._place = file, name, place
        self.closed = False

    def read(self, length: int) -> bytes:
        with self._place.lock:
            if self._place.failures:
                self._place.failures -= 1
                raise OSError("the connection is gone")
        position = self._file.tell()
        data: bytes = self._file.read(length)
        with self._place.lock:
            self._place.reads.append((self._name, position, len(data)))
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        return int(self._file.seek(position, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self.closed = True
        self._file.close()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True
