"""The entries of one consume queue as they lie on disk, whatever the state of its files.

For verify: a queue that is opened for use (consume_queue.py) refuses files of a wrong length and finds its
end by bisection. Here missing bytes read as zeros, and every file is read. Nothing is changed.
Threads: any; the list of files is made once.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mqstore.index.queue.consume_queue_format import ENTRY_BYTES
from mqstore.store.files.file_names import created_file_count, file_name, row_entries
from mqstore.store.files.file_system import FileSystem
from mqstore.store.finding import Finding

__all__ = ["QueueEntries"]

_PIECE_ENTRIES = 1 << 12
_LONG_PIECE_ENTRIES = 1 << 16


class QueueEntries:
    """Reads entries by their queue offset."""

    def __init__(self, file_system: FileSystem, directory: Path, file_bytes: int) -> None:
        self.directory = directory
        self._file_system = file_system
        self._file_bytes = file_bytes
        self._sizes = {
            int(entry.name): min(entry.size_bytes, file_bytes)
            for entry in row_entries(file_system, directory)
        }

    @property
    def min_offset(self) -> int:
        """Queue offset of the first entry that has room in a file."""
        return min(self._sizes, default=0) // ENTRY_BYTES

    def place_of(self, queue_offset: int) -> tuple[Path, int]:
        """File and byte in it where an entry lies or should lie."""
        position = queue_offset * ENTRY_BYTES
        start = position - position % self._file_bytes
        return self.directory / file_name(start), position - start

    def read(self, queue_offset: int, count: int) -> npt.NDArray[np.uint8]:
        """The bytes of `count` entries, shape (count, 20); zeros where there are none."""
        data = np.zeros(count * ENTRY_BYTES, np.uint8)
        done = 0
        while done < len(data):
            path, position = self.place_of(queue_offset + done // ENTRY_BYTES)
            length = min(len(data) - done, self._file_bytes - position)
            if position < self._sizes.get(int(path.name), 0):
                part = self._file_system.read_at(path, position, length)
                data[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += length
        return data.reshape(-1, ENTRY_BYTES)

    def pieces(self, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """(first, stop) of pieces that cover all entries of a range that have room in a file."""
        for start, size_bytes in sorted(self._sizes.items()):
            file_stop = min(stop, -(-(start + size_bytes) // ENTRY_BYTES))
            for at in range(max(first, start // ENTRY_BYTES), file_stop, _LONG_PIECE_ENTRIES):
                yield at, min(file_stop, at + _LONG_PIECE_ENTRIES)

    def end_offset(self, from_offset: int = 0) -> int:
        """Queue offset behind the last entry that is not all zero; at least `from_offset`."""
        end = from_offset
        for start, size_bytes in sorted(self._sizes.items()):
            position = max(from_offset * ENTRY_BYTES - start, 0)
            if position >= size_bytes:
                continue
            # Mapped to find holes only: no page of it is read.
            region = self._file_system.map(self.directory / file_name(start), size_bytes, read_only=True)
            while (position := region.next_data(position)) < size_bytes:
                first = (start + position) // ENTRY_BYTES
                stop = min(first + _PIECE_ENTRIES, -(-(start + size_bytes) // ENTRY_BYTES))
                used = np.flatnonzero(self.read(first, stop - first).any(axis=1))
                if len(used):
                    end = max(end, first + int(used[-1]) + 1)
                position = stop * ENTRY_BYTES - start
        return end

    def find_wrong_files(self, *, after_crash: bool) -> list[Finding]:
        """Files of a wrong length, and files that are missing between others.

        A crash while files are created leaves one of length zero, or without a name, even where a later file
        is complete. The next opening ends the queue there. Entries that are lost with them are damage.
        """
        findings = []
        entries = row_entries(self._file_system, self.directory)
        created_count = created_file_count(entries)
        for index, entry in enumerate(entries):
            path = self.directory / entry.name
            if entry.size_bytes != self._file_bytes:
                is_new = entry.size_bytes == 0 and (after_crash or index >= created_count)
                expected, found = f"{self._file_bytes} bytes", f"{entry.size_bytes}"
                findings.append(
                    Finding(
                        "queue-file-length", path, entry.size_bytes, expected, found, is_damage=not is_new
                    )
                )
            wanted = int(entries[index - 1].name) + self._file_bytes
            if index and int(entry.name) != wanted:
                expected = f"a file {file_name(wanted)} before it"
                findings.append(
                    Finding("queue-file-missing", path, 0, expected, "none", is_damage=not after_crash)
                )
        return findings

    def __repr__(self) -> str:
        return f"QueueEntries({str(self.directory)!r}, files={len(self._sizes)})"
