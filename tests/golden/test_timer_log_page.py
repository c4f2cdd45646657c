"""The page of the timer log says what the code does: every field at its place, and the example's bytes."""

from mqstore.schedule.delay import timer_log_format as timer_log
from mqstore.schedule.delay.timer_log_format import TimerUnit, WheelSlot
from mqstore.store.record.java_hash import string_hash
from support.golden.format_page import FieldRow, code_block, field_table

PAGE = "timer_log.md"
UNIT = TimerUnit(1, 2, 3, 4, 5, 6, 7, 8)
SLOT = WheelSlot(1, 2, 3, 4, 5)


def assert_layout(rows: list[FieldRow], values: dict[str, int], data: bytes) -> None:
    assert sorted(row.name for row in rows) == sorted(values)
    for row in rows:
        assert data[row.at : row.at + row.size] == values[row.name].to_bytes(row.size, "big", signed=True), (
            row
        )
    assert sum(row.size for row in rows) == len(data)


def test_every_field_lies_where_the_page_says() -> None:
    """Names, places and sizes of the page's tables are those of the encoders, and leave no gap."""
    assert_layout(field_table(PAGE, "Unit"), UNIT._asdict(), timer_log.encode_unit(UNIT))
    assert_layout(field_table(PAGE, "Slot"), SLOT._asdict(), timer_log.encode_wheel_slot(SLOT))
    mark = {"remaining_bytes": 99, "zero": 0, "end_magic": timer_log.END_MARK_MAGIC}
    assert_layout(field_table(PAGE, "End mark"), mark, timer_log.encode_end_mark(99))


def test_the_example_of_the_page() -> None:
    """The unit of the worked example."""
    unit = TimerUnit(-1, 1, 1726740000000, 10000, 4096, 300, string_hash("TopicTest"))
    assert bytes.fromhex(code_block(PAGE, "Example")) == timer_log.encode_unit(unit)
