"""The send-back hooks: what they see of each message that is sent back, and that they cannot disturb it."""

import pytest

from mqstore.client.consumer.pulls.received_message import ReceivedMessage
from mqstore.client.consumer.send_back import SendBack
from mqstore.client.consumer.send_back_hooks import SendBackContext, SendBackHooks
from mqstore.store.status import Disposition
from support.clients.scripted_broker import BROKER, ScriptedBroker
from support.clients.stored_messages import stored_message

RETRY, DEAD = Disposition.RETRY, Disposition.DEAD_LETTER


class Notes:
    """A hook that notes what it sees, and may raise."""

    def __init__(self, error: Exception | None = None) -> None:
        self.before: list[Disposition] = []
        self.after: list[tuple[Disposition, bool | None]] = []
        self.error = error

    def send_back_before(self, context: SendBackContext) -> None:
        self.before.append(context.disposition)
        context.kept[self] = "kept"
        if self.error is not None:
            raise self.error

    def send_back_after(self, context: SendBackContext) -> None:
        assert context.kept[self] == "kept"
        self.after.append((context.disposition, context.is_sent))


def send_back_of(broker: ScriptedBroker, *hooks: Notes, most: int = 2) -> SendBack:
    registered = SendBackHooks()
    for hook in hooks:
        registered.add(hook)
    return SendBack({BROKER: broker}, "billing", most, hooks=registered)


@pytest.mark.parametrize(
    ("times", "level", "expected"), [(0, 0, RETRY), (1, 5, RETRY), (2, 0, DEAD), (0, -1, DEAD)]
)
def test_they_are_told_what_the_broker_will_do(times: int, level: int, expected: Disposition) -> None:
    """By the reconsume times of the record, and the limit that the consumer sends along."""
    hook = Notes()
    assert send_back_of(ScriptedBroker(), hook).send_back(
        stored_message(0, reconsume_times=times), level, BROKER
    )
    assert (hook.before, hook.after) == ([expected], [(expected, True)])


def test_what_came_again_from_memory_does_not_count() -> None:
    """The broker sees the record alone."""
    hook = Notes()
    message = ReceivedMessage.again(ReceivedMessage.again(stored_message(0)))
    assert message.reconsume_times == 2
    send_back_of(ScriptedBroker(), hook).send_back(message, 0, BROKER)
    assert hook.before == [RETRY]


def test_what_no_broker_takes() -> None:
    """Both ways have failed: it comes again from memory."""
    broker, hook = ScriptedBroker(), Notes()
    broker.send_back_error, broker.send_error = ValueError("first"), ValueError("second")
    assert not send_back_of(broker, hook).send_back(stored_message(0), 0, BROKER)
    assert hook.after == [(RETRY, False)]


def test_a_message_in_order_is_dead() -> None:
    """Whatever its times: the broker diverts what such a group puts to its retry topic."""
    broker, hook = ScriptedBroker(), Notes()
    assert send_back_of(broker, hook).send_to_retry_topic(stored_message(0), BROKER)
    assert hook.after == [(DEAD, True)]


def test_a_hook_cannot_stop_it(caplog: pytest.LogCaptureFixture) -> None:
    """What it raises is logged; the message is sent back, and the next hook is called."""
    broken, whole = Notes(ValueError("a bug")), Notes()
    broker = ScriptedBroker()
    assert send_back_of(broker, broken, whole).send_back(stored_message(0), 0, BROKER)
    assert len(broker.sent_back) == 1
    assert broken.after == whole.after == [(RETRY, True)]
    assert "a send-back hook failed" in caplog.text
