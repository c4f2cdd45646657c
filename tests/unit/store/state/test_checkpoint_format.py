"""The checkpoint's bytes: back and forth, from files of any length, and the time that recovery trusts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.state.checkpoint_format import (
    CHECKPOINT_FILE_BYTES,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)

LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.builds(Checkpoint, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS))
def test_a_checkpoint_survives_its_bytes(checkpoint: Checkpoint) -> None:
    """All six fields, whatever follows them in the file."""
    encoded = encode_checkpoint(checkpoint)
    assert len(encoded) == 48
    assert decode_checkpoint(encoded) == checkpoint
    assert decode_checkpoint(encoded.ljust(CHECKPOINT_FILE_BYTES, b"\0")) == checkpoint


@pytest.mark.parametrize("length", [0, 7, 8, 24, 40, 47])
def test_what_a_shorter_file_lacks_counts_as_zero(length: int) -> None:
    """RocketMQ 4.9 wrote three fields, 5.5.0 writes six."""
    whole = encode_checkpoint(Checkpoint(1, 2, 3, 4, 5, 6))
    kept = [value if length >= 8 * at + 8 else 0 for at, value in enumerate((1, 2, 3, 4, 5, 6))]
    assert list(decode_checkpoint(whole[: length - length % 8])) == kept


@pytest.mark.parametrize(
    ("physic", "logics", "trusted"),
    [(10_000, 9_000, 6_000), (9_000, 10_000, 6_000), (2_999, 9_000, 0), (0, 0, 0)],
)
def test_the_older_timestamp_less_three_seconds_is_trusted(physic: int, logics: int, trusted: int) -> None:
    """Never below 0: StoreCheckpoint#getMinTimestamp."""
    assert Checkpoint(physic, logics, 5).min_timestamp == trusted
