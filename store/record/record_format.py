"""The record: one message in the commit log, byte by byte.

     0        4        8        12       16       20               28               36
    +--------+--------+--------+--------+--------+----------------+----------------+
    | TOTAL  | MAGIC  | BODY   | QUEUE  | FLAG   | QUEUE OFFSET   | PHYSICAL       |
    | SIZE   | CODE   | CRC    | ID     |        |                | OFFSET         |
    +--------+--------+--------+--------+--------+----------------+----------------+
     36       40               48               56               64               72
    +--------+----------------+----------------+----------------+----------------+
    | SYS    | BORN           | BORN HOST      | STORE          | STORE HOST     |
    | FLAG   | TIMESTAMP      | (8 or 20)      | TIMESTAMP      | (8 or 20)      |
    +--------+----------------+----------------+----------------+----------------+
     72       76               84       88
    +--------+----------------+--------+------+-----+-------+-----+------------+
    | RECON- | PREPARED       | BODY   | BODY | TO- | TOPIC | PRO-| PROPERTIES |
    | SUME   | TRANSACTION    | LENGTH |      | PIC |       | PER-|            |
    | TIMES  | OFFSET         |        |      | LEN |       | TIES|            |
    +--------+----------------+--------+------+-----+-------+-----+------------+

Big-endian, two's complement. Positions as drawn hold when both hosts are IPv4; each IPv6 host moves what
follows by 12. The topic's length is 1 byte in V1 and 2 in V2; the properties' length is 2. Magic numbers
never change: they are in files on users' disks.

CRCs are CRC-32 (zlib) without the sign bit. The body's is field 3. The record's is the last property,
`__CRC32#`: 20 bytes with ten decimal digits, least significant first. It covers all bytes before it.

A BLANK (its length, then its magic) fills the rest of a segment. Page: docs/format/commit_log.md.
Source: MessageExtEncoder#encode, CommitLog#checkMessageAndReturnSize. No I/O, no clock here.
"""

import struct
from typing import NamedTuple

from mqstore.store.checksum.crc32 import crc32
from mqstore.store.errors import RecordIllegal
from mqstore.store.record.properties_format import CRC32
from mqstore.store.record.sys_flag import BORN_HOST_V6, STORE_HOST_V6

__all__ = [
    "BLANK",
    "BLANK_MAGIC_CODE",
    "BLANK_MIN_BYTES",
    "BODY_CRC_POSITION",
    "BODY_LENGTH_BEFORE_BODY",
    "BODY_LENGTH_POSITION",
    "BORN_HOST_POSITION",
    "BORN_PORT_POSITION",
    "BORN_TIMESTAMP_POSITION",
    "CRC_DIGITS",
    "CRC_MASK",
    "CRC_NAME",
    "CRC_PROPERTY_BYTES",
    "FIELDS",
    "FIXED_BYTES",
    "FLAG_POSITION",
    "HEADERS",
    "HEADER_BYTES",
    "IPV6_EXTRA_BYTES",
    "MAGIC_CODE_POSITION",
    "MAX_RECORD_OVERHEAD_BYTES",
    "MESSAGE_MAGIC_CODE",
    "MESSAGE_MAGIC_CODE_V2",
    "PHYSICAL_OFFSET_POSITION",
    "PREFIX",
    "PROPERTIES_LENGTH",
    "PROPERTIES_LENGTH_BYTES",
    "QUEUE_ID_POSITION",
    "QUEUE_OFFSET_POSITION",
    "STORE_HOST_END_BEFORE_BODY",
    "STORE_TIMESTAMP_POSITION",
    "SYS_FLAG_POSITION",
    "TRANSACTION_OFFSET_BEFORE_BODY",
    "RecordHeader",
    "RecordIllegal",
    "RecordLayout",
    "body_crc",
    "check_record",
    "crc_property",
    "decode_header",
    "decode_layout",
    "encode_blank",
    "encode_topic",
    "store_timestamp_position",
]

MESSAGE_MAGIC_CODE = -626843481  # DAA320A7
MESSAGE_MAGIC_CODE_V2 = -626843477  # DAA320AB
BLANK_MAGIC_CODE = -875286124  # CBD43194

