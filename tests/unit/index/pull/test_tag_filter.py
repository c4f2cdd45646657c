"""The tag filter: what a subscription expression means, and both steps of the comparison.

Method: tables of expressions; tags with equal hashes ("Aa" and "BB") for the second step; hypothesis for
`matches` against the full parser.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.index.pull.tag_filter import TagFilter, parse_subscription
from mqstore.store.errors import SubscriptionIllegal
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.java_hash import string_hash
from mqstore.store.status import ResponseCode
from support.twins.plain_records import V1, V2, host_bytes, record


@pytest.mark.parametrize("expression", ["*", "", None])
def test_expressions_that_want_everything(expression: str | None) -> None:
    """No filter at all."""
    assert parse_subscription(expression) is None


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("a", {"a"}),
        ("a||b", {"a", "b"}),
        (" a || b ||", {"a", "b"}),
        ("a | b", {"a | b"}),
        ("a||*", {"a", "*"}),
        ("标签||é", {"标签", "é"}),
    ],
)
def test_expressions_with_tags(expression: str, tags: set[str]) -> None:
    """Split at `||`, trimmed, empty items dropped; `*` among others is a tag like any."""
    tag_filter = parse_subscription(expression)
    assert tag_filter is not None
    assert tag_filter.tags == tags


@pytest.mark.parametrize("expression", ["||", "||||", " || ", " "])
def test_an_expression_without_tags_is_refused(expression: str) -> None:
    """It would match nothing, and a consumer would wait for ever."""
    with pytest.raises(SubscriptionIllegal, match="names no tag: give tags") as caught:
        parse_subscription(expression)
    assert caught.value.expression == expression
    assert caught.value.response_code is ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_hashes_are_compared_first() -> None:
    """Entries whose hash no wanted tag has are out; equal hashes, negative ones too, are candidates."""
    tag_filter = TagFilter(frozenset({"Aa", "polygenelubricants"}))
    codes = [string_hash(tag) for tag in ("Aa", "BB", "polygenelubricants", "other")] + [0, 2112 + 2**33]
    assert [tag_filter.may_match(code) for code in codes] == [True, True, True, False, False, True]
    assert string_hash("polygenelubricants") == -(2**31)


def test_the_address_of_an_extension_entry_may_match() -> None:
    """Below the least hash there is no hash: the string decides."""
    assert all(TagFilter(frozenset({"a"})).may_match(code) for code in (-(2**31) - 1, -(2**63)))


def stored(
    properties: bytes, *, magic: int = V1, ipv6: bool = False, body: bytes = b"TAGS\x01a\x02"
) -> memoryview:
    host = host_bytes("2001:db8::1", 1) if ipv6 else host_bytes("10.0.0.1", 1)
    return memoryview(record(0, body=body, properties=properties, magic=magic, born_host=host))


@pytest.mark.parametrize("magic", [V1, V2])
@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        (b"TAGS\x01a\x02", True),
        (b"TAGS\x01a", True),
        (b"KEYS\x01k\x02TAGS\x01a\x02X\x01y\x02", True),
        (b"TAGS\x01b\x02TAGS\x01a\x02", True),
        (b"TAGS\x01a\x02TAGS\x01\x02", True),
        (b"TAGS\x01a\x02TAGS\x01b\x02", False),
        (b"TAGS\x01ab\x02", False),
        (b"XTAGS\x01a\x02", False),
        (b"KEYS\x01TAGS\x01a\x02", False),
        (b"", False),
    ],
)
def test_strings_are_compared_second(properties: bytes, wanted: bool, magic: int, ipv6: bool) -> None:
    """The whole value of the last TAGS, in any kind of record; the body is not looked at."""
    assert TagFilter(frozenset({"a"})).matches(stored(properties, magic=magic, ipv6=ipv6)) is wanted


pieces = st.sampled_from([b"TAGS", b"X", b"\x01", b"\x02", b"a", b"\xc3\xa9"])


@given(st.lists(pieces, max_size=12).map(b"".join))
def test_matches_reads_tags_as_the_message_does(properties: bytes) -> None:
    """Any properties string: the quick look and the full parser agree on the tag."""
    row = stored(properties)
    tags = StoredMessage.of(row).tags
    assert TagFilter(frozenset({tags or "none"})).matches(row) is (tags is not None)
    assert not TagFilter(frozenset({"other"})).matches(row)


def test_repr() -> None:
    """The expression that would give the same filter."""
    assert repr(parse_subscription("b||a")) == "TagFilter('a||b')"
