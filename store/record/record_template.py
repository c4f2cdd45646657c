"""Encodes one record: a template of what many headers share, an ending, then the record made from both.

The ending is what lies behind the body but for the record CRC: topic, length of the properties, properties.
Each single put runs `encode_from`, so it does little: it packs the header, joins it with what is prepared,
and looks up the digits of the CRC. store/bulk/encode_kernels.py encodes thousands at once. Layout:
record_format.py. Pure functions: any thread.
"""

import struct
from collections.abc import Callable

import msgspec
import numpy as np

from mqstore.store.checksum.crc32 import HELD_BYTES, crc32, crc32_combine
from mqstore.store.record.record_format import (
    CRC_MASK,
    CRC_NAME,
    CRC_PROPERTY_BYTES,
    HEADER_BYTES,
    HEADERS,
    PROPERTIES_LENGTH,
)

__all__ = [
    "RecordTemplate",
    "encode_ending",
    "encode_from",
    "encode_record",
    "header_template",
    "record_template",
]

# As HEADERS, but flag, sys flag and the fields between store time and body length are bytes.
_PACK_HEADER = tuple(
    tuple(struct.Struct(f">iiii4sqq4sq{born}sq{store + 12}si").pack for store in (8, 20)) for born in (8, 20)
)
_BEHIND_STORE_HOST = struct.Struct(">iq")
_INT = struct.Struct(">i")
_join = b"".join


def _four_digits() -> list[bytes]:
    """Of each number below 10,000, least significant first: by numpy, for each import makes them."""
    numbers = np.arange(10_000)
    digits = np.stack([numbers // power % 10 + ord("0") for power in (1, 10, 100, 1000)], axis=1)
    found: list[bytes] = digits.astype(np.uint8).view("S4").ravel().tolist()
    return found


# The digits of a record CRC, least significant first, and the 0x02 behind them. Look-ups are faster.
_FOUR_DIGITS = _four_digits()
_CLOSING_DIGITS = [(b"\x02%02d" % number)[::-1] for number in range(22)]

assert len(_CLOSING_DIGITS) > CRC_MASK // 100_000_000


class RecordTemplate(msgspec.Struct, frozen=True, gc=False):
    """What records of many topics share. Bodies, endings, queues, offsets and times differ.

    pack_header: packs a header with hosts of these lengths. magic, flag, sys_flag, born_host: fields 2, 5, 8
    and 10. behind_store_time: fields 12 to 14. has_crc: the record ends in its CRC. fixed_bytes: size of a
    record without its body and its ending.
    """

    pack_header: Callable[..., bytes]
    magic: int
    flag: bytes
    sys_flag: bytes
    born_host: bytes
    behind_store_time: bytes
    has_crc: bool
    fixed_bytes: int


def header_template(sys_flag: int, born_host: bytes, store_host: bytes) -> bytes:
    """Fields 1 to 15: the sys flag, whose host bits must match the hosts, and the hosts; all others zero."""
    header = HEADERS[len(born_host) == 20][len(store_host) == 20]
    return header.pack(0, 0, 0, 0, 0, 0, 0, sys_flag, 0, born_host, 0, store_host, 0, 0, 0)


def record_template(
    magic: int,
    flag: int,
    sys_flag: int,
    born_host: bytes,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    append_crc: bool,
) -> RecordTemplate:
    """The template from which `encode_from` makes records.

    magic: from `encode_topic`. The host bits of `sys_flag` must match the lengths of the hosts.
    Raises struct.error for a number that does not fit its field.
    """
    return RecordTemplate(
        _PACK_HEADER[len(born_host) == 20][len(store_host) == 20],
        magic,
        _INT.pack(flag),
        _INT.pack(sys_flag),
        born_host,
        store_host + _BEHIND_STORE_HOST.pack(reconsume_times, prepared_transaction_offset),
        append_crc,
        HEADER_BYTES - 16 + len(born_host) + len(store_host) + CRC_PROPERTY_BYTES * append_crc,
    )


def encode_ending(topic_field: bytes, properties: bytes, crc_bytes: int) -> bytes:
    """What lies behind the body, but for the record CRC: `crc_bytes` of it follow as one more property.

    topic_field: from `encode_topic`. properties: if the CRC follows, their last byte is 0x02. Raises
    struct.error if they are too long.
    """
    return topic_field + PROPERTIES_LENGTH.pack(len(properties) + crc_bytes) + properties


def encode_from(
    template: RecordTemplate,
    ending: bytes,
    size_bytes: int,
    queue_id: int,
    body: bytes,
    body_crc: int,
    queue_offset: int,
    physical_offset: int,
    born_timestamp: int,
    store_timestamp: int,
) -> bytes:
    """A whole record. ending: from `encode_ending`. size_bytes: of all of it. body_crc: all 32 bits."""
    body_bytes = len(body)
    header = template.pack_header(
        size_bytes,
        template.magic,
        body_crc & CRC_MASK,
        queue_id,
        template.flag,
        queue_offset,
        physical_offset,
        template.sys_flag,
        born_timestamp,
        template.born_host,
        store_timestamp,
        template.behind_store_time,
        body_bytes,
    )
    if not template.has_crc:
        return _join((header, body, ending))
    if body_bytes <= HELD_BYTES:
        crc = crc32(body, crc32(header))
    else:
        # Faster; and crc32 would release the GIL: other threads would run and find the append lock taken.
        crc = crc32_combine(crc32(header), body_crc, body_bytes)
    crc = crc32(ending, crc) & CRC_MASK
    rest = crc // 10_000
    first, second, last = _FOUR_DIGITS[crc % 10_000], _FOUR_DIGITS[rest % 10_000], rest // 10_000
    return _join((header, body, ending, CRC_NAME, first, second, _CLOSING_DIGITS[last]))


def encode_record(
    magic: int,
    topic_field: bytes,
    body: bytes,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    append_crc: bool,
) -> bytes:
    """A whole record in one step: `record_template` and `encode_ending`, then `encode_from`.

    append_crc: properties that lack a closing 0x02 get it first, as in RocketMQ.
    """
    if append_crc and properties and properties[-1] != 2:
        properties += b"\x02"
    template = record_template(
        magic,
        flag,
        sys_flag,
        born_host,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        append_crc,
    )
    ending = encode_ending(topic_field, properties, CRC_PROPERTY_BYTES if append_crc else 0)
    return encode_from(
        template,
        ending,
        template.fixed_bytes + len(body) + len(ending),
        queue_id,
        body,
        crc32(body),
        queue_offset,
        physical_offset,
        born_timestamp,
        store_timestamp,
    )
