"""What a listener in order may answer and set, and what is refused."""

from collections.abc import Callable

import pytest

from mqstore.broker.broker import MessageQueue
from mqstore.client.consumer.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from mqstore.client.consumer.orderly.orderly_listener import ConsumeOrderlyContext, RegisteredOrderlyListener
from mqstore.client.errors import AnswerIllegal, ListenerIllegal

SUCCESS = ConsumeOrderlyStatus.SUCCESS


def context() -> ConsumeOrderlyContext:
    return ConsumeOrderlyContext(MessageQueue("orders", "broker-a", 3))


def test_defaults_of_a_context() -> None:
    """It commits by itself, and pauses for as long as the consumer is set to."""
    subject = context()
    assert (subject.auto_commit, subject.suspend_current_queue_time_millis) == (True, -1)
    assert (subject.topic, subject.queue_id) == ("orders", 3)


@pytest.mark.parametrize("none_means", [None, SUCCESS])
def test_what_none_means(none_means: ConsumeOrderlyStatus | None) -> None:
    """It depends on how the listener was registered."""
    listener = RegisteredOrderlyListener(lambda messages, context: None, none_means)
    assert listener([], context()) is none_means


def test_an_object_may_be_a_listener() -> None:
    """Its method `consume_message` is called, as in RocketMQ."""

    class Listener:
        def consume_message(self, messages: object, context: object) -> ConsumeOrderlyStatus:
            return SUCCESS

    assert RegisteredOrderlyListener(Listener(), None)([], context()) is SUCCESS


def set_text(subject: ConsumeOrderlyContext) -> None:
    subject.suspend_current_queue_time_millis = "long"  # type: ignore[assignment]


def set_number(subject: ConsumeOrderlyContext) -> None:
    subject.auto_commit = 0  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("answer", "change", "named"),
    [
        (ConsumeConcurrentlyStatus.CONSUME_SUCCESS, None, "a ConsumeOrderlyStatus"),
        (True, None, "answered True"),
        (SUCCESS, set_text, "set context.suspend_current_queue_time_millis to 'long': set a whole number"),
        (SUCCESS, set_number, "set context.auto_commit to 0: set True or False"),
    ],
)
def test_an_answer_that_is_none(
    answer: object, change: Callable[[ConsumeOrderlyContext], None] | None, named: str
) -> None:
    """The error names it, and what to answer."""

    def consume(messages: object, subject: ConsumeOrderlyContext) -> object:
        if change is not None:
            change(subject)
        return answer

    with pytest.raises(AnswerIllegal, match=named):
        RegisteredOrderlyListener(consume, None)([], context())  # type: ignore[arg-type]


def test_a_listener_that_cannot_be_called() -> None:
    """As with concurrent ones."""
    with pytest.raises(ListenerIllegal, match="give a plain function"):
        RegisteredOrderlyListener(lambda messages: None, None)  # type: ignore[arg-type,misc]
