"""Compression of long bodies, as RocketMQ's clients do it: marked in the sys flag, undone by readers.

A body that does not become shorter is sent as it is, and so is one that cannot be compressed. Readers:
store/message/compressed_body.py. The libraries for LZ4 and Zstandard are imported when they are first needed.
Threads: any.
Source: docs/spec/client_produce.md section 1; DefaultMQProducerImpl#tryToCompressMessage, CompressorFactory.
"""

import logging
import sys
import zlib
from collections.abc import Callable
from typing import Final

from mqstore.store.files.file_system import BytesLike
from mqstore.store.record.sys_flag import COMPRESSED, COMPRESSION_TYPE_SHIFT

__all__ = ["BodyCompression"]

_logger = logging.getLogger(__name__)
# How it is marked in the sys flag (CompressionType).
_NUMBER_OF_TYPE: Final = {"LZ4": 1, "ZSTD": 2, "ZLIB": 3}
_GREATEST_ZLIB_LEVEL: Final = 9


class BodyCompression:
    """Compresses bodies of `over_howmuch` bytes or more, by `compress_type` at `level`."""

    def __init__(self, compress_type: str, level: int, over_howmuch: int) -> None:
        self.over_howmuch = over_howmuch
        self._compress = _COMPRESSORS[compress_type]
        self._level = level
        self._type = compress_type
        self._sys_flag = COMPRESSED | _NUMBER_OF_TYPE[compress_type] << COMPRESSION_TYPE_SHIFT

    def compress(self, body: BytesLike, sys_flag: int) -> tuple[BytesLike, int]:
        """The body to send, and the sys flag for it. One that its sender has compressed stays as it is."""
        if len(body) < self.over_howmuch or sys_flag & COMPRESSED:
            return body, sys_flag
        try:
            compressed = self._compress(bytes(body), self._level)
        except Exception:
            _logger.warning(
                "a body of %d bytes is sent as it is: %s failed", len(body), self._type, exc_info=True
            )
            return body, sys_flag
        if len(compressed) >= len(body):
            return body, sys_flag
        return compressed, sys_flag | self._sys_flag

    def __repr__(self) -> str:
        return f"BodyCompression({self._type!r}, level={self._level}, over_howmuch={self.over_howmuch})"


def _zlib(body: bytes, level: int) -> bytes:
    return zlib.compress(body, min(level, _GREATEST_ZLIB_LEVEL))


def _lz4(body: bytes, level: int) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.compress(body))


def _zstd(body: bytes, level: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.compress(body, level))


_COMPRESSORS: Final[dict[str, Callable[[bytes, int], bytes]]] = {"LZ4": _lz4, "ZSTD": _zstd, "ZLIB": _zlib}
