"""TextColumn: one run of bytes for each row of a column, in a shared buffer.

`read_texts` takes what callers hand in as a column of texts or bodies, and copies only what is already in
Python objects. arrow_columns.py reads Arrow's arrays. Shapes and places are checked here, so that the
compiled loops may trust them; columns_encoder.py checks whether a text is legal.
Pure functions: any thread.
"""

import reprlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mqstore.store.errors import MessageIllegal, PropertiesIllegal

__all__ = ["Bytes", "Ints", "Longs", "TextColumn", "check_utf8", "read_ints", "read_texts", "wrong_count"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_ACCEPTED = (
    "one value for all rows, a sequence of values, a pair (buffer, array of offsets), a pair (array of "
    "indices, values), a two-dimensional uint8 array, or a column of Arrow"
)


class TextColumn(NamedTuple):
    """The text of row `r` is data[starts[r] : stops[r]]; rows may share bytes."""

    data: Bytes
    starts: Longs
    stops: Longs

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.starts)

    @property
    def total_bytes(self) -> int:
        """The bytes of all rows together; those that rows share count for each."""
        return int(np.add.reduce(self.stops - self.starts)) if len(self.data) else 0

    def bytes_at(self, row: int) -> bytes:
        """The text of one row, copied."""
        return self.data[self.starts[row] : self.stops[row]].tobytes()

    def may_hold(self, part: bytes) -> bool:
        """Whether `part` is somewhere between the first text and the last; False means in none of them."""
        if not len(self.data) or not len(self.starts):
            return False
        return self.data[self.starts.min() : self.stops.max()].tobytes().find(part) >= 0

    @classmethod
    def repeated(cls, text: bytes, count: int) -> "TextColumn":
        """The same text in every row."""
        starts = np.zeros(count, np.int64)
        stops = np.full(count, len(text), np.int64) if text else starts
        return cls(np.frombuffer(text, np.uint8), starts, stops)

    @classmethod
    def chosen(cls, texts: Sequence[bytes], indices: npt.NDArray[np.integer]) -> "TextColumn":
        """For each row one of `texts`; a negative index chooses the empty text."""
        offsets = _offsets_of([len(text) for text in texts] + [0])
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets[:-1][indices], offsets[1:][indices])


def read_texts(name: str, value: object, count: int | None = None) -> TextColumn:
    """The column `name`, given as `value`; count: how many rows it must have.

    None and an empty text are the same. Raises MessageIllegal, PropertiesIllegal.
    """
    if isinstance(value, str | bytes | bytearray | memoryview):
        if count is None:
            raise mistyped(name, value, "one for each row")
        return TextColumn.repeated(_encoded(name, value), count)
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype == np.uint8:
        stops = np.arange(1, len(value) + 1, dtype=np.int64) * value.shape[1]
        texts = TextColumn(np.ascontiguousarray(value).reshape(-1), stops - value.shape[1], stops)
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], np.ndarray):
        texts = _from_offsets(name, *value)
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], np.ndarray):
        values = [_encoded(name, text) for text in value[1]]
        texts = TextColumn.chosen(values, read_ints(name, value[0], len(value[0]), 0, len(values) - 1))
    elif isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.dtype.kind in "UO"):
        texts = _from_values(name, value)
    else:
        raise mistyped(name, value, _ACCEPTED)
    if count is not None and texts.row_count != count:
        raise wrong_count(name, texts.row_count, count)
    return texts


def _from_offsets(name: str, buffer: object, offsets: npt.NDArray[np.integer]) -> TextColumn:
    try:
        data = np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload]
    except (TypeError, ValueError, AttributeError, BufferError) as error:
        raise mistyped(name, buffer, "bytes or a contiguous uint8 array") from error
    places = read_ints(f"offsets of {name}", offsets, len(offsets), 0, len(data))
    shrinks = np.flatnonzero(np.diff(places) < 0)
    if len(places) == 0 or len(shrinks):
        row = int(shrinks[0]) if len(shrinks) else 0
        raise MessageIllegal(
            f"the offsets of {name} must be one more than there are rows, and must not fall: see row {row}",
            limit="offsets that do not fall",
            row=row,
        )
    return TextColumn(data, places[:-1], places[1:])


