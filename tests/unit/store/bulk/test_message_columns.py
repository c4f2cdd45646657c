"""What `put_columns` takes for a column, in all its forms, and what it refuses."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mqstore.store.bulk.message_columns import MessageColumns, read_columns
from mqstore.store.bulk.text_column import TextColumn
from mqstore.store.errors import MessageIllegal, PropertiesIllegal, QueueIllegal, StoreError, TopicIllegal

BODIES = [b"one", b"", b"three"]
PACKED = (b"onethree", np.array([0, 3, 3, 8]))
MAP = pa.map_(pa.string(), pa.string())


def rows_of(texts: TextColumn) -> list[bytes]:
    return [texts.bytes_at(row) for row in range(texts.row_count)]


def read(**columns: Any) -> MessageColumns:
    return read_columns({"topic": "orders", "body": BODIES} | columns)


@pytest.mark.parametrize(
    "body",
    [
        BODIES,
        tuple(BODIES),
        PACKED,
        (bytearray(PACKED[0]), PACKED[1].astype(np.uint16)),
        (memoryview(PACKED[0]), PACKED[1].astype(np.int32)),
        (np.frombuffer(PACKED[0], np.uint8), PACKED[1]),
        pa.array(BODIES),
        pa.array(BODIES, pa.large_binary()),
        pa.array(BODIES, pa.binary_view()),
        pa.array([b"", *BODIES])[1:],
        pa.chunked_array([BODIES[:1], BODIES[1:]]),
        pa.array(BODIES).dictionary_encode(),
        pa.array(["one", "", "three"]),
    ],
    ids=lambda body: type(body).__name__,
)
def test_bodies(body: Any) -> None:
    """All forms say the same."""
    assert rows_of(read(body=body).bodies) == BODIES


def test_bodies_of_one_size() -> None:
    """A table of bytes, and Arrow's binaries of fixed size, cut out of longer ones."""
    table = np.arange(12, dtype=np.uint8).reshape(4, 3)
    wanted = [bytes(row) for row in table[1:]]
    assert rows_of(read(body=table[1:]).bodies) == wanted
    assert rows_of(read(body=pa.array([bytes(row) for row in table], pa.binary(3))[1:]).bodies) == wanted
    assert rows_of(read(body=np.asfortranarray(table[1:])).bodies) == wanted


@pytest.mark.parametrize(
    "tags",
    [
        ["ä", None, "b"],
        ("ä", "", "b"),
        np.array(["ä", "", "b"]),
        ("äb".encode(), np.array([0, 2, 2, 3])),
        (np.array([1, 0, 2]), ["", "ä", "b"]),
        pa.array(["ä", None, "b"]),
        pa.array(["ä", None, "b"], pa.large_string()),
        pa.array(["ä", None, "b"], pa.string_view()),
        pa.array(["ä", None, "b"]).dictionary_encode(),
    ],
    ids=lambda tags: type(tags).__name__,
)
def test_texts(tags: Any) -> None:
    """None and the empty text are the same."""
    assert rows_of(read(tags=tags).tags) == ["ä".encode(), b"", b"b"]


def test_missing_columns() -> None:
    """Have the values that `Message` gives them."""
    columns = read(tags=None)
    assert columns.queue_ids.tolist() == columns.delay_levels.tolist() == columns.flags.tolist() == [0, 0, 0]
    for texts in (columns.tags, columns.keys, columns.properties):
        assert rows_of(texts) == [b"", b"", b""]
    assert columns.born_timestamps is None


def test_one_value_for_all_rows() -> None:
    """Where the table has no such column."""
    columns = read_columns({"body": BODIES}, "orders", 3)
    assert (columns.topics, columns.topic_indices.tolist()) == (["orders"], [0, 0, 0])
    assert columns.queue_ids.tolist() == [3, 3, 3]
    assert rows_of(read(properties={"a": "b", "c": "d"}).properties) == [b"a\x01b\x02c\x01d\x02"] * 3


