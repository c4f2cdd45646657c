"""CRC-32 of bytes as the store computes it, against zlib's: every length, every kind of bytes, in parts."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.checksum.crc32 import HELD_BYTES, crc32, crc32_combine

SOME_BYTES = bytes(index * 7 % 251 for index in range(HELD_BYTES + 300))


def test_every_length() -> None:
    """All that are a record's parts, and those around the length from which others may run meanwhile."""
    for length in (*range(1_100), *range(HELD_BYTES - 5, HELD_BYTES + 5)):
        assert crc32(SOME_BYTES[:length]) == zlib.crc32(SOME_BYTES[:length]), length


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_part_by_part(first: bytes, second: bytes) -> None:
    """Continued with what follows, or put together from two that were computed apart."""
    whole = zlib.crc32(first + second)
    assert crc32(second, crc32(first)) == whole
    assert crc32_combine(crc32(first), crc32(second), len(second)) == whole


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes(kind: type[bytes]) -> None:
    """Copied nowhere; a view of a part as well."""
    assert crc32(kind(SOME_BYTES)) == zlib.crc32(SOME_BYTES)
    assert crc32(memoryview(kind(SOME_BYTES))[3:77]) == zlib.crc32(SOME_BYTES[3:77])