def _from_values(name: str, values: "Sequence[object] | npt.NDArray[np.void]") -> TextColumn:
    texts = [b"" if text is None else _encoded(name, text, row) for row, text in enumerate(values)]
    offsets = _offsets_of([len(text) for text in texts])
    return TextColumn(np.frombuffer(b"".join(texts), np.uint8), offsets[:-1], offsets[1:])


def _offsets_of(lengths: list[int]) -> Longs:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.array(lengths, np.int64), out=offsets[1:])
    return offsets


def _encoded(name: str, text: object, row: int | None = None) -> bytes:
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    if not isinstance(text, str):
        raise mistyped(name, text, "str or bytes", row)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _no_utf8(name, text, row) from error


def check_utf8(name: str, texts: TextColumn) -> None:
    """Raise PropertiesIllegal for the first row that is no UTF-8."""
    if texts.row_count == 0:
        return
    used = texts.data[texts.starts.min() : texts.stops.max()]
    if len(used) == 0 or used.max() < 0x80 or _is_utf8_in_one_piece(texts, used):
        return
    for row in range(texts.row_count):
        try:
            str(texts.bytes_at(row), "utf-8")
        except UnicodeDecodeError as error:
            raise _no_utf8(name, texts.bytes_at(row), row) from error


def _is_utf8_in_one_piece(texts: TextColumn, used: Bytes) -> bool:
    """Whether the rows lie side by side, are UTF-8 together, and none begins within a character."""
    if (texts.starts[1:] != texts.stops[:-1]).any():
        return False
    firsts = texts.data[texts.starts[texts.starts < texts.stops]]
    try:
        str(used.data, "utf-8")
    except UnicodeDecodeError:
        return False
    return not (firsts & 0xC0 == 0x80).any()


def read_ints(
    name: str,
    value: object,
    count: int,
    least: int,
    greatest: int,
    *,
    error: type[MessageIllegal] = MessageIllegal,
) -> Longs:
    """A copy of the column `name` of whole numbers, given as one for all rows or as an array.

    Raises MessageIllegal, and `error` for a number out of bounds.
    """
    if type(value) is int:
        value = np.full(count, value, object if abs(value) >= 2**63 else np.int64)
    # A copy: the caller cannot change it after the checks, so compiled loops may trust it.
    numbers = np.array(value)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        is_huge = numbers.dtype.kind == "O" and all(type(number) is int for number in numbers.flat)
        if numbers.ndim != 1 or not is_huge:
            raise mistyped(name, value, "a whole number, or a one-dimensional array of whole numbers")
    if len(numbers) != count:
        raise wrong_count(name, len(numbers), count)
    outside = (numbers < least) | (numbers > greatest)
    if outside.any():
        row = int(outside.argmax())
        raise error(
            f"{name} of row {row} is {numbers[row]}, but must be from {least} to {greatest}",
            value=int(numbers[row]),
            limit=greatest if numbers[row] > greatest else least,
            row=row,
        )
    return np.ascontiguousarray(numbers, np.int64)


def wrong_count(name: str, found: int, count: int) -> MessageIllegal:
    """The error for a column of another length than `body`."""
    return MessageIllegal(f"{name} has {found} rows, but body has {count}", value=found, limit=count)


def mistyped(name: str, value: object, wanted: str, row: int | None = None) -> MessageIllegal:
    """The error for a value of a wrong type."""
    place = name if row is None else f"{name} of row {row}"
    return MessageIllegal(
        f"{place} is {reprlib.repr(value)}: give {wanted}", value=value, limit=wanted, row=row
    )


def _no_utf8(name: str, text: object, row: int | None) -> PropertiesIllegal:
    place = name if row is None else f"{name} of row {row}"
    return PropertiesIllegal(
        f"{place} is {reprlib.repr(text)}, which is no UTF-8", value=text, limit="text in UTF-8", row=row
    )
