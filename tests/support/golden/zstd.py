"""Zstandard, from the standard library where it has it: for tests that compress."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd_compress"]


def zstd_compress(body: bytes) -> bytes:
    """One frame."""
    compressed: bytes = zstd.compress(body)
    return compressed
