"""The messages that a pull has found in one segment, made when one of them is looked at.

A pull finds places: four numbers a message. To make an object of each, and its numbers, takes as long as to
find them, and ten times the memory. So a consumer keeps the places, and has the messages made in the thread
that looks at them, which may be much later.
Threads: any. Two that look at the same time may get different objects for one record, which does no harm.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import cast, overload

import numpy as np
import numpy.typing as npt

from mqstore.store.message.compiled_read import READS
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.record_format import QUEUE_OFFSET_POSITION

__all__ = ["FoundMessages", "make_messages"]

Places = npt.NDArray[np.int64]

# Without the other fields of the header, of which nothing is asked here.
_QUEUE_OFFSET = struct.Struct(f">{QUEUE_OFFSET_POSITION}xq")


def make_messages(data: memoryview, places: Places) -> list[StoredMessage]:
    """The messages at `places` of a segment: int64[4, n], as the loops of pull_kernels.py fill it."""
    if READS is not None:
        made: list[StoredMessage] = READS.messages_at(StoredMessage, data, places, len(places[0]))
        return made
    return list(map(StoredMessage, repeat(data), *places.tolist()))


class FoundMessages(Sequence[StoredMessage]):
    """Messages of one segment, at least one, behind one another in their queue; a slice is a tuple."""

    __slots__ = ("_count", "_data", "_messages", "_places")

    def __init__(self, data: memoryview, places: Places) -> None:
        self._data = data
        self._places = places
        # Asked for several times a pull, and dear to ask of an array.
        self._count: int = places.shape[1]
        # Written by the first thread that looks at them.
        self._messages: tuple[StoredMessage, ...] | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def first_queue_offset(self) -> int:
        """The queue offset of the first message, which is not made for it; the others follow one by one."""
        return cast("int", _QUEUE_OFFSET.unpack_from(self._data, self._places.item(0, 0))[0])

    def has_byte(self, position: int, value: int) -> bool:
        """Whether one of the records has this byte there; no message is made for it."""
        data = self._data
        if READS is not None:
            is_there: bool = READS.has_byte(data, self._places, position, value)
            return is_there
        return value in [data[start + position] for start in self._places[0].tolist()]

    def joined_records(self) -> bytes:
        """The records one after another, as an answer to a pull has them; no message is made for it."""
        data = self._data
        starts, stops = self._places[:2].tolist()
        # Those of a batch, and of a topic with one queue, lie one behind the other.
        if starts[1:] == stops[:-1]:
            return bytes(data[starts[0] : stops[-1]])
        return b"".join([data[start:stop] for start, stop in zip(starts, stops, strict=True)])

    def _made(self) -> tuple[StoredMessage, ...]:
        messages = self._messages
        if messages is None:
            self._messages = messages = tuple(make_messages(self._data, self._places))
        return messages

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[StoredMessage, ...]: ...

    def __getitem__(self, index: int | slice) -> StoredMessage | tuple[StoredMessage, ...]:
        return self._made()[index]

    def __iter__(self) -> Iterator[StoredMessage]:
        return iter(self._made())

    def __repr__(self) -> str:
        return f"FoundMessages({len(self)} messages)"
