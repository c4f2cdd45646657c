"""Words, numbers, copies, comparisons and zeros are what Python says of slices of bytes, at any place."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store import byte_kernels


@numba.njit
def _word_at(data: np.ndarray, at: int) -> int:
    byte_kernels.prefetch(data, at + 1_000_000_000)
    return byte_kernels.load_word(data, at)


@numba.njit
def _copy(target: np.ndarray, at: int, source: np.ndarray, start: int, length: int) -> None:
    byte_kernels.copy_bytes(target, at, source, start, length)


@numba.njit
def _rewrite(data: np.ndarray, target: np.ndarray) -> int:
    """Every number of `data`, and a byte behind it, read and written to its place in `target`."""
    byte_kernels.write_long(target, 1, byte_kernels.read_long(data, 1))
    byte_kernels.write_int(target, 9, byte_kernels.read_int(data, 9))
    byte_kernels.write_short(target, 13, byte_kernels.read_unsigned(data, 13, 2))
    return byte_kernels.read_long(data, 1)


@numba.njit
def _zeros(word: int) -> int:
    return byte_kernels.trailing_zeros(np.uint64(word))


@given(st.binary(min_size=8), st.data())
def test_a_word_is_eight_bytes_from_any_place(data: bytes, draw: st.DataObject) -> None:
    """The first lowest; asking ahead for a line that is far outside does nothing."""
    at = draw.draw(st.integers(0, len(data) - 8))
    assert _word_at(np.frombuffer(data, np.uint8), at) == int.from_bytes(data[at : at + 8], "little")


@given(st.binary(), st.data())
def test_a_copy_is_a_slice(source: bytes, draw: st.DataObject) -> None:
    """And touches nothing else."""
    start = draw.draw(st.integers(0, len(source)))
    length = draw.draw(st.integers(0, len(source) - start))
    target = np.full(length + 2, 7, np.uint8)
    _copy(target, 1, np.frombuffer(source, np.uint8), start, length)
    assert target.tobytes() == b"\x07" + source[start : start + length] + b"\x07"


@given(st.integers(0, 2**64 - 1), st.integers(0, 64))
def test_trailing_zeros_are_counted(number: int, shift: int) -> None:
    """64 for nothing but zeros."""
    word = number << shift & (1 << 64) - 1
    assert _zeros(np.uint64(word)) == ((word & -word).bit_length() - 1 if word else 64)


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(0, 3), st.booleans())
def test_bytes_are_the_same_if_their_slices_are(one: bytes, other: bytes, skip: int, equal: bool) -> None:
    """At different places of two arrays."""
    other = one if equal else other
    length = min(len(one), len(other))
    shifted = np.frombuffer(bytes(skip) + other, np.uint8)
    found = byte_kernels.same_bytes(np.frombuffer(one, np.uint8), 0, shifted, skip, length)
    assert found == (one[:length] == other[:length])
    as_array = np.frombuffer(other[:length], np.uint8)
    assert byte_kernels.matches(shifted, skip, as_array)
    assert byte_kernels.equals(shifted, skip, length, as_array)
    assert not byte_kernels.equals(shifted, skip, length - 1, as_array)


@pytest.mark.slow
@given(st.binary(min_size=16, max_size=16))
def test_numbers_are_big_endian(data: bytes) -> None:
    """What was read is written as it was, and nothing beside it."""
    target = np.zeros(16, np.uint8)
    number = _rewrite(np.frombuffer(data, np.uint8), target)
    assert number == int.from_bytes(data[1:9], "big", signed=True)
    assert target.tobytes() == b"\0" + data[1:15] + b"\0"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("2147483648", -1),
        ("9" * 40, -1),
        ("", -1),
        ("+7", -1),
        ("-1", -1),
        ("1 ", -1),
        ("one", -1),
    ],
)
def test_a_number_is_parsed(text: str, number: int) -> None:
    """From digits alone; -1 for everything else, and beyond 31 bits."""
    data = np.frombuffer(f"<{text}>".encode(), np.uint8)
    assert byte_kernels.parse_natural(data, 1, len(text)) == number
