"""Hooks: the table of return types, and that a hook that fails changes nothing."""

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.consume_hooks import (
    ConsumeHooks,
    ConsumeMessageContext,
    ConsumeReturnType,
    return_type,
)
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus

SUCCESS, LATER = ConsumeConcurrentlyStatus.CONSUME_SUCCESS, ConsumeConcurrentlyStatus.RECONSUME_LATER


@pytest.mark.parametrize(
    ("status", "has_raised", "elapsed_ms", "expected"),
    [
        (None, True, 0, ConsumeReturnType.EXCEPTION),
        (None, True, 900, ConsumeReturnType.EXCEPTION),
        (None, False, 900, ConsumeReturnType.RETURNNULL),
        (SUCCESS, False, 900, ConsumeReturnType.TIME_OUT),
        (LATER, False, 900, ConsumeReturnType.TIME_OUT),
        (LATER, False, 899, ConsumeReturnType.FAILED),
        (SUCCESS, False, 899, ConsumeReturnType.SUCCESS),
    ],
)
def test_the_table(
    status: ConsumeConcurrentlyStatus | None, has_raised: bool, elapsed_ms: int, expected: ConsumeReturnType
) -> None:
    """Rows EXCEPTION, RETURNNULL, TIME_OUT, FAILED, SUCCESS, in this order; the time-out here is 900 ms."""
    assert return_type(status, has_raised=has_raised, elapsed_ms=elapsed_ms, timeout_ms=900) is expected


class Hook:
    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[str] = []

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self.call("before")

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        self.call("after")

    def call(self, name: str) -> None:
        self.calls.append(name)
        if self.error is not None:
            raise self.error


def test_a_hook_that_fails_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    """In the order in which they were added."""
    hooks = ConsumeHooks()
    assert not hooks.hooks
    broken, whole = Hook(ValueError("no")), Hook()
    hooks.add(broken)
    hooks.add(whole)
    context = ConsumeMessageContext("billing", MessageQueue("orders", "broker-a", 0), [], 0)
    hooks.before(context)
    hooks.after(context)
    assert hooks.hooks == (broken, whole)
    assert broken.calls == whole.calls == ["before", "after"]
    assert len(caplog.records) == 2
