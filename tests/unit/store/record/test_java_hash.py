"""Java's String.hashCode: the values that the spec gives, surrogate pairs, and the whole range of 32 bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.record.java_hash import string_hash


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2_598_919),
        ("TopicTest", -1_902_610_879),
        ("TopicTest#order-1", -1_829_193_424),
        ("polygenelubricants", -(2**31)),
        ("\U0001f6eb", 31 * 0xD83D + 0xDEEB),
    ],
)
def test_known_hashes(text: str, code: int) -> None:
    """Numbers of the spec, of Java's own documentation, and one character that takes two UTF-16 units."""
    assert string_hash(text) == code


@given(st.text())
def test_hash_is_the_polynomial_over_utf16_units(text: str) -> None:
    """As Java defines it, with plain integers, folded into 32 bits only at the end."""
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
    polynomial = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units))
    assert string_hash(text) == (polynomial + 2**31) % 2**32 - 2**31
