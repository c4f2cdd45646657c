"""CRC-32C at the end of a small file: the published values, and what counts as damage."""

import pytest

from mqstore.store.checksum.crc32c import CRC32C_BYTES, content_of, crc32c, with_crc32c


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_published_values(data: bytes, crc: int) -> None:
    """Those of RFC 3720, B.4, and the usual check value."""
    assert crc32c(data) == crc


@pytest.mark.parametrize("content", [b"", b"MQSP", bytes(24)])
def test_a_content_comes_back(content: bytes) -> None:
    """The checksum takes four bytes, big-endian, at the end."""
    data = with_crc32c(content)
    assert data == content + crc32c(content).to_bytes(CRC32C_BYTES, "big")
    assert content_of(data) == content


def test_any_changed_bit_is_damage() -> None:
    """In the content or in the checksum."""
    whole = with_crc32c(b"a content")
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert content_of(bytes(damaged)) is None


@pytest.mark.parametrize("length", range(13))
def test_a_cut_content_is_damage(length: int) -> None:
    """At whichever byte; also where not even a checksum fits."""
    assert content_of(with_crc32c(b"a content")[:length]) is None
