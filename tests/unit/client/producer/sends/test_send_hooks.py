"""The send hooks: what they see of each attempt, and that they cannot disturb it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqstore import Message
from mqstore.broker.broker import MessageQueue
from mqstore.client.errors import SendFailed, SendTimedOut
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.sends.send_hooks import CommunicationMode, SendMessageContext
from mqstore.store.errors import StoreFull
from support.clients.answering_broker import AnsweringBroker
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]
ORDER = Message("orders", b"body")
FULL = StoreFull(Path("/full"), 1, "no room")


class Notes:
    """A hook that notes what it sees, and may raise."""

    def __init__(self, error: Exception | None = None) -> None:
        self.seen: list[str] = []
        self.contexts: list[SendMessageContext] = []
        self.error = error

    def send_message_before(self, context: SendMessageContext) -> None:
        self.seen.append("before")
        self.contexts.append(context)
        if self.error:
            raise self.error

    def send_message_after(self, context: SendMessageContext) -> None:
        answer = context.exception or context.send_result
        self.seen.append(type(answer).__name__)
        assert context is self.contexts[-1]
        if self.error:
            raise self.error


def test_a_hook_sees_each_attempt(producer_of: MakeProducer) -> None:
    """Before and after, with the queue, the message as it is sent, the result or the error."""
    broker = AnsweringBroker("broker-a", FULL)
    producer = producer_of(broker)
    hook = Notes()
    producer.register_send_message_hook(hook)
    result = producer.send(ORDER)
    assert hook.seen == ["before", "StoreFull", "before", "SendResult"]
    context = hook.contexts[-1]
    assert (context.producer_group, context.communication_mode) == ("billing", CommunicationMode.SYNC)
    assert context.message.properties["UNIQ_KEY"] == result.msg_id
    assert (context.message_queue, context.send_result) == (result.message_queue, result)


def test_hooks_are_called_in_order(producer_of: MakeProducer) -> None:
    """That in which they were registered; also for a send to a named queue."""
    producer = producer_of(AnsweringBroker())
    first, second = Notes(), Notes()
    producer.register_send_message_hook(first)
    producer.register_send_message_hook(second)
    producer.send(ORDER, queue=MessageQueue("orders", "broker-a", 0))
    assert first.seen == second.seen == ["before", "SendResult"]


def test_a_hook_cannot_stop_a_send(producer_of: MakeProducer, caplog: pytest.LogCaptureFixture) -> None:
    """What it raises is logged and dropped."""
    producer = producer_of(AnsweringBroker())
    hook = Notes(ValueError("a bug"))
    producer.register_send_message_hook(hook)
    producer.send(ORDER)
    assert hook.seen == ["before", "SendResult"]
    assert "a send hook failed" in caplog.text


def test_the_time_of_hooks_counts(producer_of: MakeProducer, seconds: ManualSeconds) -> None:
    """A hook that takes all the time leaves none for the broker."""
    broker = AnsweringBroker(seconds=seconds)
    producer = producer_of(broker)

    class Slow(Notes):
        def send_message_before(self, context: SendMessageContext) -> None:
            super().send_message_before(context)
            seconds.advance(2)

    hook = Slow()
    producer.register_send_message_hook(hook)
    producer.send(ORDER)
    assert broker.timeouts == [1_000]
    with pytest.raises(SendTimedOut):
        producer.send(ORDER, timeout_ms=1_000)
    assert hook.seen == ["before", "SendResult", "before", "SendTimedOut"]


def test_the_last_error_is_seen_too(producer_of: MakeProducer) -> None:
    """A send that fails for good has an error after each attempt."""
    producer = producer_of(AnsweringBroker("broker-a", FULL, FULL), retry_times_when_send_failed=1)
    hook = Notes()
    producer.register_send_message_hook(hook)
    with pytest.raises(SendFailed):
        producer.send(ORDER)
    assert hook.seen == ["before", "StoreFull"] * 2
