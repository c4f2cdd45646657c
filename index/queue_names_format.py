"""The queue names: which consume queues have had entries, so that a lost one is missed.

     0        4        8                        n - 4    n
    +--------+--------+------------- - - -----+--------+
    | MAGIC  | VERSION| NAMES                 | CRC-32C|
    +--------+--------+------------- - - -----+--------+

Big-endian. MAGIC is "MQSQ". NAMES is JSON in UTF-8, without blanks: an object with the queue ids of each
topic, `{"orders":[0,1]}`, both sorted. The CRC-32C covers all before it. A file of ours,
`<root>/mqstore/queue-names`, which a broker ignores. Page: docs/format/queue_names.md. No I/O here.
"""

import functools
import struct
from collections.abc import Callable, Iterable
from typing import Final, cast

import msgspec

__all__ = ["FIELDS", "VERSION", "decode_queue_names", "encode_queue_names"]

VERSION: Final = 1
FIELDS = ((0, 4, "bytes", "MAGIC"), (4, 4, "int", "VERSION"))
_MAGIC: Final = b"MQSQ"

_HEAD = struct.Struct(">4si")
_CRC = struct.Struct(">I")
assert _HEAD.size == sum(size for _, size, _, _ in FIELDS) == 8


@functools.cache
def _crc32c() -> Callable[[bytes], int]:
    import crcmod.predefined  # here, because few processes need it and importing costs

    return cast("Callable[[bytes], int]", crcmod.predefined.mkPredefinedCrcFun("crc-32c"))


def encode_queue_names(queues: Iterable[tuple[str, int]]) -> bytes:
    """The bytes of the file.

    >>> encode_queue_names([("orders", 1), ("orders", 0)])[8:-4]
    b'{"orders":[0,1]}'
    """
    topics: dict[str, list[int]] = {}
    for topic, queue_id in sorted(queues):
        topics.setdefault(topic, []).append(queue_id)
    content = _HEAD.pack(_MAGIC, VERSION) + msgspec.json.encode(topics)
    return content + _CRC.pack(_crc32c()(content))


def decode_queue_names(data: bytes) -> frozenset[tuple[str, int]] | None:
    """The queues; None when these are not the bytes of this version: then nothing is known to be missing."""
    if len(data) < _HEAD.size + _CRC.size or _HEAD.unpack_from(data) != (_MAGIC, VERSION):
        return None
    content = data[: -_CRC.size]
    if _CRC.unpack_from(data, len(content))[0] != _crc32c()(content):
        return None
    try:
        topics = msgspec.json.decode(content[_HEAD.size :], type=dict[str, list[int]])
    except msgspec.DecodeError:
        return None
    return frozenset((topic, queue_id) for topic, queue_ids in topics.items() for queue_id in queue_ids)
