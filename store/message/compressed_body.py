"""A body that its producer compressed: marked in the sys flag, decompressed within a limit.

RocketMQ's clients compress bodies from 4 KiB on and set COMPRESSED; three bits say how: LZ4 (a frame),
Zstandard (a frame) or zlib, which is also what older clients mean by leaving the bits 0. A store never looks
into such a body: it keeps, copies and checks the bytes as they came. Readers: stored_message.py.

A few kilobytes can decompress to gigabytes, so no more than a limit is ever decompressed.
Threads: any. The libraries for LZ4 and Zstandard are imported when a body first needs them.
Source: MessageSysFlag, CompressorFactory and MessageDecoder#decode of Apache RocketMQ.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from mqstore.store.errors import BodyTooLarge, CorruptBody
from mqstore.store.record.sys_flag import COMPRESSED, COMPRESSION_TYPE_MASK, COMPRESSION_TYPE_SHIFT

__all__ = ["MAX_BODY_BYTES", "compression_of", "decompress"]

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Default limit of the bytes that a body is decompressed to: 16 times RocketMQ's largest body."""

# One byte of LZ4 decompresses to fewer bytes than this. Its library allocates as much as it may return.
_LZ4_RATIO: Final = 256


class _Decompressor(Protocol):
    """What zlib, lz4 and zstd have in common; `max_length` is the second argument of `decompress`."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: memoryview, max_length: int, /) -> bytes: ...


_Made: TypeAlias = tuple[_Decompressor, type[Exception]]


def compression_of(sys_flag: int) -> str | None:
    """LZ4, ZSTD or ZLIB, else the number of a type that RocketMQ does not know; None when not compressed."""
    if not sys_flag & COMPRESSED:
        return None
    number = (sys_flag & COMPRESSION_TYPE_MASK) >> COMPRESSION_TYPE_SHIFT
    return _NAMES.get(number, str(number))


def decompress(
    stored_body: memoryview, sys_flag: int, physical_offset: int, max_bytes: int = MAX_BODY_BYTES
) -> bytes:
    """The body as the producer had it.

    sys_flag: with COMPRESSED. physical_offset: of the record, for errors. Raises BodyTooLarge when the
    body is longer than `max_bytes`, CorruptBody when the bytes are not what the sys flag says.
    """
    compression = compression_of(sys_flag) or ""

    def corrupt(reason: str) -> CorruptBody:
        return CorruptBody(physical_offset, compression, len(stored_body), reason)

    if compression not in _MAKERS:
        raise corrupt("RocketMQ has no compression of this number")
    decompressor, its_error = _MAKERS[compression]()
    most_bytes = _LZ4_RATIO * len(stored_body) if compression == "LZ4" else max_bytes
    try:
        # With one byte more than allowed, a body that is too long differs from the longest allowed.
        body = decompressor.decompress(stored_body, min(max_bytes, most_bytes) + 1)
    except its_error as error:
        raise corrupt(str(error)) from error
    if len(body) > max_bytes:
        raise BodyTooLarge(physical_offset, compression, len(stored_body), max_bytes)
    if not decompressor.eof:
        raise corrupt("they end too soon")
    if decompressor.unused_data and compression != "ZLIB":  # RocketMQ ignores bytes behind zlib data
        raise corrupt("there are bytes behind their end")
    return body


def _zlib() -> _Made:
    return zlib.decompressobj(), zlib.error


def _lz4() -> _Made:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor(), RuntimeError


def _zstd() -> _Made:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor(), zstd.ZstdError


_MAKERS: Final[dict[str, Callable[[], _Made]]] = {"LZ4": _lz4, "ZSTD": _zstd, "ZLIB": _zlib}
# By number; 0 comes from older clients, which compressed with zlib only.
_NAMES: Final = {0: "ZLIB", 1: "LZ4", 2: "ZSTD", 3: "ZLIB"}