# (position, size in bytes, type, name); positions and sizes for two IPv4 hosts, as the page's table.
FIELDS = (
    (0, 4, "int", "TOTALSIZE"),
    (4, 4, "int", "MAGICCODE"),
    (8, 4, "int", "BODYCRC"),
    (12, 4, "int", "QUEUEID"),
    (16, 4, "int", "FLAG"),
    (20, 8, "long", "QUEUEOFFSET"),
    (28, 8, "long", "PHYSICALOFFSET"),
    (36, 4, "int", "SYSFLAG"),
    (40, 8, "long", "BORNTIMESTAMP"),
    (48, 8, "bytes", "BORNHOST"),
    (56, 8, "long", "STORETIMESTAMP"),
    (64, 8, "bytes", "STOREHOST"),
    (72, 4, "int", "RECONSUMETIMES"),
    (76, 8, "long", "PREPAREDTRANSACTIONOFFSET"),
    (84, 4, "int", "BODYLEN"),
)
HEADER_BYTES = 88
IPV6_EXTRA_BYTES = 12

# Positions of single fields. An IPv6 host moves those behind it.
_POSITIONS = {name: at for at, _, _, name in FIELDS}
MAGIC_CODE_POSITION = _POSITIONS["MAGICCODE"]
BODY_CRC_POSITION = _POSITIONS["BODYCRC"]
QUEUE_ID_POSITION = _POSITIONS["QUEUEID"]
FLAG_POSITION = _POSITIONS["FLAG"]
QUEUE_OFFSET_POSITION = _POSITIONS["QUEUEOFFSET"]
PHYSICAL_OFFSET_POSITION = _POSITIONS["PHYSICALOFFSET"]
SYS_FLAG_POSITION = _POSITIONS["SYSFLAG"]
BORN_HOST_POSITION = _POSITIONS["BORNHOST"]
BORN_PORT_POSITION = BORN_HOST_POSITION + 7
"""The last byte of the port, where the born host is one of IPv4."""
BORN_TIMESTAMP_POSITION = _POSITIONS["BORNTIMESTAMP"]
STORE_TIMESTAMP_POSITION = _POSITIONS["STORETIMESTAMP"]
BODY_LENGTH_POSITION = _POSITIONS["BODYLEN"]
# Distances from the body's first byte back to fields of the header: the same for all hosts.
BODY_LENGTH_BEFORE_BODY = HEADER_BYTES - BODY_LENGTH_POSITION
TRANSACTION_OFFSET_BEFORE_BODY = HEADER_BYTES - _POSITIONS["PREPAREDTRANSACTIONOFFSET"]
STORE_HOST_END_BEFORE_BODY = HEADER_BYTES - _POSITIONS["RECONSUMETIMES"]
# The length field in front of the properties.
PROPERTIES_LENGTH = struct.Struct(">h")
PROPERTIES_LENGTH_BYTES = PROPERTIES_LENGTH.size

# Header, topic length and properties length of a V1 record with two IPv4 hosts.
FIXED_BYTES = 91
CRC_PROPERTY_BYTES = 20
CRC_DIGITS = 10
CRC_MASK = 0x7FFF_FFFF
# A record may exceed the largest body by this much (topic, properties, header).
MAX_RECORD_OVERHEAD_BYTES = 65_536

PREFIX = struct.Struct(">ii")
BLANK = PREFIX
BLANK_MIN_BYTES = 8

# Indexed by [born host is IPv6][store host is IPv6].
HEADERS = tuple(
    tuple(struct.Struct(f">iiiiiqqiq{born}sq{store}siqi") for store in (8, 20)) for born in (8, 20)
)
# Indexed by the two bits of the sys flag for IPv6 hosts.
_HEADERS = (HEADERS[0][0], HEADERS[1][0], HEADERS[0][1], HEADERS[1][1])
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_MAGIC_AND_SYS_FLAG = struct.Struct(">4xi28xi")
_SIZE_MAGIC_AND_SYS_FLAG = struct.Struct(">ii28xi")
# Indexed by the two bits of the sys flag for IPv6 hosts.
_HOSTS_EXTRA_BYTES = (0, IPV6_EXTRA_BYTES, IPV6_EXTRA_BYTES, 2 * IPV6_EXTRA_BYTES)
CRC_NAME = CRC32.encode() + b"\x01"

