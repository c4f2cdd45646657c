"""The kinds of arguments of loops that Python calls, as numba writes them.

Arrays are C-contiguous unless the kind says otherwise. A kind that is `const` also takes an array that may
be written, so a loop is compiled once and not for every mixture of the two.
"""

from typing import Final

__all__ = [
    "BOOL",
    "BYTES",
    "BYTES_OUT",
    "FLAGS_OUT",
    "INT64",
    "INTS",
    "INTS_OUT",
    "INT_ROWS_OUT",
    "LONGS",
    "LONGS_OUT",
    "LONG_ROWS",
    "LONG_ROWS_OUT",
    "STRIDED_INT_ROWS",
]

INT64: Final = "int64"
BOOL: Final = "boolean"

BYTES: Final = "const uint8[::1]"
INTS: Final = "const int32[::1]"
LONGS: Final = "const int64[::1]"
STRIDED_INT_ROWS: Final = "const int32[:, :]"
"""Rows that need not be contiguous: some columns of wider ones."""
LONG_ROWS: Final = "const int64[:, ::1]"

# Those that the loop fills.
BYTES_OUT: Final = "uint8[::1]"
FLAGS_OUT: Final = "boolean[::1]"
INTS_OUT: Final = "int32[::1]"
LONGS_OUT: Final = "int64[::1]"
INT_ROWS_OUT: Final = "int32[:, ::1]"
LONG_ROWS_OUT: Final = "int64[:, ::1]"
