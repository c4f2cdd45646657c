"""Plain twins of store/record/record_kernels.py: the same questions, answered byte by byte.

Written from the spec's tables, without the encoder, the decoder and the kernels of mqstore.
"""

import struct
import zlib

__all__ = [
    "BLANK",
    "DATA_ENDS",
    "NO_RECORD",
    "lenient_record_size",
    "plain_crc32",
    "plain_find",
    "plain_scan",
    "plain_whole_record_size",
]

DATA_ENDS, BLANK, NO_RECORD = 0, 1, 2


def plain_crc32(data: bytes) -> int:
    """CRC-32 without the sign bit."""
    return zlib.crc32(data) & 0x7FFF_FFFF


def _int(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "big", signed=True)


def plain_whole_record_size(data: bytes, at: int, base_offset: int) -> int:
    """Size of the whole record at `at` in `data`, which ends where readable bytes end; -1 for none."""
    if len(data) - at < 88:
        return -1
    total_size, magic = _int(data, at, 4), data[at + 4 : at + 8].hex()
    if total_size < 88 or at + total_size > len(data) or magic not in ("daa320a7", "daa320ab"):
        return -1
    record = data[at : at + total_size]
    if _int(record, 28, 8) != base_offset + at:
        return -1
    fields = _fields(record, 1 if magic == "daa320a7" else 2)
    if fields is None or any(text.endswith(b"\0") for text in fields[1:]):
        return -1
    body, _, properties = fields
    ending = record[-20:]
    digits = f"{plain_crc32(record[:-20]):010d}"[::-1].encode()
    if len(properties) >= 20 and ending.startswith(b"__CRC32#\x01"):
        return total_size if ending[9:] == digits + b"\x02" else -1
    if len(properties) >= 20 and 0 in ending:
        # Where the CRC would be lies part of a page that never reached the disk.
        return -1
    if len(properties) >= 20 and ending[9:] == digits + b"\x02":
        # Its own CRC under another name: the name is damaged.
        return -1
    if body and plain_crc32(body) != _int(record, 8, 4):
        return -1
    return total_size


def _fields(record: bytes, topic_width: int) -> list[bytes] | None:
    """Body, topic and properties; None when their lengths do not add up."""
    sys_flag = _int(record, 36, 4)
    at = 84 + 12 * bool(sys_flag & 0x10) + 12 * bool(sys_flag & 0x20)
    fields = []
    for width in (4, topic_width, 2):
        length = _int(record, at, width)
        if at + width > len(record) or length < 0 or at + width + length > len(record):
            return None
        fields.append(record[at + width : at + width + length])
        at += width + length
    return fields if at == len(record) else None


def plain_scan(data: bytes, start: int, end: int, base_offset: int) -> tuple[int, int, int, int]:
    """(stop position, records, last store timestamp or -1, why it stopped)."""
    data = data[:end]
    at, records, timestamp = start, 0, -1
    while at < end:
        if data[at + 4 : at + 8].hex() == "cbd43194":
            return at, records, timestamp, BLANK
        size = plain_whole_record_size(data, at, base_offset)
        if size < 0:
            return at, records, timestamp, NO_RECORD
        (timestamp,) = struct.unpack_from(">q", data, at + (68 if _int(data, at + 36, 4) & 0x10 else 56))
        records += 1
        at += size
    return at, records, timestamp, DATA_ENDS


def plain_find(data: bytes, start: int, end: int, base_offset: int) -> int:
    """Position of the first whole record at or after `start`; -1 for none."""
    data = data[:end]
    found = (at for at in range(start, end) if plain_whole_record_size(data, at, base_offset) >= 0)
    return next(found, -1)


def lenient_record_size(
    data: bytes, at: int, base_offset: int, *, ignores_record_crc: bool = False, ignores_place: bool = False
) -> int:
    """As `plain_whole_record_size`, but for a check that is left out: for planted bugs."""
    total_size = _int(data, at, 4)
    if len(data) - at < 88 or data[at + 4 : at + 8].hex() not in ("daa320a7", "daa320ab"):
        return -1
    if not 88 <= total_size <= len(data) - at:
        return -1
    record = data[at : at + total_size]
    if not ignores_place and _int(record, 28, 8) != base_offset + at:
        return -1
    fields = _fields(record, 1 if record[4:8].hex() == "daa320a7" else 2)
    if fields is None or (fields[0] and plain_crc32(fields[0]) != _int(record, 8, 4)):
        return -1
    digits = f"{plain_crc32(record[:-20]):010d}"[::-1].encode()
    return total_size if ignores_record_crc or record[-11:-1] == digits else -1
