"""The sent batch: messages of one queue as a client sends them together, in one body (batch_format.py).

A list of messages that is not made: compiled loops take the elements from the body to their records, and
only a batch with anything out of the ordinary becomes a list. What a list of them would store is stored.

    body -> packed, as msgspec packs a list of Messages (batch_kernels.py) -> records (list_encoder.py)
      `- out of the ordinary: one Message an element, as `listed` makes them -> the paths of any list

Each message has its own properties and no others (server/processors/sends.py).
Threads: it belongs to one at a time. The body must not change.
"""

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import overload

import msgspec
import numpy as np

from mqstore.store.bulk.text_column import Bytes
from mqstore.store.message.message import Message
from mqstore.store.record.host import Host

__all__ = ["SentBatch"]

_pack = msgspec.msgpack.Encoder().encode


@functools.cache
def _kernels() -> ModuleType:
    """The compiled loops, imported once."""
    from mqstore.store.bulk.sent import batch_kernels

    return batch_kernels


class SentBatch(Sequence[Message]):
    """The messages of one body. topic, queue_id: of all of them. body: of the batch."""

    __slots__ = ("_born", "_listed", "_make", "body", "queue_id", "topic")

    def __init__(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        born_timestamp: int,
        born_host: Host,
        listed: Callable[[], list[Message]],
    ) -> None:
        """listed: makes the messages one by one, where compiled loops cannot store them.

        It may raise MessageIllegal. born_timestamp: epoch ms.
        """
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
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
        except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
            return None
        target = np.empty(len(body) + count * kernels.element_bytes(len(front)), np.uint8)
        size = kernels.pack_elements(body, count, front, target)
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
