"""The compiled loops behind the columns say what their plain twins say, wherever in a buffer the bytes lie.

Method: properties strings and other pieces by hypothesis, made of what the loops look for, one behind the
other so that the last ends with the buffer: a loop that reads or writes words must not miss that.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqstore.index.arrow import column_kernels
from mqstore.index.arrow.records import Bytes, Int32s, Records
from support.twins import plain_columns

# With the marks, a zero, names that count, and bytes on which arithmetic with words may stumble.
properties = st.lists(
    st.sampled_from(
        [
            b"\x01",
            b"\x02",
            b"\x00",
            b"\x03",
            b"\x81",
            b"\x82",
            b"\xff",
            b"TAGS",
            b"KEYS",
            b"__CRC32#",
            b"created",
        ]
    )
).map(b"".join)
whole = st.dictionaries(
    st.sampled_from([b"TAGS", b"KEYS", b"UNIQ_KEY", b"a-longer-name", b"__CRC32#"]), st.binary(min_size=1)
).map(lambda pairs: b"".join(b"%s\x01%s\x02" % pair for pair in pairs.items()))
CRC = b"__CRC32#\x010123456789\x02"


def laid_out(pieces: list[bytes], *, room: int = 0) -> tuple[Bytes, Int32s, Int32s]:
    """A buffer with the pieces and so many bytes behind them, their starts and lengths."""
    lengths = np.array([len(piece) for piece in pieces], np.int32)
    starts = np.cumsum(lengths, dtype=np.int32) - lengths
    return np.frombuffer(b"".join(pieces) + bytes(room), np.uint8), starts, lengths


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(properties, whole, st.binary()).flatmap(lambda text: st.sampled_from([text, text + CRC]))
    )
)
@example([b"TAGS\x01x\x02__CRC32#\x01abc\x02d\x01efghi\x02"])
@example([b"a\x00TAGS\x01x\x02", b"TAGS\x01one\x01two\x02TAGS\x01\x02", b"TAGS\x01last"])
@example([CRC, b"__CRC32#\x010123456789", b"\x01value\x02", b""])
def test_properties_are_split_as_the_twin_does(texts: list[bytes]) -> None:
    """All pairs, and the two that are columns of their own."""
    buffer, starts, lengths = laid_out(texts)
    layout = np.zeros((column_kernels.LAYOUT_FIELDS, len(texts)), np.int32)
    layout[column_kernels.PROPERTIES_START], layout[column_kernels.PROPERTIES_LENGTH] = starts, lengths
    records = Records(buffer, layout)
    expected = [plain_columns.split_pairs(text) for text in texts]
    bounds, pairs = records.pairs
    data = buffer.tobytes()
    found = [
        {
            data[at : at + size]: data[value : value + count]
            for at, size, value, count in pairs[:, first:stop].T
        }
        for first, stop in pairwise(bounds.tolist())
    ]
    assert [list(each.items()) for each in found] == [list(each.items()) for each in expected]
    for name in ("TAGS", "KEYS"):
        values = [
            data[at : at + size] if size >= 0 else None
            for at, size in zip(*(each.tolist() for each in records.find_property(name)), strict=True)
        ]
        assert values == [each.get(name.encode()) for each in expected]


def test_a_record_of_very_many_properties_is_counted_first() -> None:
    """More than room is taken for unseen."""
    text = b"".join(b"%d\x01v\x02" % number for number in range(1_000))
    layout = np.zeros((column_kernels.LAYOUT_FIELDS, 1), np.int32)
    layout[column_kernels.PROPERTIES_LENGTH] = len(text)
    assert Records(np.frombuffer(text, np.uint8), layout).pairs.first_pairs.tolist() == [0, 1_000]


@pytest.mark.parametrize("room", [0, 100])
@given(pieces=st.lists(st.one_of(st.binary(), st.binary(min_size=15, max_size=17))))
def test_pieces_are_copied_one_behind_the_other(pieces: list[bytes], room: int) -> None:
    """Short and long ones, and nothing behind the room that is asked for."""
    buffer, starts, lengths = laid_out(pieces, room=room)
    total = int(lengths.sum())
    data = np.full(total + column_kernels.PIECE_ROOM + 1, 7, np.uint8)
    offsets = np.empty(len(pieces) + 1, np.int32)
    column_kernels.take_bytes(buffer, starts, lengths, offsets, data[:-1])
    assert data[:total].tobytes() == b"".join(pieces)
    assert data[-1] == 7
    assert offsets.tolist() == [0, *np.cumsum(lengths).tolist()]


def test_pieces_of_negative_length_are_none() -> None:
    """As the value of a property that is not there."""
    offsets = np.empty(3, np.int32)
    data = np.empty(3 + column_kernels.PIECE_ROOM, np.uint8)
    lengths = np.array([-1, 3], np.int32)
    column_kernels.take_bytes(np.frombuffer(b"abc", np.uint8), np.zeros(2, np.int32), lengths, offsets, data)
    assert (offsets.tolist(), data[:3].tobytes()) == ([0, 0, 3], b"abc")


def is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


# Bytes at both sides of each limit that UTF-8 has.
edges = st.lists(
    st.sampled_from(bytes.fromhex("41 7F 80 8F 90 9F A0 BF C0 C1 C2 DF E0 E1 EC ED EE EF F0 F1 F3 F4 F5 FF"))
)


@pytest.mark.slow
@given(pieces=st.lists(st.one_of(st.text().map(str.encode), edges.map(bytes))))
def test_texts_are_utf_8_each_for_itself(pieces: list[bytes]) -> None:
    """Also where a character is cut in two, and all together are UTF-8."""
    data = np.frombuffer(b"".join(pieces) + b"\x80\xff", np.uint8)
    offsets = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    assert column_kernels.are_texts(data, data.size - 2, offsets) == all(map(is_text, pieces))


@pytest.mark.slow
def test_what_a_character_begins_with_says_what_may_follow() -> None:
    """As Python decodes them."""
    for character in map(chr, [*range(0xD800), *range(0xE000, 0x110000, 7), 0x10FFFF]):
        data = np.frombuffer(character.encode(), np.uint8)
        assert column_kernels.are_texts(data, data.size, np.array([0, data.size], np.int32)), character
    for first in range(0x80, 0x100):
        for second in (0x41, *range(0x7F, 0xC2)):
            for rest in (b"", b"\x80", b"\x80\x80", b"\x80A"):
                piece = bytes((first, second)) + rest
                offsets = np.array([0, len(piece)], np.int32)
                assert column_kernels.are_texts(
                    np.frombuffer(piece, np.uint8), len(piece), offsets
                ) == is_text(piece)


hosts = st.one_of(st.binary(min_size=8, max_size=8), st.sampled_from([b"10.0.0.1", b"10.0.0.2", bytes(20)]))


@pytest.mark.slow
@given(st.lists(st.one_of(hosts, st.binary(max_size=3))))
def test_distinct_pieces_are_numbered_as_they_come(pieces: list[bytes]) -> None:
    """Runs of equal ones, and any mixture."""
    buffer, starts, lengths = laid_out(pieces)
    records = Records(buffer, np.empty((column_kernels.LAYOUT_FIELDS, 0), np.int32))
    numbers, firsts = records.distinct(starts, lengths)
    assert (numbers.tolist(), firsts.tolist()) == plain_columns.number_distinct(pieces)
