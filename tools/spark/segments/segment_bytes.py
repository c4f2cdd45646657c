"""The bytes of a segment: a file of this machine, or an object of an archive.

    FileBytes       positional reads of a descriptor
    ArchivedBytes   an object in an object store, read ahead in ranges of 8 MiB while the records of those
                    before are decoded

A reader asks for any position; it mostly goes forward. What was read ahead is kept until it has been passed.
An object that cannot be reached for a moment is asked for again, a few times; pyarrow's own file systems wait
between their attempts. Nothing outside of the range that was announced is read ahead: who reads a part of a
segment pays for that part.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from mqstore.store.files.os_file_system import next_data

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RANGE_BYTES", "ArchivedBytes", "FileBytes", "SegmentBytes"]

_logger = logging.getLogger(__name__)

RANGE_BYTES = 8 << 20
"""What one request asks for: large, because each takes some 20 to 50 ms."""
_RANGES_AHEAD = 2
_ATTEMPTS = 3


class SegmentBytes(Protocol):
    """Bytes at any position of a segment."""

    def size_bytes(self) -> int:
        """How many there are."""

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill some of `view`, which is not empty; 0 at the end. Raises OSError."""

    def read(self, length: int, position: int) -> bytes:
        """So many bytes, or fewer at the end. Raises OSError."""

    def next_data(self, position: int) -> int:
        """First position at or after `position` that may hold a byte other than zero; the size if none."""

    def close(self) -> None:
        """Give back what is held."""


class FileBytes:
    """A file, by its descriptor, which `close` closes."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def size_bytes(self) -> int:
        """As the file system says."""
        return os.fstat(self.descriptor).st_size

    def read_into(self, view: memoryview, position: int) -> int:
        """One positional read."""
        return os.preadv(self.descriptor, [view], position)

    def read(self, length: int, position: int) -> bytes:
        """One positional read."""
        return os.pread(self.descriptor, length, position)

    def next_data(self, position: int) -> int:
        """As the file system says, which knows where the file has holes."""
        return next_data(self.descriptor, position, self.size_bytes())

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class ArchivedBytes:
    """An object of an archive. Threads: one calls; others read ahead."""

    def __init__(
        self, open_object: "Callable[[], pa.NativeFile]", size_bytes: int, ahead: tuple[int, int] | None
    ) -> None:
        """open_object: opens it, and opens it again where a read has failed; what it raises is raised.

        size_bytes: of the segment. ahead: the positions that will be read; None: single places only.
        """
        self._open_object = open_object
        self._size_bytes = size_bytes
        self._file = open_object()
        self._next, self._stop = ahead or (0, 0)
        self._ranges: list[tuple[int, int, Future[bytes]]] = []
        self._threads = ThreadPoolExecutor(_RANGES_AHEAD) if ahead is not None else None

    def size_bytes(self) -> int:
        """As the manifest says."""
        return self._size_bytes

    def read_into(self, view: memoryview, position: int) -> int:
        """From what was read ahead, or else by a request."""
        found = self._ahead(position)
        if found is None:
            data = memoryview(self._request(len(view), position))
        else:
            begin, future = found
            data = memoryview(future.result())[position - begin :][: len(view)]
        view[: len(data)] = data
        return len(data)

    def read(self, length: int, position: int) -> bytes:
        """From what was read ahead, if all of it is there, or else by a request of its own."""
        data = bytearray(min(length, max(self._size_bytes - position, 0)))
        filled = 0
        while filled < len(data):
            count = self.read_into(memoryview(data)[filled:], position + filled)
            if count == 0:
                break
            filled += count
        return bytes(data[:filled])

    def next_data(self, position: int) -> int:
        """`position`: objects have no holes."""
        return position

    def close(self) -> None:
        """Wait for what is under way."""
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        self._file.close()

    def _ahead(self, position: int) -> tuple[int, "Future[bytes]"] | None:
        """The range that holds a position, if it is one to read ahead; asks for those that follow it."""
        if self._threads is None or not (self._ranges or position == self._next):
            return None
        first = self._ranges[0][0] if self._ranges else self._next
        if not first <= position < self._stop:
            return None
        while self._next <= position or (len(self._ranges) <= _RANGES_AHEAD + 1 and self._next < self._stop):
            self._ask()
        for begin, end, future in self._ranges:
            if begin <= position < end:
                if begin > first:
                    # A record may begin at the end of the range before this one, which is read once more.
                    self._ranges = [one for one in self._ranges if one[1] >= begin]
                return begin, future
        return None

    def _ask(self) -> None:
        assert self._threads is not None
        begin, end = self._next, min(self._next + RANGE_BYTES, self._stop)
        self._ranges.append((begin, end, self._threads.submit(self._request, end - begin, begin)))
        self._next = end

    def _request(self, length: int, position: int) -> bytes:
        length = min(length, self._size_bytes - position)
        if length <= 0:
            return b""
        for _ in range(_ATTEMPTS - 1):
            try:
                data: bytes = self._file.read_at(length, position)
            except OSError as error:
                _logger.warning("a read of an archive is tried again: %s", error)
                # Where opening fails too, the attempts that are left tell why.
                with suppress(OSError):
                    self._file = self._open_object()
            else:
                return data
        last: bytes = self._file.read_at(length, position)
        return last
