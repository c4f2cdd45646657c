"""The dead letter: which retries that a client puts itself are diverted, and how they are changed."""

import msgspec
import pytest

from mqstore.schedule.retry.dead_letter import divert_exhausted_retry
from mqstore.store.errors import MessageIllegal
from mqstore.store.message.message import Message

RETRY_TOPIC, DEAD_LETTER_TOPIC = "%RETRY%billing", "%DLQ%billing"


def fallback(reconsume_time: str | None = None, limit: str | None = None) -> Message:
    """What a client puts when its send-back failed."""
    properties = {"DELAY": "4"}
    if reconsume_time is not None:
        properties["RECONSUME_TIME"] = reconsume_time
    if limit is not None:
        properties["MAX_RECONSUME_TIMES"] = limit
    return Message(RETRY_TOPIC, b"body", queue_id=2, properties=properties)


@pytest.mark.parametrize(
    ("reconsume_time", "limit", "is_dead_letter"),
    [
        (None, None, False),
        ("16", None, False),
        ("17", None, True),
        ("3", "3", False),
        ("4", "3", True),
        ("1", "0", True),
    ],
)
def test_an_exhausted_retry_is_diverted(
    reconsume_time: str | None, limit: str | None, is_dead_letter: bool
) -> None:
    """Above the limit, strictly, for the client has counted up already."""
    message = fallback(reconsume_time, limit)
    diverted = divert_exhausted_retry(message, 16)
    assert diverted.reconsume_times == int(reconsume_time or 0)
    if is_dead_letter:
        assert (diverted.topic, diverted.queue_id) == (DEAD_LETTER_TOPIC, 0)
        assert dict(diverted.properties) == dict(message.properties) | {"DELAY": "-1"}
    else:
        assert msgspec.structs.replace(diverted, reconsume_times=0) == message


def test_an_ordered_consumers_retry_is_always_diverted() -> None:
    """Row put to %RETRY% while any lock of the group has not expired: what it sends is what it gave up on."""
    assert divert_exhausted_retry(fallback("1"), 16, holds_queue_lock=True).topic == DEAD_LETTER_TOPIC


def test_other_topics_are_not_diverted() -> None:
    """Only a retry topic has the rule."""
    message = Message("orders", b"", properties={"RECONSUME_TIME": "99"})
    assert divert_exhausted_retry(message, 16) is message


def test_a_count_that_is_no_number_is_refused() -> None:
    """The error names the property."""
    with pytest.raises(MessageIllegal, match="RECONSUME_TIME is 'many'"):
        divert_exhausted_retry(fallback("many"), 16)
