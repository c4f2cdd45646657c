"""The batch body: elements back and forth, and every length that does not add up."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.errors import MessageIllegal
from mqstore.store.record.batch_format import BatchElement, decode_batch, encode_batch

ELEMENTS = st.lists(
    st.builds(BatchElement, st.binary(max_size=50), st.binary(max_size=30), st.integers(-(2**31), 2**31 - 1)),
    max_size=6,
)


@given(ELEMENTS)
def test_elements_survive_their_bytes(elements: list[BatchElement]) -> None:
    """Any number of them, none included; from a view as well."""
    encoded = encode_batch(elements)
    assert decode_batch(encoded) == elements
    assert decode_batch(memoryview(encoded)) == elements


@pytest.mark.parametrize("length", range(1, 31))
def test_a_batch_that_is_cut_is_refused(length: int) -> None:
    """At any byte but between two elements."""
    encoded = encode_batch([BatchElement(b"body", b"A\x01b\x02")])
    assert len(encoded) == 30
    if length < 30:
        with pytest.raises(MessageIllegal):
            decode_batch(encoded[:length])


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (0, 21, "a size from 22 to 30"),
        (0, 31, "a size from 22 to 30"),
        (0, -1, "a size from 22 to 30"),
        (16, -1, "a body of 0 to 8 bytes"),
        (16, 9, "a body of 0 to 8 bytes"),
        (16, 3, "properties of"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(position: int, value: int, words: str) -> None:
    """The error says where and what; nothing beyond the data is read."""
    harmed = bytearray(encode_batch([BatchElement(b"body", b"A\x01b\x02")]))
    struct.pack_into(">i", harmed, position, value)
    with pytest.raises(MessageIllegal, match=words):
        decode_batch(bytes(harmed))