assert HEADERS[0][0].size == HEADER_BYTES == sum(size for _, size, _, _ in FIELDS)
assert all(at == sum(size for _, size, _, _ in FIELDS[:row]) for row, (at, *_) in enumerate(FIELDS))
assert len(CRC_NAME) + CRC_DIGITS + 1 == CRC_PROPERTY_BYTES
assert PREFIX.size == BLANK_MIN_BYTES == 8
assert (BORN_HOST_V6, STORE_HOST_V6) == (1 << 4, 2 << 4)


class RecordHeader(NamedTuple):
    """Fields 1 to 15 of a record, hosts as their stored bytes."""

    total_size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int


class RecordLayout(NamedTuple):
    """Where the variable parts of a record lie, as positions in the bytes it was decoded from."""

    body_start: int
    body_stop: int
    topic_start: int
    topic_stop: int
    properties_start: int
    properties_stop: int


def encode_topic(topic: str) -> tuple[bytes, int]:
    """The topic with its length field, and the magic: V2 if the topic exceeds 127 UTF-16 units."""
    name = topic.encode()
    if len(topic.encode("utf-16-be")) // 2 > 127:
        return len(name).to_bytes(2, "big") + name, MESSAGE_MAGIC_CODE_V2
    return len(name).to_bytes(1, "big") + name, MESSAGE_MAGIC_CODE


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """CRC-32 of a body, without the sign bit. 0 is a legal value.

    >>> body_crc(b"hello")
    907060870
    """
    return crc32(body) & CRC_MASK


def crc_property(crc: int) -> bytes:
    r"""The last 20 bytes of a record that carries its own CRC.

    >>> crc_property(631185506)
    b'__CRC32#\x016055811360\x02'
    """
    return b"__CRC32#\x01%b\x02" % (b"%010d" % (crc & CRC_MASK))[::-1]


def encode_blank(length_bytes: int) -> bytes:
    """The 8 bytes that begin the BLANK which fills the last `length_bytes` of a segment."""
    return BLANK.pack(length_bytes, BLANK_MAGIC_CODE)


def decode_header(data: bytes | memoryview, start: int = 0, stop: int | None = None) -> RecordHeader:
    """Fields 1 to 15 of the record data[start:stop], which may be longer than its record.

    Raises RecordIllegal for too few bytes, or if they are not a V1 or V2 record.
    """
    length = (len(data) if stop is None else stop) - start
    if length < HEADER_BYTES:
        raise RecordIllegal(f"at least {HEADER_BYTES} bytes", f"{length}")
    magic, sys_flag = _MAGIC_AND_SYS_FLAG.unpack_from(data, start)
    if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
        raise RecordIllegal("a record's magic DAA320A7 or DAA320AB", f"{magic & 0xFFFF_FFFF:08X}")
    header = _HEADERS[sys_flag >> 4 & 3]
    if length < header.size:
        raise RecordIllegal(f"at least {header.size} bytes", f"{length}")
    # As RecordHeader._make, in a third of its time.
    return tuple.__new__(RecordHeader, header.unpack_from(data, start))


def decode_layout(data: bytes | memoryview, start: int, stop: int) -> RecordLayout:
    """The positions of body, topic and properties of the record data[start:stop].

    Raises RecordIllegal for too few bytes, if they are not a V1 or V2 record, or if lengths do not add up.
    """
    if stop - start < FIXED_BYTES:
        raise RecordIllegal(f"at least {FIXED_BYTES} bytes", f"{stop - start}")
    total_size, magic, sys_flag = _SIZE_MAGIC_AND_SYS_FLAG.unpack_from(data, start)
    if magic not in (MESSAGE_MAGIC_CODE, MESSAGE_MAGIC_CODE_V2):
        raise RecordIllegal("a record's magic DAA320A7 or DAA320AB", f"{magic & 0xFFFF_FFFF:08X}")
    body_start = start + HEADER_BYTES + _HOSTS_EXTRA_BYTES[sys_flag >> 4 & 3]
    # The two lengths must fit behind the body, and one of them behind the topic.
    if body_start + 2 > stop:
        raise RecordIllegal(f"at least {body_start + 2 - start} bytes", f"{stop - start}")
    (body_length,) = _INT.unpack_from(data, body_start - BODY_LENGTH_BEFORE_BODY)
    body_stop = body_start + _checked_length(body_length, stop - body_start - 3)
    if magic == MESSAGE_MAGIC_CODE:
        topic_start = body_stop + 1
        # The length is signed in Java: above 127 it is negative.
        topic_length = data[body_stop] if data[body_stop] < 128 else data[body_stop] - 256
    else:
        topic_start = body_stop + 2
        (topic_length,) = _SHORT.unpack_from(data, body_stop)
    topic_stop = topic_start + _checked_length(topic_length, stop - topic_start - 2)
    (properties_length,) = _SHORT.unpack_from(data, topic_stop)
    properties_start = topic_stop + 2
    properties_stop = properties_start + _checked_length(properties_length, stop - properties_start)
    if properties_stop != start + total_size:
        raise RecordIllegal(f"a record of {properties_stop - start} bytes", f"a total size of {total_size}")
    return RecordLayout(body_start, body_stop, topic_start, topic_stop, properties_start, properties_stop)


