"""The retry policy: how long a failed message waits for its next attempt, and when it is given up.

`retry_or_dead_letter` is the rule that send-back follows (send_back.py): delay levels. A group may have a
policy of durations instead, in subscriptionGroup.json (`groupRetryPolicy`); each duration becomes the level
whose delay is the nearest that is not shorter. In RocketMQ only newer clients of the proxy follow such a
policy (docs/rocketmq_differences.md). Values and pure functions: any thread, no I/O.
Source: docs/spec/schedule_and_retry.md sections 7 and 8; GroupRetryPolicy, CustomizedRetryPolicy,
ExponentialRetryPolicy, AbstractSendMessageProcessor#consumerSendMsgBack.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from mqstore.schedule.delay.delay_levels import DEFAULT_DELAY_LEVELS, DelayLevels
from mqstore.store.status import Disposition

__all__ = [
    "DEFAULT_RETRY_POLICY",
    "FIRST_RETRY_LEVEL",
    "CustomizedRetryPolicy",
    "ExponentialRetryPolicy",
    "RetryDecision",
    "RetryPolicy",
    "group_retry_policy",
    "next_retry_level",
    "retry_delays_ms",
    "retry_or_dead_letter",
    "retry_policy_settings",
]

FIRST_RETRY_LEVEL: Final = 3
"""The delay level of a first retry for which the consumer names none: 10 s in the default table."""

_FIRST_RETRY_INDEX: Final = FIRST_RETRY_LEVEL - 1
_MAX_EXPONENT: Final = 32
_DEFAULT_NEXT_MS: Final = tuple(DelayLevels.parse(DEFAULT_DELAY_LEVELS).as_array()[1:].tolist())


class RetryDecision(NamedTuple):
    """What becomes of a failed message: RETRY at `delay_level`, or DEAD_LETTER at level 0."""

    disposition: Disposition
    delay_level: int


def retry_or_dead_letter(reconsume_times: int, delay_level: int, max_reconsume_times: int) -> RetryDecision:
    """Decide about a message that has failed once more.

    reconsume_times: as in the failing record, 0 at the first failure. delay_level: as the consumer asks;
    0 for the default rule, negative to give up at once. max_reconsume_times: retries before giving up, so a
    message is delivered at most that many times plus one. Levels above the table are cut when put.

    >>> retry_or_dead_letter(0, 0, 16)
    RetryDecision(disposition=<Disposition.RETRY: 'RETRY'>, delay_level=3)
    """
    if reconsume_times >= max_reconsume_times or delay_level < 0:
        return RetryDecision(Disposition.DEAD_LETTER, 0)
    return RetryDecision(Disposition.RETRY, delay_level or FIRST_RETRY_LEVEL + reconsume_times)


class RetryPolicy(Protocol):
    """A rule that gives durations."""

    def next_delay_ms(self, reconsume_times: int) -> int:
        """Milliseconds until the next attempt of a message that was retried `reconsume_times` times."""
        ...


def _check(name: str, number: object, *, least: int) -> None:
    if type(number) is not int or not least <= number < 2**63:
        raise ValueError(f"{name} is {number!r}: give a whole number from {least} to 2**63 - 1")


@dataclasses.dataclass(frozen=True)
class CustomizedRetryPolicy:
    """A list of delays that begins with its third item, and stays at its last.

    >>> CustomizedRetryPolicy().next_delay_ms(0)
    10000
    """

    next_ms: tuple[int, ...] = _DEFAULT_NEXT_MS

    def __post_init__(self) -> None:
        if not self.next_ms:
            raise ValueError("a customized retry policy needs at least one delay")
        for delay_ms in self.next_ms:
            _check("next_ms", delay_ms, least=0)

    def next_delay_ms(self, reconsume_times: int) -> int:
        """Milliseconds until the next attempt."""
        return self.next_ms[min(max(0, reconsume_times) + _FIRST_RETRY_INDEX, len(self.next_ms) - 1)]


@dataclasses.dataclass(frozen=True)
class ExponentialRetryPolicy:
    """A delay that grows by a factor with each attempt, up to a limit.

    >>> [ExponentialRetryPolicy().next_delay_ms(times) for times in range(4)]
    [5000, 10000, 20000, 40000]
    """

    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: int = 2

    def __post_init__(self) -> None:
        _check("initial_ms", self.initial_ms, least=1)
        _check("max_ms", self.max_ms, least=1)
        _check("multiplier", self.multiplier, least=1)

    def next_delay_ms(self, reconsume_times: int) -> int:
        """Milliseconds until the next attempt."""
        exponent = min(max(0, reconsume_times), _MAX_EXPONENT)
        growth: int = self.multiplier**exponent
        return min(self.max_ms, self.initial_ms * growth)


DEFAULT_RETRY_POLICY: Final[RetryPolicy] = CustomizedRetryPolicy()


def group_retry_policy(settings: Mapping[str, Any] | None) -> RetryPolicy:
    """The policy that a group's `groupRetryPolicy` means; the default one when it says nothing useful.

    >>> group_retry_policy({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000}})
    ExponentialRetryPolicy(initial_ms=1000, max_ms=7200000, multiplier=2)
    """
    settings = settings or {}
    try:
        match settings.get("type"):
            case "EXPONENTIAL" if (policy := settings.get("exponentialRetryPolicy")) is not None:
                default = ExponentialRetryPolicy()
                return ExponentialRetryPolicy(
                    policy.get("initial", default.initial_ms),
                    policy.get("max", default.max_ms),
                    policy.get("multiplier", default.multiplier),
                )
            case "CUSTOMIZED" if (policy := settings.get("customizedRetryPolicy")) is not None:
                return CustomizedRetryPolicy(tuple(policy.get("next") or _DEFAULT_NEXT_MS))
    except (AttributeError, TypeError, ValueError):
        # Of another program: the messages of the group are retried all the same.
        return DEFAULT_RETRY_POLICY
    return DEFAULT_RETRY_POLICY


def retry_policy_settings(policy: RetryPolicy) -> dict[str, Any]:
    """The `groupRetryPolicy` of a policy, as RocketMQ writes it. Raises TypeError for one of another kind.

    >>> retry_policy_settings(ExponentialRetryPolicy())["type"]
    'EXPONENTIAL'
    """
    match policy:
        case CustomizedRetryPolicy(next_ms):
            return {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": list(next_ms)}}
        case ExponentialRetryPolicy(initial_ms, max_ms, multiplier):
            numbers = {"initial": initial_ms, "max": max_ms, "multiplier": multiplier}
            return {"type": "EXPONENTIAL", "exponentialRetryPolicy": numbers}
    raise TypeError(
        f"retry_policy is {policy!r}: give a CustomizedRetryPolicy or an ExponentialRetryPolicy, "
        "or give the function to the consumer"
    )


def next_retry_level(settings: Mapping[str, Any] | None, reconsume_times: int, levels: DelayLevels) -> int:
    """The delay level of a retry for which the consumer names none, by a group's `groupRetryPolicy`.

    A group without a policy of its own follows the table of levels: 3 + reconsume times.
    """
    policy = group_retry_policy(settings)
    if policy is DEFAULT_RETRY_POLICY:
        return FIRST_RETRY_LEVEL + reconsume_times
    return levels.level_of(policy.next_delay_ms(reconsume_times))


def retry_delays_ms(settings: Mapping[str, Any] | None, retries: int, levels: DelayLevels) -> list[int]:
    """How long the first retries of a group really wait: the delays of their levels."""
    asked = [next_retry_level(settings, times, levels) for times in range(retries)]
    return [levels.delay_ms(min(level, levels.max_level)) for level in asked]
