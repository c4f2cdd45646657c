"""The recovery point's bytes: back and forth, and damage is told from a newer version."""

import struct

import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.state.recovery_point_format import (
    RecoveryPoint,
    decode_recovery_point,
    encode_recovery_point,
)

OFFSETS = st.integers(0, 2**63 - 1)
POINTS = st.tuples(OFFSETS, OFFSETS).map(lambda pair: RecoveryPoint(max(pair), min(pair)))


@given(POINTS)
def test_a_point_survives_its_bytes(point: RecoveryPoint) -> None:
    """28 of them, whatever follows."""
    encoded = encode_recovery_point(point)
    assert len(encoded) == 28
    assert decode_recovery_point(encoded) == point
    assert decode_recovery_point(encoded + b"\0\0") == point


def test_any_changed_bit_is_noticed() -> None:
    """A damaged point is no point: it costs a longer scan and never a message."""
    whole = encode_recovery_point(RecoveryPoint(1_000, 900))
    for bit in range(8 * len(whole)):
        harmed = bytearray(whole)
        harmed[bit // 8] ^= 1 << bit % 8
        assert decode_recovery_point(bytes(harmed)) is None


@pytest.mark.parametrize("point", [RecoveryPoint(-557, 19), RecoveryPoint(88, 68_095), RecoveryPoint(5, -1)])
def test_offsets_that_contradict_each_other_are_no_point(point: RecoveryPoint) -> None:
    """Although the CRC is right: recovery would begin inside of a record."""
    assert decode_recovery_point(encode_recovery_point(point)) is None


@pytest.mark.parametrize("length", range(28))
def test_a_cut_file_is_no_point(length: int) -> None:
    """At whatever byte."""
    assert decode_recovery_point(encode_recovery_point(RecoveryPoint(1, 1))[:length]) is None


def test_a_newer_version_is_told_by_its_number() -> None:
    """Whole, but not ours to read."""
    content = struct.pack(">4siqq", b"MQSP", 7, 1, 1)
    crc = crcmod.predefined.mkPredefinedCrcFun("crc-32c")(content)
    assert decode_recovery_point(content + struct.pack(">I", crc)) == 7
