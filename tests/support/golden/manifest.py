"""What RocketMQ said of each golden directory: `tests/golden/<name>.manifest.jsonl.zst`, line by line.

Each object has one key, its kind. Directories of 5.5.0, 5.1.4 and 4.9.7 (golden.py) have `log`,
`state`, `queue` and `message`: what that version found when it opened the directory again. Directories of
5.3.3 have `put`: what it answered to each put. Directories with transactions have `sent` as well, with the
fate of each (golden_transactions.py). A put of kind `batch` stands for five records, of which it
gives the ids, the sum of the sizes, the first queue offset, and length and CRC of the client's batch body;
the elements' own properties and bodies are checked against the latter (test_rocketmq_directories.py).
"""

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from mqstore.store.record.message_id import decode_message_id
from mqstore.store.record.properties_format import parse_properties
from mqstore.store.record.sys_flag import takes_queue_offset

__all__ = [
    "GOLDEN",
    "GOLDEN_NAMES",
    "TRANSACTION_NAMES",
    "VERSION_NAMES",
    "ExpectedRecord",
    "expected_records",
    "manifest",
    "manifest_rows",
    "write_manifest",
]

GOLDEN = Path(__file__).parents[2] / "golden"
GOLDEN_NAMES = ("rocketmq-5.3.3-clean", "rocketmq-5.3.3-killed", "rocketmq-5.3.3-propcrc")
"""Directories of 1,995 records."""
VERSION_NAMES = tuple(
    f"rocketmq-{version}-{stop}" for version in ("4.9.7", "5.1.4", "5.5.0") for stop in ("clean", "killed")
)
"""Directories of 400 messages and what became of them."""
TRANSACTION_NAMES = tuple(f"rocketmq-{version}-transactions" for version in ("5.5.0", "5.1.4", "4.9.7"))
"""Directories of 14 transactions, two of them open."""

Json = dict[str, Any]


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
def manifest(name: str, kind: str) -> tuple[Any, ...]:
    """What the manifest of one directory says of one kind, in its order."""
    with zstandard.open(GOLDEN / f"{name}.manifest.jsonl.zst", "rt", encoding="utf-8") as lines:
        return tuple(line[kind] for line in map(json.loads, lines) if kind in line)


def write_manifest(name: str, lines: Iterable[Json]) -> None:
    """Write the manifest of one directory."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (GOLDEN / f"{name}.manifest.jsonl.zst").write_bytes(zstandard.compress(text.encode(), 22))


def manifest_rows(name: str) -> tuple[Json, ...]:
    """The puts of one directory of 5.3.3, in their order."""
    return manifest(name, "put")


@functools.cache
def expected_records(name: str) -> tuple[ExpectedRecord, ...]:
    """The records of one directory of 5.3.3, in the order of the log."""
    return tuple(record for row in manifest_rows(name) for record in _records(row))


def _records(row: Json) -> list[ExpectedRecord]:
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
