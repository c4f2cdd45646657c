"""One row of a RunTable: where a sorted run lies in memory, and what it covers. Columns of int64."""

from typing import Final

__all__ = [
    "ADDRESS",
    "COLUMNS",
    "COUNT",
    "GREATEST_TIMESTAMP",
    "HEADER",
    "IS_BIG_ENDIAN",
    "LEAST_TIMESTAMP",
    "NEWEST_OFFSET",
    "OLDEST_OFFSET",
]

ADDRESS: Final = 0
COUNT: Final = 1
"""Number of entries."""
IS_BIG_ENDIAN: Final = 2
OLDEST_OFFSET: Final = 3
# The fields of a RunHeader (key_index_format.py).
HEADER: Final = 4
NEWEST_OFFSET: Final = 4
LEAST_TIMESTAMP: Final = 5
GREATEST_TIMESTAMP: Final = 6
COLUMNS: Final = 7
