"""The tag filter of a subscription: which messages of a queue a consumer wants.

Two steps. `may_match` compares hash codes on the consume queue alone, for many entries at once; what passes
is read from the log and compared as a string by `matches`, because two tags may share a hash. (A RocketMQ
broker takes the first step and leaves the second to the client; the outcome is the same.)

Source: FilterAPI, DefaultMessageFilter, PullAPIWrapper of Apache RocketMQ. Pure; any thread.
"""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from mqstore.store.java_hash import string_hash
from mqstore.store.stored_message import StoredMessage

__all__ = ["ALL_TAGS", "TagFilter", "parse_subscription"]

ALL_TAGS = "*"
_SEPARATOR = "||"
# A tags code below the least 32-bit integer is the address of an extension entry: it tells no hash.
_LEAST_HASH = -(2**31)


class TagFilter:
    """Wants the messages whose TAGS is one of `tags`, as a whole."""

    def __init__(self, tags: frozenset[str]) -> None:
        self.tags = tags
        self._codes = np.array(sorted({string_hash(tag) for tag in tags}), np.int32)

    def may_match(self, tags_codes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """For each tags code, False when no wanted tag has this hash (its low 32 bits count)."""
        codes = tags_codes.astype(np.int64)
        low = codes.astype(np.int32)
        may_match = codes < _LEAST_HASH
        for code in self._codes:
            may_match |= low == code
        return may_match

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message carries one of the tags."""
        return message.tags in self.tags

    def __repr__(self) -> str:
        return f"TagFilter({_SEPARATOR.join(sorted(self.tags))!r})"


@functools.lru_cache(maxsize=1024)
def parse_subscription(expression: str | None) -> TagFilter | None:
    """The filter of a subscription expression; None for `*`, the empty one and None: all messages.

    >>> parse_subscription("created || paid||")
    TagFilter('created||paid')
    """
    if not expression or expression == ALL_TAGS:
        return None
    return TagFilter(frozenset(filter(None, (tag.strip() for tag in expression.split(_SEPARATOR)))))
