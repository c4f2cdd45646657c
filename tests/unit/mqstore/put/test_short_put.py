"""The short put: parts become one message, and what does not fit together is refused with a way out."""

from typing import Any

import msgspec
import pytest

from mqstore.message_store import MessageStore
from mqstore.put.short_put import NO_JSON, message_of
from mqstore.schedule.delay.delay_levels import DelayLevels
from mqstore.store.errors import MessageIllegal
from mqstore.store.message.message import Message, MessageFields
from support.stores.small_store import SmallStore

LEVELS = DelayLevels.parse("1s 5s 2h 30s")


def made(body: bytes | None = None, json: Any = NO_JSON, delay_s: Any = None, **fields: Any) -> Message:
    return message_of("orders", body, json, delay_s, LEVELS, MessageFields(**fields))


def test_parts_become_a_message() -> None:
    """All fields of a Message; an empty body where none is given."""
    assert made(b"x", tags="paid", keys="o-1", queue_id=2) == Message(
        "orders", b"x", tags="paid", keys="o-1", queue_id=2
    )
    assert made() == Message("orders", b"")


@pytest.mark.parametrize(
    ("value", "body"), [({"a": [1, "ö"]}, '{"a":[1,"ö"]}'), (None, "null"), ("text", '"text"'), (0, "0")]
)
def test_json(value: Any, body: str) -> None:
    """In UTF-8; None is a value, too."""
    assert made(json=value).body == body.encode()


@pytest.mark.parametrize("value", [object(), {1: {object()}}, b"\xff".decode("latin-1").join(["\ud800"] * 2)])
def test_what_is_no_json(value: Any) -> None:
    """It is told with the value."""
    with pytest.raises(MessageIllegal, match="cannot be written as JSON") as told:
        made(json=value)
    assert told.value.value is value


@pytest.mark.parametrize(
    ("delay_s", "level"),
    [
        (None, 0),
        (0, 0),
        (0.0, 0),
        (0.001, 1),
        (1, 1),
        (1.001, 2),
        (5, 2),
        (5.5, 4),
        (30, 4),
        (31, 3),
        (7200, 3),
    ],
)
def test_a_delay_becomes_the_nearest_level_that_is_not_shorter(delay_s: float | None, level: int) -> None:
    """Whatever the order of the table."""
    assert made(delay_s=delay_s).delay_level == level


@pytest.mark.parametrize("delay_s", [-1, -0.1, float("nan"), float("inf"), True, "5s"])
def test_a_delay_that_is_none(delay_s: Any) -> None:
    """Refused with what is accepted."""
    with pytest.raises(MessageIllegal, match="give seconds, 0 or more"):
        made(delay_s=delay_s)


def test_a_delay_beyond_the_longest_level() -> None:
    """It would come too early: refused, with the limit and the way out."""
    with pytest.raises(
        MessageIllegal, match=r"7200.5.*longest delay level is 7200 s.*message_delay_level"
    ) as told:
        made(delay_s=7200.5)
    assert (told.value.value, told.value.limit) == (7200.5, 7200)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"body": b"x", "json": 1}, "body and json"),
        ({"delay_s": 5, "delay_level": 1}, "delay_s=5 and delay_level=1"),
    ],
)
def test_one_thing_said_twice(parts: dict[str, Any], told: str) -> None:
    """Give one of them."""
    with pytest.raises(MessageIllegal, match=f"{told} are both given: give one of them"):
        made(**parts)


class Order(msgspec.Struct):
    """What a program may keep as JSON."""

    amount: int


def test_a_store_takes_it(small: SmallStore) -> None:
    """The result says the level; JSON comes back as plain values, or as a struct."""
    with small.open() as store:
        put = store.put("orders", json={"amount": 42})
        assert (put.topic, put.delay_level) == ("orders", 0)
        message = store.look_message_by_offset(put.physical_offset)
        assert message is not None
        assert (message.json(), message.json(Order)) == ({"amount": 42}, Order(42))
        with pytest.raises(msgspec.ValidationError):
            message.json(list[int])
        later = store.put("orders", b"later", delay_s=20)
        assert (later.delay_level, store.delay_levels.delay_ms(later.delay_level)) == (4, 30_000)
        assert isinstance(store, MessageStore)
