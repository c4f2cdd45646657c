"""The way of one segment into an archive, up to its manifest entry: checked, sent, made durable, read back.

The bytes that are sent are those that were checked: a piece of whole records goes on as soon as its records
are found good (sealed_segments.py). An object that an archiver before has sent and not entered is taken: it
is read back, and nothing is sent.
Threads: an upload has one of its own, which is at its end when `result` or `forget` has returned.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from mqstore.message_store import MessageStore
from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.files.file_names import file_name
from mqstore.store.threads.run_in_thread import run_in_thread
from mqstore.tools.archive.archive_errors import ArchiveDamaged
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import SEGMENT_FOLDER
from mqstore.tools.archive.segments.sealed_segments import inspect_segment, size_and_crc32c

if TYPE_CHECKING:
    from mqstore.tools.archive.segments.segment_content import SegmentContent

__all__ = ["SegmentUpload"]

_DRAWN_DIGITS = 8


class SegmentUpload:
    """A segment on its way. name: of its object; crc32c: of its bytes; both are known with the result."""

    def __init__(
        self,
        store: MessageStore,
        place: ArchivePlace,
        start_offset: int,
        left_over: Sequence[str],
        *,
        on_bytes: Callable[[int], object],
        on_end: Callable[["SegmentUpload"], object],
    ) -> None:
        """Begin. left_over: complete objects of this segment that no entry names.

        on_bytes: called in the upload's thread, with the number of bytes that went since the last call; what
        it raises breaks the upload off. on_end: called there when the upload is over, or has failed.
        """
        self.start_offset = start_offset
        self.name = f"{SEGMENT_FOLDER}/{file_name(start_offset)}-{uuid4().hex[:_DRAWN_DIGITS]}"
        self.crc32c = 0
        self._store, self._place = store, place
        self._left_over = left_over
        self._on_bytes, self._on_end = on_bytes, on_end
        self._size_bytes = store.config.mapped_file_size_commit_log
        self._call = run_in_thread(self._run)

    def result(self) -> "SegmentContent":
        """What is in the segment, when the object is there and has come back as it was sent.

        Raises CorruptRecord, FileNotFoundError when retention has deleted the segment, OSError, and what
        `on_bytes` raised: no object is left behind then. Raises ArchiveDamaged; the object is deleted before.
        """
        return self._call.result()

    def forget(self) -> None:
        """Delete the object, if this upload has sent one: one that was taken may be confirmed by now."""
        self._call.wait()
        if self.name not in self._left_over:
            self._place.delete(self.name)

    def _run(self) -> "SegmentContent":
        try:
            taken = self._take() if self._left_over else None
            return self._send() if taken is None else taken
        finally:
            self._on_end(self)

    def _take(self) -> "SegmentContent | None":
        """Take an object of an earlier archiver, if one has the segment's bytes."""
        content = inspect_segment(self._store, self.start_offset, self._sum)
        for name in self._left_over:
            if self._size_and_crc32c_of(name) == (self._size_bytes, self.crc32c):
                self.name = name
                self._on_bytes(self._size_bytes)
                return content
        self.crc32c = 0
        return None

    def _send(self) -> "SegmentContent":
        unfinished = self._place.create(self.name)

        def send(data: npt.NDArray[np.uint8]) -> None:
            self._sum(data)
            unfinished.write(data)
            self._on_bytes(len(data))

        try:
            content = inspect_segment(self._store, self.start_offset, send)
        except BaseException:
            unfinished.abandon()
            raise
        unfinished.complete()
        came_back = self._size_and_crc32c_of(self.name)
        if came_back != (self._size_bytes, self.crc32c):
            self._place.delete(self.name)
            raise ArchiveDamaged(
                self._place.shown,
                self.name,
                f"{self._size_bytes} bytes of CRC-32C {self.crc32c:08x}",
                f"{came_back[0]} bytes of {came_back[1]:08x}",
                "it was deleted; archive again, and if this comes again, do not trust this place",
            )
        return content

    def _sum(self, data: npt.NDArray[np.uint8]) -> None:
        self.crc32c = crc32c(data, self.crc32c)

    def _size_and_crc32c_of(self, name: str) -> tuple[int, int]:
        try:
            return size_and_crc32c(self._place.read_pieces(name))
        except FileNotFoundError:
            return 0, 0

    def __repr__(self) -> str:
        return f"SegmentUpload({self.name!r})"
