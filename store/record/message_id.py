"""The offset message id: the store host and the physical offset of a record, in hex.

16 bytes (IPv4) or 28 (IPv6), as 32 or 56 upper-case digits. Source: MessageDecoder#createMessageId,
#decodeMessageId. The producer's own id is the property UNIQ_KEY, not this one.
"""

import functools

from mqstore.store.record.host import Host

__all__ = ["decode_message_id", "encode_message_id"]

# Java's long: that of a damaged record may be negative.
_LONG = 2**64 - 1


def encode_message_id(store_host: bytes, physical_offset: int) -> str:
    """The id of the record at `physical_offset`; `store_host` as stored, 8 or 20 bytes.

    >>> encode_message_id(Host.parse("192.168.1.10:10911").encode(), 1024)
    'C0A8010A00002A9F0000000000000400'
    """
    return f"{_digits_of(store_host)}{physical_offset & _LONG:016X}"


@functools.lru_cache(maxsize=16)
def _digits_of(host: bytes) -> str:
    """Kept, for a server has one host and many ids."""
    return host.hex().upper()


def decode_message_id(message_id: str) -> tuple[Host, int]:
    """The store host and physical offset of an id. Raises ValueError if it is not an id."""
    data = bytes.fromhex(message_id)
    if len(data) not in (16, 28):
        raise ValueError(f"message id {message_id!r} has {len(message_id)} digits; 32 or 56 are expected")
    return Host.decode(data[:-8]), int.from_bytes(data[-8:], "big")
