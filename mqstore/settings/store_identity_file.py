"""The file `mqstore/identity`: by which a checkpoint of Spark knows the store that it was made on.

One line of text: `mqstore-store`, 32 hexadecimal digits that were drawn when the file was made, and the
CRC-32C of both. The writer that opens a directory without the file makes one; it stays as long as the
directory, through restarts, repairs in place and retention. A backup is the same store and has the same
identity; a directory that is deleted and made anew has another. Readers change nothing, so a directory that
only RocketMQ has written has none (tools/spark/stream/store_identity.py says what is done there). Durability:
when `ensure` returns. Threads: the one that opens the store. Page: docs/format/identity.md.
"""

import logging
import re
import uuid
from pathlib import Path

from mqstore.store.checksum.crc32c import crc32c
from mqstore.store.errors import StateFileCorrupt, StoreFull
from mqstore.store.files.file_system import FileSystem
from mqstore.store.state.state_file import StateFile

__all__ = ["StoreIdentityFile"]

_logger = logging.getLogger(__name__)
_LINE = re.compile(rb"(mqstore-store ([0-9a-f]{32})) ([0-9a-f]{8})\n")


class StoreIdentityFile:
    """`<root>/mqstore/identity`."""

    def __init__(self, file_system: FileSystem, path: Path) -> None:
        self._file = StateFile(file_system, path)

    def load(self) -> str | None:
        """The identity; None where there is no file. Raises StateFileCorrupt."""
        return self._file.load(_decode)

    def ensure(self) -> str | None:
        """The identity, drawn now if there is none or none that can be read. None: the disk is full.

        A store is not refused for it: without an identity Spark knows the store by its records.
        """
        try:
            found = self.load()
        except StateFileCorrupt as error:
            _logger.warning("a new identity is made, and checkpoints of Spark do not fit any more: %s", error)
            self._file.delete()
            found = self.load()
        if found is not None:
            return found
        identity = uuid.uuid4().hex
        try:
            self._file.save(_encode(identity))
        except StoreFull as error:
            _logger.warning("the store gets its identity at the next opening: %s", error)
            return None
        return identity

    def __repr__(self) -> str:
        return f"StoreIdentityFile({str(self._file.path)!r})"


def _encode(identity: str) -> bytes:
    text = f"mqstore-store {identity}".encode()
    return text + f" {crc32c(text):08x}\n".encode()


def _decode(data: bytes) -> str:
    """Raises ValueError for anything else."""
    found = _LINE.fullmatch(data)
    if found is None or int(found[3], 16) != crc32c(found[1]):
        raise ValueError("it is no line of an identity with its CRC")
    return found[2].decode()
