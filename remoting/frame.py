"""The frame: one command as bytes, and how a stream is cut into frames.

     0        4        8               8+n
    +--------+--------+---------------+--------------+
    | LENGTH | TYPE   | HEADER        | BODY         |      LENGTH: of all that follows it
    |        | + n    | (n bytes)     | (the rest)   |      TYPE: 1 byte; n: the lower 3 bytes
    +--------+--------+---------------+--------------+

Big-endian. TYPE says how the header is written: 0 JSON (header_json.py), 1 ROCKETMQ (header_binary.py).
A stream has no other bytes: no greeting, no magic. So a length that cannot be right ends the stream.

It does not read headers (command.py). Nothing is allocated by a length that a peer announces.
Threads: a reader belongs to one connection, hence to one thread.
Source: docs/spec/remoting.md section 1; RemotingCommand#encode, NettyDecoder of Apache RocketMQ.
"""

import struct
from typing import Final

import msgspec

from mqstore.remoting.errors import FrameIllegal

__all__ = ["MAX_FRAME_BYTES", "Frame", "FrameReader", "encode_frame"]

MAX_FRAME_BYTES: Final = 16_777_216
"""RocketMQ's greatest frame, with its length word, on both sides."""

_HEAD: Final = struct.Struct(">II")
_LENGTH_BYTES: Final = 4
_HEADER_LENGTH: Final = 0x00FF_FFFF
_HEAD_BYTES: Final = 8
assert _HEAD.size == _HEAD_BYTES
_pack_head, _unpack_head = _HEAD.pack, _HEAD.unpack_from


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame. serialization: 0 JSON, 1 ROCKETMQ, others are unknown. body: a view, not a copy."""

    serialization: int
    header: bytes
    body: memoryview


def encode_frame(serialization: int, header: bytes, body: bytes = b"") -> bytes:
    """The bytes of a frame.

    >>> encode_frame(0, b"{}", b"hi").hex()
    '00000008000000027b7d6869'
    """
    head = _pack_head(_LENGTH_BYTES + len(header) + len(body), serialization << 24 | len(header))
    return head + header + body


class FrameReader:
    """Cuts the stream of one connection. max_frame_bytes: of a frame with its length word.

    failure: why the stream cannot be cut any more; None while it can.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.failure: FrameIllegal | None = None
        self._max_length = max_frame_bytes - _LENGTH_BYTES
        # The beginning of a frame whose rest has not come yet.
        self._pending = bytearray()
        # Bytes that `_pending` must have before it is worth looking at again.
        self._needed = 0

    @property
    def has_partial(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes, in their order; none after a failure."""
        if self.failure is not None:
            return []
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return []
            # Copied once a frame, not once a piece of it.
            data = bytes(self._pending)
            self._pending.clear()
        frames: list[Frame] = []
        view, at, end = memoryview(data), 0, len(data)
        while end - at >= _HEAD_BYTES:
            length, word = _unpack_head(data, at)
            header_length = word & _HEADER_LENGTH
            if length > self._max_length:
                self.failure = FrameIllegal("the length", length, self._max_length)
                return frames
            room = length - _LENGTH_BYTES
            if header_length > room:
                self.failure = FrameIllegal("the header length", header_length, max(0, room))
                return frames
            stop = at + _LENGTH_BYTES + length
            if stop > end:
                self._needed = stop - at
                break
            header_at = at + _HEAD_BYTES
            body_at = header_at + header_length
            frames.append(Frame(word >> 24, data[header_at:body_at], view[body_at:stop]))
            at = stop
        else:
            self._needed = _HEAD_BYTES
        if at < end:
            self._pending += view[at:]
        return frames

    def __repr__(self) -> str:
        state = "failed" if self.failure else f"{len(self._pending)} bytes wait"
        return f"FrameReader({state})"
