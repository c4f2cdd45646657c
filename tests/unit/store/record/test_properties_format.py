"""The properties string: written and read back, and every bad pair refused with what is wrong with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.errors import PropertiesIllegal
from mqstore.store.record.properties_format import encode_properties, parse_properties, refuse_separators

WORDS = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=12
)


@given(st.dictionaries(WORDS, WORDS))
def test_properties_survive_their_string(properties: dict[str, str]) -> None:
    """In their order, and also without the last separator, as RocketMQ before 5.2 leaves it."""
    stored = encode_properties(properties)
    assert parse_properties(stored) == properties
    assert list(parse_properties(stored[:-1])) == list(properties)
    assert stored == b"" or stored.endswith(b"\x02")


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (b"", {}),
        (b"\x02\x02", {}),
        (b"A\x01x\x02A\x01y\x02", {"A": "y"}),
        (b"A\x01\x02B\x01b", {"B": "b"}),
        (b"\x01a\x02B\x01b", {"B": "b"}),
        (b"A\x01\x01\x02", {"A": "\x01"}),
        (b"A\x01\xff\x02", {"A": "\ufffd"}),
    ],
)
def test_reading_drops_what_is_no_pair(stored: bytes, read: dict[str, str]) -> None:
    """RocketMQ's rules: the last of two equal names wins, names and values that are empty are lost."""
    assert parse_properties(stored) == read
    assert parse_properties(memoryview(stored)) == read


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("", "v", "must not be empty"),
        ("n", "", "must not be empty"),
        ("n\x01", "v", "separator"),
        ("n", "a\x01b", "separator"),
        ("n", "a\x02b", "separator"),
    ],
)
def test_a_pair_that_would_not_come_back_is_refused(name: str, value: str, words: str) -> None:
    """The error has the pair."""
    with pytest.raises(PropertiesIllegal, match=words) as caught:
        refuse_separators(name, value)
    assert caught.value.value == (name, value)


def test_any_other_pair_passes() -> None:
    """Blanks, line feeds and other control characters are nothing special."""
    refuse_separators("name with blanks", "a\x00\x03\n\t")
