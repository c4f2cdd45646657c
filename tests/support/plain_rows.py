"""The plain twins of store/bulk/kernels.py: the same answers, row by row, in Python's own types.

The twin of `encode_rows` and `complete_records` together is a single put: tests/property/test_bulk_puts.py.
"""

from collections.abc import Sequence

__all__ = ["plain_groups", "plain_join", "plain_values"]


def plain_values(rows: Sequence[bytes], name: bytes) -> list[bytes]:
    """The value of the first property with this name in each row of stored properties; b"" for none."""
    return [next((value for value in _values_of(row, name) if value), b"") for row in rows]


def _values_of(row: bytes, name: bytes) -> list[bytes]:
    chunks = [chunk.partition(b"\x01") for chunk in row.split(b"\x02")]
    return [value for found, separator, value in chunks if separator and found == name]


def plain_join(rows: Sequence[Sequence[tuple[bytes, bytes]]]) -> list[bytes] | int:
    """The stored properties of each row of pairs; or the number of the first row with an illegal pair."""
    joined = []
    for number, pairs in enumerate(rows):
        if any(not text or {1, 2} & set(text) for pair in pairs for text in pair):
            return number
        joined.append(b"".join(name + b"\x01" + value + b"\x02" for name, value in pairs))
    return joined


def plain_groups(queues: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """(number of each row's queue, first row of each queue)."""
    first_rows: dict[tuple[int, int], int] = {}
    for row, queue in enumerate(queues):
        first_rows.setdefault(queue, row)
    numbers = {queue: number for number, queue in enumerate(first_rows)}
    return [numbers[queue] for queue in queues], list(first_rows.values())
