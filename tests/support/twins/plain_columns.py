"""Plain-Python twins of index/arrow/column_kernels.py: properties strings taken apart, pieces numbered.

Written from RocketMQ's rule for properties and the kernels' docstrings, byte by byte.
"""

from collections.abc import Sequence

__all__ = ["number_distinct", "split_pairs"]


def split_pairs(stored: bytes) -> dict[bytes, bytes]:
    """Names and values of one properties string, but for the record's CRC; the last of equal names."""
    pairs = {}
    for chunk in stored.split(b"\x02"):
        name, mark, value = chunk.partition(b"\x01")
        if name and mark and value and name != b"__CRC32#":
            pairs[name] = value
    return pairs


def number_distinct(pieces: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """(which of the distinct pieces each is, where each of these comes first)."""
    distinct: dict[bytes, int] = {}
    numbers = [distinct.setdefault(piece, len(distinct)) for piece in pieces]
    return numbers, [numbers.index(number) for number in range(len(distinct))]
