"""Java's `String.hashCode`: RocketMQ uses it for tags codes and in index files."""

import functools

__all__ = ["string_hash"]


@functools.lru_cache(maxsize=8192)
def string_hash(text: str) -> int:
    """h = 31 * h + unit over the UTF-16 units of `text`, as a signed 32-bit integer.

    >>> string_hash("TagA")
    2598919
    """
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        code = (31 * code + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFF_FFFF
    return code - 0x1_0000_0000 if code & 0x8000_0000 else code
