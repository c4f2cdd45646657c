"""The batch: several messages in one body, as a RocketMQ client sends them and an inner batch keeps them.

     0        4        8        12       16       20         20+n     22+n
    +--------+--------+--------+--------+--------+----------+--------+------------+
    | SIZE   | MAGIC  | BODY   | FLAG   | BODY   | BODY     | PRO-   | PROPERTIES |
    |        | (0)    | CRC (0)|        | LENGTH | (n)      | PERTIES|            |
    +--------+--------+--------+--------+--------+----------+--------+------------+

The elements follow each other, big-endian. Magic and body CRC are written as 0 and ignored when read; the
properties' length takes 2 bytes. A broker splits a batch into records; an inner batch (sys_flag.INNER_BATCH)
is stored whole, and `decode_batch` reads its body. Page: docs/format/commit_log.md.
Source: MessageDecoder#encodeMessage, #decodeMessage. No I/O here.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from mqstore.store.errors import MessageIllegal

__all__ = ["ELEMENT_BYTES", "BatchElement", "decode_batch", "encode_batch", "first_element"]

_FIXED = struct.Struct(">iiiii")
_PROPERTIES_LENGTH = struct.Struct(">h")
_FIXED_BYTES, _LENGTH_BYTES = _FIXED.size, _PROPERTIES_LENGTH.size
_SIZE_BYTES = 4
_unpack_fixed, _unpack_length = _FIXED.unpack_from, _PROPERTIES_LENGTH.unpack_from
ELEMENT_BYTES = _FIXED_BYTES + _LENGTH_BYTES
"""What an element takes beside its body and its properties."""
assert _FIXED_BYTES == 20


class BatchElement(NamedTuple):
    """One message of a batch; topic, queue and times are the batch's."""

    body: bytes
    properties: bytes = b""
    """The properties string (properties_format.py)."""
    flag: int = 0


def encode_batch(elements: Iterable[BatchElement]) -> bytes:
    """The body of a batch.

    >>> encode_batch([BatchElement(b"hi")]).hex()
    '000000180000000000000000000000000000000268690000'
    """
    return b"".join(_encode_element(*element) for element in elements)


def _encode_element(body: bytes, properties: bytes, flag: int) -> bytes:
    size = ELEMENT_BYTES + len(body) + len(properties)
    fixed = _FIXED.pack(size, 0, 0, flag, len(body))
    return b"".join((fixed, body, _PROPERTIES_LENGTH.pack(len(properties)), properties))


def decode_batch(data: bytes | memoryview) -> list[BatchElement]:
    """The elements of a batch's body. Raises MessageIllegal if lengths do not add up."""
    data = bytes(data)
    elements = []
    at, end = 0, len(data)
    # Written out: a broker decodes a hundred of them at a time.
    while at < end:
        rest = end - at
        if rest < ELEMENT_BYTES:
            raise _illegal(at, f"at least {ELEMENT_BYTES} bytes", rest)
        size, _, _, flag, body_length = _unpack_fixed(data, at)
        if not ELEMENT_BYTES <= size <= rest:
            raise _illegal(at, f"a size from {ELEMENT_BYTES} to {rest}", size)
        if not 0 <= body_length <= size - ELEMENT_BYTES:
            raise _illegal(at, f"a body of 0 to {size - ELEMENT_BYTES} bytes", body_length)
        body_at = at + _FIXED_BYTES
        body_stop = body_at + body_length
        (properties_length,) = _unpack_length(data, body_stop)
        at += size
        properties_at = body_stop + _LENGTH_BYTES
        if properties_length != at - properties_at:
            wanted = f"properties of {at - properties_at} bytes"
            raise _illegal(at - size, wanted, properties_length)
        elements.append(BatchElement(data[body_at:body_stop], data[properties_at:at], flag))
    return elements


def first_element(data: bytes | memoryview) -> BatchElement:
    """The first element of a batch's body; the others are not looked at. Raises MessageIllegal."""
    size = int.from_bytes(data[:_SIZE_BYTES], "big", signed=True)
    return decode_batch(data[: max(size, ELEMENT_BYTES)])[0]


def _illegal(at: int, wanted: str, found: int) -> MessageIllegal:
    return MessageIllegal(
        f"the batch element at byte {at} has {found}, but must have {wanted}", value=found, limit=wanted
    )
