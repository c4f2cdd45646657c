"""RocketMQ's timer log and timer wheel: messages with an arbitrary deliver time. Read here, never written.

    unit of the timer log, 52 bytes
            +---------------------------------------------------------------+
          0 | size_bytes = 52               | previous_position ...         |
          8 | ... previous_position         | magic                         |
         16 | write_time_ms                                                 |
         24 | delay_ms                      | physical_offset ...           |
         32 | ... physical_offset           | record_size_bytes             |
         40 | topic_hash                    | reserved ...                  |
         48 | ... reserved                  |
            +-------------------------------+
    end mark of a timer log file, 16 bytes
          0 | remaining_bytes               | 0 ...                         |
          8 | ... 0                         | CBD43194                      |
    slot of the wheel, 32 bytes
          0 | tick = time / precision                                       |
          8 | first_position                                                |
         16 | last_position                                                 |
         24 | message_count                 | magic (unused)                |

Big-endian. Files: `timerlog/` + 20-digit start position, 104,857,600 bytes each; `timerwheel`,
38,707,200 bytes. page: docs/format/timer_log.md.

The units of one slot are a chain through `previous_position`, newest last. mqstore has no timer wheel
of its own: `mqstore dump` reads a broker's directory with this, and tests write with it. Pure functions;
no I/O, no clock.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = [
    "DEFAULT_FILE_SIZE_BYTES",
    "DEFAULT_PRECISION_MS",
    "END_MARK_BYTES",
    "END_MARK_MAGIC",
    "MAGIC_DEFAULT",
    "MAGIC_DELETE",
    "MAGIC_ROLL",
    "NO_POSITION",
    "UNIT_BYTES",
    "WHEEL_FILE_BYTES",
    "WHEEL_SLOT_BYTES",
    "WHEEL_SLOT_COUNT",
    "TimerUnit",
    "WheelSlot",
    "decode_unit",
    "decode_wheel_slot",
    "encode_end_mark",
    "encode_unit",
    "encode_wheel_slot",
    "is_end_mark",
    "units",
    "wheel_slot_of",
]

_UNIT: Final = struct.Struct(">iqiqiqiiq")
_END_MARK: Final = struct.Struct(">iqi")
_WHEEL_SLOT: Final = struct.Struct(">qqqii")

UNIT_BYTES: Final = 52
END_MARK_BYTES: Final = 16
WHEEL_SLOT_BYTES: Final = 32
assert (_UNIT.size, _END_MARK.size, _WHEEL_SLOT.size) == (UNIT_BYTES, END_MARK_BYTES, WHEEL_SLOT_BYTES)

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
"""Bit: too far ahead for the wheel; put again later."""
MAGIC_DELETE: Final = 4
"""Bit: takes another timer message of the same slot back."""
END_MARK_MAGIC: Final = -875_286_124
"""CBD43194, as in the commit log's BLANK record."""
NO_POSITION: Final = -1

DEFAULT_FILE_SIZE_BYTES: Final = 104_857_600
DEFAULT_PRECISION_MS: Final = 1000
WHEEL_SLOT_COUNT: Final = 1_209_600
"""Two weeks of seconds."""
WHEEL_FILE_BYTES: Final = WHEEL_SLOT_COUNT * WHEEL_SLOT_BYTES
assert WHEEL_FILE_BYTES == 38_707_200


class TimerUnit(NamedTuple):
    """One waiting message."""

    previous_position: int
    """Position in the timer log of the unit before it in its slot; -1 for none."""
    magic: int
    write_time_ms: int
    delay_ms: int
    """From write_time_ms to the time of the slot."""
    physical_offset: int
    """Of the record in topic rmq_sys_wheel_timer."""
    record_size_bytes: int
    topic_hash: int
    """String.hashCode of the topic that the message is for."""
    reserved: int = 0
    size_bytes: int = UNIT_BYTES

    @property
    def slot_time_ms(self) -> int:
        """When it is due."""
        return self.write_time_ms + self.delay_ms


class WheelSlot(NamedTuple):
    """The chain of units that are due in one tick of the wheel."""

    tick: int
    """Due time / precision. A slot that shows another tick than asked for is empty."""
    first_position: int
    last_position: int
    message_count: int
    """Waiting messages; a delete counts one down."""
    magic: int = 0


def encode_unit(unit: TimerUnit) -> bytes:
    """A unit's 52 bytes."""
    return _UNIT.pack(
        unit.size_bytes,
        unit.previous_position,
        unit.magic,
        unit.write_time_ms,
        unit.delay_ms,
        unit.physical_offset,
        unit.record_size_bytes,
        unit.topic_hash,
        unit.reserved,
    )


def decode_unit(data: bytes | memoryview, position: int = 0) -> TimerUnit | None:
    """The unit at a byte of `data`; None where its size or magic says that there is none."""
    size_bytes, previous, magic, write_time, delay, physical_offset, record_size, topic_hash, reserved = (
        _UNIT.unpack_from(data, position)
    )
    if size_bytes != UNIT_BYTES or (magic | 0xF) != 0xF:
        return None
    return TimerUnit(
        previous, magic, write_time, delay, physical_offset, record_size, topic_hash, reserved, size_bytes
    )


def encode_end_mark(remaining_bytes: int) -> bytes:
    """The 16 bytes that fill up a file: `remaining_bytes` counts them and all after them."""
    return _END_MARK.pack(remaining_bytes, 0, END_MARK_MAGIC)


def is_end_mark(data: bytes | memoryview, position: int = 0) -> bool:
    """Whether a file ends at a byte of `data`."""
    return bool(_END_MARK.unpack_from(data, position)[2] == END_MARK_MAGIC)


def units(data: bytes | memoryview) -> Iterator[tuple[int, TimerUnit]]:
    """(position, unit) of one timer log file, up to its end mark or the first place without a unit."""
    for position in range(0, len(data) - UNIT_BYTES + 1, UNIT_BYTES):
        unit = decode_unit(data, position)
        if unit is None:
            return
        yield position, unit


def encode_wheel_slot(slot: WheelSlot) -> bytes:
    """A slot's 32 bytes."""
    return _WHEEL_SLOT.pack(*slot)


def decode_wheel_slot(data: bytes | memoryview, slot_number: int = 0) -> WheelSlot:
    """Slot `slot_number` of a wheel that begins `data`."""
    return WheelSlot(*_WHEEL_SLOT.unpack_from(data, slot_number * WHEEL_SLOT_BYTES))


def wheel_slot_of(time_ms: int, precision_ms: int = DEFAULT_PRECISION_MS) -> int:
    """Number of the slot for what is due at `time_ms`."""
    return time_ms // precision_ms % WHEEL_SLOT_COUNT
