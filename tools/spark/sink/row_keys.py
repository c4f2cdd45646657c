"""The UNIQ_KEY of a row: 16 hexadecimal digits of its write's application and version, 16 of its number.

So a commit that was killed finds out how far it came, and a consumer knows a message that it has seen.
Threads: any; pure functions but for `number_rows`, which fills in the block of its caller.
"""

import hashlib
from typing import Final

import numpy as np

from mqstore.store.bulk.record_block import RecordBlock

__all__ = ["NO_KEY", "number_rows", "row_key_prefix", "row_number"]

_DIGITS: Final = 16
"""As many for the write as for the number."""

NO_KEY: Final = b"0" * 2 * _DIGITS
"""The key of a row that has no number yet."""


def row_key_prefix(app_id: str, version: int) -> str:
    """What the keys of all rows of a write begin with."""
    digest = hashlib.sha256(f"{app_id}\0{version}".encode()).hexdigest()
    return digest[:_DIGITS].upper()


def row_number(key: str | None, prefix: str) -> int | None:
    """The number of the row with this UNIQ_KEY; None if it is none of the write."""
    if key is None or len(key) != 2 * _DIGITS or not key.startswith(prefix):
        return None
    try:
        return int(key[_DIGITS:], 16)
    except ValueError:
        return None


def number_rows(block: RecordBlock, prefix: str, first_row: int) -> None:
    """Give the records of a block their keys; the first of them is row `first_row` of the write.

    Raises ValueError for a record without room for such a key.
    """
    from mqstore.tools.spark.sink import row_key_kernels

    row = row_key_kernels.write_row_keys(
        block.buffer, block.starts, np.frombuffer(prefix.encode(), np.uint8), _DIGITS, first_row
    )
    if row >= 0:
        raise ValueError(f"record {row} of a block has no room for the key of a row")
