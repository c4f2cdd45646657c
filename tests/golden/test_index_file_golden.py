"""Index files that Apache RocketMQ 5.3.3 wrote: every entry is reached, and every key finds its message."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mqstore.index.index_file import index_file_format as index_file
from support.golden.manifest import GOLDEN_NAMES, manifest_rows

SLOT_COUNT, ENTRY_COUNT = 500, 2_000


@pytest.fixture(params=GOLDEN_NAMES)
def files_and_rows(
    request: pytest.FixtureRequest, golden_directory: Callable[[str], Path]
) -> tuple[list[bytes], list[dict[str, Any]]]:
    """The index files of a golden directory, and the messages that were put into it."""
    paths = sorted((golden_directory(request.param) / "index").iterdir())
    return [path.read_bytes() for path in paths], list(manifest_rows(request.param))


def keys(row: dict[str, Any]) -> Iterator[str]:
    """What RocketMQ indexes of a message: its unique key, then each of its keys, repeated ones too."""
    yield from filter(None, (row["uniq"], *(row["keys"] or "").split(" ")))


def test_every_entry_is_in_a_chain(files_and_rows: tuple[list[bytes], list[dict[str, Any]]]) -> None:
    """The chains of all slots hold entries 1 to index_count - 1 once each; the header counts the slots."""
    for data in files_and_rows[0]:
        assert len(data) == index_file.file_size_bytes(SLOT_COUNT, ENTRY_COUNT)
        chains = [list(index_file.chain(data, slot, SLOT_COUNT)) for slot in range(SLOT_COUNT)]
        header = index_file.decode_header(data)
        assert sum(map(len, chains)) == header.index_count - 1
        assert sum(map(bool, chains)) == header.hash_slot_count
        for slot, entries in enumerate(chains):
            assert all(index_file.slot_of(entry.key_hash, SLOT_COUNT) == slot for entry in entries)


def test_every_key_finds_its_message(files_and_rows: tuple[list[bytes], list[dict[str, Any]]]) -> None:
    """By hash, physical offset and second, for each message that was put alone and not rolled back."""
    files, rows = files_and_rows
    found_ms = {}
    for data in files:
        begin_ms = index_file.decode_header(data).begin_timestamp_ms
        chains = (index_file.chain(data, slot, SLOT_COUNT) for slot in range(SLOT_COUNT))
        for entry in itertools.chain.from_iterable(chains):
            found_ms[entry.key_hash, entry.physical_offset] = begin_ms + 1000 * entry.time_difference_s
    rollback = 0xC
    alone = [row for row in rows if row["kind"] == "single" and row["sysflag"] & 0xC != rollback]
    assert len(alone) > 1000
    for row in alone:
        for key in keys(row):
            age_ms = row["store_ts"] - found_ms[index_file.key_hash(row["topic"], key), row["phy"]]
            assert 0 <= age_ms < 1000
