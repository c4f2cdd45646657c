"""The bits of a record's SYSFLAG.

Unused bits are preserved, never cleared. Page: docs/format/commit_log.md. Source: MessageSysFlag.
"""

__all__ = [
    "BORN_HOST_V6",
    "COMPRESSED",
    "COMPRESSION_TYPE_MASK",
    "COMPRESSION_TYPE_SHIFT",
    "INNER_BATCH",
    "MULTI_TAGS",
    "NEED_UNWRAP",
    "STORE_HOST_V6",
    "TRANSACTION_COMMIT",
    "TRANSACTION_MASK",
    "TRANSACTION_PREPARED",
    "TRANSACTION_ROLLBACK",
    "takes_queue_offset",
]

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
TRANSACTION_MASK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
# The compression of a compressed body: 1 is LZ4, 2 Zstandard, 3 and 0 zlib.
COMPRESSION_TYPE_SHIFT = 8
COMPRESSION_TYPE_MASK = 0x700


def takes_queue_offset(sys_flag: int) -> bool:
    """Whether a record with this flag gets a queue offset: half and rollback records do not."""
    return sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
