"""The index point: up to where the index files were durable, and what the last of them looked like then.

     0       4        8             16            24            32            40           80       84
    +-------+--------+-------------+-------------+-------------+-------------+------------+--------+
    | MAGIC | VERSION| DISPATCHED  | ANCHOR      | ANCHOR      | FILE        | HEADER     | CRC-32C|
    |       |        | OFFSET      | OFFSET      | STORE TIME  | NAME        |            |        |
    +-------+--------+-------------+-------------+-------------+-------------+------------+--------+

Big-endian. MAGIC is "MQSI"; HEADER is the 40 bytes of that index file's header; the CRC-32C covers the 80
bytes before it. A file of ours, `<root>/mqstore/index-point`, which a broker ignores.
Page: docs/format/index_file.md. No I/O here.
"""

import struct
from typing import Final, NamedTuple

from mqstore.index.index_file.index_file_format import HEADER_BYTES, IndexHeader, decode_header, encode_header
from mqstore.store.checksum.crc32c import CRC32C_BYTES, content_of, with_crc32c

__all__ = [
    "INDEX_POINT_BYTES",
    "NO_FILE",
    "VERSION",
    "IndexPoint",
    "decode_index_point",
    "encode_index_point",
]

VERSION: Final = 1
NO_FILE: Final = 0
"""The file name of a point that was taken while there was no file."""
_MAGIC: Final = b"MQSI"

_FIELDS = struct.Struct(">4siqqqq")
INDEX_POINT_BYTES: Final = _FIELDS.size + HEADER_BYTES + CRC32C_BYTES
assert INDEX_POINT_BYTES == 84


class IndexPoint(NamedTuple):
    """A state of the index files that is durable.

    dispatched_offset: all keys of records below it are in the files. anchor_offset, anchor_store_timestamp:
    of the last record below it, which identifies the log; -1 when unknown. file_name: of
    the last file, as a number. header: that file's. The point says nothing of entries behind the header's.
    """

    dispatched_offset: int
    anchor_offset: int = -1
    anchor_store_timestamp: int = -1
    file_name: int = NO_FILE
    header: IndexHeader = IndexHeader(0, 0, 0, 0, 0, 1)


def encode_index_point(point: IndexPoint) -> bytes:
    """The 84 bytes of the file.

    >>> encode_index_point(IndexPoint(137))[:24].hex(" ", 8)
    '4d51534900000001 0000000000000089 ffffffffffffffff'
    """
    return with_crc32c(_FIELDS.pack(_MAGIC, VERSION, *point[:4]) + encode_header(point.header))


def decode_index_point(data: bytes) -> IndexPoint | None:
    """The point, or None when these are not the bytes of this version: it is only a shortcut."""
    if len(data) != INDEX_POINT_BYTES:
        return None
    magic, version, *fields = _FIELDS.unpack_from(data)
    if magic != _MAGIC or version != VERSION or (content := content_of(data)) is None:
        return None
    return IndexPoint._make((*fields, decode_header(content[_FIELDS.size :])))
