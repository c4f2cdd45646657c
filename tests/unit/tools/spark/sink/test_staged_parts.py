"""Goal: what a task stages is what is put, row by row; a row that cannot be stored is found in its task.

Method: parts of random sizes, read from every row on; parts that are damaged.
"""

import os
import re
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from mqstore.store.errors import MessageTooLarge, TopicIllegal
from mqstore.store.record.properties_format import UNIQ_KEY
from mqstore.store.record.record_format import HEADER_BYTES, QUEUE_ID_POSITION
from mqstore.tools.spark.sink import staged_parts
from mqstore.tools.spark.sink.row_keys import row_key_prefix, row_number
from mqstore.tools.spark.sink.staged_parts import PartDamaged, numbered_blocks, stage
from support.imports.killed_commit import RULES

PREFIX = row_key_prefix("app", 1)


def table(bodies: list[str], topic: str = "orders", **more: pa.Array) -> pa.Table:
    queue_ids = pa.array([len(body) % 3 for body in bodies], pa.int32())
    return pa.table({"topic": [topic] * len(bodies), "body": bodies, "queue_id": queue_ids, **more})


def numbers(directory: Path, parts: list[staged_parts.Part], first: int) -> list[tuple[int | None, str]]:
    """(number by its key, body) of all rows from one on."""
    found = []
    for block in numbered_blocks(directory, parts, PREFIX, first):
        for row in range(len(block)):
            record = bytes(block.bytes_of(row, row + 1))
            body_bytes = int.from_bytes(record[HEADER_BYTES - 4 : HEADER_BYTES], "big")
            key = record.partition(f"{UNIQ_KEY}\x01".encode())[2][:32].decode()
            body = record[HEADER_BYTES : HEADER_BYTES + body_bytes].decode()
            # What the log counts by is what the record says.
            queue_id = int.from_bytes(record[QUEUE_ID_POSITION : QUEUE_ID_POSITION + 4], "big")
            assert block.queues[block.groups[row]] == ("orders", queue_id) == ("orders", len(body) % 3)
            found.append((row_number(key, PREFIX), body))
    return found


@pytest.mark.parametrize("block_bytes", [1, 60, 1 << 20])
def test_rows_are_numbered_over_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    """From any row on, in blocks of any size: the numbers are those of the whole."""
    monkeypatch.setattr(staged_parts, "_BLOCK_BYTES", block_bytes)
    wanted = [str(number) for number in range(23)]
    cuts = (0, 5, 6, 15, 23)
    parts = []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        rows = wanted[begin:end]
        tables = [table(rows[:2]), table([]), table(rows[2:])]
        part = stage(tmp_path / "folder" / f"part-{number}", tables, RULES)
        assert part is not None
        assert part.rows == end - begin
        parts.append(part)
    for first in range(24):
        assert numbers(tmp_path, parts, first) == list(enumerate(wanted))[first:]


