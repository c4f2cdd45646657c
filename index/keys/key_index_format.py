"""The key index: what the pairs in its LMDB file mean. The file itself is LMDB's (`data.mdb`).

    state   key    00
            value  +----------+----------+--------------------+--------------------+--------------------+
                   | "MQKI"   | version  | dispatched offset  | anchor offset      | anchor store time  |
                   +----------+----------+--------------------+--------------------+--------------------+
                    0          4          8                    16                   24                 32

    run     key    01, then the physical offset of the run's oldest record (8 bytes)
            value  +--------------------+--------------------+--------------------+
                   | newest offset      | least store time   | greatest store time|   once
                   +--------------------+--------------------+--------------------+
                   | hash of topic#key  | store time         | physical offset    |   n times, ascending by
                   +--------------------+--------------------+--------------------+   hash, then by offset
                    0                    8                    16                  24

Big-endian; hashes are signed. Runs are sorted pieces of the log, one after another: all offsets of a run are
below those of the next. Version 1. Page: docs/format/key_index.md. No I/O here.
"""

import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "COLUMN_BYTES",
    "ENTRY_BYTES",
    "HASH",
    "PHYSICAL_OFFSET",
    "RUN_HEADER_BYTES",
    "STATE_KEY",
    "STORE_TIMESTAMP",
    "VERSION",
    "KeyIndexState",
    "RunHeader",
    "decode_entries",
    "decode_run_header",
    "decode_state",
    "encode_run",
    "encode_run_header",
    "encode_run_key",
    "encode_state",
    "is_run_key",
    "run_key_offset",
]

VERSION: Final = 1
STATE_KEY: Final = b"\x00"
_RUN_PREFIX: Final = b"\x01"
_MAGIC: Final = b"MQKI"

_STATE = struct.Struct(">4siqqq")
_RUN_KEY = struct.Struct(">cq")
_RUN_HEADER = struct.Struct(">qqq")
_LONG = np.dtype(">i8")

RUN_HEADER_BYTES: Final = _RUN_HEADER.size
ENTRY_BYTES: Final = 24
COLUMN_BYTES: Final = 8

# Columns of an entry.
HASH: Final = 0
STORE_TIMESTAMP: Final = 1
PHYSICAL_OFFSET: Final = 2

assert _STATE.size == 32
assert _RUN_KEY.size == 9
assert RUN_HEADER_BYTES == ENTRY_BYTES == 3 * COLUMN_BYTES
assert _LONG.itemsize == COLUMN_BYTES
assert STATE_KEY < _RUN_PREFIX

Entries = npt.NDArray[np.int64]


class KeyIndexState(NamedTuple):
    """How far the runs reach, and a record that identifies the log.

    dispatched_offset: all keys of records below it are in runs. anchor_offset, anchor_store_timestamp: of
    the last of those records; -1 when it is not known.
    """

    dispatched_offset: int
    anchor_offset: int = -1
    anchor_store_timestamp: int = -1

    def advanced(self, to_offset: int, last_offset: int, last_store_timestamp: int) -> "KeyIndexState":
        """The state after more records; the last of them is the new anchor, if there was any (-1)."""
        if last_offset < 0:
            return self._replace(dispatched_offset=to_offset)
        return KeyIndexState(to_offset, last_offset, last_store_timestamp)


class RunHeader(NamedTuple):
    """What a search needs to know in order to skip a run."""

    newest_offset: int
    least_store_timestamp: int
    greatest_store_timestamp: int


def encode_state(state: KeyIndexState) -> bytes:
    """The value of STATE_KEY.

    >>> encode_state(KeyIndexState(137)).hex(" ", 8)
    '4d514b4900000001 0000000000000089 ffffffffffffffff ffffffffffffffff'
    """
    return _STATE.pack(_MAGIC, VERSION, *state)


def decode_state(value: bytes | memoryview) -> KeyIndexState | None:
    """The state, or None when these are not the bytes of this version: the index is then rebuilt."""
    if len(value) != _STATE.size:
        return None
    magic, version, *fields = _STATE.unpack(value)
    return KeyIndexState(*fields) if magic == _MAGIC and version == VERSION else None


def encode_run_key(oldest_offset: int) -> bytes:
    """The LMDB key of the run whose oldest record is at `oldest_offset`."""
    return _RUN_KEY.pack(_RUN_PREFIX, oldest_offset)


def is_run_key(key: bytes | memoryview) -> bool:
    """Whether a pair is a run."""
    return len(key) == _RUN_KEY.size and key[0] == _RUN_PREFIX[0]


def run_key_offset(key: bytes | memoryview) -> int:
    """The physical offset of the oldest record of a run."""
    offset: int = _RUN_KEY.unpack(key)[1]
    return offset


def encode_run(header: RunHeader, entries: Entries) -> bytearray:
    """The value of a run. `entries` are sorted."""
    value = bytearray(RUN_HEADER_BYTES + ENTRY_BYTES * len(entries))
    encode_run_header(value, header)
    decode_entries(value)[:] = entries
    return value


def encode_run_header(value: bytearray, header: RunHeader) -> None:
    """Write the first 24 bytes of a run's value."""
    _RUN_HEADER.pack_into(value, 0, *header)


def decode_run_header(value: bytes | bytearray | memoryview) -> RunHeader:
    """The first 24 bytes of a run's value."""
    return RunHeader(*_RUN_HEADER.unpack_from(value))


def decode_entries(value: bytes | bytearray | memoryview) -> Entries:
    """The entries in a run's value: a big-endian array of shape (n, 3) over the same memory."""
    return np.frombuffer(value, _LONG, offset=RUN_HEADER_BYTES).reshape(-1, 3)
