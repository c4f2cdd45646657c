"""Decompressing bodies: what RocketMQ's own compressors made, bombs, and bytes that are something else.

The samples in tests/golden are what `CompressorFactory` of RocketMQ 5.3.3's jars made (lz4-java 1.8.0,
zstd-jni 1.5.2, the zlib of its Java) of the bodies that BODIES makes here.
"""

import base64
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import pytest

from mqstore.store.errors import BodyTooLarge, CorruptBody, StoreError
from mqstore.store.message.compressed_body import MAX_BODY_BYTES, compression_of, decompress
from support.golden.zstd import zstd_compress

SAMPLES = json.loads(
    (Path(__file__).parents[3] / "golden" / "rocketmq-5.3.3-compressed-bodies.json").read_text("utf-8")
)


def orders(count: int) -> bytes:
    return b"".join(b'{"order":%d,"state":"created"}\n' % number for number in range(count))


BODIES = {
    "empty": b"",
    "one order": orders(1),
    "200 orders": orders(200),
    "5 MiB of zeros": bytes(5 << 20),
}
COMPRESSORS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (0x001, zlib.compress),
    (0x101, lz4.frame.compress),
    (0x201, zstd_compress),
    (0x301, zlib.compress),
]
both = pytest.mark.parametrize(("sys_flag", "compress"), COMPRESSORS, ids=["0", "LZ4", "ZSTD", "ZLIB"])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['compression']}, {sample['body']}")
def test_what_rocketmq_compressed_is_decompressed(sample: dict[str, Any]) -> None:
    """Byte for byte, and the sys flag tells how."""
    body = BODIES[sample["body"]]
    stored = memoryview(base64.b64decode(sample["compressed"]))
    assert compression_of(sample["sysFlag"]) == sample["compression"]
    assert decompress(stored, sample["sysFlag"], 0) == body


def test_types_are_told_by_three_bits() -> None:
    """0 is zlib, as of clients that knew nothing else; the types above 3 are only numbers."""
    kinds = [compression_of(number << 8 | 1) for number in range(8)]
    assert kinds == ["ZLIB", "LZ4", "ZSTD", "ZLIB", "4", "5", "6", "7"]
    assert compression_of(0x300) is None


@both
def test_a_bomb_is_refused_before_it_explodes(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """No more is decompressed than the limit; the error names record, compression, sizes and ways out."""
    stored = compress(bytes(32 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge, match=r"offset 77, .*max_bytes=.*stored_body") as caught:
            decompress(memoryview(stored), sys_flag, 77, max_bytes=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (caught.value.stored_bytes, caught.value.limit_bytes) == (len(stored), 1 << 20)


@both
def test_a_body_as_long_as_the_limit_is_read(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """And one of a byte more is not."""
    body = orders(50)
    stored = memoryview(compress(body))
    assert decompress(stored, sys_flag, 0, max_bytes=len(body)) == body
    with pytest.raises(BodyTooLarge):
        decompress(stored, sys_flag, 0, max_bytes=len(body) - 1)


@both
def test_every_torn_body_is_told(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """Cut anywhere, it is CorruptBody, never a shorter body and never another error."""
    stored = compress(orders(9))
    for length in range(len(stored)):
        with pytest.raises(CorruptBody):
            decompress(memoryview(stored)[:length], sys_flag, 0)


@both
def test_a_changed_byte_is_another_body_or_an_error_of_ours(
    sys_flag: int, compress: Callable[[bytes], bytes]
) -> None:
    """Whatever the library meets, it is a leaf of StoreError, and the limit holds."""
    stored = compress(orders(9))
    for at in range(len(stored)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(stored)
            changed[at] ^= change
            try:
                assert len(decompress(memoryview(changed), sys_flag, 0, max_bytes=1 << 16)) <= 1 << 16
            except StoreError as error:
                assert isinstance(error, CorruptBody | BodyTooLarge)


@both
def test_bytes_behind_the_end(sys_flag: int, compress: Callable[[bytes], bytes]) -> None:
    """RocketMQ passes over them with zlib and fails otherwise."""
    stored = memoryview(compress(b"body") + b"more")
    if compression_of(sys_flag) == "ZLIB":
        assert decompress(stored, sys_flag, 0) == b"body"
    else:
        with pytest.raises(CorruptBody, match="bytes behind their end"):
            decompress(stored, sys_flag, 0)


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_an_unknown_type_is_told(number: int) -> None:
    """RocketMQ throws, and drops the message and those behind it in the pull."""
    with pytest.raises(CorruptBody, match=f"says {number}, .* no compression of this number"):
        decompress(memoryview(b"body"), number << 8 | 1, 0)


def test_a_small_body_does_not_take_the_room_of_the_largest() -> None:
    """LZ4's library takes room for all that it may return."""
    stored = memoryview(lz4.frame.compress(b"body"))
    tracemalloc.start()
    try:
        assert decompress(stored, 0x101, 0) == b"body"
        assert tracemalloc.get_traced_memory()[1] < MAX_BODY_BYTES // 64
    finally:
        tracemalloc.stop()
