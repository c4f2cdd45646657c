"""Compression of bodies: which are compressed, and that every reader gets them back.

Row "7: compression" of docs/spec/client_produce.md section 1.
"""

import random

import pytest

from mqstore.client.producer.message.body_compression import BodyCompression
from mqstore.store.message.compressed_body import compression_of, decompress

TEXT = b"all work and no play " * 300
NOISE = random.Random(1).randbytes(5_000)


@pytest.mark.parametrize(("compress_type", "number"), [("LZ4", 1), ("ZSTD", 2), ("ZLIB", 3)])
@pytest.mark.parametrize("level", [0, 5, 22])
def test_a_compressed_body_comes_back(compress_type: str, number: int, level: int) -> None:
    """sys flag 0x1, type in bits 8 to 10: 1 LZ4, 2 ZSTD, 3 ZLIB; other bits stay."""
    body, sys_flag = BodyCompression(compress_type, level, 4_096).compress(TEXT, 0x8)
    if compress_type == "ZLIB" and level == 0:
        assert (body, sys_flag) == (TEXT, 0x8), "level 0 of zlib stores the bytes, and is longer"
        return
    assert sys_flag == 0x8 | 0x1 | number << 8
    assert compression_of(sys_flag) == compress_type
    assert len(body) < len(TEXT)
    assert decompress(memoryview(body), sys_flag, 0) == TEXT


@pytest.mark.parametrize(("length", "is_compressed"), [(4_095, False), (4_096, True)])
def test_from_so_many_bytes_on(length: int, is_compressed: bool) -> None:
    """Row compression: from 4,096 on (>=)."""
    body, sys_flag = BodyCompression("ZLIB", 5, 4_096).compress(bytes(length), 0)
    assert (len(body) < length) is is_compressed
    assert bool(sys_flag) is is_compressed


@pytest.mark.parametrize("body", [bytearray(TEXT), memoryview(TEXT)])
def test_any_bytes_can_be_compressed(body: bytearray | memoryview) -> None:
    """As a store takes them."""
    compressed, sys_flag = BodyCompression("ZSTD", 5, 4_096).compress(body, 0)
    assert decompress(memoryview(compressed), sys_flag, 0) == TEXT


def test_a_body_that_does_not_become_shorter_is_sent_as_it_is() -> None:
    """It would only cost its readers time."""
    assert BodyCompression("ZLIB", 9, 1).compress(NOISE, 0) == (NOISE, 0)


def test_a_body_that_its_sender_has_compressed_stays() -> None:
    """Twice would come back as once."""
    assert BodyCompression("ZLIB", 5, 1).compress(TEXT, 0x301) == (TEXT, 0x301)


def test_a_compressor_that_fails_sends_the_body_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And says so in the log."""

    def fail(body: bytes, level: int) -> bytes:
        raise MemoryError

    subject = BodyCompression("ZLIB", 5, 1)
    monkeypatch.setattr(subject, "_compress", fail)
    assert subject.compress(TEXT, 0) == (TEXT, 0)
    assert "6300 bytes is sent as it is: ZLIB failed" in caplog.text
