"""Listeners: how many messages an answer acknowledges, which callables are refused, what None means."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.listener import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    RegisteredConcurrentListener,
)
from mqstore.client.errors import AnswerIllegal, ListenerIllegal

SUCCESS, LATER = ConsumeConcurrentlyStatus.CONSUME_SUCCESS, ConsumeConcurrentlyStatus.RECONSUME_LATER


def context() -> ConsumeConcurrentlyContext:
    return ConsumeConcurrentlyContext(MessageQueue("orders", "broker-a", 0))


@pytest.mark.parametrize(
    ("status", "ack_index", "acknowledged"),
    [
        (SUCCESS, None, 4),
        (SUCCESS, 1, 2),
        (SUCCESS, 99, 4),
        (SUCCESS, -1, 0),
        (SUCCESS, -5, 0),
        (LATER, None, 0),
        (LATER, 1, 0),
    ],
)
def test_acknowledged_count_of_four(
    status: ConsumeConcurrentlyStatus, ack_index: int | None, acknowledged: int
) -> None:
    """RECONSUME_LATER acknowledges none; CONSUME_SUCCESS all up to the ack index, within the batch."""
    subject = context()
    if ack_index is not None:
        subject.ack_index = ack_index
    assert subject.acknowledged_count(status, 4) == acknowledged


class Plain:
    def consume_message(self, messages: object, context: object) -> ConsumeConcurrentlyStatus:
        return SUCCESS


class Callable:
    def __call__(self, messages: object, context: object) -> ConsumeConcurrentlyStatus:
        return SUCCESS


def consume(messages: object, context: object, third: int = 3) -> ConsumeConcurrentlyStatus:
    return SUCCESS


@pytest.mark.parametrize(
    "listener",
    [
        Plain(),
        Callable(),
        consume,
        Plain().consume_message,
        functools.partial(consume, third=4),
        lambda *arguments: SUCCESS,
    ],
    ids=["object", "callable", "function", "method", "partial", "any arguments"],
)
def test_what_may_be_a_listener(listener: Any) -> None:
    """Whatever can be called with (messages, context), and an object as RocketMQ has it."""
    assert RegisteredConcurrentListener(listener, None)([], context()) is SUCCESS


async def coroutine(messages: object, context: object) -> None:
    await asyncio.sleep(0)


async def asynchronous(messages: object, context: object) -> AsyncIterator[int]:
    yield 1


def generator(messages: object, context: object) -> Iterator[int]:
    yield 1


class CallableCoroutine:
    async def __call__(self, messages: object, context: object) -> None: ...


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        (lambda messages: SUCCESS, r"takes \(messages\)"),
        (lambda: SUCCESS, r"takes \(\)"),
        (lambda messages, context, more: SUCCESS, r"takes \(messages, context, more\)"),
        (coroutine, "coroutine function"),
        (functools.partial(coroutine), "coroutine function"),
        (CallableCoroutine(), "coroutine function"),
        (asynchronous, "asynchronous generator"),
        (generator, "generator function"),
        (Plain, "no function"),
        ("charge", "no function"),
        (None, "no function"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_may_not(listener: Any, reason: str) -> None:
    """A typed error when it is registered, not at the first message; it says what to give instead."""
    with pytest.raises(ListenerIllegal, match=reason) as refused:
        RegisteredConcurrentListener(listener, None)
    assert refused.value.listener is listener
    assert "give a plain function of (messages, context)" in str(refused.value)
    assert isinstance(refused.value, TypeError)


@pytest.mark.parametrize("none_means", [None, SUCCESS])
def test_what_none_means(none_means: ConsumeConcurrentlyStatus | None) -> None:
    """That is said when the listener is registered."""
    assert (
        RegisteredConcurrentListener(lambda messages, context: None, none_means)([], context()) is none_means
    )


@pytest.mark.parametrize("answer", [True, 0, "CONSUME_SUCCESS", ConsumeConcurrentlyStatus])
def test_an_answer_of_a_wrong_type(answer: Any) -> None:
    """It is an error that names the answer."""
    with pytest.raises(AnswerIllegal) as refused:
        RegisteredConcurrentListener(lambda messages, context: answer, SUCCESS)([], context())
    assert refused.value.answer is answer
