"""CRC-32C, the checksum at the end of mqstore's own small files: content, then checksum, big-endian.

It is that of the objects of an archive too. RocketMQ's records have CRC-32 instead (crc32.py).

google-crc32c, which comes with the extra `arrow`, uses the processor's instruction; crcmod is there without
an extra, and enough for small files. Both give the same numbers. Pure functions; threads: any.
"""

import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, cast

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Data: TypeAlias = bytes | npt.NDArray[np.uint8]

__all__ = ["CRC32C_BYTES", "content_of", "crc32c", "with_crc32c"]

_CRC = struct.Struct(">I")
CRC32C_BYTES: Final = _CRC.size


@functools.cache
def _function() -> "Callable[[_Data, int], int]":
    """(data, CRC-32C of what comes before it) -> CRC-32C. Imported here: few processes need it."""
    try:
        import google_crc32c
    except ModuleNotFoundError as error:
        if error.name != "google_crc32c":
            raise
        return _of_crcmod()
    if google_crc32c.implementation == "python":
        # No machine code of it for this processor.
        return _of_crcmod()
    extend = cast("Callable[[int, _Data], int]", google_crc32c.extend)
    return lambda data, before: extend(before, data)


def _of_crcmod() -> "Callable[[_Data, int], int]":
    import crcmod.predefined

    return cast("Callable[[_Data, int], int]", crcmod.predefined.mkPredefinedCrcFun("crc-32c"))


def crc32c(data: "_Data", before: int = 0) -> int:
    """The CRC-32C of `data` (RFC 3720), unsigned; `before` is that of what comes before it.

    >>> hex(crc32c(b"123456789")), hex(crc32c(b"6789", crc32c(b"12345")))
    ('0xe3069283', '0xe3069283')
    """
    return _function()(data, before)


def with_crc32c(content: bytes) -> bytes:
    """`content` and its checksum, as a file holds them."""
    return content + _CRC.pack(crc32c(content))


def content_of(data: bytes) -> bytes | None:
    """The content in the result of `with_crc32c`; None if `data` is damaged or too short for a checksum."""
    content = data[:-CRC32C_BYTES]
    if len(data) < CRC32C_BYTES or _CRC.unpack_from(data, len(content))[0] != crc32c(content):
        return None
    return content