@pytest.mark.parametrize(
    "topic",
    [
        ["b", "a", "b"],
        np.array(["b", "a", "b"]),
        (np.array([1, 2, 1]), ["unused", "b", "a"]),
        pa.array(["b", "a", "b"]),
        pa.array(["c", "b", "a", "b"]).dictionary_encode()[1:],
    ],
    ids=lambda topic: type(topic).__name__,
)
def test_topics(topic: Any) -> None:
    """Those that no row has are left out."""
    columns = read(topic=topic)
    assert sorted(columns.topics) == ["a", "b"]
    assert [columns.topic_at(row) for row in range(3)] == ["b", "a", "b"]


def test_properties_of_arrow() -> None:
    """Maps become the stored form; a null is none."""
    pairs = pa.array([[("x", "y")], [("a", "b"), ("c", "d")], None, []], MAP)[1:]
    assert rows_of(read(properties=pairs).properties) == [b"a\x01b\x02c\x01d\x02", b"", b""]


def test_times() -> None:
    """Epoch milliseconds, or a timestamp of any unit."""
    assert read(born_timestamp=pa.array([1, 2, 3], pa.timestamp("s"))).born_timestamps is not None
    for times in (np.array([1_000, 2_000, 3_000]), pa.array([1, 2, 3], pa.timestamp("s", tz="UTC"))):
        born = read(born_timestamp=times).born_timestamps
        assert born is not None
        assert born.tolist() == [1_000, 2_000, 3_000]


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"queueId": 1}, MessageIllegal, "did you mean 'queue_id'"),
        ({"topic": None}, MessageIllegal, "no column 'topic'"),
        ({"topic": 3}, MessageIllegal, "topic"),
        ({"topic": ["a", 3, "a"]}, TopicIllegal, "is a int"),
        ({"topic": [["a"], ["b"], ["a"]]}, MessageIllegal, "a sequence of str"),
        ({"topic": ["a", "b"]}, MessageIllegal, "2 rows, but body has 3"),
        ({"topic": pa.array(["a", None, "b"])}, MessageIllegal, "row 1 is null"),
        ({"topic": (np.array([0, 1, 2]), ["a", "b"])}, MessageIllegal, "row 2"),
        ({"body": "text"}, MessageIllegal, "body"),
        ({"body": 3}, MessageIllegal, "body"),
        ({"body": [b"a", 3]}, MessageIllegal, "body of row 1"),
        ({"body": (b"abc", np.array([0, 2, 1, 3]))}, MessageIllegal, "row 1"),
        ({"body": (b"abc", np.array([0, 2, 4]))}, MessageIllegal, "row 2"),
        ({"body": (b"abc", np.array([-1, 2, 3]))}, MessageIllegal, "row 0"),
        ({"body": (b"abc", np.array([], np.int64))}, MessageIllegal, "one more"),
        ({"body": (b"abc", np.array([0.0, 1.0]))}, MessageIllegal, "whole number"),
        ({"body": (np.zeros(3, np.int64)[::2], np.array([0, 1]))}, MessageIllegal, "contiguous"),
        ({"body": pa.array([1, 2, 3])}, MessageIllegal, "strings or binaries"),
        ({"queue_id": [0, -(2**31) - 1, 0]}, QueueIllegal, "queue_id of row 1 is -2147483649"),
        ({"queue_id": [0, 2**31, 0]}, QueueIllegal, "row 1"),
        ({"queue_id": 2**80}, QueueIllegal, "row 0"),
        ({"queue_id": [0.5, 1, 2]}, MessageIllegal, "whole number"),
        ({"queue_id": [True, False, True]}, MessageIllegal, "whole number"),
        ({"queue_id": [[0], [1], [2]]}, MessageIllegal, "whole number"),
        ({"queue_id": pa.array([0, None, 1])}, MessageIllegal, "row 1 is null"),
        ({"queue_id": pa.array([0.5, 1, 1])}, MessageIllegal, "whole numbers"),
        ({"tags": (b"a\xffb", np.array([0, 1, 2, 3]))}, PropertiesIllegal, "tags of row 1"),
        ({"tags": ("ä".encode(), np.array([0, 1, 2, 2]))}, PropertiesIllegal, "tags of row 0"),
        ({"tags": ["a", "\ud800", "b"]}, PropertiesIllegal, "tags of row 1"),
        ({"properties": pa.array([[], [("a", "")], []], MAP)}, PropertiesIllegal, "row 1"),
    ],
)
def test_what_cannot_be_read(columns: dict[str, Any], error: type[StoreError], words: str) -> None:
    """The error says what is wrong, and where."""
    with pytest.raises(error) as raised:
        read(**columns)
    assert words in str(raised.value)


