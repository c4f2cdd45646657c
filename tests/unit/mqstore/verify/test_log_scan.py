"""The scan of the log: it goes on behind every damage, and tells a torn tail from one.

Method: small logs whose bytes are changed; pieces so small that every boundary is met.
"""

import random
from pathlib import Path

import pytest

from mqstore.store.files.file_system import FileSystem
from mqstore.store.log.raw_segments import list_segments
from mqstore.verify import log_scan
from mqstore.verify.log_outline import LogOutline, LogScan
from mqstore.verify.log_scan import scan_segments
from support.stores.small_log import SEGMENT_BYTES, SmallLog


def scanned(
    file_system: FileSystem, directory: Path, *, durable_offset: int | None = None, workers: int = 1
) -> tuple[LogScan, list[tuple[int, int]]]:
    """The outline, and (offset, length) of all pieces that are of the log."""
    outline, pieces = LogOutline(SEGMENT_BYTES, durable_offset), []
    segments = list_segments(file_system, directory, SEGMENT_BYTES)
    for each in scan_segments(
        file_system,
        segments,
        lambda piece: (piece.base_offset, len(piece.data)),
        segment_bytes=SEGMENT_BYTES,
        max_record_bytes=65_536,
        workers=workers,
    ):
        below = outline.add(each)
        pieces += [piece for piece in each.digests if piece[0] < below]
    return outline.finish(), pieces


def change(file_system: FileSystem, path: Path, position: int, data: bytes) -> None:
    content = bytearray(file_system.read(path))
    content[position : position + len(data)] = data
    file_system.write(path, bytes(content))


@pytest.fixture
def log(file_system: FileSystem, root: Path) -> SmallLog:
    """Three segments, the last with some room left."""
    made = SmallLog(file_system, root)
    for number in range(90):
        made.append(random.Random(number).randbytes(3_500))
    assert len(made.log.files.files) == 3
    return made


def test_a_whole_log(file_system: FileSystem, root: Path, log: SmallLog) -> None:
    """Its end, and every byte of its records in the pieces, in order."""
    scan, pieces = scanned(file_system, root)
    assert scan == LogScan(0, log.log.max_offset, (), -1)
    blanks = sum(
        SEGMENT_BYTES - sum(length for offset, length in pieces if offset // SEGMENT_BYTES == segment)
        for segment in (0, 1)
    )
    assert sum(length for _, length in pieces) + blanks == log.log.max_offset
    assert pieces == sorted(pieces)


@pytest.mark.parametrize("piece_bytes", [4_000, 10_000, 65_600, 1 << 20])
def test_the_length_of_pieces_makes_no_difference(
    file_system: FileSystem, root: Path, log: SmallLog, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """Records that a piece cuts are whole all the same, and damage is found where it is."""
    first = log.log.look_message_by_offset(0)
    assert first is not None
    change(file_system, root / f"{0:020d}", first.store_size + 100, b"damage!")
    whole = scanned(file_system, root)[0]
    monkeypatch.setattr(log_scan, "_PIECE_BYTES", piece_bytes)
    scan, pieces = scanned(file_system, root, workers=3)
    assert scan == whole
    assert [(each.start_offset, each.end_offset) for each in scan.damages] == [
        (first.store_size, 2 * first.store_size)
    ]
    assert all(offset != first.store_size for offset, _ in pieces)


def test_zeros_in_the_middle_are_damage(file_system: FileSystem, root: Path, log: SmallLog) -> None:
    """A log may end in zeros, but not go on behind them."""
    change(file_system, root / f"{0:020d}", 40_000, bytes(8_192))
    (damage,) = scanned(file_system, root)[0].damages
    assert damage.start_offset <= 40_000
    assert damage.end_offset >= 48_192
    assert damage.before_timestamp == log.clock.now_ms()


def test_a_segment_without_its_end_is_damage_if_another_follows(
    file_system: FileSystem, root: Path, log: SmallLog
) -> None:
    """Up to the segment's end."""
    change(file_system, root / f"{SEGMENT_BYTES:020d}", 100_000, bytes(SEGMENT_BYTES - 100_000))
    (damage,) = scanned(file_system, root)[0].damages
    assert damage.end_offset == 2 * SEGMENT_BYTES


def test_the_end_that_was_durable_is_damage_when_it_is_gone(
    file_system: FileSystem, root: Path, log: SmallLog
) -> None:
    """Up to the offset that is known to be durable; without one it is a torn tail."""
    end = log.log.max_offset
    change(file_system, root / f"{2 * SEGMENT_BYTES:020d}", end % SEGMENT_BYTES - 50, b"junk")
    (damage,) = scanned(file_system, root, durable_offset=end)[0].damages
    assert damage.end_offset == end
    scan, _ = scanned(file_system, root, durable_offset=damage.start_offset)
    assert (scan.damages, scan.torn_offset, scan.end_offset) == ((), damage.start_offset, damage.start_offset)
    assert scanned(file_system, root)[0] == scan


def test_what_follows_a_torn_record_is_not_of_the_log(
    file_system: FileSystem, root: Path, log: SmallLog
) -> None:
    """If it was never durable: as recovery cuts it. Else it is damage, and the log goes on."""
    change(file_system, root / f"{SEGMENT_BYTES:020d}", 50_000, bytes(512))
    (damage,) = scanned(file_system, root, durable_offset=log.log.max_offset)[0].damages
    scan, pieces = scanned(file_system, root, durable_offset=damage.start_offset)
    assert (scan.end_offset, scan.torn_offset, scan.damages) == (damage.start_offset, damage.start_offset, ())
    assert all(offset < damage.start_offset for offset, _ in pieces)


@pytest.mark.parametrize("content", [b"", bytes(SEGMENT_BYTES)])
def test_a_segment_that_was_created_ahead_is_none(
    file_system: FileSystem, root: Path, log: SmallLog, content: bytes
) -> None:
    """Nothing but zeros, or not even those."""
    file_system.write(root / f"{3 * SEGMENT_BYTES:020d}", content)
    scan, _ = scanned(file_system, root, durable_offset=log.log.max_offset)
    assert (scan.damages, scan.torn_offset, scan.end_offset) == ((), -1, log.log.max_offset)


def test_an_empty_log(file_system: FileSystem, root: Path) -> None:
    """Nothing, from 0 to 0."""
    assert scanned(file_system, root) == (LogScan(0, 0, (), -1), [])
