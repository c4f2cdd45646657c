"""RocketMQ's checkpoint: six timestamps and offsets at the head of a 4,096-byte file.

     0                8                16               24               32               40
    +----------------+----------------+----------------+----------------+----------------+----------------+
    | PHYSIC MSG     | LOGICS MSG     | INDEX MSG      | MASTER FLUSHED | CONFIRM PHY    | LOGICS         |
    | TIMESTAMP      | TIMESTAMP      | TIMESTAMP      | OFFSET         | OFFSET         | PHYSICAL OFFSET|
    +----------------+----------------+----------------+----------------+----------------+----------------+

Big-endian; bytes 48 to 4095 are zero. An absent file reads as all zero. Never renumbered: brokers read it.
Page: docs/format/checkpoint.md. Source: StoreCheckpoint. No I/O here.
"""

import struct
from typing import NamedTuple

__all__ = ["CHECKPOINT_FILE_BYTES", "FIELDS", "Checkpoint", "decode_checkpoint", "encode_checkpoint"]

FIELDS = (
    (0, 8, "long", "physicMsgTimestamp"),
    (8, 8, "long", "logicsMsgTimestamp"),
    (16, 8, "long", "indexMsgTimestamp"),
    (24, 8, "long", "masterFlushedOffset"),
    (32, 8, "long", "confirmPhyOffset"),
    (40, 8, "long", "logicsPhysicalOffset"),
)
CHECKPOINT_FILE_BYTES = 4_096
# What RocketMQ subtracts before it trusts a timestamp.
SAFETY_MS = 3_000

_CHECKPOINT = struct.Struct(">qqqqqq")
assert _CHECKPOINT.size == sum(size for _, size, _, _ in FIELDS) == 48


class Checkpoint(NamedTuple):
    """Store times up to which log, queues and index are durable; offsets of replicas and of the queues."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    logics_physical_offset: int = 0

    @property
    def min_timestamp(self) -> int:
        """Records stored up to here are durable in log and queues: min(physic, logics) - 3 s, at least 0."""
        return max(0, min(self.physic_msg_timestamp, self.logics_msg_timestamp) - SAFETY_MS)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The first 48 bytes of the file."""
    return _CHECKPOINT.pack(*checkpoint)


def decode_checkpoint(data: bytes | memoryview) -> Checkpoint:
    """Read a file of any length; what is missing at its end counts as zero."""
    return Checkpoint._make(
        _CHECKPOINT.unpack(bytes(data[: _CHECKPOINT.size]).ljust(_CHECKPOINT.size, b"\0"))
    )
