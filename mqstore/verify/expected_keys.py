"""The keys that a piece of the log should have, as rows: for the checks of both key indexes.

(hash, store time, physical offset), in the order of the log. Threads: any.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mqstore.verify.log_scan import Piece

__all__ = ["java_key_rows", "key_rows"]

_ROWS = 1 << 17
_Rows: TypeAlias = npt.NDArray[np.int64]
_Kernel: TypeAlias = Callable[[npt.NDArray[np.uint8], int, _Rows], tuple[int, int, int, int, int]]
"""Fills rows from data that begins at a physical offset; returns what `key_entries` does."""


def key_rows(piece: Piece) -> _Rows:
    """As the key index in LMDB keeps them."""
    from mqstore.index.keys import key_kernels

    return _all_rows(piece, lambda data, offset, rows: key_kernels.key_entries(data, offset, rows, 0))


def java_key_rows(piece: Piece, *, with_tags: bool) -> _Rows:
    """As RocketMQ's index files keep them."""
    from mqstore.index.keys import key_kernels

    return _all_rows(
        piece, lambda data, offset, rows: key_kernels.java_key_entries(data, offset, rows, 0, with_tags)
    )


def _all_rows(piece: Piece, kernel: _Kernel) -> _Rows:
    """The rows of the whole piece, in as many calls of `kernel` as it takes."""
    from mqstore.index.keys import key_kernels

    parts, done, rows = [], 0, np.empty((_ROWS, 3), np.int64)
    while done < len(piece.data):
        used, count, *_, ending = kernel(piece.data[done:], piece.base_offset + done, rows)
        parts.append(rows[:count].copy())
        done += used
        if ending != key_kernels.ENDING_NO_ROOM:
            break
    return np.concatenate(parts) if parts else rows[:0]
