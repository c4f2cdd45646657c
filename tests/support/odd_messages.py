"""Messages with all that is odd about keys, tags, properties and numbers, as hypothesis strategies.

`MESSAGES` is for tests that hold two ways to put a message together.
"""

from collections import UserDict, defaultdict
from types import MappingProxyType

from hypothesis import strategies as st

from mqstore.store.message.message import NO_PROPERTIES, Message
from mqstore.store.record.host import Host

__all__ = ["MESSAGES", "ODD_TEXTS", "TEXTS", "Text"]


class Text(str):
    """A str with a face of its own, as the members of some Enums have."""

    def __str__(self) -> str:
        return "shown"

    def __format__(self, specification: str) -> str:
        return "formatted"


ODD_TEXTS = st.sampled_from(
    [
        "",
        "\x01",
        "a\x02b",
        "\ud800",
        "\udfff",
        " ",
        "a b",
        "é",
        "标签",
        "🛫",
        "__CRC32#",
        "x__CRC32#",
        Text("a"),
    ]
)
TEXTS = st.one_of(
    st.text("abc-_7", min_size=1, max_size=8),
    st.sampled_from(["7F000001535222C40DBC55D0B0C50017", "order-1", "n" * 300]),
    st.text(max_size=4),
    ODD_TEXTS,
    ODD_TEXTS.map(Text),
)
NAMES = st.one_of(
    TEXTS,
    st.sampled_from(["KEYS", "TAGS", "DELAY", "WAIT", "__CRC32#", "UNIQ_KEY", "UNIQ_KEY"]),
)
NO_TEXTS = st.sampled_from([None, 0, 1, 1.5, b"", b"a", (), ("a",)])
VALUES = st.one_of(TEXTS, TEXTS, TEXTS, NO_TEXTS)
PAIRS = st.one_of(
    st.dictionaries(NAMES, TEXTS, max_size=4),
    st.dictionaries(st.just("UNIQ_KEY"), VALUES, max_size=1),
    st.dictionaries(st.one_of(NAMES, st.just(5)), VALUES, max_size=3),
)
PROPERTIES = st.one_of(
    st.just(NO_PROPERTIES),
    PAIRS,
    PAIRS,
    PAIRS.map(MappingProxyType),
    PAIRS.map(UserDict),
    PAIRS.map(lambda pairs: defaultdict(str, pairs)),
)
KEYS = st.one_of(
    st.just(()),
    TEXTS,
    st.tuples(TEXTS),
    st.lists(TEXTS, max_size=3),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.sampled_from([None, 0, (1,), ["a", None], {"a": 1}, frozenset({"a"})]),
)
TAGS = st.one_of(st.none(), TEXTS, TEXTS, NO_TEXTS)
TOPICS = st.sampled_from(["orders", "orders", "orders", "%RETRY%" + "g" * 140, Text("orders")])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "queue_id": st.sampled_from([0, 3, 2**31 - 1, 2**31, -1, True]),
        "flag": st.sampled_from([0, 1, False, 2**31]),
        "sys_flag": st.sampled_from([0, 1, 8]),
        "born_timestamp": st.sampled_from(
            [None, 0, 1_726_000_000_123, 2**63 - 1, 2**63, -1, -(2**63) - 1, True]
        ),
        "born_host": st.sampled_from([None, Host.parse("1.2.3.4:5"), Host.parse("[2001:db8::1]:5")]),
        "reconsume_times": st.integers(0, 2),
        "wait_store_msg_ok": st.booleans(),
    },
)
MESSAGES = st.builds(
    lambda fields, **others: Message(**others, **fields),
    FIELDS,
    topic=TOPICS,
    body=st.one_of(st.binary(max_size=40), st.just(bytearray(b"body")), st.just("body")),
    tags=TAGS,
    keys=KEYS,
    properties=PROPERTIES,
)