def _checked_length(length: int, room_bytes: int) -> int:
    if not 0 <= length <= room_bytes:
        raise RecordIllegal(f"a length from 0 to {room_bytes}", str(length))
    return length


def store_timestamp_position(sys_flag: int) -> int:
    """Where the store timestamp of a record lies."""
    return STORE_TIMESTAMP_POSITION + (IPV6_EXTRA_BYTES if sys_flag & BORN_HOST_V6 else 0)


def check_record(record: memoryview, physical_offset: int) -> RecordHeader:
    """Verify the record that begins at `physical_offset`, with its CRCs; returns its header.

    `record` may be longer than the record. The twin of the kernel that recovery runs (record_kernels.py).
    Raises RecordIllegal: too few bytes, wrong magic, lengths that do not add up, another stored
    physical offset, a CRC of body or record that differs, a topic or properties that end in zeros, or zeros
    where the record's CRC would be.
    """
    header = decode_header(record)
    if not HEADER_BYTES <= header.total_size <= len(record):
        raise RecordIllegal(f"a total size from {HEADER_BYTES} to {len(record)}", str(header.total_size))
    record = record[: header.total_size]
    layout = decode_layout(record, 0, header.total_size)
    if header.physical_offset != physical_offset:  # I2
        raise RecordIllegal(f"physical offset {physical_offset}", str(header.physical_offset))
    crc = body_crc(record[layout.body_start : layout.body_stop])
    if header.body_length and crc != header.body_crc:
        raise RecordIllegal(f"body CRC {header.body_crc}", str(crc))
    _refuse_torn_end(record, layout.topic_start, layout.topic_stop, "topic")
    _refuse_torn_end(record, layout.properties_start, layout.properties_stop, "properties string")
    _check_record_crc(record, layout)
    return header


def _refuse_torn_end(record: memoryview, start: int, stop: int, name: str) -> None:
    # A page that never reached the disk is all zeros. A whole topic or properties string never ends in zero.
    if stop > start and record[stop - 1] == 0:
        raise RecordIllegal(f"a {name} that is whole", "zeros at its end")


def _check_record_crc(record: memoryview, layout: RecordLayout) -> None:
    ending = bytes(record[-CRC_PROPERTY_BYTES:])
    has_crc = layout.properties_stop - layout.properties_start >= CRC_PROPERTY_BYTES
    if not has_crc:
        return
    if ending.startswith(CRC_NAME):
        expected = crc_property(crc32(record[:-CRC_PROPERTY_BYTES]))
        if ending != expected:
            raise RecordIllegal(f"record CRC {expected[9:19].decode()}", _shown(ending[9:19]))
    elif 0 in ending:
        # Zeros of a page that never reached the disk reach into what was the CRC: its name is among them.
        raise RecordIllegal(f"{_shown(CRC_NAME)} or text at the end of the properties", _shown(ending))
    # Digits under another name would not match the record's CRC: so the name is damaged.
    elif ending[9:19].isdigit() and ending[9:] == crc_property(crc32(record[:-CRC_PROPERTY_BYTES]))[9:]:
        raise RecordIllegal(f"{_shown(CRC_NAME)} before the record's CRC", _shown(ending[:9]))


def _shown(data: bytes) -> str:
    """Bytes for people: printable text as it is, anything else as hex."""
    text = data.decode("latin-1")
    return text if text.isascii() and text.isprintable() else f"0x{data.hex()}"
