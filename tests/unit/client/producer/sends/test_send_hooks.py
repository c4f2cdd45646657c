"""The send hooks: what they see of each attempt, and that they cannot disturb it."""

from collections.abc import Callable
from contextvars import ContextVar
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


class Adds(Notes):
    """Adds properties before each attempt."""

    def send_message_before(self, context: SendMessageContext) -> None:
        super().send_message_before(context)
        context.add_properties({"attempt": str(context.retries)})


@pytest.mark.parametrize("way", ["send", "send_async", "send_oneway"])
def test_a_hook_may_add_properties(producer_of: MakeProducer, way: str) -> None:
    """They go to the broker, of each attempt its own; the message of the caller stays as it is."""
    broker = AnsweringBroker("broker-a", *([FULL] if way == "send" else []))
    producer = producer_of(broker)
    hook = Adds()
    producer.register_send_message_hook(hook)
    message = Message("orders", b"body", properties={"UNIQ_KEY": "mine"})
    sent = getattr(producer, way)(message)
    if way == "send_async":
        sent.result(60)
    assert broker.sent[-1].properties == {"UNIQ_KEY": "mine", "attempt": "1" if way == "send" else "0"}
    assert hook.contexts[-1].message.properties == broker.sent[-1].properties
    assert message.properties == {"UNIQ_KEY": "mine"}


def test_a_property_that_is_there_stays(producer_of: MakeProducer) -> None:
    """Also in a batch, where the other messages get it."""
    broker = AnsweringBroker()
    producer = producer_of(broker)
    producer.register_send_message_hook(Adds())
    producer.send_batch([Message("orders", b"a", properties={"attempt": "mine"}), ORDER])
    assert [message.properties["attempt"] for message in broker.sent] == ["mine", "0"]


def test_an_asynchronous_send_has_the_context_of_its_caller(producer_of: MakeProducer) -> None:
    """Context variables are those at the call, in whichever thread the hook is called."""
    caller: ContextVar[str] = ContextVar("caller", default="nobody")
    seen: list[str] = []

    class Hook(Notes):
        def send_message_before(self, context: SendMessageContext) -> None:
            super().send_message_before(context)
            seen.append(caller.get())

    producer = producer_of(AnsweringBroker())
    producer.register_send_message_hook(Hook())
    token = caller.set("me")
    future = producer.send_async(ORDER)
    caller.reset(token)
    future.result(60)
    assert seen == ["me"]
