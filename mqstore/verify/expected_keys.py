"""The keys of a piece of the log as rows, all at once: for the checks of both key indexes.

(hash, store time, physical offset), in the order of the log. Threads: any.
"""

import numpy as np
import numpy.typing as npt

from mqstore.verify.log_scan import Piece

__all__ = ["java_key_rows", "key_rows"]

_ROWS = 1 << 17


def key_rows(piece: Piece) -> npt.NDArray[np.int64]:
    """As the key index in LMDB keeps them."""
    from mqstore.index.keys import key_kernels

    parts, done, rows = [], 0, np.empty((_ROWS, 3), np.int64)
    while done < len(piece.data):
        used, count, *_, ending = key_kernels.key_entries(
            piece.data[done:], piece.base_offset + done, rows, 0
        )
        parts.append(rows[:count].copy())
        done += used
        if ending != key_kernels.ENDING_NO_ROOM:
            break
    return np.concatenate(parts) if parts else rows[:0]


def java_key_rows(piece: Piece, *, with_tags: bool) -> npt.NDArray[np.int64]:
    """As RocketMQ's index files keep them."""
    from mqstore.index.keys import key_kernels

    parts, done, rows = [], 0, np.empty((_ROWS, 3), np.int64)
    while done < len(piece.data):
        used, count, *_, ending = key_kernels.java_key_entries(
            piece.data[done:], piece.base_offset + done, rows, 0, with_tags
        )
        parts.append(rows[:count].copy())
        done += used
        if ending != key_kernels.ENDING_NO_ROOM:
            break
    return np.concatenate(parts) if parts else rows[:0]
