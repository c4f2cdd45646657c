"""The frame reader: whatever the pieces in which a stream comes, the same frames; and no length is believed.

Method: Hypothesis makes frames and cuts; the stream is fed in these pieces, and byte by byte.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.remoting.errors import FrameIllegal
from mqstore.remoting.frame import Frame, FrameReader, encode_frame

FRAMES = st.lists(
    st.tuples(st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=60)), min_size=1, max_size=6
)
Plain = list[tuple[int, bytes, bytes]]


def plain(frames: list[Frame]) -> Plain:
    return [(frame.serialization, frame.header, bytes(frame.body)) for frame in frames]


def fed(reader: FrameReader, pieces: list[bytes]) -> Plain:
    return [frame for piece in pieces for frame in plain(reader.feed(piece))]


@given(FRAMES, st.lists(st.integers(0, 800), max_size=8))
def test_pieces_make_no_difference(frames: Plain, cuts: list[int]) -> None:
    """The same frames come out, in their order, and nothing is left."""
    stream = b"".join(encode_frame(*frame) for frame in frames)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:stop] for start, stop in pairwise(bounds)]
    reader = FrameReader()
    assert fed(reader, pieces) == frames
    assert not reader.has_partial
    assert reader.failure is None


@given(FRAMES)
def test_a_frame_comes_with_its_last_byte(frames: Plain) -> None:
    """Byte by byte: a frame is there as soon as it is complete, and not before."""
    reader, complete = FrameReader(), 0
    for frame in frames:
        encoded = encode_frame(*frame)
        for at in range(len(encoded)):
            found = fed(reader, [encoded[at : at + 1]])
            assert found == ([frame] if at == len(encoded) - 1 else [])
            complete += len(found)
    assert complete == len(frames)


@pytest.mark.parametrize(
    ("head", "what"),
    [
        ("00000065 00000000", "the length"),
        ("ffffffff 00000000", "the length"),
        ("00000004 00000001", "the header length"),
        ("00000000 00000000", "the header length"),
        ("00000003 00000000", "the header length"),
        ("00000014 00ffffff", "the header length"),
    ],
)
def test_lengths_that_cannot_be_right_end_the_stream(head: str, what: str) -> None:
    """What came before is given out, and nothing behind it."""
    reader = FrameReader(max_frame_bytes=104)
    good = encode_frame(0, b"{}", b"body")
    found = fed(reader, [good + bytes.fromhex(head) + bytes(30)])
    if head.startswith("00000003"):
        # A length of less than its own word has no room for a header of any length.
        assert reader.failure is not None
    assert found == [(0, b"{}", b"body")]
    assert reader.failure is not None
    assert reader.failure.what == what
    assert reader.feed(good) == []


def test_the_greatest_frame_passes() -> None:
    """The limit counts the length word."""
    reader = FrameReader(max_frame_bytes=100)
    assert fed(reader, [encode_frame(1, b"", bytes(92))]) == [(1, b"", bytes(92))]
    reader.feed(encode_frame(1, b"", bytes(93)))
    assert isinstance(reader.failure, FrameIllegal)
    assert (reader.failure.found, reader.failure.limit) == (97, 96)


@given(st.binary(max_size=200), st.integers(1, 20))
def test_any_bytes_are_frames_or_a_failure(data: bytes, step: int) -> None:
    """No stream raises, and what is kept is never more than what came."""
    reader = FrameReader(max_frame_bytes=150)
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    assert reader.failure is None or reader.feed(b"more") == []
