"""CRC-32C: the published values, by either library, and what counts as damage at the end of a small file."""

import sys
from collections.abc import Iterator

import google_crc32c
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqstore.store.checksum import crc32c as module
from mqstore.store.checksum.crc32c import CRC32C_BYTES, content_of, crc32c, with_crc32c


@pytest.fixture(params=["google_crc32c", "crcmod"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The one that comes with the extra `arrow`, and the one that is there without it."""
    if request.param == "crcmod":
        monkeypatch.setitem(sys.modules, "google_crc32c", None)
    module._function.cache_clear()
    yield request.param
    module._function.cache_clear()


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
def test_published_values(library: str, data: bytes, crc: int) -> None:
    """Those of RFC 3720, B.4, and the usual check value."""
    assert crc32c(data) == crc


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=2_000), st.binary(max_size=2_000))
def test_it_goes_on_from_what_came_before(library: str, one: bytes, other: bytes) -> None:
    """In pieces as at once, and the same by both libraries."""
    assert crc32c(other, crc32c(one)) == crc32c(one + other) == google_crc32c.value(one + other)


def test_the_library_uses_machine_code() -> None:
    """Its interpreted form would be slower than crcmod."""
    assert google_crc32c.implementation != "python"


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
