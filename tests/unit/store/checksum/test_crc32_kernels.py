"""CRC-32 by folding and by tables against zlib's, over lengths, alignments and contents."""

import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.checksum import crc32_kernels

FOLDED = pytest.param(
    crc32_kernels.folded_crc32,
    id="folded",
    marks=pytest.mark.skipif(not crc32_kernels.CAN_FOLD, reason="needs a processor with PCLMULQDQ"),
)
WIDELY_FOLDED = pytest.param(
    crc32_kernels.widely_folded_crc32,
    id="widely folded",
    marks=pytest.mark.skipif(not crc32_kernels.CAN_FOLD_WIDELY, reason="needs a processor with VPCLMULQDQ"),
)
BY_TABLES = pytest.param(crc32_kernels.table_crc32, id="by tables")
KINDS = pytest.mark.parametrize("crc32", [WIDELY_FOLDED, FOLDED, BY_TABLES])
Crc32 = Callable[[np.ndarray, int, int], int]


def zlibs(data: bytes, start: int, stop: int) -> int:
    """Without the sign bit, as records keep it."""
    return zlib.crc32(data[start:stop]) & 0x7FFF_FFFF


@KINDS
def test_every_length(crc32: Crc32) -> None:
    """From none to several rounds of the widest loop, each at three alignments."""
    data = bytes(np.random.default_rng(7).integers(0, 256, 1_100, np.uint8))
    array = np.frombuffer(data, np.uint8)
    for length in range(1_050):
        for start in (0, 1, 13):
            assert crc32(array, start, start + length) == zlibs(data, start, start + length), (start, length)


@KINDS
@given(st.binary(max_size=1_500), st.integers(0, 20), st.integers(0, 20))
def test_any_part_of_any_bytes(crc32: Crc32, data: bytes, skip: int, cut: int) -> None:
    """What lies before and behind the part makes no difference."""
    start = min(skip, len(data))
    stop = max(start, len(data) - cut)
    assert crc32(np.frombuffer(data, np.uint8), start, stop) == zlibs(data, start, stop)


@KINDS
@pytest.mark.parametrize("byte", [0, 0xFF])
def test_long_and_uniform(crc32: Crc32, byte: int) -> None:
    """Zeros in front count, and so does their number."""
    data = bytes([byte]) * 100_003
    assert crc32(np.frombuffer(data, np.uint8), 0, len(data)) == zlibs(data, 0, len(data))


def test_the_faster_one_is_taken() -> None:
    """`crc32` folds where the processor can, and widely where it can do that."""
    folded = (
        crc32_kernels.widely_folded_crc32 if crc32_kernels.CAN_FOLD_WIDELY else crc32_kernels.folded_crc32
    )
    assert crc32_kernels.crc32 is (folded if crc32_kernels.CAN_FOLD else crc32_kernels.table_crc32)
    assert crc32_kernels.CAN_FOLD or not crc32_kernels.CAN_FOLD_WIDELY


def test_zlib_agrees_with_the_format() -> None:
    """The spec's examples."""
    for text, crc in ((b"hello", 907060870), (b"123456789", 1274296614), (b"", 0)):
        assert crc32_kernels.crc32(np.frombuffer(text, np.uint8), 0, len(text)) == crc
