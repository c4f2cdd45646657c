"""The retry policy: the rule of send-back as a table, its timeline, and the two policies of durations."""

from typing import Any

import pytest

from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.schedule.retry.retry_policy import (
    DEFAULT_RETRY_POLICY,
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    RetryPolicy,
    group_retry_policy,
    retry_delays_ms,
    retry_or_dead_letter,
    retry_policy_settings,
)
from mqstore.store.status import Disposition

RETRY, DEAD_LETTER = Disposition.RETRY, Disposition.DEAD_LETTER


@pytest.mark.parametrize(
    ("reconsume_times", "delay_level", "max_reconsume_times", "expected"),
    [
        (0, 0, 16, (RETRY, 3)),
        (1, 0, 16, (RETRY, 4)),
        (15, 0, 16, (RETRY, 18)),
        (16, 0, 16, (DEAD_LETTER, 0)),
        (17, 0, 16, (DEAD_LETTER, 0)),
        (20, 0, 100, (RETRY, 23)),
        (0, 5, 16, (RETRY, 5)),
        (7, 5, 16, (RETRY, 5)),
        (16, 5, 16, (DEAD_LETTER, 0)),
        (0, -1, 16, (DEAD_LETTER, 0)),
        (0, -7, 16, (DEAD_LETTER, 0)),
        (0, 0, 0, (DEAD_LETTER, 0)),
        (0, 0, -1, (DEAD_LETTER, 0)),
        (0, 0, 1, (RETRY, 3)),
    ],
)
def test_the_rule_of_send_back(
    reconsume_times: int, delay_level: int, max_reconsume_times: int, expected: tuple[Disposition, int]
) -> None:
    """The wish counts, but not beyond the limit, and a negative one gives up."""
    assert retry_or_dead_letter(reconsume_times, delay_level, max_reconsume_times) == expected


def test_sixteen_retries_take_4_hours_45_minutes_and_40_seconds() -> None:
    """The whole timeline with the defaults: 1 + 16 deliveries, then the dead letters."""
    levels = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
    decisions = [retry_or_dead_letter(times, 0, 16) for times in range(17)]
    assert [decision.delay_level for decision in decisions[:-1]] == list(range(3, 19))
    delays_ms = [levels.delay_ms(decision.delay_level) for decision in decisions[:-1]]
    minutes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120]
    assert delays_ms == [10_000, 30_000, *(minute * 60_000 for minute in minutes)]
    assert sum(delays_ms) == ((4 * 60 + 45) * 60 + 40) * 1000
    assert decisions[-1] == (DEAD_LETTER, 0)


@pytest.mark.parametrize(
    ("reconsume_times", "expected_ms"),
    [(-3, 10_000), (0, 10_000), (1, 30_000), (15, 7_200_000), (99, 7_200_000)],
)
def test_the_customized_policy_begins_at_its_third_delay(reconsume_times: int, expected_ms: int) -> None:
    """r = 0 is 10 s, r = 15 and beyond 2 h."""
    assert CustomizedRetryPolicy().next_delay_ms(reconsume_times) == expected_ms
    assert DEFAULT_RETRY_POLICY.next_delay_ms(reconsume_times) == expected_ms


def test_a_short_customized_policy_stays_at_its_last_delay() -> None:
    """Even when that is before the third."""
    assert [CustomizedRetryPolicy((1, 2)).next_delay_ms(times) for times in range(3)] == [2, 2, 2]
    with pytest.raises(ValueError, match="at least one delay"):
        CustomizedRetryPolicy(())


def test_the_exponential_policy_doubles_up_to_its_limit() -> None:
    """5 s, 10 s, 20 s, ... 2 h; the exponent stops at 32 and nothing overflows."""
    policy = ExponentialRetryPolicy()
    assert [policy.next_delay_ms(times) for times in (-1, 0, 1, 2)] == [5_000, 5_000, 10_000, 20_000]
    assert policy.next_delay_ms(10) == 5_120_000
    assert policy.next_delay_ms(11) == policy.next_delay_ms(10**9) == 7_200_000
    assert ExponentialRetryPolicy(1, 2**62, 10).next_delay_ms(40) == 2**62


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, DEFAULT_RETRY_POLICY),
        ({}, DEFAULT_RETRY_POLICY),
        ({"type": "CUSTOMIZED"}, DEFAULT_RETRY_POLICY),
        ({"type": "EXPONENTIAL"}, DEFAULT_RETRY_POLICY),
        ({"type": "SOMETHING"}, DEFAULT_RETRY_POLICY),
        (
            {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3]}},
            CustomizedRetryPolicy((1, 2, 3)),
        ),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {}}, DEFAULT_RETRY_POLICY),
        (
            {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 7, "max": 70, "multiplier": 3}},
            ExponentialRetryPolicy(7, 70, 3),
        ),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {}}, ExponentialRetryPolicy()),
    ],
)
def test_the_policy_of_a_groups_settings(settings: dict[str, object] | None, expected: object) -> None:
    """As subscriptionGroup.json has it; what is missing takes RocketMQ's default."""
    assert group_retry_policy(settings) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": "soon"}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"multiplier": 0}},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": 7},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [-1]}},
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": 7}},
        {"type": ["EXPONENTIAL"]},
    ],
)
def test_a_policy_that_means_nothing_is_the_default(settings: dict[str, Any]) -> None:
    """Whoever wrote it: the group's messages are retried all the same."""
    assert group_retry_policy(settings) is DEFAULT_RETRY_POLICY


@pytest.mark.parametrize("policy", [ExponentialRetryPolicy(7, 70, 3), CustomizedRetryPolicy((1, 2, 3))])
def test_settings_of_a_policy(policy: RetryPolicy) -> None:
    """They are read back as the same policy."""
    assert group_retry_policy(retry_policy_settings(policy)) == policy


def test_a_function_is_no_setting() -> None:
    """It cannot be written to a file: it belongs to a consumer."""
    with pytest.raises(TypeError, match="to the consumer"):
        retry_policy_settings(lambda times: 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"initial_ms": 0}, "initial_ms"), ({"max_ms": True}, "max_ms"), ({"multiplier": 1.5}, "multiplier")],
)
def test_an_illegal_exponential_policy(arguments: dict[str, Any], name: str) -> None:
    """The error names the number."""
    with pytest.raises(ValueError, match=name):
        ExponentialRetryPolicy(**arguments)


def test_delays_become_the_nearest_levels_that_are_not_shorter() -> None:
    """5, 10, 20, 40 s ... 2 h at RocketMQ's levels; without a policy the levels from the third on."""
    levels = DelayLevels.parse(DEFAULT_DELAY_LEVELS)
    exponential = retry_policy_settings(ExponentialRetryPolicy())
    assert retry_delays_ms(exponential, 12, levels) == [
        *(5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 360_000, 1_200_000, 1_800_000),
        *(3_600_000, 7_200_000, 7_200_000),
    ]
    assert retry_delays_ms({"type": "CUSTOMIZED"}, 2, levels) == [10_000, 30_000]
    assert retry_delays_ms(None, 18, levels)[-3:] == [7_200_000] * 3