@pytest.mark.parametrize("table", [None, [{"body": b""}], b"", 3])
def test_what_is_no_table(table: object) -> None:
    """A list of messages, say: that is for `put_messages`."""
    with pytest.raises(MessageIllegal, match="mapping"):
        read_columns(table)


@pytest.mark.parametrize("places", [[0, 200_000, 3], [0, 2, 1], [0, -1, 3]])
@pytest.mark.parametrize(("kind", "width"), [(pa.binary(), np.int32), (pa.large_binary(), np.int64)])
def test_a_damaged_array_of_arrow_is_refused(places: list[int], kind: pa.DataType, width: type) -> None:
    """Arrow looks at the first and the last offset alone, and what came over a network may have any."""
    offsets = pa.py_buffer(np.array([*places, 6], width))
    damaged = pa.Array.from_buffers(kind, 3, [None, offsets, pa.py_buffer(b"abcdef")])
    with pytest.raises(MessageIllegal, match="outside its Arrow array"):
        read(body=damaged)
    with pytest.raises(MessageIllegal, match="outside its Arrow array"):
        read(tags=damaged)


def test_a_damaged_map_of_arrow_is_refused() -> None:
    """As above: its offsets say which pairs are whose."""
    pairs = pa.StructArray.from_arrays(
        [pa.array(["a", "c"]), pa.array(["b", "d"])], fields=[MAP.key_field, MAP.item_field]
    )
    offsets = pa.py_buffer(np.array([0, 100_000, 2, 2], np.int32))
    damaged = pa.Array.from_buffers(MAP, 3, [None, offsets], children=[pairs])
    with pytest.raises(MessageIllegal, match="outside its Arrow array"):
        read(properties=damaged)


def test_numbers_cannot_be_changed_behind_the_checks() -> None:
    """The compiled loops trust places and indices, so those are copied first."""
    numbers = np.array([0, 3, 3, 8])
    columns = read(body=(PACKED[0], numbers), queue_id=numbers[:3], topic=(numbers[:3] % 2, ["a", "b"]))
    before = rows_of(columns.bodies), columns.queue_ids.tolist(), columns.topic_indices.tolist()
    numbers[:] = 1_000
    assert before == (rows_of(columns.bodies), columns.queue_ids.tolist(), columns.topic_indices.tolist())


@pytest.mark.parametrize(
    "columns",
    [
        {"born_timestamp": pa.array([1_500, 2_000, 0], pa.timestamp("us"))},
        {"born_timestamp": pa.array([2**62, 0, 0], pa.timestamp("s"))},
        {"topic": pa.array([b"a", b"\xff", b"c"]).view(pa.string())},
        {"topic": pa.array([b"a", b"\xff", b"c"]).view(pa.string()).dictionary_encode()},
    ],
)
def test_what_arrow_cannot_hand_over_is_refused_as_a_message(columns: dict[str, Any]) -> None:
    """A fraction of a millisecond, a time beyond 64 bits of them, a topic that is no UTF-8."""
    with pytest.raises(MessageIllegal, match=f"{next(iter(columns))} of type .* cannot be read"):
        read(**columns)
