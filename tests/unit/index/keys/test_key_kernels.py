"""Whether a record has a key: the compiled comparison of bytes answers as the one of decoded fields does.

Method: records written by the plain twin, with properties of any bytes, asked for the keys that they have and
for others. The walk of the log to keys is tested with the key buffer (test_key_buffer.py).
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mqstore.index.keys import key_kernels
from mqstore.index.keys.key_index import has_key, key_hash
from mqstore.store.message.stored_message import StoredMessage
from support.twins.plain_records import V1, record

WORDS = ("a", "b", "ab", "a b", "\xe9", "\U0001f600", " ", "KEYS", "x" * 40)
NAMES = ("KEYS", "UNIQ_KEY", "TAGS", "KEYSX", "KEY", "")
PIECES = st.one_of(
    st.builds(
        lambda name, words: f"{name}\x01{' '.join(words)}\x02".encode(),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(WORDS), max_size=3),
    ),
    st.binary(max_size=6),
)


@given(
    st.lists(PIECES, max_size=4),
    st.sampled_from(WORDS),
    st.sampled_from(["orders", "order", "orders2", "\xe9"]),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.binary(max_size=9),
)
def test_a_record_has_a_key_as_its_message_has(
    pieces: list[bytes], key: str, topic: str, times: tuple[int, int], before: bytes
) -> None:
    """Topic and bounds of time included; wherever the record lies."""
    stored = record(0, topic="orders", properties=b"".join(pieces), store_timestamp=5, magic=V1)
    message = StoredMessage.of(memoryview(stored))
    data = np.frombuffer(before + stored + b"\xff", np.uint8)
    text = np.frombuffer(f"{topic}#{key}".encode(), np.uint8)
    found = key_kernels.has_key(
        data, len(before), len(before) + len(stored), text, len(topic.encode()), *times
    )
    wanted = times[0] <= 5 <= times[1] and message.topic == topic and has_key(message, key)
    assert found == wanted


def test_no_record_has_no_key() -> None:
    """Bytes that are none, and one that is cut short."""
    stored = record(0, properties=b"KEYS\x01a\x02", store_timestamp=5)
    text = np.frombuffer(b"orders#a", np.uint8)
    data = np.frombuffer(stored, np.uint8)
    assert key_kernels.has_key(data, 0, len(stored), text, 6, 0, 9)
    assert not key_kernels.has_key(data, 0, len(stored) - 1, text, 6, 0, 9)
    assert not key_kernels.has_key(np.zeros(200, np.uint8), 0, 200, text, 6, 0, 9)


@given(st.text(max_size=30))
def test_the_hash_is_that_of_the_plain_twin(text: str) -> None:
    """Of topic and key, separated as they are stored."""
    topic, _, key = text.partition("#")
    try:
        encoded = f"{topic}#{key}".encode()
    except UnicodeEncodeError:
        return
    assert key_kernels.hash_of_text(np.frombuffer(encoded, np.uint8)) == key_hash(topic, key)
