"""What the golden directories hold: one `ExpectedRecord` for every record that RocketMQ 5.3.3 wrote there.

A row of the manifest is a put. A row of kind `batch` stands for five records, of which it gives the ids, the
sum of the sizes, the first queue offset, and length and CRC of the client's batch body; the elements' own
properties and bodies are checked against the latter (test_rocketmq_directories.py).
"""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from mqstore.store.message_id import decode_message_id
from mqstore.store.properties_format import parse_properties
from mqstore.store.sys_flag import takes_queue_offset

__all__ = ["GOLDEN_NAMES", "ExpectedRecord", "expected_records", "manifest_rows"]

GOLDEN_NAMES = ("rocketmq-5.3.3-clean", "rocketmq-5.3.3-killed", "rocketmq-5.3.3-propcrc")
_GOLDEN = Path(__file__).parents[1] / "golden"


class ExpectedRecord(NamedTuple):
    """One record; None where a batch row does not say."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int | None
    store_timestamp: int
    sys_flag: int
    born_timestamp: int
    message_id: str
    flag: int | None
    body_length: int | None
    body_crc: int | None
    properties: str | None

    @property
    def has_queue_entry(self) -> bool:
        """Whether it is in its queue: half and rollback records are not."""
        return takes_queue_offset(self.sys_flag)

    @property
    def parsed_properties(self) -> dict[str, str]:
        """As a reader sees them: empty values are lost."""
        assert self.properties is not None
        return parse_properties(self.properties.encode())


@functools.cache
def manifest_rows(name: str) -> tuple[dict[str, Any], ...]:
    """The puts of one directory, in their order."""
    with zstandard.open(_GOLDEN / f"{name}.manifest.json.zst", "rt", encoding="utf-8") as stream:
        return tuple(json.load(stream))


@functools.cache
def expected_records(name: str) -> tuple[ExpectedRecord, ...]:
    """The records of one directory, in the order of the log."""
    return tuple(record for row in manifest_rows(name) for record in _records(row))


def _records(row: dict[str, Any]) -> list[ExpectedRecord]:
    is_single = row["kind"] == "single"
    return [
        ExpectedRecord(
            row["topic"],
            row["queue"],
            row["qoff"] + index,
            decode_message_id(message_id)[1],
            row["size"] if is_single else None,
            row["store_ts"],
            row["sysflag"],
            row["born"],
            message_id,
            row["flag"] if is_single else None,
            row["body_len"] if is_single else None,
            row["body_crc"] if is_single else None,
            row["properties"] if is_single else None,
        )
        for index, message_id in enumerate(row["msgid"].split(","))
    ]
