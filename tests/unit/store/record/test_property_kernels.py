"""The compiled search for a property and Java's hash against their plain twins, on any bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqstore.store.record import property_kernels
from mqstore.store.record.java_hash import string_hash
from support.twins import index_kernels as plain

pieces = st.sampled_from([b"TAGS", b"KEYS", b"TAG", b"\x01", b"\x02", b"3", b"a", b"\xff"])


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_java_hash_reads_utf_8_as_java_does(text: bytes) -> None:
    """Malformed bytes too: the twin was compared with a Java runtime on 22,000 texts."""
    assert property_kernels.java_hash(as_array(text), 0, len(text)) == plain.java_hash(text)


@given(st.text())
@settings(deadline=None)
def test_java_hash_of_text_is_that_of_the_store(text: str) -> None:
    """What readers compute from a tag (store/record/java_hash.py) is what the queue holds."""
    encoded = text.encode("utf-8", "surrogatepass").replace(b"\xed", b"x")
    decoded = encoded.decode("utf-8", "replace")
    assert property_kernels.java_hash(as_array(encoded), 0, len(encoded)) == string_hash(decoded)


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (b"A\x01b\x02", b""),
        (b"TAGS\x01x", b"x"),
        (b"TAGS\x01x\x02TAGS\x01y\x02", b"y"),
        (b"TAGS\x01x\x02TAGS\x01\x02", b"x"),
        (b"TAGS\x01x\x01y\x02", b"x\x01y"),
        (b"XTAGS\x01x\x02", b""),
        (b"\x01TAGS\x01x\x02", b""),
        (b"A\x01TAGS\x01x\x02", b""),
        (b"\x02\x02TAGS\x01x\x02\x02", b"x"),
        (b"", b""),
    ],
)
def test_find_property(stored: bytes, value: bytes) -> None:
    """RocketMQ's rules of parsing, one by one."""
    around = b"??" + stored + b"TAGS\x01!"
    at, length = property_kernels.find_property(as_array(around), 2, len(stored), as_array(b"TAGS"))
    assert around[at : at + length] == value == plain.find_property(around, 2, len(stored), b"TAGS")


@given(st.lists(pieces, max_size=20).map(b"".join), st.sampled_from([b"TAGS", b"KEYS", b"a", b"3"]))
@settings(deadline=None)
def test_find_property_is_its_twin(stored: bytes, name: bytes) -> None:
    """Any string, also one that is no list of pairs."""
    at, length = property_kernels.find_property(as_array(stored), 0, len(stored), as_array(name))
    assert stored[at : at + length] == plain.find_property(stored, 0, len(stored), name)
