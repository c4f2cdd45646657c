"""Arrow columns as texts and numbers: without copying, except for a column in several chunks.

Imported only after the caller passed a pyarrow object. A null text becomes an empty one;
message_columns.py decides whether a row must have a value.
Pure functions: any thread.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqstore.store.bulk.text_column import TextColumn, mistyped
from mqstore.store.errors import MessageIllegal, PropertiesIllegal

__all__ = [
    "REFUSALS",
    "columns_of",
    "is_arrow",
    "numbers_of",
    "row_of_null",
    "stored_properties_of",
    "texts_of",
    "topics_of",
]

REFUSALS = (pa.ArrowException, UnicodeDecodeError)
"""What Arrow raises for a value that it cannot convert as wanted."""


def columns_of(table: Any) -> Mapping[str, Any] | None:
    """The columns of a Table or RecordBatch by name, each an Array; None for anything else."""
    if isinstance(table, pa.Table):
        table = table.combine_chunks()
        return {name: _in_one_piece(table.column(name)) for name in table.column_names}
    if isinstance(table, pa.RecordBatch):
        return {name: table.column(name) for name in table.schema.names}
    return None


def _in_one_piece(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_arrow(value: object) -> bool:
    """Whether `value` is an array of Arrow."""
    return isinstance(value, pa.Array | pa.ChunkedArray)


def row_of_null(array: Any) -> int | None:
    """The first row without a value; None if each has one."""
    return int(np.argmin(_is_valid(array))) if array.null_count else None


def _is_valid(array: Any) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def numbers_of(name: str, array: Any) -> npt.NDArray[np.integer[Any]]:
    """The column as whole numbers; times become epoch milliseconds."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz)).cast(pa.int64())
    if not pa.types.is_integer(array.type):
        raise mistyped(name, str(array.type), "a column of whole numbers")
    numbers: npt.NDArray[np.integer[Any]] = array.to_numpy(zero_copy_only=False)
    return numbers


def topics_of(name: str, array: Any) -> tuple[npt.NDArray[np.integer[Any]], list[str]]:
    """(index of each row's topic, topics)."""
    if not pa.types.is_dictionary(array.type):
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            raise mistyped(name, str(array.type), "a column of strings")
        array = array.dictionary_encode()
    return array.indices.to_numpy(zero_copy_only=False), array.dictionary.to_pylist()


def texts_of(name: str, array: Any) -> TextColumn:
    """Strings or binaries of any width, or a dictionary of them."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        values = texts_of(name, array.dictionary)
        indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return _without_nulls(TextColumn(values.data, values.starts[indices], values.stops[indices]), array)
    if pa.types.is_string_view(kind):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    elif pa.types.is_null(kind):
        return TextColumn.repeated(b"", len(array))
    if pa.types.is_fixed_size_binary(array.type):
        stops = (
            np.arange(array.offset + 1, array.offset + len(array) + 1, dtype=np.int64) * array.type.byte_width
        )
        texts = TextColumn(_buffer(array.buffers()[1], np.uint8), stops - array.type.byte_width, stops)
    elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        texts = _variable(name, array, np.int32)
    elif pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        texts = _variable(name, array, np.int64)
    else:
        raise mistyped(name, str(kind), "a column of strings or binaries")
    return _without_nulls(texts, array)


def _variable(name: str, array: Any, width: type) -> TextColumn:
    if len(array) == 0:
        return TextColumn.repeated(b"", 0)
    _, offsets, data = array.buffers()
    places = _buffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(
        np.int64, copy=False
    )
    text = _buffer(data, np.uint8)
    _check_places(name, places, len(text))
    return TextColumn(text, places[:-1], places[1:])


def _check_places(name: str, places: npt.NDArray[np.int64], end: int) -> None:
    """Raise MessageIllegal for offsets that decrease or lie outside the data: Arrow does not check them."""
    is_wrong = (places[1:] < places[:-1]) | (places[:-1] < 0) | (places[1:] > end)
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise MessageIllegal(
            f"{name} of row {row} lies outside its Arrow array, which is damaged",
            limit="an array that validate(full=True) accepts",
            row=row,
        )


def _buffer(buffer: Any, kind: type) -> npt.NDArray[Any]:
    return np.frombuffer(buffer, kind) if buffer is not None else np.empty(0, kind)


def _without_nulls(texts: TextColumn, array: Any) -> TextColumn:
    if not array.null_count:
        return texts
    return texts._replace(stops=np.where(_is_valid(array), texts.stops, texts.starts))


def stored_properties_of(name: str, array: Any) -> TextColumn:
    """Properties in the stored form, from a column of maps, or of strings that have that form."""
    if not pa.types.is_map(array.type):
        return texts_of(name, array)
    from mqstore.store.bulk import encode_kernels

    names, values = texts_of(name, array.keys), texts_of(name, array.items)
    places = np.asarray(array.offsets).astype(np.int64)
    _check_places(name, places, names.row_count)
    firsts, lasts = places[:-1], places[1:]
    if array.null_count:
        lasts = np.where(_is_valid(array), lasts, firsts)
    target = np.empty(names.total_bytes + values.total_bytes + 2 * names.row_count, np.uint8)
    starts = np.empty(len(array) + 1, np.int64)
    row = encode_kernels.join_pairs(firsts, lasts, *names, *values, target, starts)
    if row >= 0:
        raise PropertiesIllegal(
            f"properties of row {row} are {array[row].as_py()}: names and values must not be empty and must "
            "not hold a separator (0x01 or 0x02)",
            value=array[row].as_py(),
            limit="no empty text, no 0x01 and no 0x02",
            row=row,
        )
    return TextColumn(target, starts[:-1], starts[1:])
