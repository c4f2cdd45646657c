"""Bytes that are no request, or a request that nobody should send: each kind that a stream can break by.

Two of three break the stream, so its connection must be closed; the others are frames of right lengths.
"""

import json
import random
import struct

from mqstore.remoting.command import JSON, ROCKETMQ, encode_request

__all__ = ["malformed_bytes"]

_HEAD = struct.Struct(">II")
_KINDS = 9


def malformed_bytes(chance: random.Random) -> bytes:
    """What one connection sends before it ends its half."""
    kind = chance.randrange(_KINDS)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 2_000))
    if kind == 1:
        # Longer than may be, or negative as Java reads it.
        return _HEAD.pack(chance.randrange(1 << 25, 1 << 32), 10) + chance.randbytes(100)
    if kind == 2:
        # A header that is longer than its frame.
        return _HEAD.pack(20, chance.randrange(21, 1 << 24)) + bytes(16)
    if kind == 3:
        # Half of a frame.
        frame = _request(chance)
        return frame[: chance.randrange(1, len(frame))]
    if kind == 4:
        # A few bits are wrong.
        frame = bytearray(_request(chance))
        for _ in range(chance.randrange(1, 9)):
            frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
        return bytes(frame)
    if kind == 5:
        return _frame(0, json.dumps(_strange_header(chance)).encode())
    if kind == 6:
        # JSON without end.
        depth = chance.randrange(1, 50_000)
        return _frame(0, b"[" * depth)
    if kind == 7:
        return _frame(chance.randrange(256), chance.randbytes(chance.randrange(200)))
    # Right requests, then rubbish: the first are answered, and the rest is not.
    return _request(chance) * 3 + chance.randbytes(50)


def _request(chance: random.Random) -> bytes:
    return encode_request(
        chance.choice([10, 11, 34, 105, 310, 320, chance.randrange(1 << 15)]),
        chance.randrange(1 << 31),
        {chance.choice("abcdefghijklm"): str(chance.randrange(-9, 9)) for _ in range(chance.randrange(9))},
        chance.randbytes(chance.randrange(300)),
        serialization=chance.choice([JSON, ROCKETMQ]),
    )


def _strange_header(chance: random.Random) -> object:
    header = {
        "code": 310,
        "opaque": 1,
        "flag": 0,
        "version": 513,
        "language": "JAVA",
        "extFields": {"b": "orders"},
    }
    name = chance.choice(sorted(header))
    header[name] = chance.choice([None, "", "\ud800", -1, 1 << 70, 1.5, [], {}, {"a": {"b": 1}}, True])
    return chance.choice([header, [header], "header", 5, None])


def _frame(serialization: int, header: bytes) -> bytes:
    return _HEAD.pack(4 + len(header), serialization << 24 | len(header)) + header
