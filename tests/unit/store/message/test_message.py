"""The producer's message: cheap to make, immutable, and readable when printed, even with bad input in it."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from mqstore.store.errors import MessageIllegal
from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.record.host import Host


def test_repr_shows_what_differs_from_the_defaults() -> None:
    """Topic and body always; the others only when set."""
    assert repr(Message("orders", b"x")) == "Message(topic='orders', body=b'x')"
    message = Message(
        "orders", b"x", tags="paid", keys=("o-1", "o-2"), queue_id=3, born_host=Host.parse("1.2.3.4:5")
    )
    assert repr(message) == (
        "Message(topic='orders', body=b'x', tags='paid', keys=('o-1', 'o-2'), queue_id=3, "
        "born_host=Host('1.2.3.4:5'))"
    )


def test_repr_shortens_a_long_body() -> None:
    """A body of more than 48 bytes is told by its length."""
    assert repr(Message("orders", bytes(49))) == "Message(topic='orders', body=<49 bytes>)"
    assert repr(Message("orders", memoryview(bytes(1000)))) == "Message(topic='orders', body=<1000 bytes>)"


@pytest.mark.parametrize("body", [None, 7, "text"])
def test_repr_survives_a_body_that_is_none(body: Any) -> None:
    """A message is checked when it is put, so it must be printable before."""
    assert repr(Message("orders", body)) == f"Message(topic='orders', body={body!r})"


def test_a_message_is_immutable() -> None:
    """Its fields cannot be set again."""
    with pytest.raises(AttributeError):
        Message("orders", b"").topic = "others"  # type: ignore[misc]


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"42.00"),
        Message("orders", b"", tags="created", keys=("a", "b"), properties={"a": "b"}, delay_level=3),
        Message("orders", b"x", born_host=Host.parse("1.2.3.4:5"), queue_id=-1, wait_store_msg_ok=False),
    ],
)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda message: pickle.loads(pickle.dumps(message))]
)
def test_a_message_can_be_copied_and_pickled(message: Message, copied: Callable[[Message], Message]) -> None:
    """For another process, say; one without properties shares those of all."""
    found = copied(message)
    assert found == message
    assert (found.properties is NO_PROPERTIES) == (message.properties is NO_PROPERTIES)


def test_a_view_of_a_body_is_pickled_as_bytes() -> None:
    """A view cannot leave its process."""
    found = pickle.loads(pickle.dumps(Message("orders", memoryview(b"42.00"), queue_id=3)))
    assert (type(found.body), found) == (bytes, Message("orders", b"42.00", queue_id=3))


def test_a_body_of_json() -> None:
    """By one argument, with the fields of any message; what is no JSON is told."""
    assert Message.of_json("orders", {"id": 1}, tags="paid") == Message("orders", b'{"id":1}', tags="paid")
    assert Message.of_json("orders", None).body == b"null"
    with pytest.raises(MessageIllegal, match="cannot be written as JSON"):
        Message.of_json("orders", object())
