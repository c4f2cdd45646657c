"""The directory settings: how a directory was written, as far as reading and writing it need to know.

     0        4        8                        n - 4    n
    +--------+--------+------------- - - -----+--------+
    | MAGIC  | VERSION| SETTINGS              | CRC-32C|
    +--------+--------+------------- - - -----+--------+

Big-endian. MAGIC is "MQSS". SETTINGS is JSON in UTF-8, without blanks, by RocketMQ's names; messageDelayLevel
lists the tables of delays with the physical offset from which on each holds, ascending; deletedTopics, where
there are any, the physical offset at which the log ended when each was deleted:
`{"mappedFileSizeCommitLog":1073741824,...,"messageDelayLevel":[[0,"1s 5s"],[4096,"1s 10s"]]}`. The CRC-32C
covers all before it. A file of ours, `<root>/mqstore/settings`, which a broker ignores.
Page: docs/format/settings.md. No I/O here.
"""

import struct
from typing import Final, Literal

import msgspec

from mqstore.store.checksum.crc32c import CRC32C_BYTES, content_of, with_crc32c

__all__ = ["FIELDS", "VERSION", "DirectorySettings", "decode_settings", "encode_settings"]

VERSION: Final = 1
FIELDS = ((0, 4, "bytes", "MAGIC"), (4, 4, "int", "VERSION"))
_MAGIC: Final = b"MQSS"

_HEAD = struct.Struct(">4si")
assert _HEAD.size == sum(size for _, size, _, _ in FIELDS) == 8


class DirectorySettings(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one directory. Fields: StoreConfig's.

    max_message_size: the largest that messages were ever put with. message_delay_level: the tables of delays,
    each with the physical offset of the first record for which it holds. deleted_topics: the physical offset
    before which a topic's records have no entries, since it was deleted.
    """

    mapped_file_size_commit_log: int
    mapped_file_size_consume_queue: int
    max_hash_slot_num: int
    max_index_num: int
    max_message_size: int
    key_index: Literal["lmdb", "index_file", "both"]
    message_delay_level: tuple[tuple[int, str], ...]
    deleted_topics: dict[str, int] = {}


def encode_settings(settings: DirectorySettings) -> bytes:
    """The bytes of the file."""
    return with_crc32c(_HEAD.pack(_MAGIC, VERSION) + msgspec.json.encode(settings))


def decode_settings(data: bytes) -> DirectorySettings | int:
    """The settings; or the version, as a number, if it is one we do not know. ValueError for all else."""
    if len(data) < _HEAD.size + CRC32C_BYTES or not data.startswith(_MAGIC):
        raise ValueError("these are not the settings of a directory")
    content = content_of(data)
    if content is None:
        raise ValueError("the checksum differs")
    version = int(_HEAD.unpack_from(data)[1])
    if version != VERSION:
        return version
    settings = msgspec.json.decode(content[_HEAD.size :], type=DirectorySettings)
    offsets = [offset for offset, _ in settings.message_delay_level]
    if not offsets or offsets[0] < 0 or offsets != sorted(set(offsets)):
        raise ValueError(f"the tables of delays hold from {offsets}, which does not ascend from 0")
    return settings
