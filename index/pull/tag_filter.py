"""The tag filter of a subscription: which messages of a queue a consumer wants.

There are two steps. `may_match` compares hash codes on the consume queue alone; records that pass are read
from the log and `matches` compares the tag itself, because two tags may share a hash. (A RocketMQ broker
takes the first step and leaves the second to the client; the outcome is the same.) The compiled twin of both
is `locate_tagged` in index/pull/pull_kernels.py.

Source: FilterAPI, DefaultMessageFilter, PullAPIWrapper of Apache RocketMQ. Pure; any thread.
"""

import functools

import numpy as np

from mqstore.store.errors import SubscriptionIllegal
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.java_hash import string_hash
from mqstore.store.record.properties_format import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS
from mqstore.store.record.record_format import decode_layout

__all__ = ["ALL_TAGS", "TagFilter", "parse_subscription"]

ALL_TAGS = "*"
_TAGS_BEGIN = f"{PROPERTY_SEPARATOR}{TAGS}{NAME_VALUE_SEPARATOR}".encode()
_PROPERTY_END = PROPERTY_SEPARATOR.encode()
_SEPARATOR = "||"
# A tags code below the least 32-bit integer is the address of an extension entry, not a hash.
_LEAST_HASH = -(2**31)


class TagFilter:
    """Wants the messages whose TAGS is one of `tags`, as a whole."""

    def __init__(self, tags: frozenset[str]) -> None:
        self.tags = tags
        self._encoded = frozenset(tag.encode("utf-8", "surrogatepass") for tag in tags)
        self._codes = frozenset(string_hash(tag) for tag in tags)
        # For the compiled loop: the hashes as int32, the bytes of all tags concatenated, and where each ends.
        self.codes = np.array(sorted(self._codes), np.int32)
        encoded = sorted(self._encoded)
        self.encoded = np.frombuffer(b"".join(encoded), np.uint8)
        self.encoded_stops = np.cumsum([len(tag) for tag in encoded], dtype=np.int64)

    def may_match(self, tags_code: int) -> bool:
        """Whether a wanted tag has the hash of an entry's tags code (its low 32 bits count)."""
        return tags_code < _LEAST_HASH or (tags_code + 2**31) % 2**32 - 2**31 in self._codes

    def matches(self, record: memoryview) -> bool:
        """Whether a record carries one of the tags. Raises RecordIllegal when the bytes are no record."""
        return _stored_tags(record) in self._encoded

    def wants(self, message: StoredMessage) -> bool:
        """Whether a message carries one of the tags."""
        return message.tags in self.tags

    def __repr__(self) -> str:
        return f"TagFilter({_SEPARATOR.join(sorted(self.tags))!r})"


@functools.lru_cache(maxsize=1024)
def parse_subscription(expression: str | None) -> TagFilter | None:
    """The filter of a subscription expression; None for `*`, the empty one and None: all messages.

    Raises SubscriptionIllegal when it names no tag.

    >>> parse_subscription("created || paid||")
    TagFilter('created||paid')
    """
    if not expression or expression == ALL_TAGS:
        return None
    tags = frozenset(filter(None, (tag.strip() for tag in expression.split(_SEPARATOR))))
    if not tags:
        raise SubscriptionIllegal(expression)
    return TagFilter(tags)


def _stored_tags(record: memoryview) -> bytes | None:
    """The value of the property TAGS, as `StoredMessage.tags`, without decoding the other fields."""
    layout = decode_layout(record, 0, len(record))
    # With a separator on both sides all properties look alike. An empty value counts as none, as everywhere.
    stored = bytes(record[layout.properties_start : layout.properties_stop])
    properties = _PROPERTY_END + stored + _PROPERTY_END
    stop = len(properties)
    while (begin := properties.rfind(_TAGS_BEGIN, 0, stop)) >= 0:
        value_at = begin + len(_TAGS_BEGIN)
        value = properties[value_at : properties.index(_PROPERTY_END, value_at)]
        if value:
            return value
        stop = begin + 1
    return None
