"""The timer log and wheel: the specification's sample bytes, both ways, and the ends of a file."""

from mqstore.schedule.delay import timer_log_format as timer_log
from mqstore.schedule.delay.timer_log_format import TimerUnit, WheelSlot
from mqstore.store.record.java_hash import string_hash

UNIT = TimerUnit(-1, 1, 1726740000000, 10000, 4096, 300, string_hash("TopicTest"))
UNIT_BYTES = bytes.fromhex(
    "00000034 ffffffffffffffff 00000001 0000019209b96d00 00002710 0000000000001000 0000012c 8e987641"
    "0000000000000000"
)
SLOT = WheelSlot(1726740010, 0, 0, 1)
SLOT_BYTES = bytes.fromhex("0000000066ebf62a 0000000000000000 0000000000000000 00000001 00000000")


def test_the_sample_unit() -> None:
    """52 bytes, written and read as RocketMQ does; due at write time plus delay."""
    assert timer_log.encode_unit(UNIT) == UNIT_BYTES
    assert timer_log.decode_unit(UNIT_BYTES) == UNIT
    assert UNIT.slot_time_ms == 1726740010000


def test_the_sample_slot() -> None:
    """32 bytes; the slot number is the tick modulo two weeks of seconds."""
    assert timer_log.encode_wheel_slot(SLOT) == SLOT_BYTES
    assert timer_log.decode_wheel_slot(bytes(32) + SLOT_BYTES, 1) == SLOT
    assert timer_log.wheel_slot_of(1726740010000) == 1726740010 % 1_209_600


def test_the_end_mark_is_no_unit() -> None:
    """A file ends where no unit and end mark fit any more."""
    mark = timer_log.encode_end_mark(16)
    assert mark == bytes.fromhex("00000010 0000000000000000 cbd43194")
    assert timer_log.is_end_mark(mark)
    assert not timer_log.is_end_mark(UNIT_BYTES)
    assert timer_log.decode_unit(mark + bytes(36)) is None
    assert timer_log.DEFAULT_FILE_SIZE_BYTES - 68 == 104_857_532


def test_units_of_a_file_end_at_what_is_none() -> None:
    """Two units, then zeros, an end mark, an unknown magic, or the end of the bytes."""
    second = UNIT._replace(previous_position=0, magic=timer_log.MAGIC_DEFAULT | timer_log.MAGIC_ROLL)
    data = UNIT_BYTES + timer_log.encode_unit(second)
    unknown = timer_log.encode_unit(UNIT._replace(magic=0x10))
    for tail in (b"", bytes(100), timer_log.encode_end_mark(100), unknown, UNIT_BYTES[:51]):
        assert list(timer_log.units(data + tail)) == [(0, UNIT), (52, second)]
