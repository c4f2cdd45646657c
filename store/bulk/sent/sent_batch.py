"""The sent batch: messages of one queue as a client sends them together, in one body (batch_format.py).

A list of messages that is not made: compiled loops take the elements from the body to their records, and
only a batch with anything out of the ordinary becomes a list. What a list of them would store is stored.

    body -> packed, as msgspec packs a list of Messages (batch_kernels.py) -> records (list_encoder.py)
      `- out of the ordinary: one Message an element, as `listed` makes them -> the paths of any list

It does not know which properties a broker adds (server/processors/sends.py).
Threads: it belongs to one at a time. The body must not change.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import overload

import msgspec
import numpy as np

from mqstore.store.bulk.text_column import Bytes, Longs
from mqstore.store.message.message import Message
from mqstore.store.record.host import Host

__all__ = ["SentBatch"]

_pack = msgspec.msgpack.Encoder().encode
_CACHED = 256


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loops, imported once."""
    from mqstore.store.bulk.sent import batch_kernels

    return batch_kernels


class SentBatch(Sequence[Message]):
    """The messages of one body. topic, queue_id: of all of them. body: of the batch."""

    __slots__ = ("_born", "_common", "_listed", "_make", "body", "queue_id", "topic")

    def __init__(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        common: Mapping[str, str],
        born_timestamp: int,
        born_host: Host,
        listed: Callable[[], list[Message]],
    ) -> None:
        """common: properties of all messages, in place of their own of the same names.

        born_timestamp: epoch ms. listed: makes the messages one by one, where they cannot be stored by
        compiled loops; it may raise MessageIllegal.
        """
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
        self._common = common
        self._born = born_timestamp, born_host
        self._make = listed
        self._listed: list[Message] | None = None

    @property
    def is_listed(self) -> bool:
        """Whether its messages had to be made."""
        return self._listed is not None

    def packed(self) -> tuple[Bytes, int] | None:
        """(the messages as msgspec packs them, how many); None for anything out of the ordinary."""
        kernels = _kernels()
        body = np.frombuffer(self.body, np.uint8)
        count = kernels.count_elements(body)
        if count <= 0:
            return None
        born_timestamp, born_host = self._born
        fields = {
            "topic": self.topic,
            "queue_id": self.queue_id,
            "born_timestamp": born_timestamp,
            "born_host": born_host,
        }
        try:
            front = np.frombuffer(_pack(fields), np.uint8)[1:]
            texts, bounds = _texts_of(tuple(self._common.items()))
        except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
            return None
        target = np.empty(len(body) + count * kernels.element_bytes(len(front), len(texts)), np.uint8)
        size = kernels.pack_elements(body, count, front, texts, bounds, target)
        return None if size == kernels.OUT_OF_THE_ORDINARY else (target[:size], count)

    def _messages(self) -> list[Message]:
        if self._listed is None:
            self._listed = self._make()
        return self._listed

    def __len__(self) -> int:
        return len(self._messages())

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages()[index]

    def __repr__(self) -> str:
        return f"SentBatch({self.topic!r}, queue_id={self.queue_id}, body of {len(self.body)} bytes)"


@functools.lru_cache(_CACHED)
def _texts_of(pairs: tuple[tuple[str, str], ...]) -> tuple[Bytes, Longs]:
    """Names and values one behind the other, and where each ends. Raises UnicodeEncodeError."""
    texts = [text.encode() for pair in pairs for text in pair]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    # A loop borrows an array, and there is nothing to borrow of an empty one.
    return np.frombuffer(b"".join(texts) + b"\0", np.uint8), ends
