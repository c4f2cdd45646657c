"""The table of delay levels: RocketMQ's 18, any other that parses, and an error for any that does not."""

import numpy as np
import pytest

from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.store.config import StoreConfig
from mqstore.store.errors import ConfigIllegal, DelayLevelIllegal

DEFAULT_DELAYS_MS = [
    1000, 5000, 10000, 30000, 60000, 120000, 180000, 240000, 300000,
    360000, 420000, 480000, 540000, 600000, 1200000, 1800000, 3600000, 7200000,
]  # fmt: skip


def test_the_default_table_is_rocketmqs() -> None:
    """18 levels, the milliseconds of the specification, and the default of the configuration."""
    levels = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
    assert levels.max_level == len(levels) == 18
    assert [levels.delay_ms(level) for level in range(1, 19)] == DEFAULT_DELAYS_MS
    assert StoreConfig().message_delay_level == DEFAULT_DELAY_LEVELS


@pytest.mark.parametrize("level", [-1, 0, 19, 10**6])
def test_a_level_outside_the_table_waits_a_second(level: int) -> None:
    """RocketMQ's rule for a level that it cannot find."""
    assert DelayLevels.parse(DEFAULT_DELAY_LEVELS).delay_ms(level) == 1000


def test_every_unit() -> None:
    """Seconds, minutes, hours, days."""
    levels = DelayLevels.parse("2s 3m 4h 5d")
    assert [levels.delay_ms(level) for level in range(1, 5)] == [2_000, 180_000, 14_400_000, 432_000_000]


def test_zeros_before_a_number_mean_nothing() -> None:
    """However many: a number that is cut short would be a delay that is too short."""
    assert DelayLevels.parse("0" * 30 + "5s").delay_ms(1) == 5_000


def test_the_array_is_indexed_by_level_and_read_only() -> None:
    """Element 0 belongs to no level."""
    array = DelayLevels.parse("1s 5s").as_array()
    assert array.dtype == np.int64
    assert array.tolist() == [0, 1000, 5000]
    with pytest.raises(ValueError, match="read-only"):
        array[1] = 7


@pytest.mark.parametrize(
    ("text", "item", "number"),
    [
        ("", "", 1),
        ("1s  5s", "", 2),
        ("1s ", "", 2),
        ("1s 5", "5", 2),
        ("1s 5x", "5x", 2),
        ("1S", "1S", 1),
        ("1s,5s", "1s,5s", 1),
        ("1.5s", "1.5s", 1),
        ("-1s", "-1s", 1),
        ("s", "s", 1),
        ("1s 5s\n", "5s\n", 2),
        ("\u0661s", "\u0661s", 1),
        ("1s 99999999999999999999d", "99999999999999999999d", 2),
        ("9" * 5000 + "s", "9" * 5000 + "s", 1),
    ],
)
def test_an_item_that_does_not_parse_is_named(text: str, item: str, number: int) -> None:
    """The error has the item, its place, the setting and the form that is accepted."""
    with pytest.raises(DelayLevelIllegal, match=f"item {number} is ") as caught:
        DelayLevels.parse(text)
    assert (caught.value.key, caught.value.value) == ("message_delay_level", item)
    assert "a whole number and one of s, m, h, d" in str(caught.value)
    assert isinstance(caught.value, ConfigIllegal)


def test_tables_are_equal_when_their_delays_are() -> None:
    """60s and 1m are the same delay; the repr is how to make it again."""
    levels = DelayLevels.parse("60s 1h")
    assert levels == DelayLevels.parse("1m 60m")
    assert hash(levels) == hash(DelayLevels.parse("1m 60m"))
    assert levels != DelayLevels.parse("60s")
    assert repr(levels) == "DelayLevels.parse('60s 1h')"
