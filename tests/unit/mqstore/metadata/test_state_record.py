"""State records: Java's names, RocketMQ's defaults, and fields of other releases that survive."""

import pytest

from mqstore.metadata.state_record import StateRecord


class Wheel(StateRecord, frozen=True, kw_only=True):
    """A record with two fields."""

    spoke_count: int = 32
    is_front: bool = False


def test_fields_are_written_under_javas_names_in_order() -> None:
    """camelCase, alphabetical."""
    assert list(Wheel().encode().items()) == [("isFront", False), ("spokeCount", 32)]


def test_missing_and_null_fields_take_their_default() -> None:
    """A file of an older release lacks fields; fastjson writes no nulls, but another writer may."""
    assert Wheel.decode({"spokeCount": None}) == Wheel()


def test_unknown_fields_survive_in_their_place() -> None:
    """What a newer broker wrote is there after a round trip."""
    state = {"isFront": True, "material": {"name": "steel"}, "spokeCount": 36}
    record = Wheel.decode(state)
    assert record == Wheel(is_front=True, spoke_count=36, unknown={"material": {"name": "steel"}})
    assert list(record.encode().items()) == list(state.items())


def test_numbers_in_quotes_are_numbers() -> None:
    """fastjson's reader converts them, so a hand-edited file may have them."""
    assert Wheel.decode({"spokeCount": "36"}).spoke_count == 36


@pytest.mark.parametrize("state", [None, [], "x", {"spokeCount": "many"}, {"spokeCount": [1]}])
def test_what_is_no_record_is_refused(state: object) -> None:
    """A ValueError, so that the file counts as garbage."""
    with pytest.raises(ValueError):  # noqa: PT011  (msgspec's words)
        Wheel.decode(state)