def test_a_part_is_synced_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little is left to be waited for; a sync that fails ends the task, and leaves nothing."""
    sizes: list[int] = []
    monkeypatch.setattr(staged_parts, "_SYNC_BYTES", 100)
    monkeypatch.setattr(
        staged_parts.OsFileSystem,
        "sync",
        lambda self, path: sizes.extend([path.stat().st_size] if path.is_file() else []),
    )
    path, tables = tmp_path / "folder" / "part", [table([str(number) * 60]) for number in range(6)]
    assert stage(path, tables, RULES) is not None
    assert len(sizes) > 2
    assert sizes[-1] == path.stat().st_size

    def fail(self: object, path: Path) -> None:
        raise OSError(5, "the disk fails")

    monkeypatch.setattr(staged_parts.OsFileSystem, "sync", fail)
    for sync_bytes in (100, 1 << 20):
        monkeypatch.setattr(staged_parts, "_SYNC_BYTES", sync_bytes)
        with pytest.raises(OSError, match="the disk fails"):
            stage(path, tables, RULES)
        assert not path.exists()


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    """Neither a file nor a folder."""
    assert stage(tmp_path / "folder" / "part", [table([])], RULES) is None
    assert not list(tmp_path.iterdir())


def test_a_row_that_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    """Found behind rows that can: the file is deleted."""
    for wrong, error in (
        (table(["x" * 60_001]), MessageTooLarge),
        (table(["x"], topic="no topic"), TopicIllegal),
    ):
        with pytest.raises(error):
            stage(tmp_path / "folder" / "part", [table(["x"]), wrong], RULES)
        assert not list((tmp_path / "folder").iterdir())


def test_the_greatest_queues_are_told(tmp_path: Path) -> None:
    """By topic, for the driver to look whether they are there."""
    columns = {"topic": ["a", "b", "a"], "body": ["x"] * 3, "queue_id": pa.array([1, 0, 4], pa.int32())}
    part = stage(tmp_path / "folder" / "part", [pa.table(columns)], RULES)
    assert part is not None
    assert part.queues == {"a": 4, "b": 0}


@pytest.mark.parametrize("pattern", [1, 2, 4, 8, 16, 32, 64, 128, 255])
def test_a_part_that_was_damaged(tmp_path: Path, pattern: int) -> None:
    """In any byte, Arrow's own included: the blocks are the same, or an error says which part."""
    part = stage(tmp_path / "folder" / "part", [table(["first", "second"]), table(["third"])], RULES)
    assert part is not None

    def content() -> list[tuple[object, ...]]:
        return [
            (
                bytes(block.buffer[: block.starts[-1]]),
                *map(list, (block.starts, block.marks, block.groups, block.queues)),
            )
            for block in numbered_blocks(tmp_path, [part], PREFIX, 0)
        ]

    path, wanted, told = tmp_path / "folder" / "part", content(), 0
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ pattern]) + whole[at + 1 :])
        try:
            assert content() == wanted, at
        except PartDamaged as error:
            assert str(path) in str(error)
            told += 1
    assert told > len(b"".join(record for record, *_ in wanted))


def test_a_block_that_is_read_twice(tmp_path: Path) -> None:
    """Arrow's list of its batches has no checksum: a flipped bit in it may name one of them for another."""
    path = tmp_path / "folder" / "part"
    part = stage(path, [table([f"{number:04}"]) for number in range(4)], RULES)
    assert part is not None
    whole = path.read_bytes()
    offsets = [found.start() for found in re.finditer(b"\xff\xff\xff\xff", whole)]
    in_list = [whole.rfind(offset.to_bytes(8, "little")) for offset in offsets]
    # The first is the schema, and the last says that the batches have ended.
    at, other = in_list[2], in_list[3]
    assert offsets[3] < at < other
    path.write_bytes(whole[:at] + whole[other : other + 8] + whole[at + 8 :])
    with pytest.raises(PartDamaged, match="row 2 comes where row 1 should"):
        numbers(tmp_path, [part], 0)


def test_a_part_that_is_gone(tmp_path: Path) -> None:
    """An error of this store, which names the file."""
    part = staged_parts.Part(folder="folder", name="part", rows=1, queues={})
    with pytest.raises(PartDamaged, match="folder/part: there is no such file"):
        numbers(tmp_path, [part], 0)


def test_pages_of_what_was_read_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the end of the block, and not beyond; a file system that cannot do it is none the worse."""
    told: list[int] = []

    def advise(descriptor: int, begin: int, length: int, advice: int) -> None:
        assert (begin, advice) == (0, os.POSIX_FADV_DONTNEED)
        told.append(length)
        raise OSError(22, "not here")

    monkeypatch.setattr(os, "posix_fadvise", advise)
    path = tmp_path / "folder" / "part"
    part = stage(path, [table(["x" * 5_000]) for _ in range(3)], RULES)
    assert part is not None
    assert len(numbers(tmp_path, [part], 0)) == 3
    assert [length // 5_000 for length in told] == [1, 2, 3]
    assert told[-1] < path.stat().st_size


@pytest.mark.parametrize("rows", [2, 4])
def test_a_part_of_other_rows(tmp_path: Path, rows: int) -> None:
    """Fewer or more than the journal says: the numbers of later parts would be wrong."""
    part = stage(tmp_path / "folder" / "part", [table(["first", "second", "third"])], RULES)
    assert part is not None
    with pytest.raises(PartDamaged, match=f"not the {rows} that were staged"):
        numbers(tmp_path, [staged_parts.Part(folder="folder", name="part", rows=rows, queues={})], 0)
